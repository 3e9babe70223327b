# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Runs next to a broker and keeps a copy of its index, with every later data file (``kept_index``)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from .index import INDEX
from .index_pages import IndexPageError
from .indexed_subscriptions import subscriptions_in_index
from .kept_index import SETTLING, KeptIndex
from .store_repair import store_directories

INTERVAL = 0.5
"""Seconds between two checks of a store. A data file created and removed between them makes a new copy necessary."""
COPY_INTERVAL = 60.0
"""Seconds after which a new copy replaces the old one, if the broker has written its index since then."""
COPY_SHARE = 50
"""The minimum age of a copy, as a multiple of the time that it took: copying takes at most 2 % of the time."""
REMOVED_BYTES = 128 << 20
"""Bytes of removed data files at which a new copy is due; after that, these files can be released."""
MAX_BYTES = 1 << 30
"""Bytes of removed data files at which a keeper drops the copy and all files, if it could not make a new copy."""
FREE_SHARE = 4
"""The kept files use at most a quarter of the free disk space."""
_FLUSHES_UNTIL_UNUSED = 2
"""How often a broker must write its index after it removed a data file, until no index requires that file. Up to 5.13
it writes the positions of one checkpoint at the next checkpoint, and syncs them before the one after that."""
_PAGE_0 = 4096
_PAGE_HEAD = 64


class IndexCopyError(Exception):
    """An error for a copy of a kahaDB store's index that cannot be made at the moment.

    Its text names the store and the reason.
    """


class IndexKeeper:
    """A keeper of an up-to-date copy of the index of a running broker's kahaDB store.

    It also keeps the data files that the copy needs.
    """

    def __init__(self, store: str) -> None:
        self.pages = os.path.join(os.path.realpath(store), INDEX[0])
        self._store = store
        self._kept_index = KeptIndex(store)
        self._last_page_head = b""
        self._flushes = 0
        self._copied_flushes = 0
        self._has_other_subscriptions = False
        self._copy_attempted_at = float("-inf")
        self._copy_attempt_seconds = 0.0
        self._removed_at: dict[str, int] = {}

    def update_index_and_data_file_copies(self) -> None:
        """Update the copies of a kahaDB store's index and data files from which a damaged index is restored.

        The data files are those that the index needs. Holds new data files, and copies the index where that is due.
        Raises IndexCopyError, OSError.
        """
        self._kept_index.hard_link_data_files()
        page = _read_page_head(self.pages)
        if page != self._last_page_head:
            self._last_page_head = page
            self._flushes += 1
            # A broker that continues from the copy may skip records of new subscriptions (5.9 to 5.13.0: "ignoring
            # add sub command during recovery replay").
            self._has_other_subscriptions = self._kept_index.subscriptions_in_copy() != _readable_subscriptions(
                self.pages
            )
        removed = self._kept_index.disk_usage_by_removed_data_file()
        for name in removed:
            self._removed_at.setdefault(name, self._flushes)
        removed_bytes = sum(removed.values())
        self._check_disk_usage(removed_bytes)
        if self._is_copy_due(removed_bytes):
            self._try_copy()

    def _check_disk_usage(self, removed_bytes: int) -> None:
        size = os.stat(self.pages).st_size
        file_system = os.statvfs(self._store)
        free = file_system.f_bavail * file_system.f_frsize
        if removed_bytes <= MAX_BYTES and size + removed_bytes <= free // FREE_SHARE:
            return
        self._kept_index.delete_kept_index_directory()
        self._removed_at = {}
        if size + removed_bytes > free // FREE_SHARE:
            raise IndexCopyError(
                f"no copy of the index of the store {self._store} is kept, because its file system has only "
                f"{free >> 20} MiB of free space. If the index is damaged and no copy exists, durable subscriptions "
                f"can lose messages. Provide {FREE_SHARE * (size + removed_bytes) >> 20} MiB of free space: enlarge "
                "the file system, or delete other files"
            )
        raise IndexCopyError(
            f"the saved copy of the index of the store {self._store} was removed to free disk space. Because of "
            f"this copy, {removed_bytes >> 20} MiB of data files that the broker no longer uses stayed on the disk. "
            "The next copy is made automatically. Until then, a damaged index can lose messages of durable "
            "subscriptions"
        )

    def _is_copy_due(self, removed_bytes: int) -> bool:
        age = time.monotonic() - self._copy_attempted_at
        if age < COPY_SHARE * self._copy_attempt_seconds:
            return False
        if not self._kept_index.is_complete():
            return True
        if self._has_other_subscriptions:
            return True
        is_outdated = age > COPY_INTERVAL or removed_bytes > REMOVED_BYTES
        return is_outdated and self._flushes > self._copied_flushes + _FLUSHES_UNTIL_UNUSED

    def _try_copy(self) -> None:
        flushes = self._flushes
        self._copy_attempted_at = time.monotonic()
        is_copied = self._kept_index.try_copy_index()
        self._copy_attempt_seconds = max(0.0, time.monotonic() - self._copy_attempted_at - 2 * SETTLING)
        if not is_copied:
            return
        self._copied_flushes = flushes
        self._has_other_subscriptions = False
        removed = self._kept_index.disk_usage_by_removed_data_file()
        releasable = {
            name for name in removed if self._removed_at.get(name, flushes) + _FLUSHES_UNTIL_UNUSED <= flushes
        }
        self._kept_index.delete_kept_data_files(releasable)
        self._removed_at = {name: self._removed_at.get(name, flushes) for name in removed}


def keep_copies_of_store_indexes(root: str, pid: int, report: Callable[[str], None]) -> None:
    """Keep copies of the index of each kahaDB store of a running broker, until the broker ends.

    The stores are in the directory ``root``; the broker is the process ``pid``. Stores whose index the broker does not
    have open are skipped, because another broker may use them. ``report`` gets a sentence for each store of which no
    copy can be kept at the moment.
    """
    keepers: dict[str, IndexKeeper] = {}
    failing_stores: set[str] = set()
    started = _process_start_time(pid)
    while started and _process_start_time(pid) == started:
        open_paths = _open_file_paths(pid)
        for store in store_directories(root):
            keeper = keepers.setdefault(store, IndexKeeper(store))
            if keeper.pages not in open_paths:
                # The store may be replaced before the broker opens it again.
                del keepers[store]
                continue
            try:
                keeper.update_index_and_data_file_copies()
                failing_stores.discard(store)
            except (IndexCopyError, OSError) as error:
                if store not in failing_stores:
                    report(str(error))
                failing_stores.add(store)
        time.sleep(INTERVAL)


def _open_file_paths(pid: int) -> set[str]:
    directory = f"/proc/{pid}/fd"
    paths = set()
    with suppress(OSError):
        for name in os.listdir(directory):
            with suppress(OSError):
                paths.add(os.readlink(f"{directory}/{name}"))
    return paths


def _process_start_time(pid: int) -> str:
    """Return the start time of a process in kernel ticks; "" if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _readable_subscriptions(pages: str) -> set[tuple[str, str]]:
    with suppress(IndexPageError):
        return subscriptions_in_index(pages)
    return set()


def _read_page_head(path: str) -> bytes:
    with open(path, "rb") as file:
        return os.pread(file.fileno(), _PAGE_HEAD, _PAGE_0)
