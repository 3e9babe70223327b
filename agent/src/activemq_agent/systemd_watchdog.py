"""Decides when the agent reports to systemd's watchdog: the interval, and whether a loop of the agent is stalled.

The notifier also sends READY, STATUS and STOPPING. ``systemd_notification`` contains the code of the socket.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from activemq_agent.systemd_notification import notify_systemd


class SystemdNotifier:
    """A notifier of systemd, which sends the agent's state (sd_notify(3)).

    ``NOTIFY_SOCKET`` of ``environment`` (default: os.environ) names systemd's socket. ``interval``: seconds between two
    ``WATCHDOG=1`` that keep the watchdog content; None if there is no watchdog.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self.interval = _watchdog_interval(self._environment)

    def send_assignments_to_systemd(self, *assignments: str) -> bool:
        """Send assignments such as ``READY=1`` to systemd; return whether they were sent.

        Errors of systemd's socket are ignored.
        """
        return notify_systemd(*assignments, environment=self._environment)


def _watchdog_interval(environment: Mapping[str, str]) -> float | None:
    """Return the interval of notifications to systemd's watchdog in seconds: half of its timeout.

    Returns None if systemd has no watchdog for this process (sd_watchdog_enabled(3)).
    """
    microseconds, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdecimal() or int(microseconds) == 0 or pid != str(os.getpid()):
        return None
    return int(microseconds) / 2_000_000


class StallDetector:
    """A detector of stalled loops of an agent: threads that no longer begin new iterations of their loop.

    A loop is stalled if it began no new iteration since the last moment at which all loops had begun one.
    """

    def __init__(self) -> None:
        self._last_ticks: dict[str, float] = {}

    def stalled_loops(self, ticks: Mapping[str, float]) -> tuple[str, ...]:
        """Return the names of the agent's stalled loops, which no longer begin new iterations.

        ``ticks`` has, by loop, the time at which it began its last iteration.
        """
        stalled = tuple(name for name, tick in ticks.items() if self._last_ticks.get(name) == tick)
        if not stalled:
            self._last_ticks = dict(ticks)
        return stalled
