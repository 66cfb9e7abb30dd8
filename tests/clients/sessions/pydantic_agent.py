"""A tool-using session of a pydantic-ai agent."""

import os
import sys
from pathlib import Path

from pydantic_ai import Agent, UsageLimits

# The names of the model, with the settings of each API. The base URL and the key are those of the
# environment.
MODELS = {
    "chat_completions": ("openai-chat:strict", {}),
    "messages": ("anthropic:claude-opus-5-5", {"anthropic_cache": True, "max_tokens": 2_048}),
    "responses": ("openai-responses:strict", {}),
}
model, settings = MODELS[os.environ.get("API", "chat_completions")]
agent = Agent(model, model_settings=settings)


@agent.tool_plain
def read_file(path: str) -> str:
    """Reads a text file."""
    return Path(path).read_text(encoding="utf-8")


print(agent.run_sync(sys.argv[1], usage_limits=UsageLimits(request_limit=None)).output)
