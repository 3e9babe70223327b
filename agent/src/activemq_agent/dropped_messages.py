"""What was received and thrown away: counted for the metrics, and logged without letting a sender fill the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from activemq_agent.link import Log

LOG_EVERY = 60.0
"""Seconds between two lines about the same reason."""
LONGEST_VALUE = 200
"""Characters of a value that are logged; whoever sends chooses its length."""


class DroppedMessages:
    """Counts by reason. Reasons are words of this program, never of a sender, so that there are few of them."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._log, self._clock = log, clock
        self._logged_at: dict[str, float] = {}

    def note(self, reason: str, **fields: Any) -> None:
        """Count something that was dropped, and log the reason unless that was done within the last minute."""
        self.counts[reason] += 1
        now = self._clock()
        if now - self._logged_at.get(reason, -LOG_EVERY) >= LOG_EVERY:
            self._logged_at[reason] = now
            short = {name: str(value)[:LONGEST_VALUE] for name, value in fields.items()}
            self._log.warning("received and dropped", reason=reason, so_far=self.counts[reason], **short)
