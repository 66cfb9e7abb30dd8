"""A tool-using session of a LangChain agent."""

import os
import sys
from pathlib import Path

from langchain.agents import create_agent


def read_file(path: str) -> str:
    """Reads a text file."""
    return Path(path).read_text(encoding="utf-8")


def model_and_middleware():
    """The model of an API. The base URL and the key are those of the environment."""
    api = os.environ.get("API", "chat_completions")
    if api == "messages":
        from langchain_anthropic import ChatAnthropic
        from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

        model = ChatAnthropic(model="claude-opus-5-5", max_tokens=2_048, max_retries=0)
        return model, [AnthropicPromptCachingMiddleware()]
    from langchain_openai import ChatOpenAI

    if api == "responses":
        include = ["reasoning.encrypted_content"]
        stateless = {"use_responses_api": True, "store": False, "include": include}
        return ChatOpenAI(model="strict", max_retries=0, **stateless), []
    return ChatOpenAI(model="strict", max_retries=0), []


model, middleware = model_and_middleware()
agent = create_agent(model, tools=[read_file], middleware=middleware)
task = {"messages": [{"role": "user", "content": sys.argv[1]}]}
last = agent.invoke(task, {"recursion_limit": 1000})["messages"][-1]
print(last.text)
