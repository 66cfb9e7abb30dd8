"""A session over the tool runner of Anthropic's Python SDK, which keeps the history itself."""

import sys
from pathlib import Path

from anthropic import Anthropic, beta_tool


@beta_tool
def read_file(path: str) -> str:
    """Reads a text file.

    Args:
        path: The file to read.
    """
    return Path(path).read_text(encoding="utf-8")


# The base URL and the key are ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY of the environment.
runner = Anthropic(max_retries=0).beta.messages.tool_runner(
    model="claude-opus-5-5",
    max_tokens=2_048,
    cache_control={"type": "ephemeral"},
    messages=[{"role": "user", "content": sys.argv[1]}],
    tools=[read_file],
    # Without this, the server keeps the history, and longhaul changes nothing.
    thread=False,
)
message = runner.until_done()
print("".join(block.text for block in message.content if block.type == "text"))
