"""Counts what was received and thrown away, for the metrics, and logs it without letting a sender fill the log."""

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
    """Counters of dropped messages by reason; a reason is a short text of this program, not of the message's sender."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._log, self._clock = log, clock
        self._logged_at: dict[str, float] = {}

    def note(self, reason: str, **fields: Any) -> None:
        """Count one dropped message under ``reason``.

        Log it with ``fields`` unless ``reason`` was logged within the last minute.
        """
        self.counts[reason] += 1
        now = self._clock()
        if now - self._logged_at.get(reason, -LOG_EVERY) >= LOG_EVERY:
            self._logged_at[reason] = now
            short = {name: str(value)[:LONGEST_VALUE] for name, value in fields.items()}
            self._log.warning("received and dropped", reason=reason, so_far=self.counts[reason], **short)
