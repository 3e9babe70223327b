"""Opens the database in a state directory, after a check for damage, and reads its counters."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

from activemq_agent.errors import AgentError
from activemq_agent.store.clock import Anchor, Clock, Elapsed
from activemq_agent.store.damage import Damage
from activemq_agent.store.inbox import lane_of
from activemq_agent.store.rows import Limits
from activemq_agent.store.salvage import finish_interrupted, salvage
from activemq_agent.store.schema import ANCHOR, COUNTERS, connect, create
from activemq_agent.store.soundness import problems
from activemq_agent.store.transaction import Counters, Transaction, write_counters


def check_and_salvage(directory: Path, agent: str, clock: Clock) -> Damage | None:
    """Check the store in a state directory; salvage it if it is damaged.

    Returns what was damaged, or None for a sound store.
    """
    finish_interrupted(directory)
    reasons = problems(directory)
    return salvage(directory, agent=agent, reasons=reasons, now=clock.wall()) if reasons else None


def open_database(
    path: Path, *, agent: str, limits: Limits, clock: Clock, synchronous: str
) -> tuple[sqlite3.Connection, Counters, Elapsed]:
    """Return the writer's connection, its counters and its elapsed time; a missing database is made, with a new epoch.

    Raises AgentError if the file belongs to another agent.
    """
    db = connect(path, synchronous=synchronous)
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        create(db)
    row = db.execute(f"SELECT {', '.join(COUNTERS + ANCHOR)} FROM counters").fetchone()  # noqa: S608 -- constants
    if row is None:
        counters, elapsed = Counters(agent=agent, epoch=str(uuid.uuid4())), Elapsed(clock, None)
    else:
        counters, elapsed = Counters(*row[:7]), Elapsed(clock, Anchor(*row[len(COUNTERS) :]))
    if counters.agent != agent:
        db.close()
        raise AgentError(
            f"{path}: belongs to agent {counters.agent!r}, not to {agent!r}: set the agent's name back, "
            "or give this one its own state.directory"
        )
    sort_into_lanes(db, limits)
    recount(db, counters)
    write_counters(Transaction(db, counters, limits, clock, elapsed))
    db.execute("COMMIT")
    return db, counters, elapsed


def sort_into_lanes(db: sqlite3.Connection, limits: Limits) -> None:
    """Put each message of the inbox into its lane, the first topic filter of the configuration that matches."""
    for topic, lane in db.execute("SELECT DISTINCT topic, lane FROM inbox").fetchall():
        wanted = lane_of(topic, limits.filters)
        if wanted != lane:
            db.execute("UPDATE inbox SET lane = ? WHERE topic = ?", (wanted, topic))


def recount(db: sqlite3.Connection, counters: Counters) -> None:
    """Set the counters from the rows and bytes that are in the store's tables."""
    size = "coalesce(sum(length(CAST(topic AS BLOB)) + length(payload)), 0)"
    for table, rows, size_name in (
        ("outbox", "outbox_rows", "outbox_bytes"),
        ("expired", "expired_rows", "expired_bytes"),
        ("unconfirmed", "unconfirmed_rows", "unconfirmed_bytes"),
        ("inbox", "inbox_rows", "inbox_bytes"),
        ("quarantine", "quarantined", "quarantined_bytes"),
    ):
        found = db.execute(f"SELECT count(*), {size} FROM {table}").fetchone()  # noqa: S608 -- names from above
        setattr(counters, rows, found[0])
        setattr(counters, size_name, found[1])
    counters.lanes.clear()
    counters.lanes.update(dict(db.execute("SELECT lane, count(*) FROM inbox GROUP BY lane")))
