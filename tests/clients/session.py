"""A session of a client: strict model, longhaul, client; and what must be true of it."""

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from subprocess import DEVNULL

from clients import At
from install import node
from terminal import converse

WINDOWS = 3
# Only bounds a hang.
LIMIT_S = 600
TASK = "Read the parts in this folder, one after the other, to the last one. Then say so."
# longhaul's estimate of what the strict model counts as a token: 3.3 bytes at 4 a token, and a
# twentieth less for what a client leaves out of a file.
ESTIMATE = 0.825 * 0.95


@dataclass
class Held:
    """How a session went."""

    requests: int
    compactions: int
    wrong: list


def hold(root, name, client, installed):
    """Holds a session; what it leaves behind is in target/clients/NAME/session."""
    work = installed / "session"
    shutil.rmtree(work, ignore_errors=True)
    parts, home = work / "parts", work / "home"
    parts.mkdir(parents=True)
    home.mkdir()
    # Clients look for a project around them, and would find this one.
    subprocess.run(["git", "init", "--quiet", parts], check=True)
    interpreter = node(root) if client.registry == "npm" else None
    programs = root / "target/debug"
    strict_model = programs / "examples/strict_model"
    with (
        open(work / "longhaul.log", "w") as log,
        Program(
            [strict_model, "--parts", parts, "--count", str(client.parts)]
            + ["--window", str(client.window)]
        ) as model,
        Program(
            [programs / "longhaul", "--listen", "127.0.0.1:0", "--upstream", model.url],
            log,
            LONGHAUL_LOG_FORMAT="json",
            LONGHAUL_WINDOW=str(client.window),
        ) as longhaul,
    ):
        start = client.start(
            At(
                base=f"{longhaul.url}/v1",
                client=installed,
                sessions=root / "tests/clients/sessions",
                home=home,
                parts=parts,
                node=interpreter,
                task=TASK,
            )
        )
        path = [interpreter.parent] if interpreter else []
        ended = play(start, work, path)
        longhaul.process.terminate()
        longhaul.end()
        totals = json.loads(model.end())
    (work / "totals.json").write_text(json.dumps(totals, indent=1))
    chats = [line for line in lines(work / "longhaul.log") if is_chat(line)]
    wrong = ended + judge(totals, chats, client.window)
    return Held(len(chats), totals["compactions"], wrong)


def play(start, work, path):
    """Runs the client, with `path` before the machine's own; what was wrong with how it ended."""
    home, parts = work / "home", work / "parts"
    for name, text in start.files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    folders = os.pathsep.join([*map(str, path), os.environ["PATH"]])
    environment = {"HOME": str(home), "LANG": "C.UTF-8", "PATH": folders} | start.environment
    command = [str(word) for word in start.command]
    options = {"cwd": parts, "env": environment}
    with open(work / "stdout", "w") as stdout, open(work / "stderr", "w") as stderr:
        if start.talk:
            options["env"] |= {"TERM": "xterm-256color"}
            code = converse(command, start.talk, LIMIT_S, stdout, **options)
        else:
            code = run(command, LIMIT_S, stdin=DEVNULL, stdout=stdout, stderr=stderr, **options)
    if code is None:
        return [f"not done after {LIMIT_S} s"]
    wrong = []
    if code != 0:
        wrong.append(f"the client ended with {code}")
    if start.answer not in (work / "stdout").read_text():
        wrong.append("the last answer did not come through")
    return wrong


def run(command, limit_s, **options):
    """The exit code; none if it took too long."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        # With all that it started.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def judge(totals, chats, window):
    """What was wrong with what passed between longhaul and the model."""
    sent = max((chat.get("tokens_before", 0) for chat in chats), default=0)
    history = WINDOWS * window
    rules = [
        (totals["history_tokens"] >= history, f"a history of {totals['history_tokens']} tokens"),
        (sent >= history * ESTIMATE, f"the client itself sent no more than {sent} tokens"),
        (totals["largest_prompt"] <= window, f"a prompt of {totals['largest_prompt']} tokens"),
        (totals["compactions"] >= 2, f"{totals['compactions']} compactions"),
        (not totals["broken"], f"against the rules: {', '.join(totals['broken'])}"),
        (all(chat.get("status") == 200 for chat in chats), "the client was shown an error"),
    ]
    return [what for holds, what in rules if not holds]


def lines(log):
    return (json.loads(line) for line in log.read_text().splitlines())


def is_chat(line):
    ends = ("/chat/completions", "/v1/messages")
    return line.get("message") == "request" and line["path"].endswith(ends)


class Program:
    """One of the two programs. The first address that it prints is its own."""

    def __init__(self, command, stderr=None, **environment):
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        words = (word for line in self.process.stdout for word in line.split())
        self.url = next(word for word in words if word.startswith("http://"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Ends it; what it printed behind its address."""
        self.process.stdin.close()
        return self.process.stdout.read()
