"""Sets a damaged store aside, and builds a new one from the rows that SQLite can still read.

A crash at any moment leaves either the damaged store as it was, and the next start begins again, or the new one
complete: the damaged file is moved away only when the new one is on the disk.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from activemq_agent.printable import count_with_noun
from activemq_agent.store.damage import read_wal
from activemq_agent.store.rows import has_valid_checksum
from activemq_agent.store.schema import (
    ANCHOR,
    COUNTERS,
    EVENT_TABLES,
    FILE,
    ID_TABLES,
    MESSAGE_TABLES,
    PAGE,
    TABLES,
    connect_to_database,
    create_tables,
    is_machine_failure,
)
from activemq_agent.store.state_directory import sync_paths_to_disk
from activemq_agent.store.transaction import insert_row_with_checksum, write_counters

NEW = "store.db.salvaged"
COPY = f"{NEW}.copy"
REPORT = "damage.json"
JSEQ_GAP = 1_000_000
"""Gap in jseq that shows readers of a damaged journal that records after the last readable one may be missing."""
KEYS_TRIED = 2_000
"""Keys at each end of an unreadable range that are selected one by one: a page has some hundred rows at most."""

_LAST_KEY = (1 << 63) - 1
_PUBLISH_AGAIN = (
    ". If the sources of the unreadable events still have them, publish these events again, with the ids that their "
    "publishers chose. Publish events whose ids the agent assigned without an id. The agent also accepts the ids of "
    "delivered events again, and sends such an event a second time: publish only the unreadable events"
)
_INCOMPLETE_JOURNAL = "the agent's store was damaged, so this event journal may lack records"

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OutboxGap:
    """A gap in the outbox of an agent's damaged store: a range of positions whose events could not be read.

    It is from ``first`` to ``last``. ``after_id`` and ``before_id`` are the ids of the readable neighbors, None at an
    end. Some of these events may have been acknowledged before, so that they are not lost.
    """

    first: int
    last: int
    after_id: str | None
    before_id: str | None

    def __str__(self) -> str:
        return (
            f"{self.first} to {self.last} (after {self.after_id or 'the start'}, before {self.before_id or 'the end'})"
        )


@dataclass(frozen=True, slots=True)
class StoreDamage:
    """The damage found in an agent's store, and the number of rows that were kept.

    ``reasons``, ``directory`` of the damaged files, and rows ``kept`` by table. ``missing``: how many events of the
    outbox could not be read, None if the file does not show it. ``epoch``: the new epoch if the old one could not be
    continued, else None.
    """

    reasons: tuple[str, ...]
    directory: Path
    kept: dict[str, int]
    missing: int | None
    gaps: tuple[OutboxGap, ...]
    epoch: str | None

    def __str__(self) -> str:
        missing = "an unknown number of events" if self.missing is None else count_with_noun(self.missing, "event")
        gaps = "; ".join(map(str, self.gaps[:5])) + ("; …" if len(self.gaps) > 5 else "")
        return (
            f"the agent's store was damaged ({self.reasons[0]}). The agent kept "
            f"{count_with_noun(self.kept['outbox'], 'event')} of the outbox, and could not read "
            f"{missing}{f', at the outbox positions {gaps}' if self.gaps else ''}. The damaged files are in "
            f"{self.directory}{'' if self.missing == 0 else _PUBLISH_AGAIN}"
        )


def finish_interrupted_salvage(directory: Path) -> None:
    """Finish a salvage of an agent's damaged store that a crash interrupted.

    Uses a complete new store, or deletes an incomplete one.
    """
    if not (directory / NEW).exists():
        return
    if (directory / FILE).exists():
        _delete_new_store(directory)
    elif latest := max(directory.glob("set-aside-*"), default=None):
        _move_new_store_into_place(directory, latest)


def _delete_new_store(directory: Path) -> None:
    for path in directory.glob(f"{NEW}*"):
        path.unlink()


def salvage_store(directory: Path, *, agent: str, reasons: list[str], now: datetime) -> StoreDamage:
    """Salvage an agent's damaged store: replace it by a new one with its readable rows, and return the damage found.

    The result also shows what was kept. The damaged files go into a new directory ``set-aside-TIME``, with a report
    ``damage.json``.
    """
    _delete_new_store(directory)
    with closing(connect_to_database(directory / NEW)) as new:
        new.execute("BEGIN")
        create_tables(new)
        new.execute("COMMIT")
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        is_wal_damaged = _make_readable_copy(directory)
        new.execute("BEGIN")
        last_counters = _copy_rows(directory / COPY, new)
        _remove_outdated_rows(new)
        # A damaged write-ahead file may have held later counters: ids must never be given out twice.
        damage_values = _write_counters(
            new, agent, last_counters, keeps_epoch=bool(last_counters) and not is_wal_damaged, now=now
        )
        new.execute("COMMIT")
    (directory / COPY).unlink()
    aside = _create_set_aside_directory(directory, now)
    damage = StoreDamage(tuple(reasons), aside, *damage_values)
    (aside / REPORT).write_text(json.dumps(asdict(damage), indent=1, default=str) + "\n")
    sync_paths_to_disk(directory / NEW, aside / REPORT, aside)
    _move_new_store_into_place(directory, aside)
    return damage


def _make_readable_copy(directory: Path) -> bool:
    """Copy the damaged database so that SQLite reads as much as possible; return whether its write-ahead file is
    damaged.

    The frames of the write-ahead file are put into their places, those after a damaged one too. The first page, the
    file's header and the schema, is the new store's: without it SQLite reads nothing, and every store has its tables
    at the same pages, those of ``create_tables``.
    """
    wal = read_wal(directory / f"{FILE}-wal")
    shutil.copyfile(directory / FILE, directory / COPY)
    largest_page = (directory / FILE).stat().st_size // PAGE + len(wal.frames)
    with (directory / NEW).open("rb") as new, (directory / COPY).open("r+b") as copy:
        for page, content in wal.frames:
            if 1 <= page <= largest_page:
                copy.seek((page - 1) * PAGE)
                copy.write(content)
        first_page = bytearray(new.read(PAGE))
        first_page[28:32] = bytes(4)  # without a number of pages, SQLite computes it from the file's size
        copy.seek(0)
        copy.write(first_page)
    return wal.damaged


def _copy_rows(source: Path, new: sqlite3.Connection) -> dict[str, Any]:
    """Copy every readable row of the database ``source``; return its counters by name, empty if they are unreadable."""
    counters: dict[str, Any] = {}
    # Immutable: the copy has no write-ahead file, and nothing is to be created next to it.
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?immutable=1", uri=True)) as db:
        # Invalid text only fails the row's checksum.
        db.text_factory = lambda text: text.decode(errors="replace")
        for row in undamaged_rows(db, "counters"):
            counters = dict(zip(COUNTERS + ANCHOR, row[1:-1], strict=True))
        for table in TABLES:
            for row in undamaged_rows(db, table):
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    return counters


def undamaged_rows(db: sqlite3.Connection, table: str) -> Iterator[Values]:
    """Yield the undamaged rows of a table in the database of an agent's damaged store.

    SQLite can read these rows, and they match their checksums. A row may come twice. The table is read upwards, and
    each range of keys that was passed over downwards. In what is still unread then, each key is selected alone,
    ``KEYS_TRIED`` of them at each end of a range. Nothing is read of a table that SQLite does not find, because its
    file is no database or has no schema.
    """
    if not _is_table_found(db, table):
        return
    for low, high in (yield from _read_past_damage(db, table, 0, _LAST_KEY)):
        for upper, lower in (yield from _read_past_damage(db, table, high, low)):
            keys = range(lower + 1, upper)
            for key in itertools.chain(keys[:KEYS_TRIED], keys[KEYS_TRIED:][-KEYS_TRIED:]):
                yield from _select_row(db, table, key)


def _read_past_damage(
    db: sqlite3.Connection, table: str, start: int, end: int
) -> Generator[Values, None, list[tuple[int, int]]]:
    """Yield the readable rows from key ``start`` towards ``end``, without these two; return the ranges passed over.

    Such a range is (key before it, key after it) in the direction of reading. After an error of SQLite the next try
    begins 1 key farther on, then 2, 4 and so on, until a row can be read.
    """
    direction, comparison, order = (1, ">", "ASC") if start < end else (-1, "<", "DESC")
    query = f"SELECT * FROM {table} WHERE rowid {comparison} ? ORDER BY rowid {order}"  # noqa: S608 -- constants
    passed_over: list[tuple[int, int]] = []
    reached, step = start, 0
    while step < (end - reached) * direction:
        try:
            for row in db.execute(query, (reached + step * direction,)):
                if not has_valid_checksum(table, row):
                    continue
                if (end - row[0]) * direction <= 0:
                    break
                if step:
                    passed_over.append((reached, row[0]))
                reached, step = row[0], 0
                yield row
        except sqlite3.DatabaseError as error:
            _raise_machine_failure(error)
            step = 2 * step or 1
        else:
            if step:
                passed_over.append((reached, reached + (step + 1) * direction))
            return passed_over
    return [*passed_over, (reached, end)]


def _is_table_found(db: sqlite3.Connection, table: str) -> bool:
    """Return whether SQLite can prepare a query of a table, for which it reads only the schema of the database."""
    try:
        db.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 -- constants
    except sqlite3.DatabaseError as error:
        _raise_machine_failure(error)
        return False
    return True


def _select_row(db: sqlite3.Connection, table: str, key: int) -> list[Values]:
    """Return the row of a table with a key, if it can be read and matches its checksum."""
    try:
        rows = db.execute(f"SELECT * FROM {table} WHERE rowid = ?", (key,)).fetchall()  # noqa: S608 -- constants
    except sqlite3.DatabaseError as error:
        _raise_machine_failure(error)
        return []
    return [row for row in rows if has_valid_checksum(table, row)]


def _raise_machine_failure(error: sqlite3.Error) -> None:
    if is_machine_failure(error):
        raise error


def _remove_outdated_rows(new: sqlite3.Connection) -> None:
    """Delete rows that old copies of pages show in a second state, and repair the attempts, which no checksum covers.

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
    new: sqlite3.Connection, agent: str, last_counters: dict[str, Any], *, keeps_epoch: bool, now: datetime
) -> tuple[dict[str, int], int | None, tuple[OutboxGap, ...], str | None]:
    """Write the counters of the new store, by the last ones of the old store and by the rows that were kept.

    Without ``keeps_epoch``, a new epoch begins. Without readable counters, elapsed time continues from the latest time
    in the rows: ``now`` is then the wall-clock time of that moment. Returns the fields of ``StoreDamage`` from ``kept``
    on.
    """
    event_ids: dict[int, str] = {}
    for table in EVENT_TABLES:
        event_ids |= dict(new.execute(f"SELECT place, event_id FROM {table}"))  # noqa: S608 -- constants
    last_place = max([last_counters.get("place", 0), *event_ids])
    first_place = min([last_counters.get("oldest") or last_place + 1, *event_ids])
    missing = max(0, last_counters["rows"] - len(event_ids)) if keeps_epoch else None
    gaps = tuple(_gaps_between(event_ids, first_place, last_place)) if missing != 0 else ()
    latest_time = _latest_time(new)
    if missing != 0:
        _forget_ids_without_event(new)
    kept = {table: _query_number(new, f"SELECT count(*) FROM {table}") for table in TABLES}  # noqa: S608 -- constants
    counters = {
        "seq": 0, "jseq": 0, "elapsed": latest_time, "boot": "", "monotonic": 0.0, "wall": now.timestamp(),
        "agent": agent, **last_counters,
        "place": last_place, "oldest": min(event_ids, default=None), "rows": len(event_ids),
        "rx": max(last_counters.get("rx", 0), _query_number(new, "SELECT max(rx) FROM inbox")),
        "position": max(last_counters.get("position", 0), _query_number(new, "SELECT max(position) FROM journal")),
    }  # fmt: skip
    epoch = None if keeps_epoch else str(uuid.uuid4())
    if epoch is not None:
        counters |= {"epoch": epoch, "seq": 0, "jseq": 0, "rx": counters["rx"] + 1_000_000}
        counters["position"] = _mark_epochs_incomplete(new, counters["position"])
    write_counters(new, [counters[name] for name in COUNTERS + ANCHOR])
    return kept, missing, gaps, epoch


def _forget_ids_without_event(new: sqlite3.Connection) -> None:
    """Delete the accepted ids of events that are not kept, so that unreadable events can be published again.

    Events that had been acknowledged before can then be published again, too. Receivers remove such copies by their id.
    """
    events = " UNION ALL ".join(f"SELECT event_id FROM {table}" for table in EVENT_TABLES)  # noqa: S608 -- constants
    new.execute(f"DELETE FROM accepted_ids WHERE event_id NOT IN ({events})")  # noqa: S608 -- constants


def _gaps_between(event_ids: dict[int, str], first: int, last: int) -> Iterable[OutboxGap]:
    """Yield a gap for each range of positions from ``first`` to ``last`` that ``event_ids`` (by position) lacks."""
    previous, previous_id = first - 1, None
    for place in sorted(place for place in event_ids if first <= place <= last):
        if place > previous + 1:
            yield OutboxGap(previous + 1, place - 1, previous_id, event_ids[place])
        previous, previous_id = place, event_ids[place]
    if previous < last:
        yield OutboxGap(previous + 1, last, previous_id, None)


def _query_number(db: sqlite3.Connection, query: str) -> Any:
    """Return the number that an SQL query returns; 0 in place of NULL."""
    return db.execute(query).fetchone()[0] or 0


def _latest_time(new: sqlite3.Connection) -> float:
    """Return the elapsed seconds of the latest acceptance or receipt that is known, so that time does not go back."""
    columns = {
        **dict.fromkeys(EVENT_TABLES, "accepted"),
        **dict.fromkeys(MESSAGE_TABLES, "received"),
        **dict.fromkeys(ID_TABLES, "at"),
    }
    return max(float(_query_number(new, f"SELECT max({column}) FROM {table}")) for table, column in columns.items())  # noqa: S608


def _mark_epochs_incomplete(new: sqlite3.Connection, position: int) -> int:
    """Append a record far after the last readable one of each epoch, which shows that the journal is not complete.

    Returns the new last position; ``position`` is the one before.
    """
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for (lines,) in new.execute("SELECT lines FROM journal ORDER BY position"):
        for line in lines.split("\n"):
            record = json.loads(line)
            latest[record["agent"], record["epoch"]] = record
    for record in latest.values():
        end = {name: record[name] for name in ("v", "agent", "epoch", "ts")}
        end |= {"jseq": record["jseq"] + JSEQ_GAP, "kind": "stopped", "reason": _INCOMPLETE_JOURNAL}
        position += 1
        insert_row_with_checksum(new, "journal", (position, json.dumps(end, separators=(",", ":"))))
    return position


def _create_set_aside_directory(directory: Path, now: datetime) -> Path:
    """Create a directory ``set-aside-TIME`` and return it; append a number if the name exists already."""
    name = f"set-aside-{now:%Y%m%dT%H%M%SZ}"
    path, number = directory / name, 1
    while path.exists():
        number += 1
        path = directory / f"{name}-{number:03}"
    path.mkdir(mode=0o750)
    return path


def _move_new_store_into_place(directory: Path, aside: Path) -> None:
    """Move the damaged files into ``aside``, the database first, then rename the new store to the store's name."""
    for suffix in ("", "-wal", "-shm"):
        path = directory / f"{FILE}{suffix}"
        if path.exists():
            path.rename(aside / path.name)
    sync_paths_to_disk(aside, directory)
    (directory / NEW).rename(directory / FILE)
    sync_paths_to_disk(directory)
