"""A tool-using session over `responses.create` of the official Python SDK, streamed.

With STATEFUL, the server keeps the history; else each request repeats all of it.
"""

import json
import os
import sys
from pathlib import Path

from openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "name": "read_file",
        "description": "Reads a text file.",
        "strict": False,
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    }
]
STATEFUL = "STATEFUL" in os.environ


def turn(client, items, previous):
    """One streamed turn of the model, as a response."""
    if STATEFUL:
        state = {"previous_response_id": previous} if previous else {}
    else:
        state = {"store": False, "include": ["reasoning.encrypted_content"]}
    asked = {"model": "strict", "input": items, "tools": TOOLS, "stream": True}
    for event in client.responses.create(**asked, **state):
        if event.type == "response.completed":
            return event.response
    raise SystemExit("the stream ended without a response")


def main(task):
    # The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
    client = OpenAI(max_retries=0)
    items, previous = [{"role": "user", "content": task}], None
    while True:
        response = turn(client, items, previous)
        previous = response.id
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            print(response.output_text)
            return
        made = [item.model_dump(exclude_none=True) for item in response.output]
        items = [] if STATEFUL else items + made
        for call in calls:
            text = Path(json.loads(call.arguments)["path"]).read_text(encoding="utf-8")
            output = {"type": "function_call_output", "call_id": call.call_id, "output": text}
            items.append(output)


main(sys.argv[1])
