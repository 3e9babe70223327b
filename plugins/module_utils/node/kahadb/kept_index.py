# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps a usable copy of a kahaDB store's index with every journal file since, and restores a store from it.

A broker of 5.5 to 5.13.0 that builds its index from the journal loses messages of durable subscriptions: 5.5 to 5.8
remove the record of a subscription with its data file, 5.9 to 5.13.0 move it behind messages that wait for it
(AMQ-6131). So an index that cannot be used is replaced by an earlier one, from which the broker reads the journal on.
That is sound only with every data file since: the broker does not start without one that the index needs, and brings
acknowledged messages back without one that came and went. Data files are held by hard links, which outlive a clean-up.

    STORE/kept-index/journal/db-N.log   another name of each data file of the store, also of those that were removed
    STORE/kept-index/copy -> copy-T/    the index as of one moment, and ``files.json``: the data files of that moment

The directory is in the store, so in a generation behind a guard, whose files only the broker of its node writes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..files import disk
from ..printable import counted
from . import journal
from .index import INDEX, recovery_file_numbers, recovery_start
from .indexed_subscriptions import IndexPageError, subscriptions_in_index
from .moved_subscriptions import pass_over_moved_subscriptions

DIRECTORY = "kept-index"
"""The name of the directory, in a kahaDB store, with the kept copy of the index and the held data files."""
SETTLING = 0.03
"""Seconds before and after a copy in which the index must not change: more than the step of a file system's clock."""
_FILES = "files.json"
_PIECE = 16 << 20


class KeptIndex:
    """The kept copy of the index of a kahaDB store, and the data files since.

    Every method may raise OSError.
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self.directory = os.path.join(store, DIRECTORY)
        self._journal = os.path.join(self.directory, "journal")
        self._copy = os.path.join(self.directory, "copy")

    def hold_journal(self) -> None:
        """Give each data file of the store another name, by which it outlives its removal by the broker.

        Drops everything where the store's files are others than those that are held: another store has its place.
        """
        held, present = self._held_inodes(), _inodes(self.store)
        if held and not _are_of_one_store(held, present):
            self.drop()
            held = {}
        # A file with moved records of subscriptions was replaced, when the store was restored.
        replaced = {name for name in held.keys() & present.keys() if held[name] != present[name]}
        self.release_files(replaced)
        if missing := present.keys() - (held.keys() - replaced):
            os.makedirs(self._journal, 0o750, exist_ok=True)
            for name in missing:
                with suppress(FileNotFoundError, FileExistsError):
                    os.link(os.path.join(self.store, name), os.path.join(self._journal, name))

    def removed_files(self) -> dict[str, int]:
        """Return the bytes on the disk of each held data file that the broker has removed, by name."""
        present = _inodes(self.store)
        removed = {}
        for name in self._held_inodes():
            if name not in present:
                removed[name] = os.stat(os.path.join(self._journal, name)).st_blocks * 512
        return removed

    def release_files(self, names: Iterable[str]) -> None:
        """Remove held data files that the broker has removed, but for those that the kept copy of the index needs."""
        needed = recovery_file_numbers(os.path.join(self._copy, INDEX[0]))
        for name in names:
            if journal.data_file_number(name) not in needed or os.path.exists(os.path.join(self.store, name)):
                disk.remove(os.path.join(self._journal, name))

    def drop(self) -> None:
        """Remove the copy of the index and all held data files."""
        disk.remove_tree(self.directory)

    def try_copy_index(self) -> bool:
        """Copy the index as of one moment, in place of the copy before; return False where it changed meanwhile."""
        if not recovery_file_numbers(os.path.join(self.store, INDEX[0])):
            return False
        self.hold_journal()
        files = sorted(_inodes(self.store))
        new = f"{self._copy}-{time.time_ns()}"
        os.makedirs(new, 0o750)
        if not copy_settled_index(self.store, new):
            disk.remove_tree(new)
            return False
        self.hold_journal()
        needed = set(recovery_file_numbers(os.path.join(new, INDEX[0])))
        if not needed or not needed <= set(map(journal.data_file_number, self._held_inodes())):
            disk.remove_tree(new)
            return False
        disk.write_file(os.path.join(new, _FILES), json.dumps(files).encode(), 0o640)
        disk.sync_directory(new)
        disk.point_link(self._copy, os.path.basename(new))
        for name in os.listdir(self.directory):
            if name.startswith("copy-") and name != os.path.basename(new):
                disk.remove_tree(os.path.join(self.directory, name))
        return True

    def subscriptions(self) -> set[tuple[str, str]]:
        """Return the durable subscriptions that the kept copy of the index holds, none where there is no copy."""
        with suppress(FileNotFoundError, IndexPageError):
            return subscriptions_in_index(os.path.join(self._copy, INDEX[0]))
        return set()

    def is_complete(self) -> bool:
        """Return whether the kept copy can replace the store's index: no data file since is missing."""
        held, present = self._held_inodes(), _inodes(self.store)
        return _are_of_one_store(held, present) and self._covers(held.keys() | present.keys())

    def _covers(self, names: Iterable[str]) -> bool:
        """Return whether ``names`` hold every data file of the copy's moment, and all that were begun since."""
        try:
            with open(os.path.join(self._copy, _FILES), encoding="ascii") as file:
                files = [str(name) for name in json.load(file)]
        except (FileNotFoundError, ValueError):
            return False
        needed = recovery_file_numbers(os.path.join(self._copy, INDEX[0]))
        return bool(files and needed) and _has_all(names, {*map(journal.data_file_number, files), *needed})

    def restore(self, target: str, clear_index: Callable[[], None]) -> str:
        """Give a store the kept copy in place of its index; return what came back, in words, "" where that is not
        possible.

        ``target`` is the store, or a generation that was made from it. ``clear_index()`` takes its own index away once
        everything is known to be there.
        """
        held, present, there = self._held_inodes(), _inodes(self.store), _inodes(target)
        if not _are_of_one_store(held, present):
            return ""
        # Never a file that is still in the store: a broker that is not known to be dead may write into it.
        removed = held.keys() - present.keys() - there.keys()
        if not self._covers(removed | there.keys()):
            return ""
        for name in removed:
            os.link(os.path.join(self._journal, name), os.path.join(target, name))
        pages = os.path.join(self._copy, INDEX[0])
        if start := recovery_start(pages):
            with suppress(IndexPageError):
                pass_over_moved_subscriptions(target, start, subscriptions_in_index(pages))
        disk.sync_directory(target)
        clear_index()
        self._put_index(target)
        return f"the index of {_time_of(self._copy)} and {counted(len(removed), 'data file')} from {self.directory}"

    def _put_index(self, target: str) -> None:
        for name in reversed(INDEX):  # The pages last: a store without them has no index.
            source = os.path.join(self._copy, name)
            path = os.path.join(target, name)
            if os.path.exists(source):
                disk.remove(f"{path}.new")
                _copy_file(source, f"{path}.new")
                os.replace(f"{path}.new", path)
        disk.sync_directory(target)

    def carry_to(self, target: str) -> None:
        """Give a generation that was made from this store the copy and the held files, by hard links."""
        if not self.is_complete():
            return
        heir = KeptIndex(target)
        copy = os.path.join(heir.directory, os.readlink(self._copy))
        os.makedirs(copy, 0o750)
        heir.hold_journal()
        for name in os.listdir(self._copy):
            os.link(os.path.join(self._copy, name), os.path.join(copy, name))
        disk.point_link(heir._copy, os.path.basename(copy))
        for name in self._held_inodes().keys() - _inodes(self.store).keys() - _inodes(target).keys():
            os.link(os.path.join(self._journal, name), os.path.join(heir._journal, name))

    def _held_inodes(self) -> dict[str, int]:
        return _inodes(self._journal)


def copy_settled_index(store: str, target: str, settling: float = SETTLING) -> bool:
    """Copy the index of a store as of one moment into a directory, and sync it; return False where it changed.

    ``settling``: seconds before and after the copy in which it must not change.
    """
    before = _looks(store)
    time.sleep(settling)
    if _looks(store) != before or INDEX[0] not in before:
        return False
    for name in before:
        try:
            _copy_file(os.path.join(store, name), os.path.join(target, name))
        except FileNotFoundError:
            return False
    time.sleep(settling)
    return _looks(store) == before


def _looks(store: str) -> dict[str, tuple[int, int, int]]:
    looks = {}
    for name in INDEX:
        with suppress(FileNotFoundError), open(os.path.join(store, name), "rb") as file:
            # Opened, because NFS shows what others have changed for certain only to who opens a file.
            status = os.fstat(file.fileno())
            looks[name] = status.st_ino, status.st_size, status.st_mtime_ns
    return looks


def _inodes(directory: str) -> dict[str, int]:
    """Return the inode of each data file in a directory, by name; empty where there is no directory."""
    inodes = {}
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if journal.FILE.fullmatch(entry.name):
                inodes[entry.name] = entry.inode()
    return inodes


def _are_of_one_store(held: dict[str, int], present: dict[str, int]) -> bool:
    """Return whether held data files are those of a store: another one may have taken its place, or a copy of it."""
    return any(held[name] == present[name] for name in held.keys() & present.keys())


def _has_all(names: Iterable[str], needed: Iterable[int]) -> bool:
    """Return whether the data files ``needed`` are there, and every one from their last to the last of all.

    Brokers number data files without a gap.
    """
    numbers, wanted = set(map(journal.data_file_number, names)), set(needed)
    wanted.update(range(max(wanted), max(numbers, default=0)))
    return wanted <= numbers


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as old, open(target, "xb") as new:
        while piece := old.read(_PIECE):
            new.write(piece)
        new.flush()
        os.fsync(new.fileno())


def _time_of(directory: str) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.stat(directory).st_mtime))
