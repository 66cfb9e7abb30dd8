"""Installs a client into target/clients, if its packages are not there already."""

import os
import platform
import shutil
import subprocess
import sys

# The oldest Node that the clients run on, and the Node that is installed if the machine has none.
NODE_MAJOR = 22
NODE = "24.21.0"

# Limit of one attempt. npm waits forever for a registry that stops in the middle of a file.
LIMIT_S = "600"
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


def pip(root, home, packages):
    carry_out([sys.executable, "-m", "venv", home])
    quiet = ["--quiet", "--disable-pip-version-check"]
    fetch(root, [home / "bin/pip", "install", *quiet, *packages])


def npm(root, home, packages):
    path = f"{node(root).parent}{os.pathsep}{os.environ['PATH']}"
    fetch(root, ["npm", "install", *QUIET, "--prefix", home, *packages], PATH=path)


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
        fetch(root, ["npm", "install", *QUIET, "--prefix", home, f"{package}@{NODE}"])
    return home / "node_modules" / package / "bin/node"


def fetch(root, command, **environment):
    """Runs a command that needs the network, three times at most."""
    carry_out([root / ".ci/retry", LIMIT_S, *command], **environment)


def carry_out(command, **environment):
    everything = {**os.environ, **environment}
    try:
        done = subprocess.run(command, env=everything, capture_output=True, text=True)
    except OSError as error:
        raise NotInstalled(error) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        # npm gives a code, the reason and advice; pip ends with the reason. The last line is that of retry.
        why = said[1:2] if "npm" in command else said[-2:-1]
        raise NotInstalled(*why or [f"{command[0]} ended with {done.returncode}"])
