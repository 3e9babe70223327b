"""Reads the store beside its writer: events to send, messages to handle, journal to export; checks every checksum."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from activemq_agent.errors import AgentError
from activemq_agent.store import inbox, outbox
from activemq_agent.store.rows import Incoming, JournalRecord, Outgoing, checksum
from activemq_agent.store.schema import EVENT_COLUMNS, connect

MOST_LINES = 4 << 20
"""Bytes of the journal that are read at once: senders choose how long topics, and so records, are."""


def _within(most: int, sizes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the first (key, size) pairs whose sizes together are at most ``most``; at least one, if there is any."""
    sums = itertools.accumulate(size or 0 for _, size in sizes)
    return [sizes[at] for at, total in enumerate(sums) if not at or total <= most]


class Reader:
    """A read-only connection to the store, for any thread; each call sees what was committed before it began."""

    def __init__(self, path: Path) -> None:
        self._db = connect(path, readonly=True)
        self._lock = threading.Lock()
        self._bad: set[tuple[str, int]] = set()

    @property
    def damaged(self) -> int:
        """The number of rows that failed their checksum.

        They are never handed out, and are set aside at the next start.
        """
        return len(self._bad)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return all rows of a query. Raises AgentError if the file cannot be read."""
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise AgentError(
                    f"the store cannot be read ({error}): restart the agent, which keeps what is readable"
                ) from error

    def outgoing(self, limit: int, after: int, now: float, attempts: Callable[[int], int]) -> list[Outgoing]:
        """Return at most ``limit`` events of the outbox to be sent next, in order; expired ones are left out."""
        found: list[Outgoing] = []
        while len(found) < limit:
            rows = self.rows(
                f"SELECT {EVENT_COLUMNS} FROM outbox WHERE place > ? AND deadline > ? "  # noqa: S608 -- a constant
                "ORDER BY place LIMIT ?",
                after,
                now,
                limit - len(found),
            )
            if not rows:
                break
            after = rows[-1][0]
            whole = [row for row in rows if self._keep("outbox", row[0], outbox.is_whole("outbox", row))]
            found += [outbox.outgoing(row, attempts(row[0])) for row in whole]
        return found

    def pending(
        self, topic_filter: str, limit: int, after: int, rx_id: Callable[[int], str], most_bytes: int | None = None
    ) -> list[Incoming]:
        """Return the next messages of the lanes that are ``topic_filter`` or match it, in the order of receipt.

        Their payloads have ``most_bytes`` together, unless the first one alone has more.
        """
        lanes = [row[0] for row in self.rows("SELECT DISTINCT lane FROM inbox")]
        wanted = [lane for lane in lanes if lane == topic_filter or inbox.matches(topic_filter, lane)]
        sizes: list[tuple[int, int]] = []
        for lane in wanted:
            query = "SELECT rx, length(payload) FROM inbox WHERE lane = ? AND rx > ? ORDER BY rx LIMIT ?"
            sizes += self.rows(query, lane, after, limit + self.damaged)
        sizes.sort()
        if most_bytes is not None:
            sizes = _within(most_bytes, sizes)
        if not sizes:
            return []
        found: list[Incoming] = []
        for lane in wanted:
            rows = self.rows(
                f"SELECT {inbox.MESSAGE_COLUMNS} FROM inbox WHERE lane = ? AND rx > ? AND rx <= ? "  # noqa: S608 -- a constant
                "ORDER BY rx LIMIT ?",
                lane,
                after,
                sizes[-1][0],
                limit + self.damaged,
            )
            whole = [row for row in rows if self._keep("inbox", row[0], inbox.is_whole("inbox", row))]
            found += [inbox.incoming(row, rx_id(row[0])) for row in whole]
        return sorted(found, key=lambda message: message.rx)[:limit]

    def journal(self, after: int, limit: int) -> list[JournalRecord]:
        """Return journal records after a position, of at most ``limit`` rows and ``MOST_LINES`` bytes.

        Records of a damaged row are left out, which shows as a gap in jseq.
        """
        sizes = "SELECT position, length(lines) FROM journal WHERE position > ? ORDER BY position LIMIT ?"
        query = "SELECT position, lines, sum FROM journal WHERE position > ? AND position <= ? ORDER BY position"
        while found := _within(MOST_LINES, self.rows(sizes, after, limit)):
            rows = self.rows(query, after, found[-1][0])
            whole = [row for row in rows if self._keep("journal", row[0], checksum("journal", *row[:2]) == row[2])]
            if whole:
                return [JournalRecord(row[0], line) for row in whole for line in row[1].split("\n")]
            after = rows[-1][0]
        return []

    def _keep(self, table: str, key: int, whole: bool) -> bool:
        if not whole:
            self._bad.add((table, key))
        return whole
