// A tool-using session over the official Node SDK, streamed.

const fs = require("node:fs");
const { default: OpenAI } = require("openai");

const read = {
  type: "function",
  function: {
    name: "read_file",
    description: "Reads a text file.",
    parse: JSON.parse,
    function: ({ path }) => fs.readFileSync(path, "utf8"),
    parameters: {
      type: "object",
      properties: { path: { type: "string" } },
      required: ["path"],
    },
  },
};

async function main(task) {
  // The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
  const client = new OpenAI({ maxRetries: 0 });
  const runner = client.chat.completions.runTools(
    { model: "strict", messages: [{ role: "user", content: task }], tools: [read], stream: true },
    { maxChatCompletions: 1000 },
  );
  console.log(await runner.finalContent());
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
