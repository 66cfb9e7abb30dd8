"""A client: what to install, and how a session with it begins."""

from dataclasses import dataclass, field, replace
from typing import Callable, Optional


# The model's last answer, after it has read the last file.
END = "Every part has been read to its end."

# Not a real key: longhaul forwards any key, and the strict model checks none.
KEY = "sk-none"


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
    model: str  # of the Responses clients


@dataclass
class Start:
    """How a session is started."""

    command: list
    environment: dict = field(default_factory=dict)
    # Under the home folder.
    files: dict = field(default_factory=dict)
    # The model's last answer.
    answer: str = END
    # For a client with only a screen: pairs of the text that it shows and the text to type then.
    talk: list = field(default_factory=list)
    # Commands that continue the session after the first.
    resumed: list = field(default_factory=list)


@dataclass
class Client:
    """A client."""

    registry: str  # pip or npm
    packages: list  # the client's own first
    start: Callable[[At], Start]
    # Number of files of about 3,000 tokens that the client reads: slightly more than three windows.
    parts: int = 36
    # The window of the model, in tokens.
    window: int = 32_768
    # Tokens that the model holds above the window that longhaul is told.
    room: int = 0
    # Rules for reasoning that the model enforces: `by-model`, `bound` or `off`.
    thinking: str = "off"
    # The model that writes summaries, if the session has any.
    summaries: Optional[str] = None
    # Number of files after which the model ends its turn, so that the session is resumed.
    pause: Optional[int] = None
    # The minimum share of prompt tokens from the provider's cache, in percent.
    cached: int = 0
    # Whether the server keeps the history, so that nothing may change.
    stateful: bool = False

    @property
    def version(self):
        return self.packages[0].replace("==", "@").rsplit("@", 1)[1]

    @property
    def folder(self):
        """The folder under target/clients: clients with the same packages share one."""
        names = [package.replace("==", "@").rsplit("@", 1)[0] for package in self.packages]
        packages = "+".join(name.lstrip("@").replace("/", "-") for name in names)
        # Packages of both registries may have the same name.
        return f"{self.registry}-{packages}"


def by_provider(client):
    """The client, with a provider that writes the summaries."""
    # A history that fills the window cannot be ordered: the model holds more than longhaul fills.
    return replace(client, thinking="by-model", summaries="provider", room=client.window // 3)


def python(script, environment, **more):
    def start(at):
        command = [at.client / "bin/python3", at.sessions / script, at.task]
        return Start(command, environment(at) | more)

    return start


def javascript(script, environment, **more):
    def start(at):
        modules = {"NODE_PATH": str(at.client / "node_modules")}
        return Start([at.node, at.sessions / script, at.task], environment(at) | modules | more)

    return start


def openai(at):
    """The variables that most libraries read, and the model for our scripts."""
    return {"OPENAI_BASE_URL": at.base, "OPENAI_API_KEY": KEY, "MODEL": at.model}


def anthropic(at):
    """The variables of Anthropic's clients. Their base has no /v1."""
    return {"ANTHROPIC_BASE_URL": at.base.removesuffix("/v1"), "ANTHROPIC_API_KEY": KEY}
