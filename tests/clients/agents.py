"""Agents that speak several APIs, and are told which by a file of settings."""

import json

from client import KEY, Start


def opencode(package, base_of, model):
    """OpenCode, with a provider of the AI SDK."""

    def start(at):
        provider = {
            "npm": package,
            "options": {"baseURL": base_of(at), "apiKey": "{env:LONGHAUL_TEST_KEY}"},
            "models": {model: {"limit": {"context": 1_000_000, "output": 4_096}}},
        }
        settings = {"provider": {"longhaul": provider}, "autoupdate": False, "share": "disabled"}
        return Start(
            [at.client / "node_modules/.bin/opencode", "run", "-m", f"longhaul/{model}", at.task],
            {
                "LONGHAUL_TEST_KEY": KEY,
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
            },
            {".config/opencode/opencode.json": json.dumps(settings)},
        )

    return start


def pi(api, base_of, model, **more):
    """pi, with an API of its own list, and more members of the model."""

    def start(at):
        provider = {
            "baseUrl": base_of(at),
            "api": api,
            "apiKey": "$LONGHAUL_TEST_KEY",
            "models": [{"id": model, "contextWindow": 1_000_000, "maxTokens": 4_096, **more}],
        }
        return Start(
            [
                at.node, at.client / "node_modules/.bin/pi", "--provider", "longhaul",
                "--model", model, "--print", at.task,
            ],
            {"LONGHAUL_TEST_KEY": KEY, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
            {".pi/agent/models.json": json.dumps({"providers": {"longhaul": provider}})},
        )  # fmt: skip

    return start


def with_version(at):
    """longhaul's base URL, with /v1."""
    return at.base


def without_version(at):
    """longhaul's base URL, without /v1."""
    return at.base.removesuffix("/v1")
