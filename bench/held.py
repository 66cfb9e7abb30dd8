#!/usr/bin/env python3
"""Share of streamed replies that a proxy holds back, and for how long.

Plays recorded sessions through a proxy to a model that streams in steps: the head, then one event a
step. The model takes the next step once the step before has reached the client, or PATIENCE has passed.
So a proxy that relays at once costs no wait, and every figure but the ratio of times counts steps:

    bench/held.py PROGRAM...

starts each program with the same settings and prints one row for each of them and for each window.
"""

import argparse
import asyncio
import gzip
import json
import os
import pathlib
import re
import statistics
import subprocess
import time

SESSIONS = ["cli-0018", "agentv-0420", "agentv-0431"]
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures/sessions"
# Seconds after which a step that did not reach the client counts as held. Loopback takes about 1 ms.
PATIENCE = 0.1
# Seconds after which a released step that did not reach the client is an error of the proxy.
LIMIT = 20
# Address that a program prints first.
ADDRESS = re.compile(rb"http://([\d.]+):(\d+)")
# Characters of an event's text: about a token.
PIECE = 4
# The window that the program is told, `None` for none, and the window of the model.
WINDOWS = [(200_000, 200_000), (32_768, 32_768), (None, 200_000), (None, 32_768)]


def requests(name):
    """Yields each request of a session as a stream, with the message that answered it."""
    body = json.loads(gzip.open(FIXTURES / f"{name}.json.gz").read())
    messages = body["messages"]
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index > 0:
            asked = {**body, "stream": True, "messages": messages[:index]}
            yield json.dumps(asked, ensure_ascii=False).encode(), message


def steps(message, prompt, comments):
    """Returns the events before the first content, and those from the first content on."""

    def event(delta, finish=None, usage=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        data = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        return f"data: {json.dumps(data | ({'usage': usage} if usage else {}))}\n\n".encode()

    def pieces(text):
        return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]

    before = [b": PROCESSING\n\n"] * comments + [event({"role": "assistant", "content": ""})]
    text = message.get("content") or ""
    after = [event({"content": piece}) for piece in pieces(text if isinstance(text, str) else json.dumps(text))]
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call["function"]
        first = {"index": index, "id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": ""}}
        after.append(event({"tool_calls": [first]}))
        more = pieces(function["arguments"])
        after += [event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in more]
    usage = {"prompt_tokens": prompt, "completion_tokens": len(after), "total_tokens": prompt + len(after)}
    after += [event({}, "tool_calls" if message.get("tool_calls") else "stop", usage), b"data: [DONE]\n\n"]
    return before, after


async def read_head(reader):
    """Returns the first line of a head, and its fields."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = (line.split(":", 1) for line in lines[1:] if line)
    return lines[0], {name.lower(): value.strip() for name, value in fields}


class Exchange:
    """One request on its way: what the client has, and when."""

    def __init__(self, message):
        self.message = message
        self.head_at = None  # Time at which the client had the head.
        self.received = 0  # Bytes of the body that the client has.
        self.moved = asyncio.Event()
        self.held = None  # Steps that the model took while the client had nothing.
        self.held_bytes = 0
        self.steps = 0
        self.asked_at = self.content_at = None

    async def reached(self, count, seconds):
        """Whether the client has the head, and `count` bytes of the body, within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self.head_at is None or self.received < count:
                    self.moved.clear()
                    await self.moved.wait()
        except TimeoutError:
            return False
        return True


class Model:
    """A model that streams the recorded answers in steps, and refuses what exceeds its window."""

    def __init__(self, window, comments):
        self.window, self.comments = window, comments
        self.exchange = None

    async def serve(self, reader, writer):
        try:
            while True:
                _, fields = await read_head(reader)
                body = await reader.readexactly(int(fields["content-length"]))
                await self.answer(body, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    async def answer(self, body, writer):
        tokens = len(body) // 4
        if tokens > self.window:
            words = f"This model's maximum context length is {self.window} tokens. However, your messages resulted in {tokens} tokens."
            error = json.dumps({"error": {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}})
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(error)}\r\n\r\n"
            writer.write((head + error).encode())
            return await writer.drain()
        exchange = self.exchange
        before, after = steps(exchange.message, tokens, self.comments)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await writer.drain()
        sent, taken = 0, 1
        exchange.steps = 1 + len(before) + len(after)
        if await exchange.reached(0, PATIENCE):
            exchange.held = 0
        for index, event in enumerate(before + after):
            if index == len(before):
                exchange.content_at = time.monotonic()
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
            sent += len(event)
            is_content = index >= len(before)
            if await exchange.reached(sent, LIMIT if is_content or exchange.held is not None else PATIENCE):
                if exchange.held is None:
                    exchange.held, exchange.held_bytes = taken, sent - len(event)
            elif is_content or exchange.held is not None:
                raise SystemExit("the proxy withholds content")
            taken += 1
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def ask(reader, writer, body, exchange):
    """Sends a request, and notes in the exchange what arrives. Returns the status."""
    exchange.asked_at = time.monotonic()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: proxy\r\nauthorization: Bearer sk-none\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    line, fields = await read_head(reader)
    exchange.head_at = time.monotonic()
    exchange.moved.set()
    if "content-length" in fields:
        await reader.readexactly(int(fields["content-length"]))
    else:
        while size := int(await reader.readline(), 16):
            exchange.received += len(await reader.readexactly(size))
            await reader.readexactly(2)
            exchange.moved.set()
        await reader.readline()
    return line.split()[1]


async def measure(program, told, window, options):
    """Plays the sessions through a program, and returns the exchanges."""
    model = Model(window, options.comments)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = {"LONGHAUL_SUMMARY_MODEL": "none", "LONGHAUL_UPSTREAM_ASK": "false"}
    if told is not None:
        settings["LONGHAUL_WINDOW"] = str(told)
    arguments = ["--listen", "127.0.0.1:0", "--admin", "off", "--upstream", f"http://127.0.0.1:{port}/v1"]
    child = subprocess.Popen([program, *arguments], env=settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    exchanges = []
    try:
        listens = next(found for line in child.stdout if (found := ADDRESS.search(line)))
        reader, writer = await asyncio.open_connection(listens[1].decode(), int(listens[2]))
        for name in options.sessions:
            for body, message in requests(name):
                model.exchange = exchange = Exchange(message)
                status = await ask(reader, writer, body, exchange)
                if status == "200":
                    exchanges.append(exchange)
        writer.close()
    finally:
        child.kill()
        child.wait()
        server.close()
    return exchanges


def row(program, told, window, exchanges):
    """Returns a row of the table."""
    held = [exchange for exchange in exchanges if exchange.held]
    cells = [program, f"{told:,}" if told else "unknown", f"{window:,}", f"{len(held)} of {len(exchanges)}"]
    if held:
        kept = sorted({exchange.held for exchange in held})
        share = statistics.median(exchange.held / exchange.steps for exchange in held)
        ratio = statistics.median(
            (exchange.head_at - exchange.asked_at) / (exchange.content_at - exchange.asked_at) for exchange in held
        )
        size = max(exchange.held_bytes for exchange in held)
        cells += ["–".join(map(str, sorted({kept[0], kept[-1]}))), f"{size}", f"{100 * share:.1f}%", f"{ratio:.3f}"]
    else:
        cells += ["–"] * 4
    return f"| {' | '.join(cells)} |"


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--sessions", nargs="+", default=SESSIONS)
    parser.add_argument("--comments", type=int, default=0, help="keep-alives that the model sends before its answer")
    options = parser.parse_args()
    print("| program | window told | of the model | held | steps | bytes | of the reply's steps | time ratio |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for told, window in WINDOWS:
        for program in options.programs:
            exchanges = await measure(os.path.abspath(program), told, window, options)
            print(row(program, told, window, exchanges), flush=True)


asyncio.run(main())
