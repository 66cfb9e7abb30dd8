"""Plants rules into recorded sessions, in the places where rules stand in real ones."""

import dataclasses
import json
import pathlib
import re

import sessions

TEXTS = json.loads((pathlib.Path(__file__).parent / "rules.json").read_text())
# Where a rule is said, as a share of the session's tokens. `first` is the first user message.
PLACES = {"first": 0.0, "early": 0.15, "middle": 0.45, "late": 0.75}
# The tools whose results hold the user's words.
ANSWERS = ("AskUserQuestion", "request_user_input", "ExitPlanMode", "rejected call")
# Words before the root of the workspace, in the clients of the recorded sessions.
ROOT = re.compile(r"(?:[Ww]orking directory: |<cwd>|# AGENTS.md instructions for )((?:/|[A-Z]:\\)[^\s<\"\]]+)")
# Lines of a pasted log: about 1,400 tokens.
LOG_LINES = 64
REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was "
    "NOT written to the file). To tell you how to proceed, the user said:\n"
)
APPROVED = "User has approved your plan. You can now start coding. Start with updating your todo list if applicable\n\n## Approved Plan:\n"


@dataclasses.dataclass
class Planted:
    """A text that is to stand, or not to stand, in what is forwarded."""

    row: str  # The row of the report: said, answer, file, decision, correction or stranger.
    kind: str  # The form within the row.
    text: str
    tokens: float = 0.0  # The size of the file around it.
    old: str = ""  # What a correction replaces.
    value: str = ""  # The words that make the difference between the old version and the new one.


@dataclasses.dataclass
class Insertion:
    """Items that go in front of a step at a share of the session, or words for its first user message."""

    share: float
    items: list = dataclasses.field(default_factory=list)
    words: str = ""


class Planter:
    """Builds insertions for a session. `number` rotates texts, forms and names between sessions."""

    def __init__(self, api, number, root="/srv/app"):
        self.api, self.number, self.root, self.calls = api, number, root, 0
        self.planted, self.insertions = [], []

    def pick(self, texts, step=0):
        """A text of a list; a session takes others than the next one."""
        return texts[(self.number * 5 + step) % len(texts)]

    def user(self, text):
        """A message of the user."""
        if self.api is sessions.CHAT:
            return [{"role": "user", "content": text}]
        kind = "input_text" if self.api is sessions.RESPONSES else "text"
        message = {"role": "user", "content": [{"type": kind, "text": text}]}
        return [{"type": "message", **message} if self.api is sessions.RESPONSES else message]

    def said(self, text):
        """A message of the model."""
        if self.api is sessions.RESPONSES:
            return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
        return [{"role": "assistant", "content": text if self.api is sessions.CHAT else [{"type": "text", "text": text}]}]

    def call(self, name, arguments, result):
        """A call of the model with its result."""
        self.calls += 1
        key = f"call_planted_{self.calls}"
        text = json.dumps(arguments)
        if self.api is sessions.RESPONSES:
            call = {"type": "function_call", "name": name, "arguments": text, "call_id": key}
            return [call, {"type": "function_call_output", "call_id": key, "output": result}]
        if self.api is sessions.MESSAGES:
            made = {"role": "assistant", "content": [{"type": "tool_use", "id": key, "name": name, "input": arguments}]}
            return [made, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": key, "content": result}]}]
        made = {"id": key, "type": "function", "function": {"name": name, "arguments": text}}
        return [{"role": "assistant", "content": None, "tool_calls": [made]}, {"role": "tool", "tool_call_id": key, "content": result}]

    def add(self, share, items, **planted):
        """Notes what is planted, and where."""
        self.planted.append(Planted(**planted))
        self.insertions.append(Insertion(share, items))

    def plant_said(self):
        """Rules that the user says at four places in three forms, and a correction of the first of two versions."""
        for step, (place, share) in enumerate(PLACES.items()):
            rule = self.pick(TEXTS["rules"], step)
            form = ("alone", "in prose", "after a log")[(self.number + step) % 3]
            words = {"alone": rule, "in prose": self.pick(TEXTS["prose"], step).format(rule), "after a log": f"{self.log(step)}\n\n{rule}"}[
                form
            ]
            self.add(share, self.user(words), row="said", kind=f"{place}, {form}", text=rule)
            if place == "first":
                self.insertions[-1] = Insertion(share, words=words)
        pair = self.pick(TEXTS["corrections"])
        self.insertions.append(Insertion(0.2, self.user(pair["old"])))
        self.add(0.6, self.user(pair["new"]), row="correction", kind="new version", text=pair["new"], old=pair["old"], value=pair["value"])

    def log(self, step):
        """A log as people paste it, fenced in every second session."""
        lines = TEXTS["log"]
        text = "\n".join(lines[at % len(lines)].format(d=1 + at % 28, n=at * 37 % 1000) for at in range(LOG_LINES))
        return f"```\n{text}\n```" if (self.number + step) % 2 else text

    def plant_heard(self):
        """The user's words in results, files of rules, decisions that the user approves, and rules of strangers."""
        for step, share in enumerate((0.1, 0.35, 0.7)):
            self.plant_answer(step, share)
        self.plant_file(0.2)
        for step, share in enumerate((0.3, 0.6)):
            self.plant_decision(step, share)
        self.plant_stranger(0.25)

    def plant_answer(self, step, share):
        """The user's words inside a result, in the form of the clients that put them there."""
        question, answer = self.pick(TEXTS["answers"], step)
        kind = ANSWERS[(self.number + step) % 4]
        asked = {"questions": [{"question": question, "header": "Scope", "id": "scope", "options": [{"label": "Yes"}, {"label": "No"}]}]}
        if kind == "AskUserQuestion":
            result = f'User has answered your questions: "{question}"="{answer}". You can now continue with the user\'s answers in mind.'
            items = self.call(kind, asked, result)
        elif kind == "request_user_input":
            items = self.call(kind, asked, json.dumps({"answers": {"scope": {"answers": [answer]}}}))
        elif kind == "ExitPlanMode":
            items = self.call(kind, {"plan": "# Plan\n\n1. Change the handler\n2. Extend the tests"}, REJECTED + answer)
        else:
            items = self.call("Edit", {"file_path": "/srv/app/lib/worker.js", "old_string": "a", "new_string": "b"}, REJECTED + answer)
        self.add(share, items, row="answer", kind=kind, text=answer)

    def plant_file(self, share):
        """A file of rules that a tool reads; every second one is long."""
        name = TEXTS["files"][self.number % len(TEXTS["files"])]
        rules = [self.pick(TEXTS["rules"], 7 + step) for step in range(5)]
        about = TEXTS["about"] * (4 if self.number % 2 else 1)
        text = "\n\n".join(
            ["# Working in this repository", *about[: 20 if self.number % 2 else 1], "\n".join(f"- {rule}" for rule in rules)]
        )
        path = f"{self.root}/{name}" if self.root.startswith("/") else f"{self.root}\\{name}".replace("/", "\\")
        if self.number % 3:
            numbered = "\n".join(f"{at:6}\u2192{line}" for at, line in enumerate(text.split("\n"), 1))
            items = self.call("Read", {"file_path": path}, numbered)
        else:
            items = self.call("shell", {"command": f"cat {path}"}, text)
        self.insertions.append(Insertion(share, items))
        self.planted += [Planted("file", name, rule, tokens=len(text) / 4) for rule in rules]

    def plant_decision(self, step, share):
        """What the model proposes and the user approves, in prose or as a plan."""
        decision = self.pick(TEXTS["decisions"], step)
        if (self.number + step) % 2:
            plan = f"# Plan\n\n1. {decision}\n2. Extend the tests\n"
            items = self.call("ExitPlanMode", {"plan": plan}, APPROVED + plan)
            kind = "plan"
        else:
            proposed = f"I looked at both ways. My proposal: {decision} Shall I go ahead?"
            items, kind = self.said(proposed) + self.user("Yes, do it like that."), "in prose"
        self.add(share, items, row="decision", kind=kind, text=decision)

    def plant_stranger(self, share):
        """A rule of somebody who is not the user."""
        rule = self.pick(TEXTS["strangers"])
        page = "\n\n".join([*TEXTS["about"][:2], rule, *TEXTS["about"][2:]])
        calls = {
            "web page": ("WebFetch", {"url": "https://forum.example/t/8812", "prompt": "How is it installed?"}, page),
            "issue": ("shell", {"command": "gh issue view 412 --comments"}, f"title:\tInstall fails\nstate:\tOPEN\n--\n{page}"),
            "package": ("shell", {"command": "cat node_modules/left-trim/README.md"}, f"# left-trim\n\n{page}"),
        }
        kind = list(calls)[self.number % 3]
        self.add(share, self.call(*calls[kind]), row="stranger", kind=kind, text=rule)


def plant(session, number, plan):
    """A session with the insertions of a plan (`said` or `heard`), and what is planted."""
    planter = Planter(session.api, number, root(session))
    getattr(planter, f"plant_{plan}")()
    starts, sizes, places = [start for start, _ in session.steps()], [0], {}
    for item in session.items:
        sizes.append(sizes[-1] + sessions.tokens(sessions.turns(session.api, [item])))
    for insertion in sorted(planter.insertions, key=lambda it: it.share):
        if insertion.words:
            session = dataclasses.replace(session, items=with_words(session, insertion.words))
            continue
        free = [at for at in starts[1:] if sizes[at] >= insertion.share * sizes[-1] and at not in places]
        if free:
            places[free[0]] = insertion.items
    return inserted(session, places), planter.planted


def root(session):
    """The root of the workspace, as the head of a session states it."""
    stated = next(filter(None, map(ROOT.search, strings([session.body, session.items[:6]]))), None)
    return stated[1] if stated else "/srv/app"


def strings(value):
    """All strings of a JSON value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [found for one in inner for found in strings(one)]


def inserted(session, places):
    """A session with items in front of the positions of `places`."""
    items = list(session.items)
    for at in sorted(places, reverse=True):
        items[at:at] = joined(session.api, items, at, places[at])
    return dataclasses.replace(session, items=items)


def joined(api, items, at, new):
    """The items to insert at a position. Messages alternates roles: a message of the user joins the one before it."""
    first = new[0]
    if api is not sessions.MESSAGES or first["role"] == "assistant":
        return new
    before = items[at - 1]
    blocks = [{"type": "text", "text": before["content"]}] if isinstance(before["content"], str) else before["content"]
    items[at - 1] = {**before, "content": [*blocks, *first["content"]]}
    return new[1:]


def with_words(session, words):
    """The items of a session, with words after the text of the user's first request."""
    at = session.first_request()
    content = session.items[at]["content"]
    kind = "input_text" if session.api is sessions.RESPONSES else "text"
    longer = f"{content}\n\n{words}" if isinstance(content, str) else [*content, {"type": kind, "text": words}]
    return [*session.items[:at], {**session.items[at], "content": longer}, *session.items[at + 1 :]]
