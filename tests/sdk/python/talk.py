"""Talks to the API at the base URL it is given as any program would; prints what it got."""

import asyncio
import json
import sys

from openai import AsyncOpenAI, BadRequestError, OpenAI

MESSAGES = [{"role": "user", "content": "Grüße, 世界 👋"}]


def show(name, value):
    print(json.dumps({name: value}, ensure_ascii=True))


def chat(client):
    reply = client.chat.completions.create(model="m", messages=MESSAGES)
    assert reply.choices[0].message.content == "Hello, 世界 👋"
    assert reply.usage.total_tokens == 12
    show("chat", reply.model_dump(mode="json"))


def streamed_chat(client):
    chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    assert len(chunks) == 5, f"{len(chunks)} events"
    words = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(words) == "Hello, 世界 👋"
    assert chunks[-1].usage.total_tokens == 12
    show("stream", [chunk.model_dump(mode="json") for chunk in chunks])


async def streamed_chat_without_blocking(base_url):
    async with AsyncOpenAI(base_url=base_url, api_key="sk-test", max_retries=0) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        count = 0
        async for _ in stream:
            count += 1
    assert count == 5, f"{count} events"
    show("async stream", count)


def models(client):
    names = [model.id for model in client.models.list()]
    assert names == ["m", "vendor/other:free"]
    show("models", names)


def embeddings(client):
    reply = client.embeddings.create(model="e", input=["a", "b"])
    assert reply.data[0].embedding == [0.25, -0.5]
    show("embeddings", reply.data[0].embedding)


def refusal(client):
    try:
        client.chat.completions.create(model="refused", messages=MESSAGES)
    except BadRequestError as error:
        assert error.status_code == 400
        assert error.code == "model_refused"
        show("refusal", [str(error), error.request_id])
    else:
        raise AssertionError("the refusal did not surface")


def main(base_url):
    with OpenAI(base_url=base_url, api_key="sk-test", max_retries=0) as client:
        for part in (chat, streamed_chat, models, embeddings, refusal):
            part(client)
    asyncio.run(streamed_chat_without_blocking(base_url))


main(sys.argv[1])
