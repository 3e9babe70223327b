# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a generation of a kahaDB store: a directory to whose files no broker of an earlier generation can write.

A data file of the journal is hard-linked if it is sealed, and copied otherwise. The content proves that it is sealed:
the broker writes its journal in one thread, in order, and closes a file before it writes to the next one
(DataFileAppender.processQueue of 5.5.1 to 6.3.1). So a file is sealed when a later file has a whole batch.

The files into which 5.14 and later move acknowledgements (MessageDatabase.forwardAllAcks) are different, because their
numbers are higher than that of the file that is being written. Their first record identifies them. The broker creates
one after the other, so only the last of them counts as open. A broker without a guard continues in the last file of
all, even in a file of moved acknowledgements. The first record that it writes there is a trace
(MessageDatabase.load), which is never moved, and from then on this is the file that is being written. No generation
ends with a file of moved acknowledgements (``kahadb.moved_acks``).
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
from ..kahadb.kept_index import KeptIndex, try_copy_settled_index
from ..kahadb.moved_acks import begin_data_file_if_acks_moved
from ..kahadb.rebuild_risk import find_rebuild_risk
from ..kahadb.risk_records import NO_RISK, RebuildRisk
from .shared_store import BARRIER, FenceError

_SKIPPED = (BARRIER, kept_index.DIRECTORY)
_CANNOT_COPY = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL)
SETTLING = 0.1
"""Seconds between acquiring the pair's lock and the copy. In this time a running guard that lost its lock checks the
store twice and kills its broker. The time is also longer than the resolution of the file system's timestamps, so
files that change during the copy get a newer time than before."""
PATIENCE = 2.0
"""Minimum seconds to wait for a broker that still writes. A guard kills its broker within a tenth of this time."""
_INDEX_BYTES_BUILT_A_SECOND = 10 << 20
"""Maximum bytes of an index that a broker builds from the journal per second. Waiting for the broker is better than a
copy without the index for as long as the build would take. The value is an estimate. A busy host with 6.3.1 built the
index of 1.8 of 5 million messages (1.36 GB for all) in ten minutes."""


_CHUNK = 64 << 20
"""Bytes of a file after which a sync starts in parallel to the copy of the rest. With a fast disk an index of 1.3 GB
took 0.4 s this way, and 0.6 s when it was copied first and then synced."""


@dataclass(frozen=True)
class GenerationCopyResult:
    """The result of copying a store into a new generation, a numbered copy of the store.

    It has the files linked or copied, and the offsets copied up to. ``open_file`` is the data file that was being
    written, or "". ``ends`` is the number of copied bytes for each data file that was copied, and for linked files with
    a higher number than ``open_file``. Linked files, ``links`` in number, are complete. ``has_index`` False: the broker
    builds its index from the journal. ``is_whole``: every file was linked, because no broker writes to the store any
    more. ``restored`` describes what was restored from the kept copy of the index and the kept data files. ``risk`` is
    what a broker that builds its index may lose.
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
        """Return the result of copying a store to a new generation (a numbered copy) as a dict for JSON."""
        return {**vars(self), "risk": self.risk.rows_of_subscriptions_with_possible_loss()}


def make_first_generation(target: str) -> GenerationCopyResult:
    """Create the first generation (numbered copy) of a shared store that has no kahaDB files yet.

    It is the empty directory ``target``. Returns its description.
    """
    disk.remove_tree_or_file(target)
    os.mkdir(target, 0o750)
    return GenerationCopyResult({}, "", 0, has_index=True)


def hard_link_generation(source: str, target: str, *, in_place: bool = False) -> GenerationCopyResult:
    """Hard-link each file of a store's generation (numbered copy) into a new generation.

    Also syncs the new directory. The caller makes sure that no broker writes to the generation any more. Remains of an
    earlier attempt in ``target`` are removed first. ``in_place`` and the errors are as in
    ``copy_store_into_new_generation``.
    """
    disk.remove_tree_or_file(target)
    os.mkdir(target, 0o750)
    names = _looks_of(source, in_place=in_place)
    for name in names:
        os.link(os.path.join(source, name), os.path.join(target, name))
    fitness = _make_fit_for_a_start(source, target)
    disk.sync_directory(target)
    return GenerationCopyResult({}, "", len(names), is_whole=True, **fitness)


def copy_store_into_new_generation(
    source: str, target: str, patience: float = PATIENCE, *, in_place: bool = False
) -> GenerationCopyResult:
    """Copy or hard-link a kahaDB store's files into a new directory; return up to which offset each file was copied.

    Also syncs the new directory. Remains of an earlier attempt in ``target`` are removed first.

    ``in_place``: the source is the store's own directory, which also contains other directories. A broker whose guard
    is frozen may still write to the source. This function makes the broker a standby, and copies the files when they no
    longer change. After ``patience`` seconds, plus the time to build the index, it copies the files without the index.
    Raises FenceError for a directory that contains anything but a kahaDB store, and OSError, for instance on a full
    volume.
    """
    deadline = time.monotonic() + patience + _index_size(source) / _INDEX_BYTES_BUILT_A_SECOND
    while True:
        before = _looks_of(source, in_place=in_place)
        time.sleep(SETTLING)
        is_last = time.monotonic() > deadline
        if is_last or _looks_of(source, in_place=in_place) == before:
            disk.remove_tree_or_file(target)
            made = _make(source, target, list(before), with_index=not is_last, in_place=in_place)
            if is_last or _looks_of(source, in_place=in_place) == before:
                disk.sync_directory(target)
                return made
        if not in_place:
            replace_lock_file_by_directory(source)


def replace_lock_file_by_directory(generation: str) -> None:
    """Replace the lock file of a generation (a copy of the store) by a directory, so that no broker can lock it.

    A broker of 5.9 or later that uses the generation then stops. The broker restarts in its process as a standby
    (``restartAllowed``), and could lock a new file.
    """
    lock = os.path.join(generation, BARRIER)
    with contextlib.suppress(OSError):
        disk.remove_file_or_link(lock)
        os.mkdir(lock, 0o750)


def _index_size(source: str) -> int:
    try:
        return os.stat(os.path.join(source, index.INDEX[0])).st_size
    except FileNotFoundError:
        return 0


def _looks_of(source: str, *, in_place: bool) -> dict[str, tuple[int, int, int]]:
    """Return the inode, size and change time of each file of a store, by name, to detect changes."""
    file_statuses = {}
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name in _SKIPPED or (in_place and not index.is_store_file(entry.name)):
                continue
            if not entry.is_file(follow_symlinks=False):
                raise FenceError(
                    f"{entry.path} is not a regular file. If activemq_fence is guard, the store must contain only the "
                    f"files of kahaDB: move {entry.path} out of the store"
                )
            # The file is opened, because only then NFS reliably shows changes by other clients.
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            file_statuses[entry.name] = status.st_ino, status.st_size, status.st_mtime_ns
    return dict(sorted(file_statuses.items()))


def _make(source: str, target: str, names: list[str], *, with_index: bool, in_place: bool) -> GenerationCopyResult:
    os.mkdir(target, 0o750)
    journals = [name for name in names if journal.FILE.fullmatch(name)]
    # The index first: the journal must have all that the index refers to, and the broker continues from there.
    if not with_index:
        # While a broker writes, its index changes only at checkpoints, but its journal changes all the time.
        with contextlib.suppress(OSError):
            with_index = try_copy_settled_index(source, target, SETTLING)
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
    return GenerationCopyResult(ends, open_file, len(links) + len(moved_links), copies=copies, **fitness)


def _make_fit_for_a_start(source: str, target: str) -> dict[str, Any]:
    """Repair a new generation (copy of the store) so that a broker can start on it; return what happened to its index.

    A broker up to 5.13 that is killed after a cleanup leaves an index that refers to a removed data file, and would not
    start. The kept copy of the source replaces such an index, or the generation gets no index.
    """
    kept = KeptIndex(source)
    restored, risk = "", NO_RISK
    if index.describe_unusable_index(target):
        restored = kept.restore_index(target, lambda: _remove_index(target))
        if not restored:
            risk = find_rebuild_risk(target, (source,))
            if index.missing_journal_file_names(target):
                _remove_index(target)
    begin_data_file_if_acks_moved(target)
    kept.link_into_generation(target)
    return {"has_index": not index.describe_unusable_index(target), "restored": restored, "risk": risk}


def _remove_index(target: str) -> None:
    for name in index.INDEX:
        disk.remove_file_or_link(os.path.join(target, name))


def _take_row(source: str, target: str, names: list[str], ends: dict[str, int]) -> list[str]:
    """Copy the last of several consecutive data files, hard-link those before it, and return the names of the links.

    Each file was started after its predecessor was closed. A last file without a whole batch was preallocated or just
    started, and is left out: the broker creates its own.
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
    return not any(journal.read_data_file_commands(path, 0, kinds=(journal.TRACE,)))


def _end_of_batches(path: str) -> int:
    with _content(path) as data:
        return journal.end_of_last_batch(data)


@contextmanager
def _content(path: str) -> Iterator[mmap.mmap]:
    """Map a file's content to memory; an empty file is mapped as one byte with which no batch begins."""
    with open(path, "rb") as file:
        is_empty = not os.fstat(file.fileno()).st_size
        with mmap.mmap(-1, 1) if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _copy(source: str, target: str, name: str, size: int = -1) -> None:
    """Copy a file, or its first ``size`` bytes, and sync it; the sync of the first part runs during the copy."""
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
            sync.result()  # The kernel reports an error of a sync once, not again at the next sync.
        os.fsync(here.fileno())


def _send(source: int, target: int, size: int) -> int:
    """Copy bytes between two open files, from their current offsets; return how many were copied, 0 at the end.

    The file system shares blocks or copies on its server where it can (XFS, btrfs, NFS 4.2).
    """
    try:
        return os.copy_file_range(source, target, size)
    except OSError as error:
        if error.errno not in _CANNOT_COPY:
            raise
        return os.sendfile(target, source, None, size)
