"""Checks a store's files for damage, without changing them."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

from activemq_agent.errors import AgentError
from activemq_agent.store import wal
from activemq_agent.store.rows import is_whole
from activemq_agent.store.schema import (
    APPLICATION_ID,
    EVENT_TABLES,
    FILE,
    MESSAGE_TABLES,
    PAGE,
    VERSION,
    connect,
    is_machine_failure,
)

_MAGIC = b"SQLite format 3\0"
_FIXED = struct.pack(">HBBBBBB", PAGE, 2, 2, 0, 64, 32, 32)
"""Bytes 16 to 23 of the file: page size, write-ahead mode twice, nothing reserved, and three constants."""


def find_damage(directory: Path) -> list[str]:
    """Return one line for each kind of damage to the store in a directory; empty if it is undamaged or missing.

    Raises AgentError if the files cannot be read, or were made by a newer agent.
    """
    path, ahead = directory / FILE, directory / f"{FILE}-wal"
    if not path.exists():
        return []
    # Before SQLite sees the files: it would believe a damaged header, and forget what is behind a bad frame.
    if wal.read_frames(ahead).damaged:
        return ["committed transactions of the write-ahead file are damaged"]
    with path.open("rb") as file:
        header = file.read(100)
    if header and (
        not header.startswith(_MAGIC) or header[16:24] != _FIXED or header[56:59] != bytes(3) or header[59] > 1
    ):
        return ["the header of the file is damaged"]
    try:
        db = connect(path)
        try:
            return _problems_inside(db)
        finally:
            db.close()
    except sqlite3.DatabaseError as error:
        if is_machine_failure(error):
            raise AgentError(f"{path}: cannot be read: {error}") from error
        return [f"SQLite cannot read it: {error}"]


def _problems_inside(db: sqlite3.Connection) -> list[str]:
    found = [row[0] for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    if found:
        return [f"SQLite's integrity check says: {found[0].strip()}", *found[1:]]
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table'").fetchone():
        return []  # made, and then the machine stopped
    marks = (db.execute("PRAGMA application_id").fetchone()[0], db.execute("PRAGMA user_version").fetchone()[0])
    if marks[0] == APPLICATION_ID and marks[1] > VERSION and len(set(marks[1].to_bytes(4))) == 1:
        raise AgentError("the store was made by a newer agent: install that one, or give this one a state.directory")
    if marks != (APPLICATION_ID, VERSION):
        return ["the header of the file is damaged"]
    return _bad_rows(db)


def _bad_rows(db: sqlite3.Connection) -> list[str]:
    """Return a line for damaged counters, and one with the number of rows that fail their checksum.

    Remembered ids are checked where they are used.
    """
    counters = db.execute("SELECT * FROM counters").fetchall()
    found = [] if len(counters) == 1 and is_whole("counters", counters[0]) else ["the counters are damaged"]
    bad = sum(
        not is_whole(table, row)
        for table in (*EVENT_TABLES, *MESSAGE_TABLES, "journal")
        for row in db.execute(f"SELECT * FROM {table}")  # noqa: S608 -- names of the schema
    )
    return [*found, f"{bad} rows fail their checksum"] if bad else found
