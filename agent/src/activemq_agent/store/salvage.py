"""Builds a new store from the readable rows of a damaged one, and sets the damaged files aside.

A crash at any moment leaves either the damaged store as it was, and the next start begins again, or the new one
complete: the damaged file is moved away only when the new one is on the disk.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from activemq_agent.store import wal
from activemq_agent.store.damage import Damage, Gap, gaps_between
from activemq_agent.store.files import sync
from activemq_agent.store.pages import DatabasePages
from activemq_agent.store.rows import is_whole
from activemq_agent.store.schema import (
    ANCHOR,
    COUNTERS,
    EVENT_TABLES,
    FILE,
    ID_TABLES,
    MESSAGE_TABLES,
    TABLES,
    connect,
    create,
)
from activemq_agent.store.transaction import insert_row, write_counters

NEW = "store.db.salvaged"
REPORT = "damage.json"
JSEQ_GAP = 1_000_000
"""Gap in jseq that shows readers of a damaged journal that records after the last readable one may be missing."""

Values = tuple[Any, ...]

_WIDTHS = dict.fromkeys(EVENT_TABLES, 7) | dict.fromkeys(MESSAGE_TABLES, 8) | dict.fromkeys(ID_TABLES, 4)
_WIDTHS |= {"unconfirmed": 8, "journal": 3, "counters": len(COUNTERS) + len(ANCHOR) + 2}
"""Table -> number of its columns."""
_TIMES = dict.fromkeys(EVENT_TABLES, (4, 5)) | dict.fromkeys(MESSAGE_TABLES, (4,)) | dict.fromkeys(ID_TABLES, (2,))
"""Table -> its columns of type REAL: SQLite stores a whole number among them as an integer."""


def finish_interrupted_salvage(directory: Path) -> None:
    """Finish a ``salvage`` that a crash interrupted: use a complete new store, or delete an incomplete one."""
    if not (directory / NEW).exists():
        return
    if (directory / FILE).exists():
        _delete_new(directory)
    elif latest := max(directory.glob("set-aside-*"), default=None):
        _swap(directory, latest)


def _delete_new(directory: Path) -> None:
    for path in directory.glob(f"{NEW}*"):
        path.unlink()


def salvage(directory: Path, *, agent: str, reasons: list[str], now: datetime) -> Damage:
    """Replace the damaged store in ``directory`` by a new one with its readable rows; return what was damaged and kept.

    The damaged files go into a new directory ``set-aside-TIME``, with a report ``damage.json``.
    """
    _delete_new(directory)
    ahead = wal.read_frames(directory / f"{FILE}-wal")
    image = DatabasePages(directory / FILE, ahead)
    new = connect(directory / NEW)
    try:
        new.execute("BEGIN")
        create(new)
        counters = _copy(image, new)
        _tidy(new)
        # A damaged write-ahead file may have held later counters: ids must never be given out twice.
        known = dict(zip(COUNTERS + ANCHOR, counters[1:-1], strict=True)) if counters else {}
        found = _write_counters(new, agent, known, goes_on=bool(known) and not ahead.damaged)
        new.execute("COMMIT")
    finally:
        image.close()
        new.close()
    aside = _new_directory(directory, now)
    damage = Damage(tuple(reasons), aside, *found)
    (aside / REPORT).write_text(json.dumps(asdict(damage), indent=1, default=str) + "\n")
    sync(directory / NEW, aside / REPORT, aside)
    _swap(directory, aside)
    return damage


def _copy(image: DatabasePages, new: sqlite3.Connection) -> Values | None:
    """Copy every row that matches its checksum; return the newest counters, None if none is readable."""
    newest: Values | None = None
    for key, values in image.rows():
        for table, width in _WIDTHS.items():
            row = _row_of(table, key, values) if len(values) == width else None
            if row is None:
                continue
            if table != "counters":
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * width)})", row)  # noqa: S608
            elif newest is None or _age(row) > _age(newest):
                newest = row
            break
    return newest


def _row_of(table: str, key: int, values: Values) -> Values | None:
    """Return a row id and a record as a row of a table; None if its checksum for this table is wrong."""
    row = [key, *values[1:]]
    for column in _TIMES.get(table, ()):
        if isinstance(row[column], int):
            row[column] = float(row[column])
    return tuple(row) if is_whole(table, row) else None


def _age(counters: Values) -> Values:
    """Return the position, the place and the elapsed time of counters: they grow with every transaction."""
    return counters[1 + COUNTERS.index("position")], counters[1 + COUNTERS.index("place")], counters[1 + len(COUNTERS)]


def _tidy(new: sqlite3.Connection) -> None:
    """Delete rows that old copies of pages show in a second state, and mend the attempts, which no checksum covers.

    Events may be sent twice, messages not handled twice.
    """
    for table in ("expired", "unconfirmed"):
        new.execute(f"DELETE FROM {table} WHERE place IN (SELECT place FROM outbox)")  # noqa: S608 -- constants
    new.execute("DELETE FROM inbox WHERE rx IN (SELECT rx FROM quarantine)")
    new.execute("DELETE FROM inbox WHERE event_id IN (SELECT event_id FROM remembered)")
    new.execute(
        "UPDATE inbox SET attempts = 1 WHERE typeof(attempts) <> 'integer' OR attempts NOT BETWEEN 0 AND 1048575"
    )


def _write_counters(
    new: sqlite3.Connection, agent: str, known: dict[str, Any], *, goes_on: bool
) -> tuple[dict[str, int], int | None, tuple[Gap, ...], str | None]:
    """Write the counters of the new store, by those ``known`` of the old one and by the rows that were kept.

    Unless the old epoch ``goes_on``, a new one is begun. Returns the fields of ``Damage`` from ``kept`` on.
    """
    readable: dict[int, str] = {}
    for table in EVENT_TABLES:
        readable |= dict(new.execute(f"SELECT place, event_id FROM {table}"))  # noqa: S608 -- constants
    kept = {table: _one(new, f"SELECT count(*) FROM {table}") for table in TABLES}  # noqa: S608 -- constants
    last_place = max([known.get("place", 0), *readable])
    first_place = min([known.get("oldest") or last_place + 1, *readable])
    missing = max(0, known["rows"] - len(readable)) if goes_on else None
    gaps = tuple(gaps_between(readable, first_place, last_place)) if missing != 0 else ()
    values = {
        "seq": 0, "jseq": 0, "elapsed": _latest_time(new), "boot": "", "monotonic": 0.0, "wall": 0.0,
        "agent": agent, **known, "place": last_place, "oldest": min(readable, default=None), "rows": len(readable),
        "rx": max(known.get("rx", 0), _one(new, "SELECT max(rx) FROM inbox")),
        "position": max(known.get("position", 0), _one(new, "SELECT max(position) FROM journal")),
    }  # fmt: skip
    epoch = None if goes_on else str(uuid.uuid4())
    if epoch is not None:
        values |= {"epoch": epoch, "seq": 0, "jseq": 0, "rx": values["rx"] + 1_000_000}
        values["position"] = _end_epochs(new, values["position"])
    write_counters(new, [values[name] for name in COUNTERS + ANCHOR])
    return kept, missing, gaps, epoch


def _one(db: sqlite3.Connection, query: str) -> Any:
    """Return the one number that a query has; 0 in place of NULL."""
    return db.execute(query).fetchone()[0] or 0


def _latest_time(new: sqlite3.Connection) -> float:
    """Return the elapsed seconds of the latest acceptance or receipt that is known, so that time does not go back."""
    columns = {"outbox": "accepted", "inbox": "received", "remembered": "at", "accepted_ids": "at"}
    return max(float(_one(new, f"SELECT max({column}) FROM {table}")) for table, column in columns.items())  # noqa: S608


def _end_epochs(new: sqlite3.Connection, position: int) -> int:
    """Append a record far behind the last readable one of each epoch, which shows that the journal is not complete.

    Returns the new last position; ``position`` is the one before.
    """
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for (lines,) in new.execute("SELECT lines FROM journal ORDER BY position"):
        for line in lines.split("\n"):
            record = json.loads(line)
            latest[record["agent"], record["epoch"]] = record
    for record in latest.values():
        end = {name: record[name] for name in ("v", "agent", "epoch", "ts")}
        end |= {"jseq": record["jseq"] + JSEQ_GAP, "kind": "stopped", "reason": "store damaged: records may be missing"}
        position += 1
        insert_row(new, "journal", (position, json.dumps(end, separators=(",", ":"))))
    return position


def _new_directory(directory: Path, now: datetime) -> Path:
    """Make and return a directory ``set-aside-TIME``, with a number behind it if there is one of this second."""
    name = f"set-aside-{now:%Y%m%dT%H%M%SZ}"
    path, number = directory / name, 1
    while path.exists():
        number += 1
        path = directory / f"{name}-{number:03}"
    path.mkdir(mode=0o750)
    return path


def _swap(directory: Path, aside: Path) -> None:
    """Move the damaged files into ``aside``, the database first, then put the new store in its place."""
    for suffix in ("", "-wal", "-shm"):
        path = directory / f"{FILE}{suffix}"
        if path.exists():
            path.rename(aside / path.name)
    sync(aside, directory)
    (directory / NEW).rename(directory / FILE)
    sync(directory)
