// Talks to the API at the base URL it is given as any program would; prints what it got.

const assert = require("node:assert");
const { default: OpenAI, BadRequestError } = require("openai");

const messages = [{ role: "user", content: "Grüße, 世界 👋" }];

function show(name, value) {
  console.log(JSON.stringify({ [name]: value }));
}

async function chat(client) {
  const reply = await client.chat.completions.create({ model: "m", messages });
  assert.strictEqual(reply.choices[0].message.content, "Hello, 世界 👋");
  assert.strictEqual(reply.usage.total_tokens, 12);
  show("chat", reply);
}

async function streamedChat(client) {
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ model: "m", messages, stream: true })) {
    chunks.push(chunk);
  }
  assert.strictEqual(chunks.length, 5);
  const words = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta.content ?? ""));
  assert.strictEqual(words.join(""), "Hello, 世界 👋");
  assert.strictEqual(chunks.at(-1).usage.total_tokens, 12);
  show("stream", chunks);
}

async function models(client) {
  const names = [];
  for await (const model of client.models.list()) {
    names.push(model.id);
  }
  assert.deepStrictEqual(names, ["m", "vendor/other:free"]);
  show("models", names);
}

async function embeddings(client) {
  const reply = await client.embeddings.create({ model: "e", input: ["a", "b"] });
  assert.deepStrictEqual(Array.from(reply.data[0].embedding), [0.25, -0.5]);
  show("embeddings", Array.from(reply.data[0].embedding));
}

async function refusal(client) {
  const refused = client.chat.completions.create({ model: "refused", messages });
  await assert.rejects(refused, (error) => {
    assert(error instanceof BadRequestError);
    assert.strictEqual(error.status, 400);
    assert.strictEqual(error.code, "model_refused");
    show("refusal", [error.message, error.requestID]);
    return true;
  });
}

async function main(baseURL) {
  const client = new OpenAI({ baseURL, apiKey: "sk-test", maxRetries: 0 });
  for (const part of [chat, streamedChat, models, embeddings, refusal]) {
    await part(client);
  }
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
