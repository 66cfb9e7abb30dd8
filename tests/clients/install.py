"""Installs a client into target/clients, if its packages are not there already."""

import os
import platform
import shutil
import subprocess
import sys

# The oldest Node that the clients run on, and the one that is installed where there is none.
NODE_MAJOR = 22
NODE = "24.21.0"

QUIET = ["--loglevel=error", "--no-audit", "--no-fund"]


class NotInstalled(Exception):
    """Why a client could not be installed."""


def install(root, client):
    """The folder that the client is in."""
    home = root / "target/clients" / client.folder
    stamp = home / "installed.txt"
    wanted = "\n".join(client.packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (pip if client.registry == "pip" else npm)(root, home, client.packages)
        stamp.write_text(wanted)
    return home


def pip(_root, home, packages):
    carry_out([sys.executable, "-m", "venv", home])
    carry_out([home / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages])


def npm(root, home, packages):
    path = f"{node(root).parent}{os.pathsep}{os.environ['PATH']}"
    carry_out(["npm", "install", *QUIET, "--prefix", home, *packages], PATH=path)


def node(root):
    """A Node that is new enough: the machine's own, or one from the registry."""
    own = shutil.which("node")
    if own:
        version = subprocess.run([own, "--version"], capture_output=True, text=True).stdout
        if int(version.lstrip("v").split(".")[0]) >= NODE_MAJOR:
            return root / own
    cpu = {"aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "x64")
    package = f"node-{platform.system().lower()}-{cpu}"
    home = root / "target/clients/node"
    if not (home / "node_modules" / package).exists():
        home.mkdir(parents=True, exist_ok=True)
        carry_out(["npm", "install", *QUIET, "--prefix", home, f"{package}@{NODE}"])
    return home / "node_modules" / package / "bin/node"


def carry_out(command, **environment):
    everything = {**os.environ, **environment}
    try:
        done = subprocess.run(command, env=everything, capture_output=True, text=True)
    except OSError as error:
        raise NotInstalled(error) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        # npm gives a code, the reason and advice; pip ends with the reason.
        why = said[1:2] if command[0] == "npm" else said[-1:]
        raise NotInstalled(*why or [f"{command[0]} ended with {done.returncode}"])
