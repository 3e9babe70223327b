# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps a usable copy of a kahaDB store's index with every later data file, and restores a store from it.

A broker of 5.5 to 5.13.0 that builds its index from the journal loses messages of durable subscriptions. 5.5 to 5.8
remove the record of a subscription with its data file; 5.9 to 5.13.0 move it after messages that wait for it
(AMQ-6131). So an unusable index is replaced by an earlier one, and the broker reads the journal from there. This
requires every later data file: the broker does not start without a file that the index refers to, and without a file
that was created and removed since then it delivers acknowledged messages again. Hard links keep the data files after a
cleanup.

    STORE/kept-index/journal/db-N.log   a hard link to each data file of the store, also to those that were removed
    STORE/kept-index/copy -> copy-T/    a snapshot of the index, and ``files.json`` with the data files at that time

The directory is in the store. With a guard it is in a generation, to which only the broker of its node writes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..files import disk
from ..printable import count_with_noun
from . import journal
from .index import INDEX, index_file_inodes_sizes_and_times, journal_file_numbers_for_recovery, recovery_start_position
from .index_pages import IndexPageError
from .indexed_subscriptions import subscriptions_in_index
from .moved_subscriptions import replace_moved_subscriptions_by_trace_records

DIRECTORY = "kept-index"
"""The name of the directory, in a kahaDB store, with the kept copy of the index and the kept data files."""
SETTLING = 0.03
"""Seconds before and after a copy in which the index must not change: more than the resolution of file times."""
_FILE_LIST = "files.json"
_PIECE_BYTES = 16 << 20


class KeptIndex:
    """The kept copy of the index of a kahaDB store, from which a damaged index is restored.

    The later data files of the store are kept, too. Every method may raise OSError.
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self.directory = os.path.join(store, DIRECTORY)
        self._journal = os.path.join(self.directory, "journal")
        self._copy = os.path.join(self.directory, "copy")
        self._has_linked_files = False

    def hard_link_data_files(self) -> None:
        """Hard-link each data file of a kahaDB store into ``kept-index``, to keep the files that the broker removes.

        Drops the copy and all files if the kept files belong to a different store, which was replaced. A broker may
        remove every kept file between two calls. After the first call they are then kept: the copy can be restored if
        no later file is missing, and names the durable subscriptions until the next copy.
        """
        kept, present = self._kept_inodes(), _data_file_inodes(self.store)
        are_all_removed = self._has_linked_files and kept.keys().isdisjoint(present)
        if kept and not are_all_removed and not _belong_to_one_store(kept, present):
            self.delete_kept_index_directory()
            kept = {}
        self._has_linked_files = True
        # A file with moved records of subscriptions is replaced when a store is restored.
        replaced = {name for name in kept.keys() & present.keys() if kept[name] != present[name]}
        self.delete_kept_data_files(replaced)
        if missing := present.keys() - (kept.keys() - replaced):
            os.makedirs(self._journal, 0o750, exist_ok=True)
            for name in missing:
                with suppress(FileNotFoundError, FileExistsError):
                    os.link(os.path.join(self.store, name), os.path.join(self._journal, name))

    def disk_usage_by_removed_data_file(self) -> dict[str, int]:
        """Return a dict with the disk usage in bytes, by file name, of kahaDB data files that only ``kept-index`` has.

        The files are still in ``kept-index``, for the copy of the store's index.
        """
        present = _data_file_inodes(self.store)
        removed = {}
        for name in self._kept_inodes():
            if name not in present:
                removed[name] = os.stat(os.path.join(self._journal, name)).st_blocks * 512
        return removed

    def delete_kept_data_files(self, names: Iterable[str]) -> None:
        """Delete the kahaDB data files with the given names from a store's directory ``kept-index``.

        The files that the copy of the store's index requires stay.
        """
        required = journal_file_numbers_for_recovery(os.path.join(self._copy, INDEX[0]))
        for name in names:
            if journal.data_file_number(name) not in required or os.path.exists(os.path.join(self.store, name)):
                disk.remove_file_or_link(os.path.join(self._journal, name))

    def delete_kept_index_directory(self) -> None:
        """Delete ``kept-index``, the directory with the copies of a kahaDB store's index and data files."""
        disk.remove_tree_or_file(self.directory)

    def try_copy_index(self) -> bool:
        """Copy the index of a kahaDB store into ``kept-index``; return False if the index is unusable or changed.

        The snapshot replaces the earlier copy.
        """
        if not journal_file_numbers_for_recovery(os.path.join(self.store, INDEX[0])):
            return False
        self.hard_link_data_files()
        files = sorted(_data_file_inodes(self.store))
        new = f"{self._copy}-{time.time_ns()}"
        os.makedirs(new, 0o750)
        if not try_copy_settled_index(self.store, new):
            disk.remove_tree_or_file(new)
            return False
        self.hard_link_data_files()
        required = set(journal_file_numbers_for_recovery(os.path.join(new, INDEX[0])))
        if not required or not required <= set(map(journal.data_file_number, self._kept_inodes())):
            disk.remove_tree_or_file(new)
            return False
        disk.write_new_file(os.path.join(new, _FILE_LIST), json.dumps(files).encode(), 0o640)
        disk.sync_directory(new)
        disk.set_symlink_target(self._copy, os.path.basename(new))
        for name in os.listdir(self.directory):
            if name.startswith("copy-") and name != os.path.basename(new):
                disk.remove_tree_or_file(os.path.join(self.directory, name))
        return True

    def subscriptions_in_copy(self) -> set[tuple[str, str]]:
        """Return the durable subscriptions, as (destination, key) pairs, in the kept copy of a kahaDB store's index.

        The result is empty without a copy.
        """
        with suppress(FileNotFoundError, IndexPageError):
            return subscriptions_in_index(os.path.join(self._copy, INDEX[0]))
        return set()

    def is_complete(self) -> bool:
        """Return whether the kept copy of a kahaDB index is complete, so that it can replace the store's index.

        No later data file is missing.
        """
        kept, present = self._kept_inodes(), _data_file_inodes(self.store)
        return _belong_to_one_store(kept, present) and self._includes_required_files(kept.keys() | present.keys())

    def _includes_required_files(self, names: Iterable[str]) -> bool:
        """Return whether ``names`` contain every data file of the copy and every later one."""
        try:
            with open(os.path.join(self._copy, _FILE_LIST), encoding="ascii") as file:
                files = [str(name) for name in json.load(file)]
        except (FileNotFoundError, ValueError):
            return False
        required = journal_file_numbers_for_recovery(os.path.join(self._copy, INDEX[0]))
        return bool(files and required) and _has_all_required(names, {*map(journal.data_file_number, files), *required})

    def restore_index(self, target: str, clear_index: Callable[[], None]) -> str:
        """Restore the index of a kahaDB store from the copy that was made earlier in its directory ``kept-index``.

        Returns a description of the restored files. The description is "" if that is not possible. ``target`` is the
        store, or a generation that was made from it. ``clear_index()`` removes the index of the target after a check
        that all kept files exist.
        """
        kept, present, target_inodes = self._kept_inodes(), _data_file_inodes(self.store), _data_file_inodes(target)
        if not _belong_to_one_store(kept, present):
            return ""
        # A file that is still in the store is never linked: a broker that may be alive could write to it.
        removed = kept.keys() - present.keys() - target_inodes.keys()
        if not self._includes_required_files(removed | target_inodes.keys()):
            return ""
        for name in removed:
            os.link(os.path.join(self._journal, name), os.path.join(target, name))
        pages = os.path.join(self._copy, INDEX[0])
        if start := recovery_start_position(pages):
            with suppress(IndexPageError):
                replace_moved_subscriptions_by_trace_records(target, start, subscriptions_in_index(pages))
        disk.sync_directory(target)
        clear_index()
        self._copy_index_to(target)
        data_files = count_with_noun(len(removed), "data file")
        made_at = _modification_time(self._copy)
        return f"a saved copy of the index, made at {made_at}, with {data_files} from {self.directory}"

    def _copy_index_to(self, target: str) -> None:
        for name in reversed(INDEX):  # The pages last: a store without them has no index.
            source = os.path.join(self._copy, name)
            path = os.path.join(target, name)
            if os.path.exists(source):
                disk.remove_file_or_link(f"{path}.new")
                _copy_file(source, f"{path}.new")
                os.replace(f"{path}.new", path)
        disk.sync_directory(target)

    def link_into_generation(self, target: str) -> None:
        """Hard-link the kept copy of a kahaDB index into a generation, a numbered copy of the store.

        The kept data files are linked, too.
        """
        if not self.is_complete():
            return
        generation_index = KeptIndex(target)
        copy = os.path.join(generation_index.directory, os.readlink(self._copy))
        os.makedirs(copy, 0o750)
        generation_index.hard_link_data_files()
        for name in os.listdir(self._copy):
            os.link(os.path.join(self._copy, name), os.path.join(copy, name))
        disk.set_symlink_target(generation_index._copy, os.path.basename(copy))
        for name in (
            self._kept_inodes().keys() - _data_file_inodes(self.store).keys() - _data_file_inodes(target).keys()
        ):
            os.link(os.path.join(self._journal, name), os.path.join(generation_index._journal, name))

    def _kept_inodes(self) -> dict[str, int]:
        return _data_file_inodes(self._journal)


def try_copy_settled_index(store: str, target: str, settling_seconds: float = SETTLING) -> bool:
    """Copy the index files of a kahaDB store if no broker is changing them, and return whether the copy is usable.

    A settled index does not change for ``settling_seconds`` before and after the copy. Returns False if it changed, or
    is missing; an unusable copy may then remain in the directory. The files of the copy are synced to the disk.
    """
    states_before = index_file_inodes_sizes_and_times(store)
    time.sleep(settling_seconds)
    if index_file_inodes_sizes_and_times(store) != states_before or INDEX[0] not in states_before:
        return False
    for name in states_before:
        try:
            _copy_file(os.path.join(store, name), os.path.join(target, name))
        except FileNotFoundError:
            return False
    time.sleep(settling_seconds)
    return index_file_inodes_sizes_and_times(store) == states_before


def _data_file_inodes(directory: str) -> dict[str, int]:
    """Return the inode of each data file in a directory, by name; empty if the directory does not exist."""
    inodes = {}
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if journal.FILE.fullmatch(entry.name):
                inodes[entry.name] = entry.inode()
    return inodes


def _belong_to_one_store(kept: dict[str, int], present: dict[str, int]) -> bool:
    """Return whether kept data files belong to this store; another store or a copy may have replaced it."""
    return any(kept[name] == present[name] for name in kept.keys() & present.keys())


def _has_all_required(names: Iterable[str], required: Iterable[int]) -> bool:
    """Return whether data files include all ``required`` ones, and all from the last of these to the last of ``names``.

    Brokers number data files consecutively.
    """
    numbers, required_numbers = set(map(journal.data_file_number, names)), set(required)
    required_numbers.update(range(max(required_numbers), max(numbers, default=0)))
    return required_numbers <= numbers


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as old, open(target, "xb") as new:
        while piece := old.read(_PIECE_BYTES):
            new.write(piece)
        new.flush()
        os.fsync(new.fileno())


def _modification_time(directory: str) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.stat(directory).st_mtime))
