"""Runs a peer inside the environment that it is installed in: python peer_worker.py PEER. One JSON value a line, in and out.

`load` imports it, `open` begins a conversation, `step` adds items and asks for what to forward, `fit` adds items and asks for what
stands for all of them at a size, and `checklist` asks for the checklist of a transcript. An item that is forwarded as it came is answered by its position."""

import importlib.metadata
import json
import os
import sys
import time

PACKAGES = {"cliff": "cliffcompaction", "headroom": "headroom-ai", "checklist": "compaction-conformance-kit"}


# CliffCompaction: what stands between the parts of a summary, and the recent turns beyond which none is tried.
SEPARATOR, MOST_TURNS = "\n\n---\n\n", 200


def size(value):
    """The tokens of a value: four bytes of JSON each."""
    return len(json.dumps(value, ensure_ascii=False).encode()) / 4


class Cliff:
    """CliffCompaction: the engine that its proxy asks, with its defaults and a threshold."""

    def load(self):
        import cliffcompaction.cliff

    def open(self, asked):
        from cliffcompaction.config import Config
        from cliffcompaction.dialects import anthropic, openai_chat, openai_responses
        from cliffcompaction.engine import Engine

        dialects = {"chat": openai_chat, "responses": openai_responses, "messages": anthropic}
        self.dialect = next(one for one in vars(dialects[asked["api"]]).values() if type(one).__name__ == "Dialect")
        self.config = Config(threshold_tokens=asked["room"])
        self.engine = Engine(self.config)

    def forwarded(self, body, limit):
        """The messages of a request. A request that the model would refuse takes the proxy's own ladder."""
        ctx = self.engine.prepare(body, self.dialect)
        while size(ctx.outgoing_body()) > limit and self.engine.reactive(ctx):
            pass
        return ctx.outgoing_body()[self.dialect.messages_key]

    def fit(self, items, most):
        """The most recent turns that fit beside their summary. If one turn does not fit, its ladder: leaner, then shorter."""
        import dataclasses

        from cliffcompaction.cliff import compact

        lean = dataclasses.replace(self.config, thought_max_chars=300, keep_thinking=False)
        for config in (self.config, lean):
            best = None
            for keep in range(1, MOST_TURNS):
                found = compact(items, self.dialect, dataclasses.replace(config, keep_recent=keep))
                if found is None or size(found.messages) > most:
                    break
                best = found
            if best:
                return best.messages
        found = compact(items, self.dialect, dataclasses.replace(lean, keep_recent=1))
        return self.shorter(found, most) if found else items

    def shorter(self, found, most):
        """A result whose summary keeps its newest parts alone."""
        from cliffcompaction.dialects.base import SUMMARY_HEADER
        from cliffcompaction.engine import Engine

        parts = Engine._summary_text(found.summary)[len(SUMMARY_HEADER) :].strip().split(SEPARATOR)
        others = [message for message in found.messages if message is not found.summary]
        room, kept = (most - size(others)) * 4, []
        for part in reversed(parts):
            room -= len(json.dumps(part, ensure_ascii=False).encode()) + len(SEPARATOR)
            if room < 0:
                break
            kept.insert(0, part)
        text = SUMMARY_HEADER + ("\n\n" + SEPARATOR.join(kept) if kept else "")
        return [self.dialect.user_message(text) if message is found.summary else message for message in found.messages]


class Headroom:
    """`headroom.compress`, at every request and with its defaults."""

    def load(self):
        from headroom import compress

        compress([{"role": "user", "content": "ready?"}], model="gpt-5.5")

    def open(self, asked):
        self.model, self.window = asked["model"], asked["window"]

    def forwarded(self, body, _limit):
        from headroom import compress

        return compress(body["messages"], model=self.model, model_limit=self.window).messages


class Checklist:
    """The compactor `semantic-checklist` of the conformance kit."""

    def load(self):
        import compaction_kit.semantic

    def checklist(self, turns, characters, rounds):
        from compaction_kit.semantic import SemanticChecklistCompactor
        from compaction_kit.session import Turn

        return SemanticChecklistCompactor().compact([Turn(*turn) for turn in turns], rounds, characters).text


def positions(items, forwarded):
    """The forwarded items, each by its position if it is forwarded as it came."""
    known = {id(item): at for at, item in enumerate(items)}
    found = []
    for at, item in enumerate(forwarded):
        same = at if at < len(items) and items[at] == item else None
        found.append(known.get(id(item), item if same is None else same))
    return found


def serve(peer, lines, out):
    """Answers until the input ends."""
    body, member, items = {}, "", []
    for line in lines:
        asked = json.loads(line)
        began = time.perf_counter()
        answer = {}
        if asked["op"] == "load":
            peer.load()
        elif asked["op"] == "open":
            body, member, items = asked["body"], asked["member"], []
            peer.open(asked)
        elif asked["op"] == "step":
            items += asked["new"]
            found = peer.forwarded({**body, member: list(items)}, asked["limit"])
            answer = {"seconds": time.perf_counter() - began, "items": positions(items, found)}
        elif asked["op"] == "fit":
            items += asked["new"]
            answer = {"items": positions(items, peer.fit(list(items), asked["size"]))}
        elif asked["op"] == "checklist":
            answer = {"text": peer.checklist(asked["turns"], asked["characters"], asked["round"])}
        out.write(json.dumps(answer) + "\n")
        out.flush()


def main():
    name = sys.argv[1]
    if sys.argv[2:] == ["version"]:
        print(importlib.metadata.version(PACKAGES[name]))
        return
    # What a peer prints must not stand among the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve({"cliff": Cliff, "headroom": Headroom, "checklist": Checklist}[name](), sys.stdin, out)


if __name__ == "__main__":
    main()
