"""The clients, each pointed at longhaul and given a task."""

import json

from agents import opencode, pi, with_version
from client import KEY, Client, END, Start, by_provider, javascript, openai, python
from messages_clients import MESSAGES
from responses_clients import RESPONSES


def llm(at):
    model = (
        "- model_id: strict\n  model_name: strict\n"
        f"  api_base: {at.base}\n  supports_tools: true\n"
    )
    return Start(
        [
            at.client / "bin/llm", "-m", "strict", "--no-log", "--chain-limit", "0",
            "--functions", at.sessions / "llm_tools.py", at.task,
        ],
        {"OPENAI_API_KEY": KEY},
        {".config/io.datasette.llm/extra-openai-models.yaml": model},
    )  # fmt: skip


def aider(at):
    # aider has no tools; the output of commands takes their place.
    steps = "".join(
        f"/run cat {part}\n/ask Go on with the next part.\n" for part in sorted(at.parts.glob("part-*"))
    )
    # The window at which aider would cut its own history.
    metadata = {"openai/strict": {"max_input_tokens": 1_000_000, "litellm_provider": "openai"}}
    return Start(
        [
            at.client / "bin/aider", "--model", "openai/strict", "--load", at.home / "steps.txt",
            "--model-metadata-file", at.home / "metadata.json", "--no-show-model-warnings",
            "--max-chat-history-tokens", "1000000", "--map-tokens", "0", "--no-git",
            "--analytics-disable", "--no-check-update", "--no-show-release-notes",
            "--no-detect-urls", "--disable-playwright", "--no-pretty", "--no-fancy-input",
            "--no-suggest-shell-commands", "--yes-always", "--message", at.task,
        ],
        {"OPENAI_API_BASE": at.base, "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        {"steps.txt": steps, "metadata.json": json.dumps(metadata)},
        answer="On with the next step.",
    )  # fmt: skip


def qwen_code(at):
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
    }
    return Start(
        [at.node, at.client / "node_modules/.bin/qwen", "--yolo", at.task],
        openai(at) | {"OPENAI_MODEL": "strict", "QWEN_CODE_MAX_OUTPUT_TOKENS": "2048"},
        {".qwen/settings.json": json.dumps(settings)},
    )


def tunacode(at):
    settings = {
        "default_model": "openai:strict",
        "env": {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": at.base},
    }
    return Start(
        [at.client / "bin/tunacode"],
        {},
        {".config/tunacode.json": json.dumps(settings)},
        talk=[("strict", at.task), (END, "/exit")],
    )


CHAT_COMPLETIONS = {
    "openai-python": Client("pip", ["openai==3.54.0"], python("openai_python.py", openai)),
    "openai-node": Client("npm", ["openai@6.49.0"], javascript("openai_node.cjs", openai)),
    "langchain": Client(
        "pip", ["langchain-openai==1.7.3", "langchain==1.4.7"], python("langchain_agent.py", openai)
    ),
    "litellm": Client(
        "pip",
        # Calls with tools need mcp, on which litellm does not depend.
        ["litellm==1.106.2", "mcp==2.3.0"],
        python("litellm_sdk.py", openai, LITELLM_LOCAL_MODEL_COST_MAP="True"),
    ),
    "pydantic-ai": Client(
        "pip", ["pydantic-ai-slim[openai,anthropic]==2.68.0"], python("pydantic_agent.py", openai)
    ),
    "openai-agents": Client(
        "pip",
        ["openai-agents==0.24.0"],
        python("openai_agents.py", openai, OPENAI_AGENTS_DISABLE_TRACING="1"),
    ),
    "ai-sdk": Client(
        "npm",
        ["ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92", "zod"],
        javascript("ai_sdk.mjs", openai),
    ),
    "llm": Client("pip", ["llm==0.36"], llm),
    "aider": Client("pip", ["aider-chat==0.86.2"], aider),
    "opencode": Client(
        "npm",
        ["opencode-ai@1.18.33"],
        opencode("@ai-sdk/openai-compatible", with_version, "strict"),
    ),
    "pi": Client(
        "npm",
        ["@earendil-works/pi-coding-agent@0.87.1"],
        pi("openai-completions", with_version, "strict"),
    ),
    "qwen-code": Client(
        "npm",
        ["@qwen-code/qwen-code@0.24.4"],
        qwen_code,
        # Its own prompt takes two thirds of the window, so that some files are clipped.
        parts=52,
    ),
    "tunacode": Client("pip", ["tunacode-cli==0.2.3"], tunacode),
}

CLIENTS = CHAT_COMPLETIONS | RESPONSES | MESSAGES
# The same with the provider's own compaction in place of summaries (docs/explanation/thinking.md).
BY_PROVIDER = [
    "codex-built-in",
    "openai-agents-responses",
    "ai-sdk-responses",
    "claude-code",
    "anthropic-python",
    "ai-sdk-messages",
]
CLIENTS |= {f"{name}-by-provider": by_provider(CLIENTS[name]) for name in BY_PROVIDER}
