# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reports the content of a kahaDB store and its damage, from the journal, before a broker opens the store.

From the index it reads which data files a broker with this index requires at its start, and to which records of the
journal the index refers. Any other missing data file shows only as a gap in the numbers. A broker also leaves such gaps
when it removes files that are out of use.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from ..errors import NodeError
from ..files.untrusted_paths import open_directory
from ..kahadb import journal
from ..kahadb.index import missing_journal_file_names
from ..kahadb.indexed_messages import IndexedJournalPositions, JournalCutOff, read_journal_positions_in_index
from ..kahadb.journal import DamagedRange, JournalCommand, JournalEnd
from ..kahadb.remaining_messages import MessageCounts, RecoverySimulation
from .shared_store import SharedStore

_INDEX = ("db.data", "db.redo")


@dataclass(frozen=True)
class JournalFile:
    """A data file of a kahaDB store's journal.

    It has a name, bytes and records. It also has the offset at which its last whole batch ends.
    """

    name: str
    size: int
    records: int
    end: int


@dataclass(frozen=True)
class JournalDamage:
    """A damaged range of a kahaDB store's journal.

    The messages that may be lost by it are included. ``start`` and ``stop`` are offsets in ``file``. ``messages`` are
    destination and id of the messages in the range that wait for a consumer. ``acknowledgements`` is the number of
    acknowledgements in the range: the broker may deliver their messages again. ``is_known`` False: the records cannot
    be read, so the lost content is unknown.
    """

    file: str
    start: int
    stop: int
    reason: str
    messages: tuple[tuple[str, str], ...] = ()
    acknowledgements: int = 0
    is_known: bool = False


@dataclass(frozen=True)
class StoreInspection:
    """The result of inspecting a kahaDB store.

    It has data files, message counts and damage. It also has the end of the store's journal (file, offset).
    ``index_lacks`` are missing data files that a broker with this index requires at its start. ``missing`` are the
    missing numbers of data files between the first and the last. ``unfinished`` is the number of bytes after the end
    that belong to a batch which a killed broker did not finish, 4096 at most. ``damages`` lists at most 1,000 of
    ``damaged`` places. ``checked_batches`` of all ``batches`` have a checksum. ``reading`` are the positions to which
    the index refers, ``cut_off`` those after the end of the journal. ``is_last_batch_cut`` is as in ``JournalEnd``.
    """

    files: tuple[JournalFile, ...]
    index: dict[str, int]
    index_lacks: tuple[str, ...]
    end: tuple[str, int]
    counts: MessageCounts
    damages: tuple[JournalDamage, ...]
    damaged: int
    missing: tuple[int, ...]
    unfinished: int
    batches: int
    checked_batches: int
    reading: IndexedJournalPositions
    cut_off: JournalCutOff | None
    is_last_batch_cut: bool

    @property
    def is_damaged(self) -> bool:
        """Whether the journal or the index of the kahaDB store is damaged, or a part of them is missing."""
        is_index_damaged = self.index_lacks or self.reading.state == "damaged"
        return bool(self.damaged or is_index_damaged or self.cut_off or self.is_last_batch_cut)

    def to_dict(self) -> dict[str, Any]:
        """Return the files, messages and damage found in a kahaDB store as a dict for JSON.

        It lists queues and durable subscriptions with their messages.
        """
        counts = self.counts
        return {
            "files": [asdict(file) for file in self.files],
            "index": self.index,
            "index_state": self.reading.state,
            "index_problem": self.reading.problem,
            "index_lacks_files": list(self.index_lacks),
            "cut_off": _cut_off_to_dict(self.cut_off) if self.cut_off else None,
            "end": {
                "file": self.end[0],
                "offset": self.end[1],
                "unfinished": self.unfinished,
                "is_last_batch_cut": self.is_last_batch_cut,
            },
            "batches": self.batches,
            "checked_batches": self.checked_batches,
            "missing_files": list(self.missing),
            "queues": [{"name": name, "messages": number} for name, number in sorted(counts.queues.items())],
            "subscriptions": [
                {"topic": topic, "key": key, "messages": number}
                for (topic, key), number in sorted(counts.subscriptions.items())
            ],
            "prepared_transactions": counts.prepared,
            "is_damaged": self.is_damaged,
            "damaged_places": self.damaged,
            "damages": [
                {**asdict(damage), "messages": [{"destination": d, "message": m} for d, m in damage.messages]}
                for damage in self.damages
            ],
        }


def _cut_off_to_dict(cut_off: JournalCutOff) -> dict[str, Any]:
    return {
        "file": f"db-{cut_off.file}.log",
        "index_offset": cut_off.offset,
        "end": cut_off.end,
        "messages": [
            {"destination": journal.destination_url(destination), "messages": number}
            for destination, number in sorted(cut_off.messages.items())
        ],
    }


@dataclass
class _Scan:
    """A scan of a kahaDB journal: the messages, transactions and damage that were read so far."""

    recovery: RecoverySimulation = field(default_factory=RecoverySimulation)
    records: Counter[int] = field(default_factory=Counter)
    suspects: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    acknowledgements: list[tuple[int, int]] = field(default_factory=list)

    def note(self, command: JournalCommand, file: int) -> None:
        self.records[file] += 1
        self.recovery.apply_record(command)
        message = command.destination, command.message
        if command.kind in (journal.ADD, journal.UPDATE):
            self.suspects.pop(message, None)
        if command.is_suspect and command.kind in (journal.ADD, journal.UPDATE):
            self.suspects[message] = file, command.span[0]
        elif command.is_suspect and command.kind == journal.REMOVE:
            self.acknowledgements.append((file, command.span[0]))


def inspect_store_as_dict(directory: str) -> dict[str, Any]:
    """Inspect the kahaDB store in a directory, and return the result as a dict for JSON.

    Of a fenced store these are the contents of its newest generation. ``generations`` of a fenced store: number,
    directory, whether it is in force, whether its broker is known to be dead, and whether it is kept because only it
    has some messages. Raises NodeError for a directory without a store, FenceError, OSError.
    """
    generations: list[dict[str, Any]] = []
    store = directory
    if os.path.isdir(os.path.join(directory, "fence", "claims")):
        shared = SharedStore(directory)
        highest = shared.highest_claim()
        kept = shared.generation_numbers_with_uncopied_messages()
        store = shared.generation_directory_path(highest.directory) if highest else directory
        generations = [
            {
                "number": number,
                "directory": name,
                "in_force": highest is not None and name == highest.directory,
                "ended": shared.is_broker_recorded_dead(number),
                "kept": number in kept,
            }
            for number, names in shared.generation_names_by_number().items()
            for name in names
        ]
    inspection = inspect_store_journal(store)
    if not inspection.files and not inspection.index:
        below = [name for name in sorted(os.listdir(store)) if _has_journal(os.path.join(store, name))]
        advice = (
            f"use one of its subdirectories {', '.join(below[:5])} instead"
            if below
            else "use the directory that contains the files db-N.log"
        )
        subject = "the directory" if store == directory else f"the newest copy {store} of the store"
        raise NodeError(f"{subject} contains no kahaDB store, because it has no file db-N.log: {advice}")
    return {"directory": store, "generations": generations, **inspection.to_dict()}


def _has_journal(directory: str) -> bool:
    return os.path.isdir(directory) and any(map(journal.FILE.fullmatch, os.listdir(directory)))


def inspect_store_journal(store_directory: str) -> StoreInspection:
    """Inspect the journal of a kahaDB store, and return its files, its remaining messages and its damage.

    Nothing is written or locked. While a broker writes, the result is a snapshot. Raises NodeError for content that no
    broker writes, OSError.
    """
    # The index first: a broker writes a record to the journal before the index refers to it.
    reading = read_journal_positions_in_index(store_directory)
    scan, tail = _Scan(), JournalEnd()
    for command in journal.read_journal_commands_and_set_tail(store_directory, tail, verify=True):
        scan.note(command, tail.file)
    with open_directory(store_directory) as opened:
        numbered = journal.data_file_numbers_and_names(opened)
        sizes = {name: opened.entry_status(name).st_size for _unused, name in numbered}
        index = {name: opened.entry_status(name).st_size for name in _INDEX if opened.exists(name)}
    numbers = [number for number, _unused in numbered]
    # Without the files that a running broker removed meanwhile, and with those that it created.
    ends = {number: tail.ends.get(number, sizes[name]) for number, name in numbered}
    files = tuple(
        JournalFile(name, sizes[name], scan.records[number], tail.ends.get(number, 0)) for number, name in numbered
    )
    return StoreInspection(
        files=files,
        index=index,
        index_lacks=missing_journal_file_names(store_directory),
        end=(f"db-{tail.file}.log" if files else "", tail.offset),
        counts=scan.recovery.message_counts_after_recovery(None),
        damages=_damages(tail.places, scan),
        damaged=tail.damaged + tail.unread,
        missing=_missing(numbers),
        unfinished=tail.unfinished,
        batches=tail.batches,
        checked_batches=tail.checked,
        reading=reading,
        cut_off=reading.records_missing_at_journal_end(ends),
        is_last_batch_cut=tail.is_last_batch_cut,
    )


def _missing(numbers: Sequence[int]) -> tuple[int, ...]:
    there = set(numbers)
    missing_numbers = (number for number in range(min(there, default=0), max(there, default=0)) if number not in there)
    return tuple(islice(missing_numbers, journal.LISTED))


def _damages(places: Sequence[DamagedRange], scan: _Scan) -> tuple[JournalDamage, ...]:
    """Return the damage at each damaged place of a journal, by a search in the sorted records (not quadratic)."""
    suspects = sorted((where, name) for name, where in scan.suspects.items())
    positions = [where for where, _unused in suspects]
    acknowledgements = sorted(scan.acknowledgements)
    return tuple(
        _damage(
            place,
            [
                name
                for _unused, name in suspects[slice(*_range_inside(place, positions))]
                if scan.recovery.holds_message(*name)
            ],
            len(range(*_range_inside(place, acknowledgements))),
        )
        for place in places
    )


def _range_inside(place: DamagedRange, positions: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return begin and end of the sorted positions (file, offset) that lie inside of a damaged place."""
    return bisect_left(positions, (place.file, place.start)), bisect_left(positions, (place.file, place.stop))


def _damage(place: DamagedRange, waiting: Sequence[tuple[str, str]], acknowledgements: int) -> JournalDamage:
    return JournalDamage(
        f"db-{place.file}.log",
        place.start,
        place.stop,
        place.reason,
        tuple((journal.destination_url(destination), message) for destination, message in waiting),
        acknowledgements,
        is_known=bool(waiting or acknowledgements),
    )
