# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads from the index of a kahaDB store which data files of the journal its broker reads at its start.

Up to 5.13 a cleanup removes data files before the current index is on the disk. ``checkpointUpdate`` flushes within the
transaction that stores the new positions, so only the positions of the previous checkpoint reach the disk
(MessageDatabase of 5.5.1 to 5.13.5; 5.14 flushes before it removes). A broker that is killed before its next checkpoint
may leave an index that refers to a removed file. The next start then fails with "Could not locate data file". Without
``db.data`` and ``db.redo`` a broker builds its index from the journal, and up to 5.13.0 it then loses messages of
durable subscriptions (``kept_index``).
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from . import journal
from .index_pages import IndexPageError, PageFile

INDEX = ("db.data", "db.redo", "db.free")
"""The files of an index: its pages, the pages being written, which a broker restores, and the list of free pages."""
UNUSABLE_SUFFIX = ".unusable"
"""Suffix of an index's files that :func:`move_index_aside` moved away."""

_ROOT_STATE_SIZE = 4 + 8
"""Bytes before the positions in the record of page 0: the index's state, and its page of destinations."""
_POSITION = struct.Struct(">?ii")
_VERSION = struct.Struct(">i")
_FIRST_VERSION_WITH_ACKS = 5
"""The first version of an index that also has the journal position of the map of acknowledgements (5.10)."""


def is_store_file(name: str) -> bool:
    """Return whether a file name is that of a kahaDB store's file: of its journal or its index."""
    return name in INDEX or journal.FILE.fullmatch(name) is not None


def journal_file_numbers_for_recovery(index_path: str) -> tuple[int, ...]:
    """Return the numbers of the journal files that recovery reads, from a kahaDB store's index file at ``index_path``.

    A broker reads them before it serves. These files have the first transaction in progress or the last update, the
    audit of producers, and the map of acknowledgements, each of which may be absent. Returns () without an index or
    with an incomplete page 0. Raises OSError.
    """
    positions = journal_positions_in_root(_read_root(index_path))
    last_update, in_progress, *others = positions or (None, None)
    start = last_update if in_progress is None else in_progress
    return tuple(position[0] for position in (start, *others) if position is not None)


def recovery_start_position(index_path: str) -> tuple[int, int] | None:
    """Return the journal position at which a broker starts the recovery of a kahaDB store.

    The position is (data file, offset), read from the store's index file at ``index_path``. Returns None if the index
    does not contain it. Raises OSError.
    """
    positions = journal_positions_in_root(_read_root(index_path))
    last_update, in_progress, *_others = positions or (None, None)
    return last_update if in_progress is None else in_progress


def journal_positions_in_root(page: bytes) -> tuple[tuple[int, int] | None, ...]:
    """Return the journal positions, each as (data file, offset) or None, from the record on page 0 of a kahaDB index.

    They are those of the last update, the first transaction in progress, the audit of producers, and from 5.10 on the
    map of acknowledgements. Returns () for an incomplete record.
    """
    positions = []
    at = _ROOT_STATE_SIZE
    try:
        for _index in range(3):
            position, at = _read_position(page, at)
            positions.append(position)
        (version,) = _VERSION.unpack_from(page, at)
        if version >= _FIRST_VERSION_WITH_ACKS:
            positions.append(_read_position(page, at + _VERSION.size)[0])
    except struct.error:
        return ()
    return tuple(positions)


def _read_root(path: str) -> bytes:
    """Return the record of page 0 of an index, as a broker reads it after it has restored the pages of ``db.redo``.

    Returns b"" without an index or with an incomplete page 0.
    """
    try:
        with PageFile(path) as pages:
            return pages.read_record_at_page(0) if pages.has_pages() else b""
    except (FileNotFoundError, IndexPageError):
        return b""


def missing_journal_file_names(store: str) -> tuple[str, ...]:
    """Return the names of the journal files that a kahaDB store's index requires and that are missing.

    Raises OSError.
    """
    names = (
        f"db-{number}.log" for number in sorted(set(journal_file_numbers_for_recovery(os.path.join(store, INDEX[0]))))
    )
    return tuple(name for name in names if not os.path.exists(os.path.join(store, name)))


def describe_unusable_index(store: str) -> str:
    """Describe why the index of a kahaDB store is unusable for a broker; return "" for a usable one.

    An index with an incomplete page 0 counts as missing unless ``db.redo`` restores the page. Raises OSError.
    """
    missing = missing_journal_file_names(store)
    if missing:
        files = "data file" if len(missing) == 1 else "data files"
        return (
            f"the index of the store {store} (file db.data) requires {', '.join(missing)}, but the store no longer "
            f"contains the {files}"
        )
    if _read_root(os.path.join(store, INDEX[0])):
        return ""
    with suppress(FileNotFoundError):
        if any(map(journal.FILE.fullmatch, os.listdir(store))):
            return f"the index of the store {store} (file db.data) is incomplete or missing"
    return ""


def _open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def index_file_inodes_sizes_and_times(store: str) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of the last change of each index file of a kahaDB store, by file name."""
    states = {}
    for name in INDEX:
        # The file is opened, because only then NFS reliably shows changes by other clients. A pipe does not block.
        with suppress(FileNotFoundError), open(os.path.join(store, name), "rb", opener=_open_without_blocking) as file:
            status = os.fstat(file.fileno())
            states[name] = status.st_ino, status.st_size, status.st_mtime_ns
    return states


def move_index_aside(store: str) -> None:
    """Move the index files of a kahaDB store aside, so that the broker rebuilds the index from the journal.

    The files get the suffix ``.unusable``, replacing earlier ones. No broker may use the store. Raises OSError.
    """
    # The pages last, so that an interrupted call can be repeated.
    for name in reversed(INDEX):
        path = os.path.join(store, name)
        with suppress(FileNotFoundError):
            os.replace(path, path + UNUSABLE_SUFFIX)


@contextmanager
def hold_store_lock_if_free(store: str, root: str = "") -> Iterator[bool]:
    """Hold the lock of a kahaDB store within a ``with`` block if it is free, and yield whether it is held.

    It does not wait, and yields False while a broker holds the lock. ``root`` is the directory of the mKahaDB to which
    the store belongs: its lock is also held. Brokers up to 5.8 lock the stores, later brokers lock the root.
    """
    with ExitStack() as stack:
        for directory in dict.fromkeys((root or store, store)):
            path = os.path.join(directory, "lock")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
            stack.callback(os.close, descriptor)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
        yield True


def _read_position(page: bytes, at: int) -> tuple[tuple[int, int] | None, int]:
    """Return the file and the offset of a position, None for an absent one, and the offset at which the next begins."""
    if page[at : at + 1] in (b"", b"\0"):
        return None, at + 1
    _unused, number, offset = _POSITION.unpack_from(page, at)
    return (number, offset), at + _POSITION.size
