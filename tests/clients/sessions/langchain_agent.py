"""A tool-using session of a LangChain agent."""

import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def read_file(path: str) -> str:
    """Reads a text file."""
    return Path(path).read_text(encoding="utf-8")


# The base URL and the key are OPENAI_BASE_URL and OPENAI_API_KEY of the environment.
model = ChatOpenAI(model="strict", max_retries=0)
agent = create_agent(model, tools=[read_file])
task = {"messages": [{"role": "user", "content": sys.argv[1]}]}
print(agent.invoke(task, {"recursion_limit": 1000})["messages"][-1].content)
