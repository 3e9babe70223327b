# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The broker's process, found by what its command line says, never by a pid file."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Process:
    """A running Java process.

    ``started`` is in seconds since the machine booted, the clock of /proc, which no change of the
    wall clock moves; ``state`` is the letter of /proc, ``T`` for one that was stopped.
    """

    pid: int
    started: float
    state: str
    command: tuple[str, ...]

    @property
    def since(self) -> float:
        """When it was started, in seconds since the epoch."""
        return time.time() - (uptime() - self.started)


def uptime() -> float:
    """Seconds since the machine booted, time asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Changes with every boot; empty where the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def read_process(pid: int) -> Process | None:
    """The process with this id, or None when it is gone, dead or nobody's business."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = tuple(part.decode(errors="replace") for part in file.read().split(b"\0")[:-1])
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    state = fields[0].decode()
    if not command or state in ("Z", "X"):
        return None
    return Process(pid, int(fields[19]) / os.sysconf("SC_CLK_TCK"), state, command)


def find_broker(base: str) -> Process | None:
    """The oldest process that was started with ``-Dactivemq.base=BASE``, or None."""
    wanted = f"-Dactivemq.base={base}"
    marked = wanted.encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if marked not in file.read():
                    continue
        except OSError:
            continue
        process = read_process(int(name))
        # A control command (stop, query) carries the same property; only start runs a broker.
        if process and wanted in process.command and "start" in process.command:
            found.append(process)
    return min(found, key=lambda process: process.started) if found else None
