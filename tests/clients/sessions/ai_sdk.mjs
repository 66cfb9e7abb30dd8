// A tool-using session of the Vercel AI SDK.

import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Packages installed elsewhere: NODE_PATH holds for `require` alone.
const require = createRequire(import.meta.url);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { isStepCount, streamText, tool } = await load("ai");
const { z } = await load("zod");

// The model of each API. The base URL and the key are those of the environment.
const models = {
  chat_completions: async () => {
    const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
    const provider = createOpenAICompatible({
      name: "longhaul",
      baseURL: process.env.OPENAI_BASE_URL,
      apiKey: process.env.OPENAI_API_KEY,
    });
    return [provider.chatModel("strict"), {}];
  },
  messages: async () => {
    const { createAnthropic } = await load("@ai-sdk/anthropic");
    const provider = createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1` });
    return [provider("claude-opus-5-5"), { anthropic: { cacheControl: { type: "ephemeral" } } }];
  },
  responses: async () => {
    const { createOpenAI } = await load("@ai-sdk/openai");
    // Without stored items, the history is the client's, and any cut is possible.
    const openai = { store: false, include: ["reasoning.encrypted_content"] };
    const options = process.env.MODEL === "strict" ? {} : { openai };
    return [createOpenAI().responses(process.env.MODEL), options];
  },
};
const [model, providerOptions] = await models[process.env.API ?? "chat_completions"]();
const read = tool({
  description: "Reads a text file.",
  inputSchema: z.object({ path: z.string() }),
  execute: ({ path }) => fs.readFileSync(path, "utf8"),
});
const result = streamText({
  model,
  providerOptions,
  prompt: process.argv[2],
  tools: { read_file: read },
  stopWhen: isStepCount(1000),
  maxRetries: 0,
});
console.log(await result.text);
