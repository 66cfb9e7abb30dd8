"""A session of a client: strict model, longhaul, client; and what must be true of it."""

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from subprocess import DEVNULL

from client import At
from install import node
from terminal import converse

WINDOWS = 3
# Only turns a hang into a failure.
LIMIT_S = 600
TASK = "Read the parts in this folder, one after the other, to the last one. Then say so."
# longhaul's estimate of what the strict model counts as a token: 3.3 bytes at 4 a token, and a
# twentieth less for what a client leaves out of a file.
ESTIMATE = 0.825 * 0.95


@dataclass
class Held:
    """How a session went."""

    requests: int
    refused: int
    compactions: int
    cached: str
    wrong: list


def hold(root, name, client, installed):
    """Holds a session; what it leaves behind is in target/clients/sessions/NAME."""
    work = root / "target/clients/sessions" / name
    shutil.rmtree(work, ignore_errors=True)
    parts, home = work / "parts", work / "home"
    parts.mkdir(parents=True)
    home.mkdir()
    # Clients search the parent folders for a project, and would find this one.
    subprocess.run(["git", "init", "--quiet", parts], check=True)
    interpreter = node(root) if client.registry == "npm" else None
    programs = root / "target/debug"
    strict_model = programs / "examples/strict_model"
    longhaul = os.environ.get("LONGHAUL", programs / "longhaul")
    # The session of hours takes seconds here.
    summaries = {"LONGHAUL_SUMMARY_MAX_PER_HOUR": "120"}
    if client.summaries:
        summaries["LONGHAUL_SUMMARY_MODEL"] = client.summaries
    with (
        open(work / "longhaul.log", "w") as log,
        Program(
            [strict_model, "--parts", parts, "--count", str(client.parts)]
            + ["--window", str(client.window + client.room)]
            + ["--thinking", client.thinking]
            + ([] if client.pause is None else ["--pause", str(client.pause)])
        ) as model,
        Program(
            [longhaul, "--listen", "127.0.0.1:0", "--upstream", model.url],
            log,
            LONGHAUL_LOG_FORMAT="json",
            LONGHAUL_WINDOW=str(client.window),
            **summaries,
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
                model="gpt-6.2-sol" if client.thinking == "by-model" else "strict",
            )
        )
        path = [interpreter.parent] if interpreter else []
        ended = play(start, work, path)
        longhaul.process.terminate()
        longhaul.end()
        totals = json.loads(model.end())
    (work / "totals.json").write_text(json.dumps(totals, indent=1))
    chats = [line for line in lines(work / "longhaul.log") if is_chat(line)]
    wrong = ended + (judge_stateful if client.stateful else judge)(totals, chats, client)
    cached = 100 * totals["cached_tokens"] // max(1, totals["prompt_tokens"])
    return Held(len(chats), totals["refused"], totals["compactions"], f"{cached}%", wrong)


def play(start, work, path):
    """Runs the client, with `path` before the machine's own; what was wrong with how it ended."""
    home, parts = work / "home", work / "parts"
    for name, text in start.files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    folders = os.pathsep.join([*map(str, path), os.environ["PATH"]])
    environment = {"HOME": str(home), "LANG": "C.UTF-8", "PATH": folders} | start.environment
    options = {"cwd": parts, "env": environment}
    codes = []
    with open(work / "stdout", "w") as stdout, open(work / "stderr", "w") as stderr:
        if start.talk:
            options["env"] |= {"TERM": "xterm-256color"}
            command = [str(word) for word in start.command]
            codes.append(converse(command, start.talk, LIMIT_S, stdout, **options))
        else:
            options |= {"stdin": DEVNULL, "stdout": stdout, "stderr": stderr}
            for command in [start.command, *start.resumed]:
                codes.append(run([str(word) for word in command], LIMIT_S, **options))
    if None in codes:
        return [f"not done after {LIMIT_S} s"]
    wrong = [f"the client ended with {code}" for code in codes if code != 0]
    if start.answer not in (work / "stdout").read_text():
        wrong.append("the last answer did not come through")
    return wrong


def run(command, limit_s, **options):
    """The exit code; none if it took too long."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        # With all child processes.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def judge(totals, chats, client):
    """What was wrong with what passed between longhaul and the model."""
    window = client.window
    sent = max((chat.get("tokens_before", 0) for chat in chats), default=0)
    history = WINDOWS * window
    cached = 100 * totals["cached_tokens"]
    # The proxy learns of bound thinking from its first refusal (docs/explanation/thinking.md).
    learned = ["stale-thinking"] if client.thinking != "off" else []
    broken = totals["broken"]
    rules = [
        (totals["history_tokens"] >= history, f"a history of {totals['history_tokens']} tokens"),
        (sent >= history * ESTIMATE, f"the client itself sent no more than {sent} tokens"),
        (totals["largest_prompt"] <= window, f"a prompt of {totals['largest_prompt']} tokens"),
        (totals["compactions"] >= 2, f"{totals['compactions']} compactions"),
        (broken in ([], learned), f"against the rules: {', '.join(broken)}"),
        (cached >= client.cached * totals["prompt_tokens"], "too little from the cache"),
        (totals["refused"] <= 1, f"{totals['refused']} requests were refused"),
        (bool(client.summaries) == (totals["with_item"] > 0), "compactions by the provider"),
        (not (client.summaries and totals["dropped"]), "reasoning was dropped"),
        *seen_by_client(chats),
    ]
    return [what for holds, what in rules if not holds]


def judge_stateful(totals, chats, client):
    """What was wrong with a session whose history the server keeps: nothing may be changed."""
    changed = [chat for chat in chats if chat.get("bypass") != "stateful"]
    rules = [
        (totals["history_tokens"] > 0, "no file was read"),
        (not totals["broken"], f"against the rules: {', '.join(totals['broken'])}"),
        (totals["compactions"] == 0, f"{totals['compactions']} compactions"),
        # The first request names no stored history.
        (len(changed) == 1, f"{len(changed)} requests did not pass as stateful"),
        *seen_by_client(chats),
    ]
    return [what for holds, what in rules if not holds]


def seen_by_client(chats):
    """The rule that no client is shown an error."""
    return [(all(chat.get("status") == 200 for chat in chats), "the client was shown an error")]


def lines(log):
    return (json.loads(line) for line in log.read_text().splitlines())


def is_chat(line):
    ends = ("/chat/completions", "/responses", "/v1/messages", "awPredict", "/invoke", "-stream")
    is_request = line.get("message") == "request" and line.get("method") == "POST"
    return is_request and line["path"].endswith(ends) and "count-tokens" not in line["path"]


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
