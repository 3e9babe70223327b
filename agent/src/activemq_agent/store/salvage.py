"""Builds a new store from the readable rows of a damaged one, and sets the damaged files aside.

A crash at any moment leaves either the damaged store as it was, and the next start begins again, or the new one
complete: the damaged file is moved away only when the new one is on the disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from activemq_agent.store import inbox, outbox, wal
from activemq_agent.store.damage import Damage, Gap, gaps_between
from activemq_agent.store.pages import Image
from activemq_agent.store.rows import UNREADABLE, checksum
from activemq_agent.store.schema import ANCHOR, COUNTERS, FILE, connect, create

NEW = "store.db.salvaged"
REPORT = "damage.json"
JSEQ_GAP = 1_000_000
"""Gap in jseq that shows readers of a damaged journal that records after the last readable one may be missing."""

Values = tuple[Any, ...]


def _event(table: str) -> Callable[[int, Values], Values | None]:
    extra = 1 if table == "unconfirmed" else 0

    def read(key: int, row: Values) -> Values | None:
        if len(row) != 7 + extra or not all(isinstance(value, (int, float)) for value in row[4:6]):
            return None
        event: Values = (key, row[1], row[2], row[3], float(row[4]), float(row[5]), row[6])
        return (*event, *row[7:]) if outbox.is_whole(table, event) else None

    return read


def _message(table: str) -> Callable[[int, Values], Values | None]:
    def read(key: int, row: Values) -> Values | None:
        if len(row) != 8 or not isinstance(row[4], (int, float)):
            return None
        attempts = row[6] if isinstance(row[6], int) and 0 <= row[6] < 1 << 20 else 1
        message: Values = (key, row[1], row[2], row[3], float(row[4]), row[5], attempts)
        return (*message, str(row[7])) if inbox.is_whole(table, message) else None

    return read


def _known_id(table: str) -> Callable[[int, Values], Values | None]:
    def read(key: int, row: Values) -> Values | None:
        if len(row) != 4 or not isinstance(row[2], (int, float)):
            return None
        return (key, row[1], float(row[2]), row[3]) if inbox.known_id(table, *row[1:]) else None

    return read


def _journal(key: int, row: Values) -> Values | None:
    return (key, *row[1:]) if len(row) == 3 and checksum("journal", key, row[1]) == row[2] else None


def _counters(key: int, row: Values) -> Values | None:
    whole = len(row) == len(COUNTERS) + len(ANCHOR) + 2 and checksum("counters", *row[1:-1]) == row[-1]
    return (key, *row[1:]) if whole else None


TABLES: dict[str, Callable[[int, Values], Values | None]] = {
    "outbox": _event("outbox"),
    "expired": _event("expired"),
    "unconfirmed": _event("unconfirmed"),
    "inbox": _message("inbox"),
    "quarantine": _message("quarantine"),
    "accepted_ids": _known_id("accepted_ids"),
    "remembered": _known_id("remembered"),
    "journal": _journal,
}
"""Table -> function of a row id and a record's values that returns the row to keep, None if it is not of the table."""


def finish_interrupted(directory: Path) -> None:
    """After a crash during ``salvage``, put a complete new store in place, or delete an incomplete one."""
    new = directory / NEW
    if not new.exists():
        return
    if (directory / FILE).exists():
        for path in directory.glob(f"{NEW}*"):
            path.unlink()
        return
    latest = max(directory.glob("set-aside-*"), default=None)
    if latest is not None:
        _swap(directory, latest)


def salvage(directory: Path, *, agent: str, reasons: list[str], now: datetime) -> Damage:
    """Replace the damaged store in ``directory`` by one with its readable rows; return what was damaged and kept.

    The damaged files go into a new directory ``set-aside-TIME``, with a report ``damage.json``.
    """
    for path in directory.glob(f"{NEW}*"):
        path.unlink()
    ahead = wal.read(directory / f"{FILE}-wal")
    image = Image(directory / FILE, ahead)
    new = connect(directory / NEW)
    try:
        new.execute("BEGIN")
        create(new)
        counters = _copy(image, new)
        _finish(new)
        # A damaged write-ahead file may have held later counters: ids must never be given out twice.
        goes_on = counters is not None and not ahead.damaged
        kept, missing, gaps, epoch = _write_counters(new, agent, counters, goes_on)
        new.execute("COMMIT")
    finally:
        image.close()
        new.close()
    aside = _new_directory(directory, now)
    damage = Damage(tuple(reasons), aside, kept, missing, gaps, epoch)
    (aside / REPORT).write_text(json.dumps(damage.as_json(), indent=1) + "\n")
    _sync(directory / NEW, aside / REPORT, aside)
    _swap(directory, aside)
    return damage


def _copy(image: Image, new: sqlite3.Connection) -> Values | None:
    """Copy every row that matches its checksum; return the newest counters, None if none is readable."""
    newest: Values | None = None
    for key, values in image.rows():
        counters = _counters(key, values)
        if counters is not None and (newest is None or _age(counters) > _age(newest)):
            newest = counters
        for table, read in TABLES.items():
            try:
                row = read(key, values)
            except UNREADABLE:
                continue  # not a row of this table
            if row is not None:
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
                break
    return newest


def _age(counters: Values) -> tuple[Any, ...]:
    known = dict(zip(COUNTERS + ANCHOR, counters[1:-1], strict=True))
    return known["position"], known["place"], known["elapsed"]


def _finish(new: sqlite3.Connection) -> None:
    """Delete rows that old copies of pages show in a second state.

    Events may be sent twice, messages not handled twice.
    """
    for table in ("expired", "unconfirmed"):
        new.execute(f"DELETE FROM {table} WHERE place IN (SELECT place FROM outbox)")  # noqa: S608 -- constants
    new.execute("DELETE FROM inbox WHERE rx IN (SELECT rx FROM quarantine)")
    new.execute("DELETE FROM inbox WHERE event_id IN (SELECT event_id FROM remembered)")


def _write_counters(
    new: sqlite3.Connection, agent: str, counters: Values | None, goes_on: bool
) -> tuple[dict[str, int], int | None, tuple[Gap, ...], str | None]:
    known = dict(zip(COUNTERS + ANCHOR, counters[1:-1], strict=True)) if counters else {}
    readable = _ids_by_place(new)
    kept = {table: new.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}  # noqa: S608
    last_place = max([known.get("place", 0), *readable])
    first_place = min([known.get("oldest") or last_place + 1, *readable])
    if goes_on:
        missing: int | None = max(0, known["rows"] - len(readable))
    else:
        missing = None
    gaps = tuple(gaps_between(readable, first_place, last_place)) if missing != 0 else ()
    largest = {
        name: max(known.get(name, 0), new.execute(f"SELECT coalesce(max({name}), 0) FROM {table}").fetchone()[0])  # noqa: S608
        for name, table in (("rx", "inbox"), ("position", "journal"))
    }
    epoch = None if goes_on else str(uuid.uuid4())
    values = {
        "seq": 0, "jseq": 0, "elapsed": _latest_time(new), "boot": "", "monotonic": 0.0, "wall": 0.0,
        "agent": agent, **known, **largest, "place": last_place, "oldest": min(readable, default=None),
        "rows": len(readable),
    }  # fmt: skip
    if epoch is not None:
        values |= {"epoch": epoch, "seq": 0, "jseq": 0, "rx": values["rx"] + 1_000_000}
        _end_epochs(new, values)
    row = tuple(values[name] for name in COUNTERS + ANCHOR)
    marks = ", ?" * (len(row) + 1)
    new.execute(f"INSERT INTO counters VALUES (1{marks})", (*row, checksum("counters", *row)))  # noqa: S608 -- marks
    return kept, missing, gaps, epoch


def _ids_by_place(new: sqlite3.Connection) -> dict[int, str]:
    query = " UNION ALL ".join(
        f"SELECT place, event_id FROM {table}"  # noqa: S608 -- constants
        for table in ("outbox", "expired", "unconfirmed")
    )
    return dict(new.execute(query).fetchall())


def _latest_time(new: sqlite3.Connection) -> float:
    """Return the elapsed seconds of the latest acceptance or receipt that is known, so that time does not go back."""
    times = [
        new.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]  # noqa: S608 -- constants
        for column, table in (
            ("accepted", "outbox"),
            ("received", "inbox"),
            ("at", "remembered"),
            ("at", "accepted_ids"),
        )
    ]
    return float(max((time for time in times if time is not None), default=0.0))


def _end_epochs(new: sqlite3.Connection, values: dict[str, Any]) -> None:
    """Append a record far behind the last readable one of each epoch, which shows that the journal is not complete."""
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for (lines,) in new.execute("SELECT lines FROM journal ORDER BY position"):
        for line in lines.split("\n"):
            record = json.loads(line)
            latest[record["agent"], record["epoch"]] = record
    for record in latest.values():
        end = {name: record[name] for name in ("v", "agent", "epoch", "ts")}
        end |= {"jseq": record["jseq"] + JSEQ_GAP, "kind": "stopped", "reason": "store damaged: records may be missing"}
        values["position"] += 1
        text = json.dumps(end, separators=(",", ":"))
        row = (values["position"], text, checksum("journal", values["position"], text))
        new.execute("INSERT INTO journal VALUES (?, ?, ?)", row)


def _new_directory(directory: Path, now: datetime) -> Path:
    name = f"set-aside-{now:%Y%m%dT%H%M%SZ}"
    for number in range(1, 1000):
        path = directory / (name if number == 1 else f"{name}-{number:03}")
        try:
            path.mkdir(mode=0o750)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(directory / name)


def _swap(directory: Path, aside: Path) -> None:
    """Move the damaged files into ``aside``, the database first, then put the new store in its place."""
    for suffix in ("", "-wal", "-shm"):
        path = directory / f"{FILE}{suffix}"
        if path.exists():
            path.rename(aside / path.name)
    _sync(aside, directory)
    (directory / NEW).rename(directory / FILE)
    _sync(directory)


def _sync(*paths: Path) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
