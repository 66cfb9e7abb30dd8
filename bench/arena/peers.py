"""Ways that run outside of this process: longhaul, and peers that install from a registry and run without a key."""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import socket
import subprocess

import cache
import items
import program
import rules
import sessions
import ways
from sessions import CHAT, MESSAGES

HERE = pathlib.Path(__file__).resolve().parent
KEPT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", program.ROOT / "target")) / "arena"
# Folder of an environment below KEPT, and the package in it.
PACKAGES = {
    "cliff": "cliffcompaction==0.1.0",
    "guardian": "context-guardian==0.12.0",
    "headroom": "headroom-ai==0.42.0",
    "checklist": "compaction-conformance-kit==0.8.0",
}
# Files of models and update checks are not for a run that others can repeat.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HEADROOM_TELEMETRY": "off", "GUARDIAN_VERSION_CHECK": "0", "GUARDIAN_VERBOSE": "0"}
# What stands for a summary where a peer asks the model for one.
STAND_IN = (
    "The user asked for a change in the repository. The assistant read files, made edits and ran the tests. "
    "Some tests failed at first and were mended. The work goes on with the next step of the plan that was agreed on."
)
# The checklist takes at most this share of what a cut leaves.
CHECKLIST = 0.1
# And at least so many characters.
LEAST_CHECKLIST = 500


def settings():
    """The settings of longhaul that the environment gives."""
    return {name: value for name, value in os.environ.items() if name.startswith("LONGHAUL_")}


def longhaul(profile):
    """The way of longhaul under a profile, without a model for summaries."""

    def start(window):
        return program.Program(window, settings() | {"LONGHAUL_PROFILE": profile})

    return Proxied(profile, start, note="longhaul, digests without a model")


class Proxied(ways.Way):
    """A way that is a proxy."""

    def __init__(self, name, start, **more):
        super().__init__(name, None, **more)
        self.start = start

    def requests(self, session, window):
        """The requests that the upstream has accepted. One that gets no answer ends the session."""
        with self.start(window) as running:
            running.upstream.calls, known, member = [], {}, session.api.member
            for step, _ in running.play(session):
                took = max(0.0, running.seconds - running.upstream.spent)
                body = running.upstream.accepted
                same = [known.setdefault(json.dumps(item), item) for item in body[member]]
                yield ways.Request(step, body | {member: same}, took, running.upstream.calls)
                running.upstream.calls, running.upstream.spent = [], 0.0


class Summariser(program.Handler):
    """A strict model that answers calls for summaries with a text that stands in."""

    def judge(self, body):
        last = body.get("messages", [{}])[-1].get("content")
        if isinstance(last, str) and "BEGIN_TRANSCRIPT" in last and program.size(body) <= self.server.window:
            api = next(api for api in sessions.Api if self.path == api.path)
            self.server.calls.append(body)
            self.reply(200, program.answer(api, program.size(body), STAND_IN))
        else:
            super().judge(body)


def guardian(window):
    """context-guardian with its defaults, told the window."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def start(upstream, home):
        told = {"GUARDIAN_PORT": str(port), "GUARDIAN_UPSTREAM_URL": upstream, "GUARDIAN_NUM_CTX": str(window), "GUARDIAN_DATA_DIR": home}
        command = f"exec {KEPT}/guardian/bin/python -m context_guardian 2>&1"
        return ["sh", "-c", command], {"PATH": os.environ["PATH"], "HOME": home, "PYTHONUNBUFFERED": "1", **OFFLINE, **told}

    return program.Proxy(window, start, handler=Summariser)


class Worker:
    """A peer in its own environment: see peer_worker.py."""

    def __init__(self, name):
        environment = {"PATH": os.environ["PATH"], "HOME": str(KEPT / "home"), **OFFLINE}
        command = [KEPT / name / "bin" / "python", HERE / "peer_worker.py", name]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, op, **more):
        """The answer to an operation."""
        self.process.stdin.write(json.dumps({"op": op, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[-1]} ended")
        return json.loads(line)


# The running peers of this process, by package: one each, so that no request pays for a start.
RUNNING = {}


def worker(package):
    """The peer of a package."""
    if package not in RUNNING:
        RUNNING[package] = Worker(package)
        RUNNING[package].ask("load")
        atexit.register(RUNNING[package].process.kill)
    return RUNNING[package]


def opened(package, session, window):
    """Begins a conversation. Returns its body."""
    api, body = session.api, program.wished(session, window) | {session.api.member: []}
    told = {"window": window, "room": int(rules.room(window)), "model": cache.MODELS[api][0]}
    worker(package).ask("open", api=api.title, member=api.member, body=body, **told)
    return body


def taken(session, answer):
    """The items of an answer: positions are those of the session."""
    return [session.items[one] if isinstance(one, int) else one for one in answer["items"]]


class Library(ways.Way):
    """A way that is a library: its process gets new items, and answers what to forward."""

    def __init__(self, name, package, **more):
        super().__init__(name, None, **more)
        self.package = package

    def requests(self, session, window):
        """The requests of a session."""
        body, sent = opened(self.package, session, window), 0
        for step in session.steps():
            answer = worker(self.package).ask("step", new=session.items[sent : step[0]], limit=window)
            sent = step[0]
            yield ways.Request(step, body | {session.api.member: taken(session, answer)}, answer["seconds"])


def cliff_fit(session, end, size):
    """The summary of CliffCompaction with as many recent turns as a size allows."""
    opened("cliff", session, 1 << 30)
    return taken(session, worker("cliff").ask("fit", new=session.items[:end], size=size))


class Checklist:
    """The checklist of the conformance kit as a message of the user, and the newest units. Each round reads the checklist of
    the round before and what came since, as the kit's own rounds do."""

    def __init__(self):
        self.session, self.end, self.text, self.round = None, 0, "", 0

    def __call__(self, session, end, size):
        if self.session is not session or end <= self.end:
            self.session, self.end, self.text, self.round = session, 0, "", 0
        start = items.head_length(session)
        head = session.items[:start]
        tail = ways.last_units(session.api, session.items[start:end], (size - items.size(head)) * (1 - CHECKLIST))
        said = [[turn.role, turn.whole()] for turn in sessions.turns(session.api, session.items[self.end : end])]
        said = [["user", self.text], *said] if self.text else said
        most = max(LEAST_CHECKLIST, int((size - items.size(head)) * CHECKLIST * 4))
        self.end, self.round = end, self.round + 1
        self.text = worker("checklist").ask("checklist", turns=said, characters=most, round=self.round)["text"]
        return [*head, items.user(session.api, self.text), *tail]


def version(package):
    """The name of a peer with the version that is installed; None without one."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        name = PACKAGES[package].partition("==")[0]
        asked = f"import importlib.metadata as m; print(m.version({name!r}))"
        python = KEPT / package / "bin" / "python"
        return f"{name} {subprocess.run([python, '-c', asked], capture_output=True, text=True, check=True).stdout.strip()}"
    return None


PEERS = {
    "checklist": ways.Way("semantic-checklist", ways.in_steps(Checklist()), Checklist(), note="the checklist, and the newest messages"),
    "cliff": Library("CliffCompaction", "cliff", fit=cliff_fit, note="its engine, threshold at the room"),
    "guardian": Proxied("context-guardian", guardian, apis=(CHAT, MESSAGES), note="its proxy; a fixed text stands in for its summaries"),
    "headroom": Library(
        "headroom compress", "headroom", apis=(CHAT, MESSAGES), note="`compress(messages)` at every request; may exceed the window"
    ),
}


@functools.cache
def all_ways():
    """All ways whose packages are installed, with what each is."""
    found = [longhaul(profile) for profile in ("auto", "frugal", "standard")] + ways.LOCAL
    for package, way in PEERS.items():
        named = version(package)
        if named:
            way.note = f"{named}; {way.note}"
            found.append(way)
    return found
