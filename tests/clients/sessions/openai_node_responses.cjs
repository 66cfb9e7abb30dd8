// A tool-using session over `responses.create` of the official Node SDK, not streamed.

const fs = require("node:fs");
const { default: OpenAI } = require("openai");

const read = {
  type: "function",
  name: "read_file",
  description: "Reads a text file.",
  strict: false,
  parameters: {
    type: "object",
    properties: { path: { type: "string" } },
    required: ["path"],
  },
};

async function main(task) {
  // The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
  const client = new OpenAI({ maxRetries: 0 });
  const input = [{ role: "user", content: task }];
  for (;;) {
    const response = await client.responses.create({
      model: "strict",
      input,
      tools: [read],
      store: false,
      include: ["reasoning.encrypted_content"],
    });
    input.push(...response.output);
    const calls = response.output.filter((item) => item.type === "function_call");
    if (calls.length === 0) {
      console.log(response.output_text);
      return;
    }
    for (const call of calls) {
      const output = fs.readFileSync(JSON.parse(call.arguments).path, "utf8");
      input.push({ type: "function_call_output", call_id: call.call_id, output });
    }
  }
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
