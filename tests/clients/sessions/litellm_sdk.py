"""A tool-using session over the LiteLLM SDK."""

import json
import os
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

# The names of the model, with the settings of each API. The base URL and the key are those of the
# environment.
MODELS = {
    "chat_completions": ("openai/strict", {}),
    "messages": (
        "anthropic/claude-opus-5-5",
        {"max_tokens": 2_048, "cache_control_injection_points": [{"location": "message", "index": -1}]},
    ),
}
model, settings = MODELS[os.environ.get("API", "chat_completions")]

messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    reply = litellm.completion(model=model, messages=messages, tools=TOOLS, **settings)
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        print(message.content)
        break
    for call in message.tool_calls:
        text = Path(json.loads(call.function.arguments)["path"]).read_text(encoding="utf-8")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
