"""The clients: what to install, and how each is pointed at longhaul and given a task."""

import json
from dataclasses import dataclass, field
from typing import Callable


# What the model says when it has asked for the last file.
END = "Every part has been read to its end."


@dataclass
class At:
    """Where things are when a session begins."""

    base: str  # longhaul's base URL, with /v1
    client: object  # the folder that the client is installed in
    sessions: object  # the scripts for libraries
    home: object  # the home folder of the session
    parts: object  # the folder with the files to read, which is the working directory
    node: object  # Node
    task: str


@dataclass
class Start:
    """How a session is started."""

    command: list
    environment: dict = field(default_factory=dict)
    # Under the home folder.
    files: dict = field(default_factory=dict)
    # What the model says last.
    answer: str = END
    # For a client that has only a screen: what it shows, and what is then typed.
    talk: list = field(default_factory=list)


@dataclass
class Client:
    """A client."""

    registry: str  # pip or npm
    packages: list  # the client's own first
    start: Callable[[At], Start]
    # How many files of about 3,000 tokens it reads: three windows and a little more.
    parts: int = 36
    # The window of the model, in tokens.
    window: int = 32_768

    @property
    def version(self):
        return self.packages[0].replace("==", "@").rsplit("@", 1)[1]


# No key: longhaul passes on what it gets, and the strict model looks at none.
KEY = "sk-none"


def environment(at):
    """The setting that most libraries read."""
    return {"OPENAI_BASE_URL": at.base, "OPENAI_API_KEY": KEY}


def python(script, **more):
    def start(at):
        command = [at.client / "bin/python3", at.sessions / script, at.task]
        return Start(command, environment(at) | more)

    return start


def javascript(script, **more):
    def start(at):
        modules = {"NODE_PATH": str(at.client / "node_modules")}
        return Start([at.node, at.sessions / script, at.task], environment(at) | modules | more)

    return start


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
    # It has no tools; the output of commands takes their place.
    steps = "".join(
        f"/run cat {part}\n/ask Go on with the next part.\n" for part in sorted(at.parts.glob("part-*"))
    )
    # What it would cut its own history at.
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


def opencode(at):
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": at.base, "apiKey": "{env:OPENAI_API_KEY}"},
        "models": {"strict": {"limit": {"context": 1_000_000, "output": 4_096}}},
    }
    settings = {"provider": {"longhaul": provider}, "autoupdate": False, "share": "disabled"}
    return Start(
        [at.client / "node_modules/.bin/opencode", "run", "-m", "longhaul/strict", at.task],
        {
            "OPENAI_API_KEY": KEY,
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
        {".config/opencode/opencode.json": json.dumps(settings)},
    )


def pi(at):
    provider = {
        "baseUrl": at.base,
        "api": "openai-completions",
        "apiKey": "$OPENAI_API_KEY",
        "models": [{"id": "strict", "contextWindow": 1_000_000, "maxTokens": 4_096}],
    }
    return Start(
        [
            at.node, at.client / "node_modules/.bin/pi", "--provider", "longhaul",
            "--model", "strict", "--print", at.task,
        ],
        {"OPENAI_API_KEY": KEY, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        {".pi/agent/models.json": json.dumps({"providers": {"longhaul": provider}})},
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
        environment(at) | {"OPENAI_MODEL": "strict", "QWEN_CODE_MAX_OUTPUT_TOKENS": "2048"},
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


def anthropic(at):
    command = [at.client / "bin/python3", at.sessions / "anthropic_python.py", at.task]
    base = at.base.removesuffix("/v1")
    return Start(command, {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": KEY})


def claude_code(at):
    command = [
        at.client / "node_modules/.bin/claude", "--print", "--model", "claude-opus-5-5",
        "--allowedTools", "Read", "--max-turns", "200", at.task,
    ]  # fmt: skip
    environment = {
        "ANTHROPIC_BASE_URL": at.base.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return Start(command, environment)


CLIENTS = {
    "openai-python": Client("pip", ["openai==3.54.0"], python("openai_python.py")),
    "openai-node": Client("npm", ["openai@6.49.0"], javascript("openai_node.cjs")),
    "anthropic-python": Client("pip", ["anthropic==2.13.0"], anthropic),
    "claude-code": Client(
        "npm",
        ["@anthropic-ai/claude-code@2.1.332"],
        claude_code,
        # Its own prompt takes a third of the window.
        parts=80,
        window=65_536,
    ),
    "langchain": Client(
        "pip", ["langchain-openai==1.7.3", "langchain==1.4.7"], python("langchain_agent.py")
    ),
    "litellm": Client(
        "pip",
        # Its calls with tools need mcp, which it does not require.
        ["litellm==1.106.2", "mcp==2.3.0"],
        python("litellm_sdk.py", LITELLM_LOCAL_MODEL_COST_MAP="True"),
    ),
    "pydantic-ai": Client(
        "pip", ["pydantic-ai-slim[openai]==2.68.0"], python("pydantic_agent.py")
    ),
    "openai-agents": Client(
        "pip",
        ["openai-agents==0.24.0"],
        python("openai_agents.py", OPENAI_AGENTS_DISABLE_TRACING="1"),
    ),
    "ai-sdk": Client(
        "npm",
        ["ai@7.0.173", "@ai-sdk/openai-compatible@3.0.92", "zod"],
        javascript("ai_sdk.mjs"),
    ),
    "llm": Client("pip", ["llm==0.36"], llm),
    "aider": Client("pip", ["aider-chat==0.86.2"], aider),
    "opencode": Client("npm", ["opencode-ai@1.18.33"], opencode),
    "pi": Client("npm", ["@earendil-works/pi-coding-agent@0.87.1"], pi),
    "qwen-code": Client(
        "npm",
        ["@qwen-code/qwen-code@0.24.4"],
        qwen_code,
        # Its own prompt takes two thirds of the window, so that some files are clipped.
        parts=52,
    ),
    "tunacode": Client("pip", ["tunacode-cli==0.2.3"], tunacode),
}
