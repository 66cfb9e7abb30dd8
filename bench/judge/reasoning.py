"""Reasoning that models under a rule for edits lose: the provider drops what no longer stands behind the same bytes."""

import hashlib
import json

import program
import sessions

# For each API, a model whose provider drops reasoning, and one that binds none.
MODELS = {
    sessions.RESPONSES: ("gpt-6.2-sol", "gpt-4.1"),
    sessions.MESSAGES: ("claude-opus-5-5", "claude-opus-4-1"),
}
WINDOWS = (32_000, 64_000)
# Price of a token that the provider has cached, beside that of a new one.
CACHED = 0.1
# Members that seal reasoning.
SEALS = ("encrypted_content", "signature", "data")
# Members that a model reads as a few tokens each.
SHORT = ("cache_control", "call_id", "data", "id", "role", "signature", "status", "tool_use_id", "type")


def size(value, key=None):
    """The tokens of a value: four characters each, sealed reasoning by the formula of Codex."""

    def characters(value, key):
        if key == "encrypted_content":
            return max(0, len(value or "") * 3 // 4 - 650)
        if isinstance(value, dict):
            return sum(characters(inner, key) for key, inner in value.items())
        if isinstance(value, list):
            return sum(characters(inner, key) for inner in value)
        return len(value) if isinstance(value, str) and key not in SHORT else 4

    return characters(value, key) // 4


def sealed(session, model):
    """The session of this model, with another seal in each reasoning item or block: some recorded ones are alike."""
    items = json.loads(json.dumps(session.items))
    for at, item in enumerate(items):
        content = item.get("content")
        parts = [item] if session.api is sessions.RESPONSES else content if isinstance(content, list) else []
        for number, part in enumerate(parts):
            for seal in SEALS:
                if is_reasoning(part) and seal in part:
                    part[seal] = f"{at} {number} {part[seal] or ''}"
    body = {**session.body, "model": model}
    if session.api is sessions.MESSAGES:
        body.pop("thinking", None)
    return sessions.Session(session.name, session.api, body, items)


def is_reasoning(part):
    """Whether an item or a block is reasoning."""
    return part.get("type") in ("reasoning", "redacted_thinking", "thinking")


def units(api, items):
    """What a provider binds reasoning to, in order: for each unit its value, its hash, and its seal if it is reasoning."""
    found = []
    for item in items:
        content = item.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for part in [item] if api is sessions.RESPONSES else blocks:
            kept = {key: value for key, value in part.items() if key not in ("id", "status")}
            text = json.dumps([item.get("role"), kept], sort_keys=True)
            seal = next((part[seal] for seal in SEALS if part.get(seal)), None) if is_reasoning(part) else None
            found.append((part, hashlib.sha256(text.encode()).digest(), seal))
    return found


def owners(api, items):
    """The call that each seal stands before, in the same step."""
    found, open_seals = {}, []
    for part, _, seal in units(api, items):
        if seal:
            open_seals.append(seal)
        elif call := call_of(part):
            found |= {seal: call for seal in open_seals}
            open_seals = []
    return found


def call_of(part):
    """The id of a call; None for anything else."""
    kind = part.get("type", "")
    if kind == "tool_use":
        return part["id"]
    return part.get("call_id") if kind.endswith("_call") else None


class Provider:
    """Judges the bodies of one conversation: reasoning holds while all before it is what it was made over."""

    def __init__(self, api):
        self.api, self.bound, self.before = api, {}, []
        self.lost, self.cost = set(), 0.0

    def read(self, items, given):
        """Reads a forwarded body. `given` maps the seals of the client's body to the calls of their steps."""
        found = units(self.api, items)
        hashes = [digest for _, digest, _ in found]
        prefix, present = hashlib.sha256(), set()
        for at, (_, digest, seal) in enumerate(found):
            if seal:
                present.add(seal)
                extends = hashes[:at][: len(self.before)] == self.before
                holds = self.bound.setdefault(seal, prefix.digest() if extends else None) == prefix.digest()
                if not holds:
                    self.lost.add(seal)
                if seal in self.lost:
                    continue
            prefix.update(digest)
        calls = {call_of(part) for part, _, _ in found}
        self.lost |= {seal for seal, call in given.items() if seal not in present and call in calls}
        shared = next((at for at, pair in enumerate(zip(hashes, self.before)) if pair[0] != pair[1]), min(len(hashes), len(self.before)))
        sizes = [size(part) for part, _, _ in found]
        self.cost += sum(sizes[:shared]) * CACHED + sum(sizes[shared:])
        self.before = hashes


def lost(api, window, model, settings, part):
    """Plays the sessions of a part. Returns their number, items of reasoning, those lost in steps that stand, and the cost."""
    count = reasoning = gone = 0
    cost = 0.0
    with program.Program(window, settings, size) as running:
        for session in sessions.load(part, api):
            session = sealed(session, model)
            provider, steps = Provider(api), owners(api, session.items)
            for (start, _), body in running.play(session):
                known = {seal for _, _, seal in units(api, session.items[:start]) if seal}
                provider.read(body[api.member], {seal: steps.get(seal) for seal in known})
            count += 1
            reasoning += sum(1 for _, _, seal in units(api, session.items) if seal)
            gone += len(provider.lost)
            cost += provider.cost
    return count, reasoning, gone, cost


def report(settings, part):
    """Prints the table."""
    print("| API | window | model | reasoning a session | of it lost in steps that stand | input cost beside a free model |")
    print("|---|--:|---|--:|--:|--:|")
    for api, (bound, free) in MODELS.items():
        for window in WINDOWS:
            count, reasoning, gone, cost = lost(api, window, bound, settings, part)
            usual = lost(api, window, free, settings, part)[3]
            share = f"{100 * (cost / usual - 1):+.1f}%"
            print(f"| {api.title} | {window:,} | {bound} | {reasoning / count:.1f} | {gone / count:.1f} | {share} |")
