"""A client that has only a screen: a terminal for it, and somebody who types."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

# Sequences that move the cursor or set colours, without text.
CONTROL = re.compile(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b[\]P][^\x07\x1b]*(\x07|\x1b\\)|\x1b.")
ROWS, COLUMNS = 50, 160


def converse(command, talk, limit_s, log, **options):
    """Runs a command in a terminal: for each pair in `talk`, waits until it has shown the first
    text since the last one, and types the second. Its exit code; none if it took too long."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, **options
    )
    os.close(slave)
    late = threading.Timer(limit_s, os.killpg, [process.pid, signal.SIGKILL])
    late.start()
    shown, steps = "", iter(talk)
    expected, typed = next(steps)
    for piece in pieces(master):
        log.write(piece)
        shown += piece
        if expected and expected in CONTROL.sub("", shown):
            os.write(master, f"{typed}\r".encode())
            shown = ""
            expected, typed = next(steps, (None, None))
    code = process.wait()
    overdue = not late.is_alive()
    late.cancel()
    os.close(master)
    return None if overdue else code


def pieces(master):
    """What is shown, until nobody is left to show anything."""
    while True:
        try:
            piece = os.read(master, 65_536)
        except OSError:
            return
        if not piece:
            return
        yield piece.decode(errors="replace")
