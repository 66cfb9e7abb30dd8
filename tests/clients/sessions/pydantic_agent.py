"""A tool-using session of a pydantic-ai agent."""

import sys
from pathlib import Path

from pydantic_ai import Agent, UsageLimits

# The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment. `openai-chat`
# is chat completions; `openai` alone may be the responses API.
agent = Agent("openai-chat:strict")


@agent.tool_plain
def read_file(path: str) -> str:
    """Reads a text file."""
    return Path(path).read_text(encoding="utf-8")


print(agent.run_sync(sys.argv[1], usage_limits=UsageLimits(request_limit=None)).output)
