"""The tables of the store, and how a connection to them is opened.

Every row ends with a checksum over its kind and the columns that never change. A row that changes its
state moves to another table: there is no state column that a flipped bit could alter, but for the counters
of attempts.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

FILE = "store.db"
PAGE = 4096
CACHE, READER_CACHE = 4096, 1024
"""KiB of pages that a connection caches; a reader reads only the ends of the tables, and needs few pages."""
APPLICATION_ID = 0x414D5141
VERSION = 0x01010101
"""The schema's version (1) in each of four bytes, so that a flipped bit does not turn it into a newer version."""

COUNTERS = ("agent", "epoch", "seq", "jseq", "position", "place", "rx", "oldest", "rows")
ANCHOR = ("elapsed", "boot", "monotonic", "wall")

EVENT_TABLES = ("outbox", "expired", "unconfirmed")
MESSAGE_TABLES = ("inbox", "quarantine")
ID_TABLES = ("accepted_ids", "remembered")
TABLES = (*EVENT_TABLES, *MESSAGE_TABLES, *ID_TABLES, "journal")
"""All tables but ``counters``."""

CHECKED = {
    **dict.fromkeys(EVENT_TABLES, slice(0, 6)),
    **dict.fromkeys(MESSAGE_TABLES, slice(0, 5)),
    **dict.fromkeys(ID_TABLES, slice(1, 3)),
    "journal": slice(0, 2),
    "counters": slice(1, 1 + len(COUNTERS) + len(ANCHOR)),
}
"""Table -> the columns that the checksum covers; the checksum itself is the next column."""

_EVENTS = "event_id TEXT NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL, accepted REAL, deadline REAL, sum BLOB"
_MESSAGES = "event_id TEXT, topic TEXT NOT NULL, payload BLOB NOT NULL, received REAL, sum BLOB, attempts INTEGER"

SCHEMA = f"""
CREATE TABLE counters (id INTEGER PRIMARY KEY, {", ".join(COUNTERS)}, {", ".join(ANCHOR)}, sum BLOB);
CREATE TABLE outbox (place INTEGER PRIMARY KEY, {_EVENTS});
CREATE INDEX outbox_deadline ON outbox (deadline);
CREATE TABLE expired (place INTEGER PRIMARY KEY, {_EVENTS});
CREATE TABLE unconfirmed (place INTEGER PRIMARY KEY, {_EVENTS}, conn INTEGER);
CREATE TABLE accepted_ids (n INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, at REAL, sum BLOB);
CREATE TABLE inbox (rx INTEGER PRIMARY KEY, {_MESSAGES}, lane TEXT NOT NULL);
CREATE INDEX inbox_lane ON inbox (lane, rx);
CREATE UNIQUE INDEX inbox_id ON inbox (event_id) WHERE event_id IS NOT NULL;
CREATE TABLE quarantine (rx INTEGER PRIMARY KEY, {_MESSAGES}, reason TEXT);
CREATE TABLE remembered (n INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, at REAL, sum BLOB);
CREATE TABLE journal (position INTEGER PRIMARY KEY, lines TEXT NOT NULL, sum BLOB);
"""


def connect_to_database(path: Path, *, synchronous: str = "FULL", readonly: bool = False) -> sqlite3.Connection:
    """Connect to the SQLite database of an agent's store at a path, and return the connection.

    It is in autocommit mode; any thread may use it, one at a time. ``synchronous`` FULL makes every commit wait until
    the write-ahead file is on the disk. Content that was deleted is overwritten, so that a damaged file holds no
    deleted rows.
    """
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    db.execute(f"PRAGMA page_size = {PAGE}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("PRAGMA secure_delete = ON")
    db.execute(f"PRAGMA cache_size = -{READER_CACHE if readonly else CACHE}")
    db.execute("PRAGMA journal_size_limit = 8388608")
    if readonly:
        db.execute("PRAGMA query_only = ON")
    return db


_MACHINE_ERRORS = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY,
}  # fmt: skip


def is_machine_failure(error: sqlite3.Error) -> bool:
    """Return whether an SQLite error is a failure of the machine (disk, memory, rights).

    Other errors are due to the file or a statement.
    """
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _MACHINE_ERRORS


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables of an agent's store in its SQLite database.

    This happens within the open transaction.
    """
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    for statement in SCHEMA.split(";"):
        db.execute(statement)
