"""A transaction of the writer, shared by many callers, and the counters that are written with each transaction."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from activemq_agent.store.clock import Clock, Elapsed
from activemq_agent.store.rows import Limits, checksum
from activemq_agent.store.schema import ANCHOR, COUNTERS

JOURNAL_LINES = 64
"""Journal records that one row of the database holds at most: fewer rows, and little lost with a damaged one."""


@dataclass
class Counters:
    """Counters of rows, bytes and numbers given out, which would cost a query each.

    A failed transaction restores them.
    """

    agent: str
    epoch: str
    seq: int = 0
    jseq: int = 0
    position: int = 0
    place: int = 0
    rx: int = 0
    outbox_rows: int = 0
    outbox_bytes: int = 0
    expired_rows: int = 0
    expired_bytes: int = 0
    unconfirmed_rows: int = 0
    unconfirmed_bytes: int = 0
    unconfirmed_dropped: int = 0
    inbox_rows: int = 0
    inbox_bytes: int = 0
    quarantined: int = 0
    quarantined_bytes: int = 0
    duplicates: int = 0
    lanes: Counter[str] = field(default_factory=Counter)
    barred: set[str] = field(default_factory=set)

    def snapshot(self) -> Counters:
        """Return a copy of the counters."""
        kept = copy(self)
        kept.lanes = self.lanes.copy()
        kept.barred = self.barred.copy()
        return kept

    def rx_id(self, rx: int) -> str:
        """Return the agent's own id of a message that came without an id, ``AGENT:EPOCH:rxNUMBER``."""
        return f"{self.agent}:{self.epoch}:rx{rx}"

    @property
    def rows(self) -> int:
        """The number of rows in the outbox, the expired and the unconfirmed ones."""
        return self.outbox_rows + self.expired_rows + self.unconfirmed_rows


class Transaction:
    """An open transaction of the writer: database, counters, limits, the elapsed time ``now``, and journal records."""

    def __init__(
        self, db: sqlite3.Connection, counters: Counters, limits: Limits, clock: Clock, elapsed: Elapsed
    ) -> None:
        self.db = db
        self.counters = counters
        self.limits = limits
        self.clock = clock
        self.elapsed = elapsed
        self.now = elapsed.now()
        self._lines: list[str] = []

    def record(self, kind: str, **fields: Any) -> None:
        """Add a journal record to the transaction. ``fields`` are those of the journal's format; None is left out."""
        self.counters.jseq += 1
        content: dict[str, Any] = {
            "v": 1,
            "agent": self.counters.agent,
            "epoch": self.counters.epoch,
            "jseq": self.counters.jseq,
            "ts": self.clock.wall().isoformat(timespec="microseconds").removesuffix("+00:00") + "Z",
            "kind": kind,
        }
        content.update((name, value) for name, value in fields.items() if value is not None)
        self._lines.append(json.dumps(content, separators=(",", ":")))
        if len(self._lines) >= JOURNAL_LINES:
            self._write_lines()

    def finish(self) -> None:
        """Write the transaction's journal records and the counters to the database."""
        self._write_lines()
        write_counters(self)

    def _write_lines(self) -> None:
        if not self._lines:
            return
        self.counters.position += 1
        lines = "\n".join(self._lines)
        self._lines.clear()
        row = (self.counters.position, lines, checksum("journal", self.counters.position, lines))
        self.db.execute("INSERT INTO journal VALUES (?, ?, ?)", row)


_COUNTERS = "REPLACE INTO counters VALUES (1" + ", ?" * (len(COUNTERS) + len(ANCHOR) + 1) + ")"


def write_counters(transaction: Transaction) -> None:
    """Write the counters and the current moment on all clocks into the database."""
    counters, at = transaction.counters, transaction.elapsed.anchor()
    oldest = transaction.db.execute("SELECT min(place) FROM outbox").fetchone()[0]
    values = (
        counters.agent, counters.epoch, counters.seq, counters.jseq, counters.position,
        counters.place, counters.rx, oldest, counters.rows,
        at.elapsed, at.boot, at.monotonic, at.wall,
    )  # fmt: skip
    transaction.db.execute(_COUNTERS, (*values, checksum("counters", *values)))
