"""Read from the systemd journal of a watchdog which hung brokers it killed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from activemq_fleet.node.printable import printable
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.node.watchdog.hang_detection import HUNG_MESSAGE, KILL_FAILED

WATCHDOG_JOURNAL = re.compile(r"journal/[^/]+-watchdog\.service\.log")
"""The path of the journal below the directory that ``collect`` writes for a host."""
_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<zone>[+-]\d\d:?\d\d|Z) \S+ \S+?: (?P<message>.*)"
)
"""A line of ``journalctl --output=short-iso`` or ``short-iso-precise``."""
_KEPT = 1000
"""Kills of a host that count, the newest. A watchdog kills at most three times within an hour."""
_LONGEST = 300  # characters of a reason


@dataclass(frozen=True, slots=True)
class WatchdogKill:
    """The kill of a hung broker by the watchdog of ``host``, at the time ``at`` of the host's clock.

    ``unanswered_since`` is the time of the first check without an answer. ``reason`` describes the state of the broker
    in words of the watchdog.
    """

    host: str
    unanswered_since: datetime
    at: datetime
    reason: str


def kills_in_journal(host: str, content: bytes) -> tuple[WatchdogKill, ...]:
    """Return the kills that a watchdog's journal reports, sorted by time. Other lines are ignored."""
    kills: list[WatchdogKill] = []
    for at, message in _messages_in(content):
        hung = HUNG_MESSAGE.match(message)
        if hung is not None and "The watchdog kills it" in message:
            since = at - timedelta(seconds=int(hung["seconds"]))
            kills.append(WatchdogKill(host, since, at, printable(hung["reason"])[:_LONGEST]))
        elif kills and message.startswith(KILL_FAILED):
            kills.pop()
    return tuple(sorted(kills, key=lambda kill: kill.at)[-_KEPT:])


def _messages_in(content: bytes) -> Iterator[tuple[datetime, str]]:
    """Yield time and message of each line of a journal that has both."""
    for line in split_lines(content.decode("utf-8", errors="replace")):
        if match := _LINE.match(line):
            zone = match["zone"].replace("Z", "+00:00")
            try:
                at = datetime.fromisoformat(f"{match['time'].replace(',', '.')}{zone}").astimezone(UTC)
            except (ValueError, OverflowError):
                continue
            yield at, match["message"]
