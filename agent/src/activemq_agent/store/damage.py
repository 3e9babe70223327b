"""Checks a store's files for damage, without changing them; reads what is in SQLite's write-ahead file.

SQLite stops at the first frame of the write-ahead file whose checksum is wrong, and silently forgets every
transaction after it (https://www.sqlite.org/walformat.html). Here each frame is also checked with the checksum that
is stored in the frame before it: a committed frame after a bad one is damage. A last frame that is bad cannot be
distinguished from one that a crash has torn, and is not reported.
"""

from __future__ import annotations

import sqlite3
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from activemq_agent.agent_errors import AgentError
from activemq_agent.store.rows import has_valid_checksum
from activemq_agent.store.schema import (
    APPLICATION_ID,
    EVENT_TABLES,
    FILE,
    MESSAGE_TABLES,
    PAGE,
    VERSION,
    connect_to_database,
    is_machine_failure,
)

_MAGIC = b"SQLite format 3\0"
_FIXED_HEADER = struct.pack(">HBBBBBB", PAGE, 2, 2, 0, 64, 32, 32)
"""Bytes 16 to 23 of the file: page size, write-ahead mode twice, nothing reserved, and three constants."""

_WAL_HEADER, _FRAME_HEADER = 32, 24
_FRAME = _FRAME_HEADER + PAGE
_BYTE_ORDER = "<" if sys.byteorder == "little" else ">"
_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class WalFrames:
    """The frames of a SQLite write-ahead log (WAL) file.

    Only committed frames are included. ``frames``: (page number, content of the page) in the order of writing, up to
    the last commit that can be recognized; those of a damaged file may hold wrong bytes. ``damaged``: SQLite would
    forget committed frames.
    """

    frames: tuple[tuple[int, bytes], ...]
    damaged: bool


def read_wal(path: Path) -> WalFrames:
    """Read a SQLite write-ahead log (WAL) file, and return its frames.

    These are the frames up to the last commit. Returns None if the file is missing or empty.
    """
    content = path.read_bytes() if path.exists() else b""
    if len(content) < _WAL_HEADER + _FRAME:
        return WalFrames((), damaged=False)
    checksum = content[24:32]
    is_accepted = _wal_checksum(content[:24], bytes(8)) == checksum and content[8:12] == PAGE.to_bytes(4)
    salt = content[16:24] if is_accepted else None
    frames: list[tuple[int, bytes]] = []
    # Numbers of frames up to the last commit: that SQLite accepts, and that the file contains.
    last_accepted = last_commit = 0
    for offset in range(_WAL_HEADER, len(content) - _FRAME + 1, _FRAME):
        page, size, frame_salt, stored = struct.unpack(">II8s8s", content[offset : offset + _FRAME_HEADER])
        body = content[offset + _FRAME_HEADER : offset + _FRAME]
        is_valid = _wal_checksum(content[offset : offset + 8] + body, checksum) == stored
        if is_valid and salt is None:
            salt = frame_salt
        is_accepted = is_accepted and is_valid and frame_salt == salt
        frames.append((page, body))
        if size and is_valid and frame_salt == salt:
            last_commit = len(frames)
            last_accepted = last_commit if is_accepted else last_accepted
        checksum = stored
    return WalFrames(tuple(frames[:last_commit]), damaged=last_commit > last_accepted)


def _wal_checksum(content: bytes, seed: bytes) -> bytes:
    """Return the checksum of bytes in the write-ahead file, continued from the checksum ``seed``."""
    first, second = struct.unpack(">II", seed)
    words = struct.unpack(f"{_BYTE_ORDER}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return struct.pack(">II", first, second)


def store_damage_descriptions(directory: Path) -> list[str]:
    """Check the files of an agent's store for damage, and return one line for each kind of damage.

    The list is empty if it is undamaged or missing. Raises AgentError if the files cannot be read, or were made by a
    newer agent.
    """
    path = directory / FILE
    if not path.exists():
        return []
    # Check before SQLite reads the files: it would accept a damaged header, and ignore frames after a bad one.
    if read_wal(directory / f"{FILE}-wal").damaged:
        return ["committed transactions in its write-ahead file are damaged"]
    with path.open("rb") as file:
        header = file.read(100)
    if header and (
        not header.startswith(_MAGIC) or header[16:24] != _FIXED_HEADER or header[56:59] != bytes(3) or header[59] > 1
    ):
        return ["the header of the file is damaged"]
    try:
        db = connect_to_database(path)
        try:
            return _database_damage(db, path)
        finally:
            db.close()
    except sqlite3.DatabaseError as error:
        if is_machine_failure(error):
            raise AgentError(
                f"{path}: the agent's store cannot be read ({error}): check "
                "the permissions of the file, and the kernel log for errors of the disk"
            ) from error
        return [f"SQLite cannot read the file: {error}"]


def _database_damage(db: sqlite3.Connection, path: Path) -> list[str]:
    problems = [row[0] for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    if problems:
        return [f"SQLite's integrity check reports: {problems[0].strip()}", *problems[1:]]
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table'").fetchone():
        return []  # the machine stopped after the file was created
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if application == APPLICATION_ID and version > VERSION and len(set(version.to_bytes(4))) == 1:
        raise AgentError(
            f"{path}: a newer release of activemq-agent created this store: install that release, or set a separate "
            "state.directory for this agent in agent.conf"
        )
    if (application, version) != (APPLICATION_ID, VERSION):
        return ["the header of the file is damaged"]
    return _damaged_rows(db)


def _damaged_rows(db: sqlite3.Connection) -> list[str]:
    """Return a line for damaged counters of an agent's store, and one with the number of rows that fail their checksum.

    Remembered ids are checked where they are used.
    """
    counters = db.execute("SELECT * FROM counters").fetchall()
    problems = (
        [] if len(counters) == 1 and has_valid_checksum("counters", counters[0]) else ["the counters are damaged"]
    )
    failures = sum(
        not has_valid_checksum(table, row)
        for table in (*EVENT_TABLES, *MESSAGE_TABLES, "journal")
        for row in db.execute(f"SELECT * FROM {table}")  # noqa: S608 -- names of the schema
    )
    return [*problems, f"{failures} rows fail their checksum"] if failures else problems
