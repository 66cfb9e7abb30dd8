"""A tool-using session over `responses()` of the LiteLLM SDK."""

import json
import sys
from pathlib import Path

import litellm

TOOLS = [
    {
        "type": "function",
        "name": "read_file",
        "description": "Reads a text file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    }
]

items = [{"role": "user", "content": sys.argv[1]}]
while True:
    # The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
    response = litellm.responses(
        model="openai/strict",
        input=items,
        tools=TOOLS,
        store=False,
        include=["reasoning.encrypted_content"],
    )
    made = [item.model_dump(exclude_none=True) for item in response.output]
    items.extend(made)
    calls = [item for item in made if item["type"] == "function_call"]
    if not calls:
        print(made[-1]["content"][0]["text"])
        break
    for call in calls:
        text = Path(json.loads(call["arguments"])["path"]).read_text(encoding="utf-8")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": text}
        items.append(output)
