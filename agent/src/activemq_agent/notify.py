"""Tells systemd the agent's state: READY, STATUS, WATCHDOG, STOPPING (sd_notify(3)).

Without systemd nothing is sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """A sender of the agent's state to systemd's ``NOTIFY_SOCKET``, found in ``environment`` (default: os.environ).

    ``interval``: seconds between two ``WATCHDOG=1`` that keep the watchdog content; None if there is no watchdog.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        path = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of an abstract address; anything but a path is of no socket that we know.
        self._address = f"\0{path[1:]}" if path.startswith("@") else path if path.startswith("/") else ""
        self.interval = _interval(environment)

    def send(self, *lines: str) -> bool:
        """Send assignments such as ``READY=1`` to systemd; return whether they were sent.

        Errors of systemd's socket are ignored.
        """
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(1.0)
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return False
        return True


def _interval(environment: Mapping[str, str]) -> float | None:
    """Return half of systemd's watchdog timeout, in seconds (sd_watchdog_enabled(3)).

    Returns None if systemd has no watchdog for this process.
    """
    microseconds, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdecimal() or int(microseconds) == 0 or pid != str(os.getpid()):
        return None
    return int(microseconds) / 2_000_000


class StallDetector:
    """A detector of stalled loops: those that began no new turn since the last time when all loops had."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def stalled_loops(self, ticks: Mapping[str, float]) -> tuple[str, ...]:
        """Return the names of loops whose last turn, a time in ``ticks``, has not changed since all loops last
        advanced.
        """
        stalled = tuple(name for name, tick in ticks.items() if self._last.get(name) == tick)
        if not stalled:
            self._last = dict(ticks)
        return stalled
