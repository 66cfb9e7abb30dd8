"""Rules that a request must obey, by their names in `fixtures/validity.json`, `responses_validity.json` and `messages/validity.json`.

Only rules that a body alone can break, that every recorded session obeys, and that a way of compacting could break."""

import json
import re

import program
from sessions import CHAT, MESSAGES, RESPONSES

FILES = {CHAT: "validity.json", RESPONSES: "responses_validity.json", MESSAGES: "messages/validity.json"}
ID = re.compile(r"[a-zA-Z0-9_-]+")
MARKS = 4


def is_json(value):
    """Whether a text is JSON."""
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def pairing(api):
    """What is wrong with calls and their results: the name of the rule."""
    forward, back = NAMES[api][:2]

    def broken(body):
        why = program.fault(api, body, float("inf"), lambda _: 0)
        return {None: None, "a tool result without its call": back}.get(why, forward)

    return broken


def chat(body):
    """The names of the rules that a chat breaks, pairs aside."""
    for message in body["messages"]:
        role, content, calls = message["role"], message.get("content"), message.get("tool_calls")
        if role == "assistant" and not calls and content is None and not message.get("refusal"):
            yield "assistant-null"
        if role == "tool" and not (isinstance(content, str) or all(part.get("type") == "text" for part in content or [{}])):
            yield "tool-content"
        for call in calls or []:
            if not is_json(call["function"]["arguments"] or "{}"):
                yield "tool-call-args"


def responses(body):
    """The names of the rules that a Responses request breaks, pairs aside."""
    seen, items = set(), body["input"]
    if not items:
        yield "r-not-empty"
    for at, item in enumerate(items):
        kind, after = item.get("type", "message"), items[at + 1] if at + 1 < len(items) else {}
        if item.get("id") in seen:
            yield "r-duplicate"
        seen |= {item["id"]} if item.get("id") else set()
        if kind == "reasoning":
            if "summary" not in item:
                yield "r-reasoning-shape"
            if not (after.get("role") == "assistant" or after.get("type", "").endswith("_call") or after.get("type") == "reasoning"):
                yield "r-reasoning-follow"
        if kind == "message" and item.get("role") not in ("user", "assistant", "system", "developer"):
            yield "r-roles"
        if item.get("role") == "assistant" and isinstance(item.get("content"), list):
            if any(part.get("type") not in ("output_text", "refusal") for part in item["content"]):
                yield "r-assistant-parts"
        if kind in ("function_call_output", "custom_tool_call_output") and not isinstance(item.get("output"), (str, list)):
            yield "r-output-shape"


def messages(body):
    """The names of the rules that a Messages request breaks, pairs aside."""
    seen, marks = set(), 0
    if not body["messages"] or body["messages"][0]["role"] != "user":
        yield "m-first-user"
    for at, message in enumerate(body["messages"]):
        role, content = message["role"], message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks and not (role == "assistant" and at + 1 == len(body["messages"])):
            yield "m-nonempty-message"
        kinds = [block.get("type") for block in blocks]
        if "tool_result" in kinds and kinds[: kinds.count("tool_result")] != ["tool_result"] * kinds.count("tool_result"):
            yield "m-result-first"
        if kinds and kinds[-1] in ("thinking", "redacted_thinking"):
            yield "m-thinking-last"
        for block in blocks:
            kind = block.get("type")
            marks += "cache_control" in block
            if kind == "text" and not block.get("text"):
                yield "m-text-nonempty"
            if kind == "thinking" and not block.get("signature"):
                yield "m-thinking-signature"
            if (kind == "tool_use" and role != "assistant") or (kind == "tool_result" and role != "user"):
                yield "m-result-role"
            if kind == "tool_use":
                if block["id"] in seen:
                    yield "m-use-unique"
                seen.add(block["id"])
                if not isinstance(block.get("input"), dict):
                    yield "m-use-input-object"
                if not ID.fullmatch(block["id"]):
                    yield "m-id-pattern"
    system = body.get("system")
    marks += sum("cache_control" in block for block in system) if isinstance(system, list) else 0
    marks += sum("cache_control" in tool for tool in body.get("tools") or []) + ("cache_control" in body)
    if marks > MARKS:
        yield "m-cache-4"


NAMES = {
    CHAT: ("tool-pair-fwd", "tool-pair-back", "assistant-null", "tool-content", "tool-call-args"),
    RESPONSES: (
        "r-pair-fwd", "r-pair-back", "r-not-empty", "r-duplicate", "r-reasoning-shape", "r-reasoning-follow", "r-roles",
        "r-assistant-parts", "r-output-shape",
    ),
    MESSAGES: (
        "m-pair-fwd", "m-pair-back", "m-first-user", "m-nonempty-message", "m-result-first", "m-thinking-last", "m-text-nonempty",
        "m-thinking-signature", "m-result-role", "m-use-unique", "m-use-input-object", "m-id-pattern", "m-cache-4",
    ),
}  # fmt: skip
OTHERS = {CHAT: chat, RESPONSES: responses, MESSAGES: messages}


def broken(api, body):
    """The names of the rules that a request breaks."""
    try:
        pair = pairing(api)(body)
        found = sorted({*([pair] if pair else []), *OTHERS[api](body)})
        assert set(found) <= set(NAMES[api]), found
        return found
    except (KeyError, TypeError, AttributeError) as error:
        return [f"no request of this API: {error!r}"]
