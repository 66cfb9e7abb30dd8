#!/usr/bin/env python3
"""Asks a live provider what the compaction of longhaul's `summary.model = "provider"` depends on.

    OPENAI_API_KEY=… examples/provider_compaction.py openai [MODEL]
    ANTHROPIC_API_KEY=… examples/provider_compaction.py anthropic [MODEL]

Makes about ten short calls, within a few cents and five minutes. Prints statuses, fields and counts, and never a
key, a signature or an encrypted text. OPENAI_BASE_URL and ANTHROPIC_BASE_URL select another host.
"""

import json
import os
import sys
import urllib.error
import urllib.request

BINDING = "thinking-binding-controls-2026-08-01"
COMPACT = "compact-2026-09-04"
SECRETS = ("encrypted_content", "signature", "data")


def shown(value):
    """Returns a value without its sealed texts."""
    if isinstance(value, dict):
        return {k: f"<{len(v or '')} characters>" if k in SECRETS else shown(v) for k, v in value.items()}
    return [shown(it) for it in value] if isinstance(value, list) else value


def post(url, headers, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=180) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refused:
        text = refused.read().decode(errors="replace")
        try:
            return refused.code, json.loads(text)
        except ValueError:
            return refused.code, {"error": text[:300]}


def report(point, status, reply, *fields):
    found = {field: shown(reply[field]) for field in (*fields, "error") if reply.get(field)}
    print(f"{point}\n    {status} {json.dumps(found)[:900]}")


def openai(model):
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}

    def ask(items, **members):
        body = {"model": model, "store": False, "include": ["reasoning.encrypted_content"], "tools": [tool],
                "reasoning": {"effort": "medium"}, "input": items, **members}
        return post(base + "/responses", headers, body)

    def user(text):
        return {"type": "message", "role": "user", "content": text}

    items = [user("The code word is 'heron'. Think about 17 * 23, then call look.")]
    ends = []
    for step in range(3):
        status, reply = ask(items)
        report(f"step {step}", status, reply, "usage", "input_transformations")
        ends.append(len(items))
        items += reply.get("output", [])
        for call in [it for it in reply.get("output", []) if it["type"] == "function_call"]:
            items.append({"type": "function_call_output", "call_id": call["call_id"], "output": f"result {step}"})
        items.append(user("Think about the next step, then call look once more."))
    edited = [user("The code word is 'stork'."), *items[1:]]
    report("11.1 entries of input_transformations after an edit", *ask(edited), "input_transformations")
    bare = [it for it in items if it.get("type") != "reasoning"]
    report("11.1 calls with ids and without their reasoning", *ask(bare), "input_transformations")
    cut = ends[1]
    status, order = ask([*items[:cut], {"type": "compaction_trigger"}])
    report("2 an order by the trigger", status, order, "usage", "output")
    item = next((it for it in order.get("output", []) if it["type"] == "compaction"), None)
    if item is None:
        return
    swapped = [item, *items[cut:], user("Which code word did I name?")]
    report("11.2 the item is exempt: no entry expected", *ask(swapped), "input_transformations", "output")
    headed = [user("Be brief."), *swapped]
    report("11.2 the item behind a head", *ask(headed), "input_transformations")
    other = os.environ.get("OTHER_MODEL", "gpt-6-astra")
    report(f"11.2 the item at {other}", *ask(swapped, model=other), "input_transformations")
    report("11.1 another end user", *ask(swapped, safety_identifier="another"), "input_transformations")
    sealed = item["encrypted_content"]
    damaged = {**item, "encrypted_content": sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:]}
    report("2 a damaged item", *ask([damaged, *swapped[1:]]))
    report("2 /responses/compact", *post(base + "/responses/compact", headers, {"model": model, "input": items[:cut]}),
           "usage")


def anthropic(model):
    base = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    key = os.environ["ANTHROPIC_API_KEY"]
    # A login of Claude is a bearer token.
    login = key.startswith("sk-ant-oat")
    credential = {"authorization": "Bearer " + key} if login else {"x-api-key": key}
    tool = {"name": "look", "input_schema": {"type": "object", "properties": {}}}

    def ask(messages, *betas, path="/v1/messages", **members):
        body = {"model": model, "max_tokens": 4000, "system": "Be brief.", "tools": [tool], "messages": messages,
                "thinking": {"type": "adaptive"}, **members}
        if path.endswith("count_tokens"):
            del body["max_tokens"]
        betas = [*betas, "oauth-2025-04-20"] if login else betas
        head = {**credential, "anthropic-version": "2023-06-01"}
        return post(base + path, {**head, "anthropic-beta": ",".join(betas)} if betas else head, body)

    def user(text):
        return {"role": "user", "content": text}

    messages, ends = [user("The code word is 'heron'. Think about 17 * 23, then call look.")], []
    for step in range(3):
        status, reply = ask(messages)
        report(f"step {step}", status, reply, "usage", "stop_reason")
        ends.append(len(messages))
        messages.append({"role": "assistant", "content": reply.get("content", [])})
        calls = [it for it in reply.get("content", []) if it["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": it["id"], "content": f"result {step}"} for it in calls]
        messages.append(user([*results, {"type": "text", "text": "Think, then call look once more."}]))
    strict = {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}}
    edited = [user("The code word is 'stork'."), *messages[1:]]
    report("11.3 outcome of an edit by the model's rule", *ask(edited, BINDING), "input_transformations")
    report("11.4 outcome of an edit with 'error'", *ask(edited, BINDING, **strict))
    cut = ends[1]
    status, order = ask(messages[:cut], COMPACT, compaction={"type": "summarize"})
    report("3 an order on demand", status, order, "usage", "stop_reason", "content")
    block = next((it for it in order.get("content", []) if it["type"] == "compaction"), None)
    if block is None:
        return
    swapped = [{"role": "assistant", "content": [block]}, *messages[cut:]]
    report("3.6 the thinking of kept turns holds: 200 and [] expected", *ask(swapped, COMPACT, BINDING, **strict),
           "input_transformations")
    beside = [user([block, {"type": "text", "text": "Rules: be kind."}]), *messages[cut:]]
    report("11.4 text behind the block in its message", *ask(beside, COMPACT, BINDING, **strict))
    edits = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
    report("11.3 clear_thinking beside a block", *ask(swapped, COMPACT, "context-management-2025-06-27", **edits))
    report("3.4 the block without the header", *ask(swapped))
    report("9.33 a count with the block", *ask(swapped, COMPACT, path="/v1/messages/count_tokens"), "input_tokens")
    again = [*swapped, user("Go on.")]
    report("3.3 compaction of a compaction", *ask(again, COMPACT, compaction={"type": "summarize"}), "stop_reason")


if __name__ == "__main__":
    providers = {"openai": (openai, "gpt-6.2-sol"), "anthropic": (anthropic, "claude-opus-5-5")}
    if len(sys.argv) < 2 or sys.argv[1] not in providers:
        sys.exit(__doc__)
    probe, default = providers[sys.argv[1]]
    probe(sys.argv[2] if len(sys.argv) > 2 else default)
