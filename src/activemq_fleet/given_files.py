"""Read a file that the operator names on the command line; imports nothing of the project."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_beginning_of_file_or_pipe(path: Path, limit: int) -> bytes:
    """Return at most ``limit`` bytes from the beginning of a file or pipe that the operator names.

    A shell makes a pipe of ``<(command)``.

    Raises OSError, also for a FIFO that no process has opened for writing: reading it would never end.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        descriptor = file.fileno()
        beginning = b""
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            try:
                beginning = os.read(descriptor, limit)
            except BlockingIOError:
                pass  # a process has opened it, and has not written yet
            else:
                if not beginning:
                    raise OSError(
                        0,
                        "the file is a FIFO (named pipe) to which no process writes: start the writer first",
                    )
        os.set_blocking(descriptor, True)
        return beginning + file.read(limit - len(beginning))
