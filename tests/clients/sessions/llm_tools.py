"""The tool of the `llm` session."""

from pathlib import Path


def read_file(path: str) -> str:
    """Reads a text file."""
    return Path(path).read_text(encoding="utf-8")
