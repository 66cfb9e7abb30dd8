"""The clients that speak the Messages API."""

from agents import opencode, pi, with_version, without_version
from client import KEY, Client, Start, anthropic, javascript, python

# One file takes a twentieth of this window, as in real agents. The model signs its thinking, and
# refuses thinking whose history changed.
LARGE = {"window": 65_536, "parts": 76, "cached": 75, "thinking": "bound"}
# Claude Code's own prompts take a third of such a window.
CLAUDE_CODE = {"window": 98_304, "parts": 110, "cached": 75, "thinking": "bound"}

MODEL = "claude-opus-5-5"


def claude_code(at):
    command = [
        at.client / "node_modules/.bin/claude", "--print", "--model", MODEL,
        "--allowedTools", "Read", "--max-turns", "400", at.task,
    ]  # fmt: skip
    return Start(command, claude_code_environment(at))


def claude_code_resumed(at):
    start = claude_code(at)
    resumed = [*start.command[:-1], "--continue", "Go on to the last part."]
    return Start(start.command, start.environment, resumed=[resumed])


QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


def claude_code_environment(at):
    return anthropic(at) | QUIET


def google(at):
    return {
        "CLAUDE_CODE_USE_VERTEX": "1",
        "CLAUDE_CODE_SKIP_VERTEX_AUTH": "1",
        "ANTHROPIC_VERTEX_BASE_URL": at.base,
        "ANTHROPIC_VERTEX_PROJECT_ID": "p",
        "ANTHROPIC_AUTH_TOKEN": KEY,
        "CLOUD_ML_REGION": "global",
    }


def bedrock(at):
    return {
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "ANTHROPIC_BEDROCK_BASE_URL": at.base.removesuffix("/v1"),
        "AWS_BEARER_TOKEN_BEDROCK": KEY,
        "AWS_REGION": "us-east-1",
    }


def claude_code_at(cloud, model):
    def start(at):
        session = claude_code(at)
        command = [model if word == MODEL else word for word in session.command]
        return Start(command, cloud(at) | QUIET)

    return start


MESSAGES = {
    "claude-code": Client(
        "npm", ["@anthropic-ai/claude-code@2.1.332"], claude_code, **CLAUDE_CODE
    ),
    "claude-code-resumed": Client(
        "npm",
        ["@anthropic-ai/claude-code@2.1.332"],
        claude_code_resumed,
        pause=55,
        **CLAUDE_CODE,
    ),
    "claude-code-google": Client(
        "npm",
        ["@anthropic-ai/claude-code@2.1.332"],
        claude_code_at(google, MODEL),
        **CLAUDE_CODE,
    ),
    "claude-code-bedrock": Client(
        "npm",
        ["@anthropic-ai/claude-code@2.1.332"],
        claude_code_at(bedrock, f"us.anthropic.{MODEL}"),
        **CLAUDE_CODE,
    ),
    "claude-agent-sdk": Client(
        "pip",
        ["claude-agent-sdk==0.2.189"],
        python("claude_agent.py", claude_code_environment),
        **CLAUDE_CODE,
    ),
    "anthropic-python": Client(
        "pip", ["anthropic==2.13.0"], python("anthropic_python.py", anthropic), **LARGE
    ),
    "anthropic-python-bedrock": Client(
        "pip",
        ["anthropic[bedrock]==2.13.0"],
        python("anthropic_python.py", bedrock),
        **LARGE,
    ),
    "anthropic-python-google": Client(
        "pip",
        ["anthropic[vertex]==2.13.0"],
        python("anthropic_python.py", google),
        **LARGE,
    ),
    "anthropic-python-tool-runner": Client(
        "pip",
        ["anthropic==2.13.0"],
        python("anthropic_tool_runner.py", anthropic),
        **LARGE,
    ),
    "anthropic-node": Client(
        "npm", ["@anthropic-ai/sdk@1.14.0"], javascript("anthropic_node.cjs", anthropic), **LARGE
    ),
    "pydantic-ai-messages": Client(
        "pip",
        ["pydantic-ai-slim[openai,anthropic]==2.68.0"],
        python("pydantic_agent.py", anthropic, API="messages"),
        **LARGE,
    ),
    "langchain-messages": Client(
        "pip",
        ["langchain-anthropic==1.7.10", "langchain==1.5.2"],
        python("langchain_agent.py", anthropic, API="messages"),
        **LARGE,
    ),
    "litellm-messages": Client(
        "pip",
        ["litellm==1.106.2", "mcp==2.3.0"],
        python("litellm_sdk.py", anthropic, LITELLM_LOCAL_MODEL_COST_MAP="True", API="messages"),
        **LARGE,
    ),
    "ai-sdk-messages": Client(
        "npm",
        ["ai@7.0.173", "@ai-sdk/anthropic@4.0.105", "zod"],
        javascript("ai_sdk.mjs", anthropic, API="messages"),
        **LARGE,
    ),
    "opencode-messages": Client(
        "npm",
        ["opencode-ai@1.18.33"],
        opencode("@ai-sdk/anthropic", with_version, MODEL),
        **LARGE,
    ),
    "pi-messages": Client(
        "npm",
        ["@earendil-works/pi-coding-agent@0.87.1"],
        pi("anthropic-messages", without_version, MODEL),
        **LARGE,
    ),
}
