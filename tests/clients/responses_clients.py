"""The clients that speak the Responses API."""

import json

from agents import opencode, pi, with_version
from client import KEY, Client, Start, javascript, openai, python

# One file takes a twentieth of this window, as in real agents.
LARGE = {"window": 65_536, "parts": 76, "cached": 75}

CODEX = ["@openai/codex@0.169.0"]
# Codex cuts outputs at 10,000 bytes, so some files do not count.
LARGE_CODEX = LARGE | {"parts": 90}


def codex(at):
    """A provider of the user's own."""
    provider = f"""
model = "{at.model}"
model_provider = "longhaul"
model_context_window = 1000000

[model_providers.longhaul]
name = "longhaul"
base_url = "{at.base}"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
    return codex_with(at, {".codex/config.toml": provider})


def codex_built_in(at):
    """The built-in provider, which asks for a WebSocket first."""
    settings = f"""
model = "{at.model}"
openai_base_url = "{at.base}"
model_context_window = 1000000
"""
    login = {"auth_mode": "apikey", "OPENAI_API_KEY": KEY}
    return codex_with(
        at, {".codex/config.toml": settings, ".codex/auth.json": json.dumps(login)}
    )


def codex_with(at, files):
    command = [
        at.node, at.client / "node_modules/.bin/codex", "exec", "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox", at.task,
    ]  # fmt: skip
    return Start(command, {"OPENAI_API_KEY": KEY}, files)


def codex_resumed(at):
    start = codex(at)
    resumed = [*start.command[:-1], "resume", "--last", "Go on to the last part."]
    return Start(start.command, start.environment, start.files, resumed=[resumed])


RESPONSES = {
    "codex": Client("npm", CODEX, codex, **LARGE_CODEX),
    "codex-built-in": Client("npm", CODEX, codex_built_in, **LARGE_CODEX),
    "codex-resumed": Client("npm", CODEX, codex_resumed, pause=45, **LARGE_CODEX),
    "openai-python-responses": Client(
        "pip", ["openai==3.54.0"], python("openai_python_responses.py", openai), **LARGE
    ),
    "openai-python-stateful": Client(
        "pip",
        ["openai==3.54.0"],
        python("openai_python_responses.py", openai, STATEFUL="1"),
        # Nothing shrinks a history that the server keeps, so the history has to fit.
        parts=15,
        window=65_536,
        stateful=True,
    ),
    "openai-node-responses": Client(
        "npm", ["openai@6.49.0"], javascript("openai_node_responses.cjs", openai), **LARGE
    ),
    "openai-agents-responses": Client(
        "pip",
        ["openai-agents==0.24.0"],
        python("openai_agents.py", openai, OPENAI_AGENTS_DISABLE_TRACING="1", API="responses"),
        **LARGE,
    ),
    "pydantic-ai-responses": Client(
        "pip",
        ["pydantic-ai-slim[openai,anthropic]==2.68.0"],
        python("pydantic_agent.py", openai, API="responses"),
        **LARGE,
    ),
    "langchain-responses": Client(
        "pip",
        ["langchain-openai==1.7.3", "langchain==1.4.7"],
        python("langchain_agent.py", openai, API="responses"),
        **LARGE,
    ),
    "litellm-responses": Client(
        "pip",
        ["litellm==1.106.2", "mcp==2.3.0"],
        python("litellm_responses.py", openai, LITELLM_LOCAL_MODEL_COST_MAP="True"),
        **LARGE,
    ),
    "ai-sdk-responses": Client(
        "npm",
        ["ai@7.0.173", "@ai-sdk/openai@4.0.118", "zod"],
        javascript("ai_sdk.mjs", openai, API="responses"),
        **LARGE,
    ),
    "opencode-responses": Client(
        "npm",
        ["opencode-ai@1.18.33"],
        opencode("@ai-sdk/openai", with_version, "strict"),
        **LARGE,
    ),
    "pi-responses": Client(
        "npm",
        ["@earendil-works/pi-coding-agent@0.87.1"],
        # Without this, pi drops the encrypted reasoning, and names items that nobody stored.
        pi("openai-responses", with_version, "strict", reasoning=True),
        **LARGE,
    ),
}
