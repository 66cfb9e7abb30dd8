"""A tool-using session over the LiteLLM SDK."""

import json
import sys
from pathlib import Path

import litellm

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

messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    # The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
    reply = litellm.completion(model="openai/strict", messages=messages, tools=TOOLS)
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        print(message.content)
        break
    for call in message.tool_calls:
        text = Path(json.loads(call.function.arguments)["path"]).read_text(encoding="utf-8")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
