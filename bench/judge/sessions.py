"""Recorded sessions of the three APIs, and their items as turns."""

import dataclasses
import enum
import gzip
import json
import pathlib

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"
# Repositories whose sessions may be used for choosing a rule or a number. All others judge the choice.
BUILDING = ("cli-", "tau-airline-", "deepagents-", "session-bridge-")
# The system prompt of a session with a short head.
SHORT_HEAD = "You are a coding agent. You work in the user's repository."


class Api(enum.Enum):
    """An API: where its requests go, which member holds the conversation, and where its sessions are."""

    CHAT = ("chat", "/v1/chat/completions", "messages", "sessions")
    RESPONSES = ("responses", "/v1/responses", "input", "sessions_responses")
    MESSAGES = ("messages", "/v1/messages", "messages", "messages/sessions")

    def __init__(self, title, path, member, folder):
        self.title, self.path, self.member, self.folder = title, path, member, folder


CHAT, RESPONSES, MESSAGES = Api


@dataclasses.dataclass
class Turn:
    """A message as a model reads it: its role (system, user, assistant or tool), text, calls and reasoning."""

    role: str
    text: str = ""
    calls: list = dataclasses.field(default_factory=list)  # Pairs of a name and arguments as text.
    thought: str = ""

    def whole(self):
        """The text with reasoning and the values of all arguments."""
        return "\n".join(part for part in [self.thought, self.text, *(leaves(args) for _, args in self.calls)] if part)

    def tokens(self):
        """The size in tokens of four characters."""
        return (len(self.thought) + len(self.text) + sum(len(name) + len(args) for name, args in self.calls)) / 4


def tokens(turns):
    """The size of turns in tokens."""
    return sum(turn.tokens() for turn in turns)


def leaves(arguments):
    """The texts and numbers of a call's arguments, one a line. Arguments that are no JSON stay as they are."""
    found = []

    def walk(value):
        if isinstance(value, (dict, list)):
            for inner in value.values() if isinstance(value, dict) else value:
                walk(inner)
        elif value is not None and not isinstance(value, bool):
            found.append(str(value))

    try:
        walk(json.loads(arguments))
    except ValueError:
        return arguments
    return "\n".join(found)


def text_of(content):
    """The text of a string, or of a list of parts. Images have none."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or [] if isinstance(part, dict) and part.get("text"))


def by_model(api, item):
    """Whether the model wrote an item."""
    kind = item.get("type", "")
    return item.get("role") == "assistant" or (api is RESPONSES and (kind == "reasoning" or kind.endswith("_call")))


def turns(api, items):
    """Reads items as turns. In Responses, items that the model wrote in a row are one turn."""
    read = {CHAT: _chat, RESPONSES: _responses, MESSAGES: _messages}[api]
    found = []
    for item in items:
        read(item, found)
    return found


def _chat(message, found):
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    role = "system" if message["role"] == "developer" else message["role"]
    found.append(Turn(role, text_of(message.get("content")), calls))


def _messages(message, found):
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said = Turn(message["role"])
    for block in blocks:
        if block["type"] == "tool_result":
            found.append(Turn("tool", text_of(block.get("content"))))
        elif block["type"] == "tool_use":
            said.calls.append((block["name"], json.dumps(block["input"], ensure_ascii=False)))
        elif block["type"] == "thinking":
            said.thought += block.get("thinking", "")
        elif block.get("text"):
            said.text += ("\n" if said.text else "") + block["text"]
    if said.text or said.calls or said.thought:
        found.append(said)


def _responses(item, found):
    kind = item.get("type", "message")
    if not by_model(RESPONSES, item):
        role = "system" if item.get("role") == "developer" else item.get("role", "tool")
        text = text_of(item["output"] if "output" in item else item.get("content"))
        if kind != "compaction":
            found.append(Turn(role, text))
        return
    if not found or found[-1].role != "assistant":
        found.append(Turn("assistant"))
    said = found[-1]
    if kind == "reasoning":
        said.thought += text_of(item.get("summary"))
    elif kind.endswith("_call"):
        given = next((item[key] for key in ("arguments", "input", "action") if key in item), "")
        said.calls.append((item.get("name", kind), given if isinstance(given, str) else json.dumps(given)))
    else:
        said.text += ("\n" if said.text else "") + text_of(item.get("content"))


def head_turns(api, body):
    """The instructions that an API keeps outside of the conversation."""
    text = text_of(body.get({RESPONSES: "instructions", MESSAGES: "system"}.get(api)))
    return [Turn("system", text)] if text else []


@dataclasses.dataclass
class Session:
    """A recorded session: the members of its last body, and the items of its conversation."""

    name: str
    api: Api
    body: dict
    items: list

    def steps(self):
        """The runs of items that the model wrote, as ranges. A request lies before each of them."""
        runs, start = [], None
        for at, item in enumerate([*self.items, {}]):
            if by_model(self.api, item):
                start = at if start is None else start
            elif start is not None:
                runs.append((start, at))
                start = None
        return [(start, end) for start, end in runs if start]

    def turns(self, end=None):
        """The turns of the first `end` items, instructions included."""
        return head_turns(self.api, self.body) + turns(self.api, self.items[:end])

    def cut(self, most):
        """This session up to `most` tokens, to the end of a step."""
        size = 0
        for at, item in enumerate(self.items):
            size += tokens(turns(self.api, [item]))
            if size > most:
                ends = [end for start, end in self.steps() if start <= at]
                return dataclasses.replace(self, items=self.items[: ends[-1] if ends else 1])
        return self

    def with_short_head(self):
        """This session with a system prompt of one sentence, for windows that its own head would fill.

        Tools, reminders of the client and what stands before the user's first request are left out."""
        body = {key: value for key, value in self.body.items() if key not in ("tools", "tool_choice")}
        if self.api is not CHAT:
            body["instructions" if self.api is RESPONSES else "system"] = SHORT_HEAD
        first = self.first_request()
        items = [item for item in self.items[first:] if item.get("role") not in ("system", "developer")]
        if self.api is CHAT:
            items.insert(0, {"role": "system", "content": SHORT_HEAD})
        if self.api is MESSAGES:
            items = [_without_reminders(item) for item in items]
        return dataclasses.replace(self, body=body, items=items)

    def first_request(self):
        """The position of the last message of the user before the first step; what stands before it describes the workspace."""
        before = self.items[: self.steps()[0][0]] if self.steps() else self.items
        return max((at for at, item in enumerate(before) if item.get("role") == "user"), default=0)


def _without_reminders(message):
    """A message of the user without the reminders that Claude Code adds, if anything else is left."""
    blocks = message["content"]
    if message["role"] != "user" or isinstance(blocks, str):
        return message
    kept = [block for block in blocks if not block.get("text", "").startswith("<system-reminder>")]
    return {**message, "content": kept or blocks}


def _without_marks(message):
    """A message without cache marks: the recordings have those of the last request alone."""
    if isinstance(message.get("content"), list):
        blocks = [{key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]]
        return {**message, "content": blocks}
    return message


def load(part="judge", api=None, names=()):
    """The sessions of `part` (judge, build or all), of one API or all, in the order of their names."""
    found = []
    for one in Api if api is None else (api,):
        for file in sorted((FIXTURES / one.folder).glob("*.json.gz")):
            name = file.name.removesuffix(".json.gz")
            if part != "all" and name.startswith(BUILDING) != (part == "build"):
                continue
            if names and name not in names:
                continue
            body = json.loads(gzip.open(file).read())
            items = body.pop(one.member)
            found.append(Session(name, one, body, [_without_marks(item) for item in items]))
    return found
