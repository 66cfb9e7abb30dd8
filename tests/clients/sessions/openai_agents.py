"""A tool-using session of the OpenAI Agents SDK."""

import os
import sys
from pathlib import Path

from agents import Agent, Runner, function_tool, set_default_openai_api


@function_tool
def read_file(path: str) -> str:
    """Reads a text file."""
    return Path(path).read_text(encoding="utf-8")


# The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
set_default_openai_api(os.environ.get("API", "chat_completions"))
agent = Agent(name="reader", model=os.environ.get("MODEL", "strict"), tools=[read_file])
print(Runner.run_sync(agent, sys.argv[1], max_turns=1000).final_output)
