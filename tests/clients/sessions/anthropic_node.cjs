// A tool-using session over Anthropic's Node SDK, streamed, with the automatic cache mark.

const fs = require("node:fs");
const { default: Anthropic } = require("@anthropic-ai/sdk");

const read = {
  name: "read_file",
  description: "Reads a text file.",
  input_schema: {
    type: "object",
    properties: { path: { type: "string" } },
    required: ["path"],
  },
};

async function main(task) {
  // The base URL and the key are ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY of the environment.
  const client = new Anthropic({ maxRetries: 0 });
  const messages = [{ role: "user", content: task }];
  for (;;) {
    const stream = client.messages.stream({
      model: "claude-opus-5-5",
      max_tokens: 2048,
      cache_control: { type: "ephemeral" },
      messages,
      tools: [read],
    });
    const { content } = await stream.finalMessage();
    messages.push({ role: "assistant", content });
    const calls = content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) {
      console.log(content.filter((block) => block.type === "text").map((it) => it.text).join(""));
      return;
    }
    const results = calls.map((call) => ({
      type: "tool_result",
      tool_use_id: call.id,
      content: fs.readFileSync(call.input.path, "utf8"),
    }));
    messages.push({ role: "user", content: results });
  }
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
