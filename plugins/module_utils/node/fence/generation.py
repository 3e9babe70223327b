# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a generation of a kahaDB store: a directory whose files no broker of an earlier one can write into.

A journal file is linked when it is sealed, which its content proves: the broker writes its journal from one thread, in
order, and closes a file before it writes into the next (DataFileAppender.processQueue of 5.5.1 to 6.3.1). So a file is
sealed when a later one holds a whole batch. Not so the files into which 5.14 and later move acknowledgements
(MessageDatabase.forwardAllAcks): their numbers lie above the file that is being written. Their first record says what
they are, and one is made after the other, so of those the last counts as open. A broker without a guard goes on in the
last file of all, be it such a one, and the first thing that it writes there is a trace (MessageDatabase.load), which is
never moved: from then on that is the file that is being written. All else is copied. No generation ends with a file of
moved acknowledgements (``kahadb.moved_acks``).
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..files import disk
from ..kahadb import index, journal, kept_index
from ..kahadb.kept_index import KeptIndex, copy_settled_index
from ..kahadb.moved_acks import begin_data_file_after_moved_acks
from ..kahadb.rebuild_risk import find_rebuild_risk
from ..kahadb.risk_records import NO_RISK, RebuildRisk
from .shared_store import BARRIER, FenceError

_SKIPPED = (BARRIER, kept_index.DIRECTORY)
_CANNOT_COPY = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL)
SETTLING = 0.1
"""Seconds between taking the pair's lock and the copy. A guard that lives and lost its lock unawares looks twice
meanwhile, and ends its broker. It is also more than the step of a file system's clock, so that what is
written during the copy has another time than what was written before it."""
PATIENCE = 2.0
"""Seconds that are waited at least for a broker that still writes. A guard ends its broker within a tenth of that."""
_INDEX_BYTES_BUILT_A_SECOND = 10 << 20
"""Bytes of an index that a broker builds from the journal in a second, at the most: as long as that would take it is
better to wait. Reckoned, not measured; seen on 6.3.1 beside much other work: 1.8 of 5 million messages in ten
minutes, whose index has 1.36 GB."""


_CHUNK = 64 << 20
"""Bytes of a file after which a sync begins, beside the copying of the rest: out of memory to a quick disk an index of
1.3 GB took 0.4 s, and 0.6 s copied first and then synced."""


@dataclass(frozen=True)
class Generation:
    """The result of copying a kahaDB store into a new generation: the files linked or copied, and the offsets copied up
    to.

    ``ends`` are the bytes that were taken of each journal file that was copied, the fence's point, and those of
    linked files whose numbers are higher than that of ``open_file``, the one that was being written; "" where nothing
    was. Of the files that were linked, ``links`` in number, all was taken. ``has_index`` False: the broker builds its
    index from the journal. ``is_whole``: every file was linked, of a store that nobody writes into any more.
    ``restored`` says in words what the kept copy of the index and the held data files gave it; ``risk`` is what a
    broker may lose that builds its index.
    """

    ends: dict[str, int]
    open_file: str
    links: int
    has_index: bool
    copies: int = 0
    is_whole: bool = False
    restored: str = ""
    risk: RebuildRisk = NO_RISK

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the copy's description as a dict that can be written as JSON."""
        return {**vars(self), "risk": self.risk.rows()}


def make_first_generation(target: str) -> Generation:
    """Make the empty directory ``target`` as the first generation of an unused store, and return its description."""
    disk.remove_tree(target)
    os.mkdir(target, 0o750)
    return Generation({}, "", 0, has_index=True)


def link_generation(source: str, target: str, *, in_place: bool = False) -> Generation:
    """Hard-link each file of a store's generation ``source`` into the new directory ``target``, and sync the directory.

    Only for a generation that no broker writes into any more. What an earlier try has left in ``target`` is removed
    first. ``in_place`` and the errors are as in ``make_generation``.
    """
    disk.remove_tree(target)
    os.mkdir(target, 0o750)
    names = _looks_of(source, in_place=in_place)
    for name in names:
        os.link(os.path.join(source, name), os.path.join(target, name))
    fitness = _make_fit_for_a_start(source, target)
    disk.sync_directory(target)
    return Generation({}, "", len(names), is_whole=True, **fitness)


def make_generation(source: str, target: str, patience: float = PATIENCE, *, in_place: bool = False) -> Generation:
    """Copy a store's generation ``source`` into the new directory ``target``, sync it, and return what was copied.

    What an earlier try has left in ``target`` is removed first.

    ``in_place``: the source is the store's own directory, in which there are other directories.
    A broker whose guard stands still may write on. It is made to stand by, and the copy is made once no file changes
    any more; after ``patience`` seconds, and as many as building the index would take, it is made without the index.
    Raises FenceError for what is no kahaDB store alone, OSError, for instance on a full volume.
    """
    deadline = time.monotonic() + patience + _index_size(source) / _INDEX_BYTES_BUILT_A_SECOND
    while True:
        before = _looks_of(source, in_place=in_place)
        time.sleep(SETTLING)
        is_last = time.monotonic() > deadline
        if is_last or _looks_of(source, in_place=in_place) == before:
            disk.remove_tree(target)
            made = _make(source, target, list(before), with_index=not is_last, in_place=in_place)
            if is_last or _looks_of(source, in_place=in_place) == before:
                disk.sync_directory(target)
                return made
        if not in_place:
            make_broker_stand_by(source)


def make_broker_stand_by(generation: str) -> None:
    """Put a directory in the place of a generation's lock: a broker of 5.9 or later that runs there sees it, and stops.

    It starts again in its process, as a standby (``restartAllowed``), and would lock a file that it makes anew.
    """
    lock = os.path.join(generation, BARRIER)
    with contextlib.suppress(OSError):
        disk.remove(lock)
        os.mkdir(lock, 0o750)


def _index_size(source: str) -> int:
    try:
        return os.stat(os.path.join(source, index.INDEX[0])).st_size
    except FileNotFoundError:
        return 0


def _looks_of(source: str, *, in_place: bool) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of change of each file, by name."""
    file_statuses = {}
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name in _SKIPPED or (in_place and not index.is_store_file(entry.name)):
                continue
            if not entry.is_file(follow_symlinks=False):
                raise FenceError(
                    f"{entry.path} is not a file: a fenced store must be one kahaDB directory without subdirectories"
                )
            # Opened, because NFS shows what others have changed for certain only to who opens a file.
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            file_statuses[entry.name] = status.st_ino, status.st_size, status.st_mtime_ns
    return dict(sorted(file_statuses.items()))


def _make(source: str, target: str, names: list[str], *, with_index: bool, in_place: bool) -> Generation:
    os.mkdir(target, 0o750)
    journals = [name for name in names if journal.FILE.fullmatch(name)]
    # The index first: what it says must be in the journal, and the broker reads on from there.
    if not with_index:
        # Of a broker that writes on, the index rests between two checkpoints, and the journal does not.
        with contextlib.suppress(OSError):
            with_index = copy_settled_index(source, target, SETTLING)
        if not with_index:
            _remove_index(target)
        names = list(_looks_of(source, in_place=in_place))
        journals = [name for name in names if journal.FILE.fullmatch(name)]
    else:
        for name in names:
            if name in index.INDEX:
                _copy(source, target, name)
    taken = sorted(journals, key=journal.data_file_number)
    moved = [name for name in taken if _holds_moved_acks_alone(os.path.join(source, name))]
    ends: dict[str, int] = {}
    links = _take_row(source, target, [name for name in taken if name not in moved], ends)
    open_file = next(iter(ends), "")
    moved_links = _take_row(source, target, moved, ends)
    copies = len(ends)
    for name in moved_links:
        if journal.data_file_number(name) > journal.data_file_number(open_file):
            ends[name] = os.stat(os.path.join(target, name)).st_size
    fitness = _make_fit_for_a_start(source, target)
    return Generation(ends, open_file, len(links) + len(moved_links), copies=copies, **fitness)


def _make_fit_for_a_start(source: str, target: str) -> dict[str, Any]:
    """Do for a generation what a unit without a guard has ``kahadb.mending`` do; return what became of its index.

    A broker up to 5.13 that is killed after a clean-up leaves an index that needs a removed journal file, and would not
    start. The kept copy of the source replaces such an index, or it is left out.
    """
    kept = KeptIndex(source)
    restored, risk = "", NO_RISK
    if index.describe_unusable_index(target):
        restored = kept.restore(target, lambda: _remove_index(target))
        if not restored:
            risk = find_rebuild_risk(target, (source,))
            if index.missing_journal_files(target):
                _remove_index(target)
    begin_data_file_after_moved_acks(target)
    kept.carry_to(target)
    return {"has_index": not index.describe_unusable_index(target), "restored": restored, "risk": risk}


def _remove_index(target: str) -> None:
    for name in index.INDEX:
        disk.remove(os.path.join(target, name))


def _take_row(source: str, target: str, names: list[str], ends: dict[str, int]) -> list[str]:
    """Copy the last file of a row, each of which was begun after the one before it was closed, and link those before.

    Returns the names of the links. A file without a whole batch at the end of the row was made ahead, or just begun:
    the broker makes its own.
    """
    rest = list(names)
    while rest:
        name = rest.pop()
        end = _end_of_batches(os.path.join(source, name))
        if end:
            _copy(source, target, name, end)
            ends[name] = end
            break
    for name in rest:
        os.link(os.path.join(source, name), os.path.join(target, name))
    return rest


def _holds_moved_acks_alone(path: str) -> bool:
    if journal.first_record_kind(path) != journal.MOVED_ACKS:
        return False
    return not any(journal.commands_after(path, 0, kinds=(journal.TRACE,)))


def _end_of_batches(path: str) -> int:
    with _content(path) as data:
        return journal.end_of_batches(data)


@contextmanager
def _content(path: str) -> Iterator[mmap.mmap]:
    """Map a file's content; one that is empty has a byte of it, which no batch begins with."""
    with open(path, "rb") as file:
        is_empty = not os.fstat(file.fileno()).st_size
        with mmap.mmap(-1, 1) if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _copy(source: str, target: str, name: str, size: int = -1) -> None:
    """Copy a file, or its first ``size`` bytes, and sync it, what is there already while the rest is copied."""
    old, new = os.path.join(source, name), os.path.join(target, name)
    with open(old, "rb") as there, open(new, "xb") as here, ThreadPoolExecutor(max_workers=1) as beside:
        left = size if size >= 0 else os.fstat(there.fileno()).st_size
        syncs = []
        while left > 0:
            sent = _send(there.fileno(), here.fileno(), min(left, _CHUNK))
            if not sent:
                break
            left -= sent
            if left > 0:
                syncs.append(beside.submit(os.fdatasync, here.fileno()))
        for sync in syncs:
            sync.result()  # The system tells of an error once, and not again to the next sync.
        os.fsync(here.fileno())


def _send(source: int, target: int, size: int) -> int:
    """Copy bytes between two open files, from where each stands; return how many were copied, 0 at the end.

    The file system shares blocks or copies on its server where it can (XFS, btrfs, NFS 4.2).
    """
    try:
        return os.copy_file_range(source, target, size)
    except OSError as error:
        if error.errno not in _CANNOT_COPY:
            raise
        return os.sendfile(target, source, None, size)
