"""image.py IMAGE ROOT: starts the image that IMAGE describes in its file system at ROOT, which is
mounted read-only, as its own user, and sends one request through it to an upstream on loopback."""

import ctypes
import errno
import http.client
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
from fcntl import ioctl
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

# Longer than any step takes on any machine.
DEADLINE_S = 30
NOBODY = 65532
# Odd spacing and spelling, which a proxy that wrote the JSON again would change.
QUESTION = b'{ "model":"m",  "messages":[{"role":"user","content":"caf\\u00e9?"}]}'
ANSWER = b'{"id":"1","object":"chat.completion","choices":[ {"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"oui"}}]}'


def main(image: Path, root: Path) -> None:
    config = json.loads(image.read_text())["Docker"]["config"]
    check_config(config)
    check_files(root)
    loopback_up()
    asked: queue.Queue[bytes] = queue.Queue()
    upstream = HTTPServer(("127.0.0.1", 0), upstream_that_notes(asked))
    threading.Thread(target=upstream.serve_forever, daemon=True).start()

    environment = dict(pair.split("=", 1) for pair in config["Env"])
    environment |= {"LONGHAUL_LOG_LEVEL": "warn", "LONGHAUL_UPSTREAM_ASK": "false"}
    environment["LONGHAUL_UPSTREAM"] = f"http://127.0.0.1:{upstream.server_port}/v1"
    proxy = start(root, config["Entrypoint"], environment)
    try:
        check_process(proxy.pid)
        check_request(asked)
        check_health(root, config["Healthcheck"]["Test"], environment)
    finally:
        proxy.send_signal(signal.SIGTERM)
    equal("its exit code after SIGTERM", proxy.wait(DEADLINE_S), 0)
    print("the image: built, started as 65532 on a read-only root, one request through it")


def check_config(config: dict) -> None:
    equal("the image's user", config["User"], f"{NOBODY}:{NOBODY}")
    equal("its ports", sorted(config["ExposedPorts"]), ["8484/tcp", "8485/tcp"])
    equal("its health check", config["Healthcheck"]["Test"][0], "CMD")


def check_files(root: Path) -> None:
    shells = [path for path in root.rglob("*") if path.name in ("sh", "bash", "dash", "busybox")]
    equal("shells in the image", shells, [])
    equal("the owner of the store's folder", (root / "var/lib/longhaul").stat().st_uid, NOBODY)
    # Only a read-only mount prevents the owner of a folder from writing to it.
    for folder in ("var/lib/longhaul", "tmp", "home/nonroot"):
        equal(f"writing to /{folder}", as_nobody(root, folder), errno.EROFS)


def as_nobody(root: Path, folder: str) -> int:
    """What the image's user is told when it makes a file in `folder`; 0 is success."""
    child = os.fork()
    if child == 0:
        try:
            become_nobody(root)
            os.open(f"/{folder}/x", os.O_CREAT | os.O_WRONLY)
        except OSError as refused:
            os._exit(refused.errno or 255)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def become_nobody(root: Path) -> None:
    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    PR_SET_NO_NEW_PRIVS = 38
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def run(root: Path, command: list[str], environment: dict, **more) -> subprocess.Popen:
    def enter() -> None:
        become_nobody(root)

    return subprocess.Popen(command, env=environment, preexec_fn=enter, **more)


def start(root: Path, entrypoint: list[str], environment: dict) -> subprocess.Popen:
    """The image's process, once it says that it listens."""
    proxy = run(root, entrypoint, environment, stdout=subprocess.PIPE, text=True)
    said: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in proxy.stdout:
            said.put(line)
        said.put("")

    threading.Thread(target=read, daemon=True).start()
    while line := said.get(timeout=DEADLINE_S):
        if "8484 →" in line:
            return proxy
    sys.exit(f"the image ended before it listened, with {proxy.wait(DEADLINE_S)}")


def check_process(pid: int) -> None:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    equal("its users", status["Uid"].split(), [str(NOBODY)] * 4)
    equal("its groups", status["Gid"].split(), [str(NOBODY)] * 4)
    equal("its capabilities", int(status["CapEff"], 16), 0)


def check_request(asked: queue.Queue) -> None:
    client = http.client.HTTPConnection("127.0.0.1", 8484, timeout=DEADLINE_S)
    headers = {"content-type": "application/json", "authorization": "Bearer k"}
    client.request("POST", "/v1/chat/completions", QUESTION, headers)
    answer = client.getresponse()
    equal("the status of the answer", answer.status, 200)
    equal("the answer", answer.read(), ANSWER)
    equal("what the upstream was sent", asked.get(timeout=DEADLINE_S), QUESTION)


def check_health(root: Path, test: list[str], environment: dict) -> None:
    asked = run(root, test[1:], environment, stdout=subprocess.DEVNULL)
    equal(f"the exit code of {test[1:]}", asked.wait(DEADLINE_S), 0)


def upstream_that_notes(asked: queue.Queue) -> type[BaseHTTPRequestHandler]:
    class Upstream(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.put(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    return Upstream


def loopback_up() -> None:
    """Switches `lo` on, which is off in a new network namespace (netdevice(7))."""
    SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", ioctl(any_socket, SIOCGIFFLAGS, asked), 16)
        ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
