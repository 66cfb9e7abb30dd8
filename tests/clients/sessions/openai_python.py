"""A tool-using session over the official Python SDK, streamed."""

import json
import sys
from pathlib import Path

from openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Reads a text file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            },
        },
    }
]


def turn(client, messages):
    """One streamed turn of the model, as a message."""
    with client.chat.completions.stream(model="strict", messages=messages, tools=TOOLS) as stream:
        message = stream.get_final_completion().choices[0].message
    return message.model_dump(exclude_none=True, exclude={"parsed"})


def main(task):
    # The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
    client = OpenAI(max_retries=0)
    messages = [{"role": "user", "content": task}]
    while True:
        message = turn(client, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            print(message["content"])
            return
        for call in message["tool_calls"]:
            path = json.loads(call["function"]["arguments"])["path"]
            text = Path(path).read_text(encoding="utf-8")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


main(sys.argv[1])
