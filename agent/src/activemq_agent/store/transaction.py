"""A transaction of the writer, shared by many callers, and the counters that are written with each transaction."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from activemq_agent.store.clock import ElapsedTimeCounter, MachineClocks
from activemq_agent.store.rows import StoreLimits, compute_row_checksum, has_valid_checksum, size_in_bytes
from activemq_agent.store.schema import EVENT_TABLES, ID_TABLES, MESSAGE_TABLES

JOURNAL_LINES = 64
"""Journal records that one row of the database holds at most: fewer rows, and little lost with a damaged one."""


@dataclass
class StoreCounters:
    """The counters of an agent's store: numbers of rows and bytes by table, and the last numbers assigned.

    They are kept in memory. ``rows`` and ``sizes``: rows, and bytes of topics and payloads, by table; ``lanes``:
    messages of the inbox by lane; ``barred``: lanes that take nothing before their oldest message is offered again. A
    failed transaction restores all.
    """

    agent: str
    epoch: str
    seq: int = 0
    jseq: int = 0
    position: int = 0
    place: int = 0
    rx: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    lanes: Counter[str] = field(default_factory=Counter)
    barred: set[str] = field(default_factory=set)
    unconfirmed_dropped: int = 0
    duplicates: int = 0

    def copy_counters(self) -> StoreCounters:
        """Return a copy of the counters of an agent's store, from which a failed transaction restores them."""
        return deepcopy(self)

    def make_received_message_id(self, rx: int) -> str:
        """Make and return the agent's own id of a received message, ``AGENT:EPOCH:rxNUMBER``.

        Each message has one; it identifies a message that has no event id. ``rx`` is the position in the inbox.
        """
        return f"{self.agent}:{self.epoch}:rx{rx}"


class Transaction:
    """An open transaction on an agent's store.

    It has the database, counters, limits, elapsed time ``now``, and journal records.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        counters: StoreCounters,
        limits: StoreLimits,
        clock: MachineClocks,
        elapsed: ElapsedTimeCounter,
    ) -> None:
        self.db = db
        self.counters = counters
        self.limits = limits
        self.elapsed = elapsed
        self.now = elapsed.seconds_since_outbox_creation()
        self._clock = clock
        self._journal_lines: list[str] = []

    def insert_and_count_row(self, table: str, checksummed_values: Sequence[Any], *others: Any) -> None:
        """Insert a row into a table of an agent's store, and add it to the store's counters.

        It has the columns under the checksum, the checksum, and other columns.
        """
        insert_row_with_checksum(self.db, table, checksummed_values, *others)
        self._update_counts(table, checksummed_values, 1)

    def take_row(self, table: str, key: int) -> tuple[Any, ...] | None:
        """Take a row from a table of an agent's store: delete the row with a key, and return its columns.

        Returns None for a missing or damaged row.
        """
        row: tuple[Any, ...] | None = self.db.execute(
            f"SELECT * FROM {table} WHERE rowid = ?",  # noqa: S608 -- names of the schema
            (key,),
        ).fetchone()
        if row is None or not has_valid_checksum(table, row):
            return None
        self.db.execute(f"DELETE FROM {table} WHERE rowid = ?", (key,))  # noqa: S608 -- the same
        self._update_counts(table, row, -1)
        return row

    def _update_counts(self, table: str, row: Sequence[Any], sign: int) -> None:
        if table in EVENT_TABLES + MESSAGE_TABLES:
            self.counters.rows[table] += sign
            self.counters.sizes[table] += sign * size_in_bytes(row[2], row[3])

    def add_journal_record(self, kind: str, **fields: Any) -> None:
        """Add a record to the agent's event journal as part of this database transaction.

        ``kind`` is such as accepted or sent. ``fields`` that are None are left out.
        """
        self.counters.jseq += 1
        content: dict[str, Any] = {
            "v": 1,
            "agent": self.counters.agent,
            "epoch": self.counters.epoch,
            "jseq": self.counters.jseq,
            "ts": self._clock.utc_now().isoformat(timespec="microseconds").removesuffix("+00:00") + "Z",
            "kind": kind,
        }
        content.update((name, value) for name, value in fields.items() if value is not None)
        self._journal_lines.append(json.dumps(content, separators=(",", ":")))
        if len(self._journal_lines) >= JOURNAL_LINES:
            self._write_journal_lines()

    def write_journal_and_counters(self) -> None:
        """Write the journal records and the counters of a transaction to an agent's store, before the commit.

        The clocks are written, too: the present moment on all of them.
        """
        self._write_journal_lines()
        counters, reading = self.counters, self.elapsed.read_machine_clocks()
        oldest = self.db.execute("SELECT min(place) FROM outbox").fetchone()[0]
        rows = sum(counters.rows[table] for table in EVENT_TABLES)
        values = (
            counters.agent, counters.epoch, counters.seq, counters.jseq, counters.position,
            counters.place, counters.rx, oldest, rows,
            reading.elapsed, reading.boot, reading.monotonic, reading.wall,
        )  # fmt: skip
        write_counters(self.db, values)

    def _write_journal_lines(self) -> None:
        if self._journal_lines:
            self.counters.position += 1
            self.insert_and_count_row("journal", (self.counters.position, "\n".join(self._journal_lines)))
            self._journal_lines.clear()


def insert_row_with_checksum(
    db: sqlite3.Connection, table: str, checksummed_values: Sequence[Any], *others: Any
) -> None:
    """Insert a row into a table of an agent's store, together with the row's checksum.

    The columns are those under its checksum (``checksummed_values``), the checksum, and others. A row of the tables of
    ids has no key in ``checksummed_values``, and is ignored if its id is there already.
    """
    row = (*checksummed_values, compute_row_checksum(table, *checksummed_values), *others)
    into = f"OR IGNORE INTO {table} (event_id, at, sum)" if table in ID_TABLES else f"INTO {table}"
    db.execute(f"INSERT {into} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 -- names of the schema


def write_counters(db: sqlite3.Connection, values: Sequence[Any]) -> None:
    """Write the counters of an agent's store, such as its numbers of rows and bytes, to the store's database.

    These are the columns ``COUNTERS`` and ``ANCHOR`` of the table ``counters``, which has one row.
    """
    placeholders = ", ?" * (len(values) + 1)
    db.execute(f"REPLACE INTO counters VALUES (1{placeholders})", (*values, compute_row_checksum("counters", *values)))  # noqa: S608
