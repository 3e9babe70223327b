# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Checks before a start of a broker whether the end of the journal of its kahaDB store is missing.

``store inspect`` compares every position in the index with the journal (``indexed_messages``). A takeover has no time
for that. This check reads page 0, and for each destination the last position in each data file. It reads the first
bytes of the record at each of these positions, and nothing else of the journal. In a journal that was cut off, it also
reads the positions before them, up to the last record that still exists.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import BinaryIO

from ..errors import NodeError
from ..files.untrusted_paths import open_file
from ..printable import count_with_noun, escape_unprintable
from . import journal
from .index import INDEX
from .index_pages import IndexPageError, PageFile
from .indexed_messages import MessageTrees

MAX_SECONDS = 0.3
"""Maximum duration of the check, which takes 0.15 s for 10,000 destinations (measured, pages in memory)."""
_MAX_NAMED = 5
_MAX_OPEN_FILES = 100
_RECORD_HEAD = struct.Struct(">i")


@dataclass
class JournalEndCheck:
    """The result of a check of the end of a kahaDB store's journal.

    ``missing`` is the last position (data file, offset) in the index without a record in the journal, or None.
    ``messages`` are the numbers of messages without a record, by destination (``0:orders``). ``is_complete`` False: the
    check stopped after ``MAX_SECONDS``, and ``checked`` destinations.
    """

    missing: tuple[int, int] | None
    messages: dict[str, int]
    checked: int
    is_complete: bool


def describe_missing_journal_end(store: str, max_seconds: float = MAX_SECONDS) -> str:
    """Describe the missing end of a kahaDB store's journal: the position and the lost messages of each destination.

    Returns "" if no record is missing, or without an index. No broker may use the store. An error of the check, which
    must not prevent a start, is described, too.
    """
    try:
        check = check_journal_end_against_index(store, max_seconds)
    except FileNotFoundError:
        return ""
    except IndexPageError as error:
        return (
            f"the index of the store {store} (file db.data) cannot be read ({error.detail}). A broker of 5.8 or later "
            "builds a new index from the store journal, and up to 5.13.0 it then loses messages of durable "
            "subscriptions: restore a store with durable subscriptions from a backup. A broker of 5.5 does not start: "
            "stop the broker and, in a pair, the broker of the other node, and move db.data, db.redo and db.free to "
            "another directory. The next start then restores the copy of the index in kept-index/. Without a usable "
            "copy, activemq_index_rebuild decides whether the broker builds a new index"
        )
    except (NodeError, OSError) as error:
        return f"the end of the journal of the store {store} was not checked: {error}"
    if check.missing is None:
        if check.is_complete:
            return ""
        return (
            f"the comparison of the index of the store {store} with the store journal was stopped after "
            f"{max_seconds:g} s, because it must not delay the start. It found no missing record in the first "
            f"{count_with_noun(check.checked, 'destination')}. If the log of the broker reports 'Rolled back N "
            "messages from the index', the end of the journal was missing, and these N messages are lost. To compare "
            f"all destinations, stop the broker and run activemq-fleet store inspect {store} before its next start"
        )
    file, offset = check.missing
    rows = sorted(check.messages.items(), key=lambda row: (-row[1], row[0]))
    names = [
        f"{escape_unprintable(journal.destination_url(destination))} ({count_with_noun(number, 'message')})"
        for destination, number in rows[:_MAX_NAMED]
    ]
    if len(rows) > _MAX_NAMED:
        names.append(count_with_noun(len(rows) - _MAX_NAMED, "more destination"))
    at_least = "" if check.is_complete else "at least "
    lost = f"{at_least}these messages in the index: {', '.join(names)}" if names else f"{at_least}the last records"
    return (
        f"the end of the journal of the store {store} is missing: the index refers to a record at byte {offset} of "
        f"db-{file}.log that the journal does not have. The store lost {lost}. Later messages, which the index does "
        "not have yet, may also be lost. When a broker starts with this store, it removes the lost messages from the "
        "index ('Rolled back N messages from the index'). Only a copy or a backup that has the complete data file has "
        f"these messages. {journal.RECOVERY_FROM_COPY}"
    )


def check_journal_end_against_index(store: str, max_seconds: float = MAX_SECONDS) -> JournalEndCheck:
    """Check that a kahaDB journal contains the last records to which its index refers; return those that are missing.

    A missing data file between others does not count, because a broker up to 5.13 removes a file before it writes the
    index. Raises IndexPageError, OSError.
    """
    deadline = time.monotonic() + max_seconds
    path = os.path.join(store, INDEX[0])
    with ExitStack() as stack:
        pages = stack.enter_context(PageFile(path))
        check = JournalEndCheck(None, {}, checked=0, is_complete=True)
        if not pages.has_pages():
            return check
        records = stack.enter_context(_JournalRecords(store))
        try:
            _check_positions(pages, records, check, deadline)
        except (struct.error, IndexError, ValueError) as error:
            if isinstance(error, IndexPageError):
                raise
            raise IndexPageError(path, str(error)) from None
    return check


def _check_positions(pages: PageFile, records: _JournalRecords, check: JournalEndCheck, deadline: float) -> None:
    trees = MessageTrees(pages)
    missing = [position for position in trees.root_positions if not records.may_contain(position)]
    for destination, tree in trees.walk_destinations_and_message_trees():
        positions = pages.walk_position_keys_backwards(tree, trees.key_format)
        position = next(positions, None)
        number = 0
        while position is not None and time.monotonic() < deadline:
            if records.may_contain(position):
                # The earlier records of the file precede this one, so that they exist, too.
                below = position[0], 0
            else:
                missing.append(position)
                number += 1
                below = position
            try:
                position = positions.send(below)
            except StopIteration:
                position = None
        if number:
            check.messages[destination] = number
        if time.monotonic() >= deadline:
            check.is_complete = False
            break
        check.checked += 1
    check.missing = max(missing, default=None)


class _JournalRecords:
    """The records of a journal: whether one exists at a position. Some data files stay open until the end."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._last_file = journal.data_file_number(journal.last_data_file(os.listdir(store)))
        self._files: dict[int, BinaryIO | None] = {}

    def __enter__(self) -> _JournalRecords:
        return self

    def __exit__(self, *_unused: object) -> None:
        self._close_files()

    def may_contain(self, position: tuple[int, int]) -> bool:
        """Return whether the journal has a whole record at (data file, offset); True also for a removed file."""
        number, offset = position
        if number not in self._files:
            if len(self._files) >= _MAX_OPEN_FILES:
                self._close_files()
            self._files[number] = self._open(number)
        file = self._files[number]
        if file is None:
            return number < self._last_file
        size = os.fstat(file.fileno()).st_size
        head = os.pread(file.fileno(), _RECORD_HEAD.size, offset) if 0 <= offset < size else b""
        return len(head) == _RECORD_HEAD.size and 0 < _RECORD_HEAD.unpack(head)[0] <= size - offset

    def _open(self, number: int) -> BinaryIO | None:
        with suppress(FileNotFoundError):
            return os.fdopen(open_file(os.path.join(self._store, f"db-{number}.log")), "rb")
        return None

    def _close_files(self) -> None:
        for file in filter(None, self._files.values()):
            file.close()
        self._files.clear()
