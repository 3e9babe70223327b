"""Execution of the command line on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence

_TERMINAL_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "PAGER", "LESS", "COLUMNS", "LINES", "TERM")


def run_on_terminal(
    words: Sequence[str], *, rows: int = 24, columns: int = 80, environment: Mapping[str, str] | None = None
) -> str:
    """Return the output of a Python program (``-m activemq_fleet …``) on a terminal, including its stderr."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in _TERMINAL_VARIABLES}
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**inherited, "TERM": "xterm-256color", **(environment or {})},
    )
    os.close(child)
    parts = []
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # Linux: the other side was closed
            break
        if not part:
            break
        parts.append(part)
    os.close(parent)
    process.wait()
    return b"".join(parts).decode().replace("\r\n", "\n")
