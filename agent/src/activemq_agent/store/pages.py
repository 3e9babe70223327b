"""Reads rows from the pages of a SQLite file without SQLite, also those that a damaged B-tree no longer leads to.

Format: https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1. Nothing here is verified: the caller checks
each row's own checksum. Deleted rows do not come back, because the store has deleted content overwritten.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from activemq_agent.store.schema import PAGE
from activemq_agent.store.wal import Wal

_LEAF = 0x0D
_MOST_LOCAL = PAGE - 35
_LEAST_LOCAL = (PAGE - 12) * 32 // 255 - 23
_LONGEST = 1 << 30

Row = tuple[int, tuple[Any, ...]]
"""A row: its row id, and the values of its record."""


class DatabasePages:
    """A reader of the pages of a SQLite file, each in its newest version, which may be in the write-ahead file."""

    def __init__(self, path: Path, wal: Wal) -> None:
        self._file = path.open("rb")
        self._size = path.stat().st_size // PAGE
        # A bad frame, too, is newer than what it replaces: most of its rows are whole. Where its page number
        # cannot be, its rows are looked at all the same.
        largest = max([self._size, *(frame.page for frame in wal.frames if frame.whole)])
        self._newer = {frame.page: frame.content for frame in wal.frames if 1 <= frame.page <= largest}
        self._homeless = [frame.content for frame in wal.frames if not 1 <= frame.page <= largest]

    def close(self) -> None:
        """Close the database file."""
        self._file.close()

    def page(self, number: int) -> bytes:
        """Return the bytes of the database page with a number, counted from 1; empty if there is no such page."""
        if number in self._newer:
            return self._newer[number]
        if not 1 <= number <= self._size:
            return b""
        self._file.seek((number - 1) * PAGE)
        return self._file.read(PAGE)

    def rows(self) -> Iterator[Row]:
        """Yield everything in the database's pages that looks like a table row; a row may come twice."""
        for number in range(1, max(self._size, *self._newer, 0) + 1):
            yield from self._rows_of(self.page(number))
        for content in self._homeless:
            yield from self._rows_of(content)

    def _rows_of(self, page: bytes) -> Iterator[Row]:
        # One flipped bit may have changed the type; no other page that can hold a row begins so.
        if len(page) < PAGE or (page[0] ^ _LEAF).bit_count() > 1:
            return
        # The number of cells may be wrong too: pointers are followed until they meet the cells.
        slot, lowest = 8, PAGE
        while slot + 2 <= lowest:
            at = int.from_bytes(page[slot : slot + 2])
            slot += 2
            if 8 < at < PAGE:
                row = self._cell(page, at)
                if row is not None:
                    lowest = min(lowest, at)
                    yield row

    def _cell(self, page: bytes, at: int) -> Row | None:
        try:
            length, at = _varint(page, at)
            row_id, at = _varint(page, at)
            if not 0 < length < _LONGEST or row_id < 0:
                return None
            record = self._payload(page, at, length)
            return (row_id, _values(record)) if len(record) == length else None
        except (IndexError, ValueError, struct.error):
            return None

    def _payload(self, page: bytes, at: int, length: int) -> bytes:
        """Return the bytes of a cell, its overflow pages included; fewer than ``length`` if the chain breaks."""
        if length <= _MOST_LOCAL:
            return page[at : at + length]
        local = _LEAST_LOCAL + (length - _LEAST_LOCAL) % (PAGE - 4)
        local = local if local <= _MOST_LOCAL else _LEAST_LOCAL
        parts, have = [page[at : at + local]], local
        following = int.from_bytes(page[at + local : at + local + 4])
        while have < length:
            overflow = self.page(following)
            if not overflow:
                break
            parts.append(overflow[4 : 4 + length - have])
            have += len(parts[-1])
            following = int.from_bytes(overflow[:4])
        return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length integer of one to nine bytes, and the offset behind it."""
    value = 0
    for number in range(8):
        byte = data[at + number]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + number + 1
    value = value << 8 | data[at + 8]
    return (value - (1 << 64) if value >> 63 else value), at + 9


_SIZES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
"""Serial type -> bytes of its value; types from 12 on are blobs (even) and texts (odd) of a length that follows."""


def _values(record: bytes) -> tuple[Any, ...]:
    """Return the columns of a record. Raises ValueError if the bytes are no record."""
    end, at = _varint(record, 0)
    found: list[Any] = []
    body = end
    while at < end:
        kind, at = _varint(record, at)
        size = _SIZES.get(kind, (kind - 12) // 2)
        found.append(_value(kind, record[body : body + size]))
        body += size
    if at != end or body != len(record):
        raise ValueError("not a record")
    return tuple(found)


def _value(kind: int, content: bytes) -> Any:
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind]
    if kind == 7:
        return struct.unpack(">d", content)[0]
    if kind < 7:
        return int.from_bytes(content, signed=True)
    if kind < 12:
        raise ValueError("no such type")
    return content.decode() if kind % 2 else content
