#!/usr/bin/env python3
"""Plays a recorded session of several windows through LiteLLM's proxy, whose guardrail asks longhaul.

    python3 -m venv target/litellm && target/litellm/bin/pip install 'litellm[proxy]==1.108.7'
    cargo build --locked --bin longhaul --example strict_model
    examples/litellm_proxy.py [SESSION.json.gz]

Behind LiteLLM is the strict model of strict_model.rs. Needs no network. Prints what the model received, and fails
if it refused a request, or if more than one request in eight changed the cached prefix.
"""

import gzip
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "target/debug"
LITELLM = Path(os.environ.get("LITELLM", ROOT / "target/litellm/bin/litellm"))
SESSION = ROOT / "fixtures/sessions/cli-0018.json.gz"
# A quarter of the session, as longhaul counts.
WINDOW = "32768"
# More than the session: the gateway never lets go of what the model said.
ROOM = "200000"
# LiteLLM refuses to start without a key.
KEY = f"sk-{secrets.token_hex(32)}"
CONFIG = """
model_list:
  - model_name: gpt-5.1
    litellm_params: {{model: openai/gpt-5.1, api_base: "{model}", api_key: none}}
guardrails:
  - guardrail_name: longhaul
    litellm_params: {{guardrail: headroom, mode: pre_call, default_on: true, api_base: "{longhaul}", timeout: 10}}
"""


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def post(url, body):
    data = json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def wait_for(url, log):
    for _ in range(600):
        try:
            return urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            time.sleep(0.2)
    sys.exit(f"nothing answers at {url}: {log.read_text()[-2000:]}")


def requests(body):
    """Returns the requests of a session: the messages before each message of the model, and all of them."""
    messages = body["messages"]
    ends = [at for at, it in enumerate(messages) if it["role"] == "assistant" and at > 0]
    return [messages[:end] for end in [*ends, len(messages)]]


def play(folder, session):
    strict = [PROGRAMS / "examples/strict_model", "--parts", folder / "parts", "--window", ROOM]
    (folder / "parts").mkdir()
    model = subprocess.Popen(strict, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    base = model.stdout.readline().strip()
    ports = [free_port(), free_port()]
    (folder / "config.yaml").write_text(CONFIG.format(model=base, longhaul=f"http://127.0.0.1:{ports[0]}"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LONGHAUL_")}
    longhaul = subprocess.Popen(
        [PROGRAMS / "longhaul", "--listen", f"127.0.0.1:{ports[0]}", "--upstream", base, "--window", WINDOW],
        env=clean | {"LONGHAUL_COMPRESS_ENABLED": "true", "HOME": str(folder)},
        stderr=(folder / "longhaul.log").open("w"),
    )
    gateway = subprocess.Popen(
        [LITELLM, "--config", folder / "config.yaml", "--host", "127.0.0.1", "--port", str(ports[1])],
        env=clean | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY},
        stdout=(folder / "litellm.log").open("w"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{ports[1]}"
        wait_for(f"{url}/health/liveliness", folder / "litellm.log")
        for messages in requests(session):
            body = {"model": "gpt-5.1", "messages": messages, "tools": session["tools"]}
            post(f"{url}/v1/chat/completions", body)
    finally:
        for process in (gateway, longhaul):
            process.terminate()
            process.wait()
        totals, _ = model.communicate()
    lines = (folder / "longhaul.log").read_text().splitlines()
    return json.loads(totals), sum("/v1/compress" in line and 'action="prune' in line for line in lines)


def main(path=SESSION):
    session = json.loads(gzip.open(path).read())
    with tempfile.TemporaryDirectory() as folder:
        totals, cleared = play(Path(folder), session)
    print(json.dumps(totals | {"requests_with_cleared_results": cleared}, indent=1))
    asked = len(requests(session))
    wrong = totals["accepted"] != asked or totals["broken"] or not cleared
    sys.exit(1 if wrong or totals["prefix_changes"] > asked / 8 else 0)


main(*sys.argv[1:])
