"""A tool-using session over Anthropic's Python SDK, streamed, with the automatic cache mark."""

import os
import sys
from pathlib import Path

from anthropic import Anthropic, AnthropicBedrock, AnthropicVertex

TOOLS = [
    {
        "name": "read_file",
        "description": "Reads a text file.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    }
]


def turn(client, messages):
    """One streamed turn of the model, as a message."""
    asked = {
        "model": "claude-opus-5-5",
        "max_tokens": 2_048,
        "cache_control": {"type": "ephemeral"},
        "messages": messages,
        "tools": TOOLS,
    }
    with client.messages.stream(**asked) as stream:
        return stream.get_final_message()


def main(task):
    # The base URL and the key are variables of the environment, and their names those of a cloud.
    if "ANTHROPIC_VERTEX_BASE_URL" in os.environ:
        token = os.environ["ANTHROPIC_AUTH_TOKEN"]
        client = AnthropicVertex(access_token=token, max_retries=0)
    elif "ANTHROPIC_BEDROCK_BASE_URL" in os.environ:
        client = AnthropicBedrock(max_retries=0)
    else:
        client = Anthropic(max_retries=0)
    messages = [{"role": "user", "content": task}]
    while True:
        message = turn(client, messages)
        content = [block.model_dump(exclude_none=True) for block in message.content]
        messages.append({"role": "assistant", "content": content})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            print("".join(block.text for block in message.content if block.type == "text"))
            return
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": Path(call.input["path"]).read_text(encoding="utf-8"),
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})


main(sys.argv[1])
