"""packaging/systemd/notified.py BINARY: plays the service manager to `longhaul serve`.

Fails unless it reports READY=1 when both listeners accept, and STOPPING=1 after SIGTERM.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(pathlib.Path(folder) / "notify"))
    manager.settimeout(30)
    process = subprocess.Popen(
        [sys.argv[1], "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
        env={"NOTIFY_SOCKET": manager.getsockname(), "PATH": os.environ["PATH"]},
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    try:
        assert manager.recv(4096).strip() == b"READY=1"
        process.terminate()
        assert manager.recv(4096).strip() == b"STOPPING=1"
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
print("the service manager is told of the start and of the stop")
