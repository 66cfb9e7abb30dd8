"""What the input of a conversation costs under the cache rules of its provider.

OpenAI finds the longest known prefix by itself, in steps of 128 tokens from 1,024 on. Anthropic stores and finds prefixes at
the marks of a request. No entry expires: each recorded session is one stretch of work. A token is four characters."""

import dataclasses
import hashlib
import json

import items
import program
import sessions
from sessions import CHAT, MESSAGES, RESPONSES

# The model whose prices and rules an API has, and its provider in the table of models.
MODELS = {CHAT: ("gpt-5.5", "openai"), RESPONSES: ("gpt-5.6-sol", "openai"), MESSAGES: ("claude-opus-5", "anthropic")}
TABLE = program.ROOT / "config" / "models" / "table.tsv"
CHARACTERS = 4
# OpenAI: the least tokens that a prefix has, and the step in which it grows.
LEAST, STEP = 1_024, 128
# Anthropic: the least tokens of a prefix of this model, and the positions that each mark searches, its own included.
MARKED_LEAST, LOOKBACK = 512, 20
# Blocks of which a run counts as one position.
RUNS = ("tool_use", "tool_result")


@dataclasses.dataclass(frozen=True)
class Price:
    """US dollars for a million tokens of input: not cached, read from the cache, and written to it."""

    new: float
    read: float
    write: float


def price(model, provider, table=TABLE):
    """The price of a model in the project's table. A write that has no price of its own costs what new input costs."""
    for line in table.read_text().splitlines():
        row = line.split("\t")
        if row[:2] == [model, provider]:
            new, read, write = row[5:8]
            return Price(float(new), float(read), float(write or new))
    raise SystemExit(f"no price of {model} at {provider} in {table}")


@dataclasses.dataclass
class Input:
    """Tokens of input by what they cost."""

    new: float = 0
    read: float = 0
    written: float = 0

    def __add__(self, other):
        return Input(self.new + other.new, self.read + other.read, self.written + other.written)

    def tokens(self):
        """All tokens."""
        return self.new + self.read + self.written

    def dollars(self, at):
        """The cost at a price."""
        return (self.new * at.new + self.read * at.read + self.written * at.write) / 1e6


def text(value):
    """A value as the text that a provider counts and compares."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def head(body):
    """What stands before the conversation: tools, and instructions outside of it."""
    return [text(body[name]) for name in ("tools", "instructions", "system") if body.get(name)]


class Automatic:
    """The prefix cache of OpenAI, for one conversation."""

    def __init__(self):
        self.known = set()

    def take(self, body, written):
        """The input of a request, of its body and its items as JSON. The cache keeps its prefixes."""
        whole = "".join([*head(body), *written]).encode("utf-32-le")
        count, size = len(whole) // 4 / CHARACTERS, STEP * CHARACTERS * 4
        chain, read, hits = b"", 0, True
        for at in range(0, len(whole) - size + 1, size):
            chain = hashlib.blake2b(chain + whole[at : at + size], digest_size=16).digest()
            hits = hits and chain in self.known
            read += STEP * hits
            self.known.add(chain)
        read = read if read >= LEAST else 0
        stored = count // STEP * STEP if count >= LEAST else 0
        return Input(count - max(stored, read), read, max(0, stored - read))


class Marked:
    """The prefix cache of Anthropic, for one conversation. A mark on the body counts as one on its last block."""

    def __init__(self):
        self.known = set()

    def take(self, body, _written):
        """The input of a request. The cache keeps the prefixes up to its marks."""
        ends = list(prefixes(body))
        marks = [end for end in ends if end.is_marked and end.tokens >= MARKED_LEAST]
        near = [
            end.tokens
            for end in ends
            if end.chain in self.known and any(mark.position - LOOKBACK < end.position <= mark.position for mark in marks)
        ]
        read, last = max(near, default=0), max((mark.tokens for mark in marks), default=0)
        self.known.update(mark.chain for mark in marks)
        written = max(0, last - read)
        return Input(ends[-1].tokens - read - written if ends else 0, read, written)


@dataclasses.dataclass
class End:
    """The end of a block: a digest of all before it, its tokens, its position, and whether it is marked."""

    chain: bytes
    tokens: float
    position: int
    is_marked: bool


def prefixes(body):
    """The ends of all blocks of a Messages body: tools, system, messages."""
    chain, size, position, last = b"", 0.0, -1, None
    found = []
    system = body.get("system") or []
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    for block in [one for item in (*(body.get("tools") or []), *system, *body["messages"]) for one in blocks(item)]:
        position += not (block.run and block.run == last)
        last = block.run
        chain = hashlib.blake2b(chain + block.written, digest_size=16).digest()
        size += block.tokens
        found.append(End(chain, size, position, block.is_marked))
    if found and body.get("cache_control"):
        found[-1].is_marked = True
    return found


@dataclasses.dataclass
class Block:
    """A block of a Messages body: its bytes with its role, its tokens, the run that it may belong to, and whether it is marked."""

    written: bytes
    tokens: float
    run: str | None
    is_marked: bool


@items.remembered
def blocks(item):
    """The blocks of a message; a tool or a block of the system prompt is one itself."""
    content = item["content"] if "role" in item else [item]
    found = []
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        inner = block["content"][-1:] if isinstance(block.get("content"), list) else []
        is_marked = any(isinstance(one, dict) and one.get("cache_control") for one in (block, *inner))
        written = item.get("role", "") + text(program.unmarked(block) if is_marked else block)
        run = block.get("type") if block.get("type") in RUNS else None
        found.append(Block(written.encode(), len(written) / CHARACTERS, run, is_marked))
    return found


def of(api):
    """A cache for a conversation of an API."""
    return Marked() if api is sessions.MESSAGES else Automatic()
