# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the index of a kahaDB store with its journal: messages of the index that the journal does not contain.

A broker writes a record to the journal before the index refers to it. So an index that refers to a position after the
end of a data file shows that the file was cut off. At its start, a broker removes such messages of the last data file
from its index, and logs "Rolled back N messages from the index" (MessageDatabase.recoverIndex of 5.5.1 to 6.3.1).
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .index import INDEX, index_file_inodes_sizes_and_times, journal_positions_in_root
from .index_pages import IndexPageError, PageFile, read_text_key
from .indexed_subscriptions import destination_tree_page_and_index_version, read_subscriptions_page_and_next_offset

_ATTEMPTS = 3
"""How often the index is read while a running broker changes it."""
_SHORT_KEY, _LONG_KEY = struct.Struct(">ii"), struct.Struct(">ii4x")
_FIRST_VERSION_WITH_SIZES = 6
"""The first version of an index whose positions of messages also have the size of the record (5.12)."""


@dataclass(frozen=True)
class JournalCutOff:
    """A kahaDB journal that was cut off: its index refers to records after the end of a data file.

    ``offset`` is that of the last such record in the data file ``file``, whose records end at ``end``. ``messages`` are
    the numbers of messages of the index that data files no longer contain, by destination (``0:orders``).
    """

    file: int
    offset: int
    end: int
    messages: Mapping[str, int]


@dataclass(frozen=True)
class IndexedJournalPositions:
    """The positions in the journal to which the index of a kahaDB store refers.

    ``state`` is ``missing`` (a broker builds a new index), ``changing`` (a running broker changed the index while it
    was read), ``damaged`` (``problem`` is the reason) or ``read``. ``positions`` are the data files and offsets in page
    0, such as that of the last record in the index. ``offsets`` are those of the messages, by destination and data
    file.
    """

    state: str
    problem: str = ""
    positions: tuple[tuple[int, int], ...] = ()
    offsets: Mapping[tuple[str, int], array[int]] = field(default_factory=dict)

    def records_missing_at_journal_end(self, ends: Mapping[int, int]) -> JournalCutOff | None:
        """Return which records a kahaDB journal lacks at its end although its index refers to them; None if none.

        ``ends`` maps each data file to the offset at which its records end. The index must have been read before the
        journal. A missing data file between others does not count, because a broker up to 5.13 removes a file before it
        writes the index.
        """
        last_file = max(ends, default=0)

        def end_of(file: int) -> int | None:
            return ends.get(file, 0 if file > last_file else None)

        missing_positions = []
        messages: dict[str, int] = {}
        for (destination, file), offsets in self.offsets.items():
            end = end_of(file)
            missing = [] if end is None else [offset for offset in offsets if offset >= end]
            if missing:
                messages[destination] = messages.get(destination, 0) + len(missing)
                missing_positions.append((file, max(missing)))
        for file, offset in self.positions:
            end = end_of(file)
            if end is not None and offset >= end:
                missing_positions.append((file, offset))
        if not missing_positions:
            return None
        file, offset = max(missing_positions)
        return JournalCutOff(file, offset, end_of(file) or 0, messages)


def read_journal_positions_in_index(store: str) -> IndexedJournalPositions:
    """Return the journal positions (data files and offsets) to which the index of a kahaDB store refers.

    Time and memory are proportional to the size of the index. Raises OSError.
    """
    for _attempt in range(_ATTEMPTS):
        states = index_file_inodes_sizes_and_times(store)
        if INDEX[0] not in states:
            return IndexedJournalPositions("missing")
        try:
            reading = _read_positions(os.path.join(store, INDEX[0]))
        except FileNotFoundError:
            continue
        except IndexPageError as error:
            reading = IndexedJournalPositions("damaged", problem=error.detail)
        if index_file_inodes_sizes_and_times(store) == states:
            return reading
    return IndexedJournalPositions("changing")


def _read_positions(path: str) -> IndexedJournalPositions:
    with PageFile(path) as pages:
        if not pages.has_pages():
            return IndexedJournalPositions("missing")
        offsets: dict[tuple[str, int], array[int]] = {}
        try:
            trees = MessageTrees(pages)
            key = trees.key_format
            for destination, tree in trees.walk_destinations_and_message_trees():
                for (file, offset), _unused in pages.walk_btree(
                    tree, lambda content, at: (key.unpack_from(content, at)[:2], at + key.size), _skip_number
                ):
                    offsets.setdefault((destination, file), array("i")).append(offset)
        except IndexPageError:
            raise
        except (struct.error, IndexError, ValueError) as error:
            raise IndexPageError(path, str(error)) from None
    return IndexedJournalPositions("read", positions=trees.root_positions, offsets=offsets)


class MessageTrees:
    """The trees of an index with the positions of the messages of each destination.

    ``key_format`` is the format of a position in a tree, which begins with data file and offset. ``root_positions`` are
    the positions in page 0, such as that of the last record in the index. Raises IndexPageError, or struct.error for
    damaged pages.
    """

    def __init__(self, pages: PageFile) -> None:
        self._pages = pages
        page = pages.read_record_at_page(0)
        self._root, self._version = destination_tree_page_and_index_version(page)
        self.key_format = _LONG_KEY if self._version >= _FIRST_VERSION_WITH_SIZES else _SHORT_KEY
        self.root_positions = tuple(filter(None, journal_positions_in_root(page)))

    def walk_destinations_and_message_trees(self) -> Iterator[tuple[str, int]]:
        """Yield the name (``0:orders``) of each destination in a kahaDB index and its message B-tree's page number."""
        return self._pages.walk_btree(self._root, read_text_key, self._read_tree_and_next_offset)

    def _read_tree_and_next_offset(self, content: bytes, at: int) -> tuple[int, int]:
        _order, tree = struct.unpack_from(">qq", content, at)
        return tree, read_subscriptions_page_and_next_offset(content, at, self._version)[1]


def _skip_number(_content: bytes, at: int) -> tuple[None, int]:
    return None, at + 8
