"""Opens the database of an undamaged store, and reads its counters."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

from activemq_agent.agent_errors import AgentError
from activemq_agent.store import outbox
from activemq_agent.store.clock import ClockReading, ElapsedTimeCounter, MachineClocks
from activemq_agent.store.inbox import lane_name_of_topic
from activemq_agent.store.rows import StoreLimits
from activemq_agent.store.schema import (
    ANCHOR,
    COUNTERS,
    EVENT_TABLES,
    MESSAGE_TABLES,
    connect_to_database,
    create_tables,
)
from activemq_agent.store.transaction import StoreCounters, Transaction


def open_database(
    path: Path, *, agent: str, limits: StoreLimits, clock: MachineClocks, synchronous: str
) -> tuple[sqlite3.Connection, StoreCounters, ElapsedTimeCounter]:
    """Open the database of an agent's store; create it if it is missing.

    Returns it with its counters and elapsed time. A new database has a new epoch. Raises AgentError if the file belongs
    to another agent.
    """
    db = connect_to_database(path, synchronous=synchronous)
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        create_tables(db)
    row = db.execute(f"SELECT {', '.join(COUNTERS + ANCHOR)} FROM counters").fetchone()  # noqa: S608 -- constants
    if row is None:
        counters, elapsed = StoreCounters(agent=agent, epoch=str(uuid.uuid4())), ElapsedTimeCounter(clock, None)
    else:
        counters, elapsed = StoreCounters(*row[:7]), ElapsedTimeCounter(clock, ClockReading(*row[len(COUNTERS) :]))
    if counters.agent != agent:
        db.close()
        raise AgentError(
            f"{path}: this store belongs to the agent {counters.agent!r}, not to {agent!r}: in agent.conf, "
            f"set agent.name to {counters.agent!r}, or set a separate state.directory for this agent"
        )
    # The numbers of connections start at 1 in each run: a canary of this run confirms no event of an earlier one.
    db.execute("UPDATE unconfirmed SET conn = NULL WHERE conn IS NOT NULL")
    _sort_into_lanes(db, limits)
    _count_rows(db, counters)
    transaction = Transaction(db, counters, limits, clock, elapsed)
    outbox.delete_unsent_barriers(transaction, ("expired", "unconfirmed"))
    transaction.write_journal_and_counters()
    db.execute("COMMIT")
    return db, counters, elapsed


def _sort_into_lanes(db: sqlite3.Connection, limits: StoreLimits) -> None:
    """Put each message of the inbox into its lane, the first topic filter of the configuration that matches."""
    for topic, lane in db.execute("SELECT DISTINCT topic, lane FROM inbox").fetchall():
        matching_lane = lane_name_of_topic(topic, limits.filters)
        if matching_lane != lane:
            db.execute("UPDATE inbox SET lane = ? WHERE topic = ?", (matching_lane, topic))


def _count_rows(db: sqlite3.Connection, counters: StoreCounters) -> None:
    """Set the counters of rows, bytes and lanes from what is in the store's tables."""
    size = "coalesce(sum(length(CAST(topic AS BLOB)) + length(payload)), 0)"
    for table in EVENT_TABLES + MESSAGE_TABLES:
        row = db.execute(f"SELECT count(*), {size} FROM {table}").fetchone()  # noqa: S608 -- names of the schema
        counters.rows[table], counters.sizes[table] = row
    counters.lanes.update(dict(db.execute("SELECT lane, count(*) FROM inbox GROUP BY lane")))
