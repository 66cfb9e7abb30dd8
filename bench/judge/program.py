"""The real program between a recorded session and a strict upstream on loopback."""

import collections
import http.client
import http.server
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time

import sessions

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = re.compile(rb"http://[\d.]+:(\d+)")
# Settings of every run: no call for a summary, no question to the upstream, nothing kept on disk.
FIXED = {
    "LONGHAUL_SUMMARY_MODEL": "none",
    "LONGHAUL_UPSTREAM_ASK": "false",
    "LONGHAUL_STORE_LESSONS": "false",
    "LONGHAUL_LOG_LEVEL": "error",
}
# Seconds after which an answer that did not come is an error.
PATIENCE = 60


def binary():
    """The program: `LONGHAUL`, else the build of the profile release or gate."""
    built = [ROOT / "target" / profile / "longhaul" for profile in ("release", "gate")]
    found = [path for path in [os.environ.get("LONGHAUL"), *built] if path and os.access(path, os.X_OK)]
    if not found:
        raise SystemExit("no program: build it with `cargo build --profile gate`, or name one in LONGHAUL")
    return str(found[0])


def size(body):
    """The tokens of a body: four bytes each."""
    return len(json.dumps(body, ensure_ascii=False).encode()) // 4


def fault(api, body, window, size):
    """Why a strict model refuses a body, if it does: its size, or a call and a result that do not meet."""
    if size(body) > window:
        return f"This model's maximum context length is {window} tokens. Please reduce the length of the messages."
    open_calls = set()
    for item in body[api.member]:
        made, answered = _calls(api, item)
        if answered - open_calls:
            return "a tool result without its call"
        open_calls -= answered
        if open_calls and not answered and not sessions.by_model(api, item):
            return "a call without its result"
        open_calls |= made
    return "a call without its result" if open_calls else None


def _calls(api, item):
    """The ids of the calls that an item makes, and of those that it answers."""
    if api is sessions.RESPONSES:
        kind, call = item.get("type", ""), {item.get("call_id")} - {None}
        return (call, set()) if kind.endswith("_call") else (set(), call)
    if api is sessions.MESSAGES:
        blocks = item["content"] if isinstance(item["content"], list) else []
        made = {block["id"] for block in blocks if block["type"] == "tool_use"}
        return made, {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
    made = {call["id"] for call in item.get("tool_calls") or []}
    return made, {item["tool_call_id"]} if item["role"] == "tool" else set()


def answer(api, usage, text="ok"):
    """A short answer of a model to a prompt of `usage` tokens."""
    if api is sessions.RESPONSES:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}]
        counted = {"input_tokens": usage, "output_tokens": 1, "total_tokens": usage + 1}
        return {"id": "r", "object": "response", "status": "completed", "model": "m", "output": output, "usage": counted}
    if api is sessions.MESSAGES:
        said = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        counted = {"input_tokens": usage, "output_tokens": 1}
        return {**said, "content": [{"type": "text", "text": text}], "usage": counted}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    counted = {"prompt_tokens": usage, "completion_tokens": 1, "total_tokens": usage + 1}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": counted}


class Upstream(http.server.ThreadingHTTPServer):
    """A strict model that keeps the last body that it has accepted, and adds up the seconds that it has spent."""

    daemon_threads = True

    def __init__(self, window, size, handler=None):
        super().__init__(("127.0.0.1", 0), handler or Handler)
        self.window, self.size, self.accepted, self.refusals, self.spent = window, size, None, [], 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one connection of the program."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        self.began = time.perf_counter()
        self.judge(json.loads(data))

    def judge(self, body):
        """Answers a body."""
        api = next(api for api in sessions.Api if self.path == api.path)
        why = fault(api, body, self.server.window, self.server.size)
        if why:
            self.server.refusals.append(why)
            error = {"message": why, "type": "invalid_request_error"}
            if "maximum" in why:
                error["code"] = "context_length_exceeded"
            self.reply(400, {"type": "error", "error": error})
        else:
            self.server.accepted = body
            self.reply(200, answer(api, self.server.size(body)))

    def do_GET(self):
        self.began = time.perf_counter()
        self.reply(404, {})

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.server.spent += time.perf_counter() - self.began
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def wished(session, window):
    """The members of a session's requests, the conversation aside. Output counts against the window of Messages, so a small
    window needs a small wish."""
    body = {**session.body, "stream": False}
    if session.api is sessions.MESSAGES:
        body["max_tokens"] = min(body["max_tokens"], max(1100, window // 8))
        if body.get("thinking", {}).get("budget_tokens"):
            body["thinking"] = {**body["thinking"], "budget_tokens": 1024}
    return body


def answers(port):
    """Whether a port of this machine accepts a connection in time."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
            return True
        except ConnectionRefusedError:
            time.sleep(0.02)
    return False


class Proxy:
    """A running proxy before a model with a window. `start` returns its command and its environment, of the upstream's URL and
    a folder for its files. The first address in its output other than the upstream's says where it listens."""

    def __init__(self, window, start, size=size, handler=None):
        self.window, self.upstream = window, Upstream(window, size, handler)
        self.home = tempfile.TemporaryDirectory()
        command, environment = start(f"http://127.0.0.1:{self.upstream.server_port}/v1", self.home.name)
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        named = (int(port) for line in self.process.stdout for port in ADDRESS.findall(line))
        port = next((port for port in named if port != self.upstream.server_port), None)
        if port is None or not answers(port):
            raise SystemExit(f"{command} did not start")
        # A proxy that logs must not wait for a reader.
        threading.Thread(target=lambda: collections.deque(self.process.stdout, maxlen=0), daemon=True).start()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.upstream.shutdown()
        self.upstream.server_close()
        self.home.cleanup()

    def play(self, session, caller=None):
        """Sends each request of a session. Yields the range of the step that answered it, and the body that was forwarded.
        `seconds` says how long the last request took.

        A request that gets no answer ends the session, as it would end the agent's work."""
        api, body = session.api, wished(session, self.window)
        head = json.dumps({**body, api.member: []}, ensure_ascii=False).encode()
        before, after = head.split(f'"{api.member}": []'.encode())
        joined, ends = b"", [0]
        for item in session.items:
            joined += (b"," if joined else b"") + json.dumps(item, ensure_ascii=False).encode()
            ends.append(len(joined))
        fields = {"content-type": "application/json", "authorization": f"Bearer {caller or session.name}"}
        for start, end in session.steps():
            whole = before + f'"{api.member}": ['.encode() + joined[: ends[start]] + b"]" + after
            began = time.perf_counter()
            self.connection.request("POST", api.path, whole, fields)
            reply = self.connection.getresponse()
            reply.read()
            self.seconds = time.perf_counter() - began
            if reply.status != 200:
                return
            yield (start, end), unmarked(self.upstream.accepted)


class Program(Proxy):
    """The running program, under settings that environment variables give, before a model with a window."""

    def __init__(self, window, settings=None, size=size):
        def start(upstream, home):
            arguments = ["--listen", "127.0.0.1:0", "--admin", "off", "--upstream", upstream]
            return [binary(), *arguments], {**FIXED, "HOME": home, "LONGHAUL_WINDOW": str(window), **(settings or {})}

        super().__init__(window, start, size)


def unmarked(value):
    """A body without cache marks, which move from request to request."""
    if isinstance(value, dict):
        return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


def stretches(session, played):
    """Joins requests whose body extends the one before: a list of [start, items, ranges of the steps].

    The items are those forwarded before the first step. What is forwarded unchanged is a stretch of its own."""
    found, last, last_start = [], None, 0
    for (start, end), body in played:
        items = body[session.api.member]
        if last is None or items != last + session.items[last_start:start]:
            found.append([start, items, []])
        found[-1][2].append((start, end))
        last, last_start = items, start
    return found
