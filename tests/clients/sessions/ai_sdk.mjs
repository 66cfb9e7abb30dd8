// A tool-using session of the Vercel AI SDK.

import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Packages installed elsewhere: NODE_PATH holds for `require` alone.
const require = createRequire(import.meta.url);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { isStepCount, streamText, tool } = await load("ai");
const { z } = await load("zod");

const provider = createOpenAICompatible({
  name: "longhaul",
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
});
const read = tool({
  description: "Reads a text file.",
  inputSchema: z.object({ path: z.string() }),
  execute: ({ path }) => fs.readFileSync(path, "utf8"),
});
const result = streamText({
  model: provider.chatModel("strict"),
  prompt: process.argv[2],
  tools: { read_file: read },
  stopWhen: isStepCount(1000),
  maxRetries: 0,
});
console.log(await result.text);
