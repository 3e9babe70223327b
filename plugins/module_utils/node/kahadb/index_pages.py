# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the records and the B-trees in the pages of a kahaDB store's index.

The index (``db.data``) is a file of pages of 4096 bytes with B-trees: page 0 names the tree of destinations, and the
record of a destination there names the trees of its messages and its subscriptions (PageFile, BTreeNode and
MessageDatabase.StoredDestinationMarshaller of 5.5.1 to 6.3.1).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO, TypeVar

from ..files.untrusted_paths import open_file

HEADER_SIZE = 4096
"""Bytes before page 0 of an index, and before the first page of ``db.redo`` (PageFile.PAGE_FILE_HEADER_SIZE)."""
_HEADER_TEXT = 2048
_PAGE_HEAD = struct.Struct(">Bqqi")
"""Type, transaction, next page (of the last page of a record: the length of its content), checksum."""
_PART_PAGE, _LAST_PAGE = 1, 2
_REDO_HEAD = struct.Struct(">qqi")
"""The head of ``db.redo``: transaction, Adler-32 of the pages, their number. The number of a page is before it."""
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">H")
_POSITION_KEY = struct.Struct(">ii")
_MAX_RECORD_BYTES = 1 << 26
"""Maximum bytes of the record of a tree, which is a page in an intact index, or a few pages for long texts."""
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class IndexPageError(ValueError):
    """An error for a page of a kahaDB index (``db.data``) that is damaged or has an unknown format.

    ``detail`` is what is wrong with the page.
    """

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(
            f"the index {path} is damaged ({detail}): stop both nodes, and move db.data, db.redo and db.free to "
            "another directory. The broker then builds a new index from the store journal, and up to 5.13.0 it loses "
            "messages of durable subscriptions"
        )
        self.detail = detail


def read_text_key(content: bytes, at: int) -> tuple[str, int]:
    """Return a text that is a key in a B-tree of a kahaDB index, and the offset after it."""
    (size,) = _SHORT.unpack_from(content, at)
    at += _SHORT.size
    # Java writes the character 0 as two bytes, and a character above 65535 as its two surrogates.
    text = content[at : at + size].replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), at + size


class PageFile:
    """The pages of a kahaDB store's index, opened for reading; each page is read once.

    ``path`` is that of its ``db.data``. The pages in the file ``db.redo`` next to it replace those of an index that was
    not closed, as in a broker that starts (PageFile.redoRecoveryUpdates). Raises IndexPageError, OSError.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = os.fdopen(open_file(path), "rb")
        header = self._file.read(_HEADER_TEXT)
        sizes = [line for line in header.split(b"\n") if line.startswith(b"pageSize=")]
        self._page_size = int(sizes[0].partition(b"=")[2]) if sizes and sizes[0].partition(b"=")[2].isdigit() else 4096
        if not _PAGE_HEAD.size < self._page_size <= 1 << 20:
            self._file.close()
            raise IndexPageError(path, f"page size {self._page_size}")
        is_closed = b"\ncleanshutdown=true" in header.lower()
        self._size = os.fstat(self._file.fileno()).st_size
        self._redo = _RedoPages(self._page_size)
        if self._size and not is_closed:
            self._redo.open(_redo_path(path))
        # Each page belongs to one record, so that damaged pages that form a cycle are detected. A hole of a sparse file
        # contains no record, so that the number of reads is limited by the disk usage of the file.
        self._read_pages: set[int] = set()

    def __enter__(self) -> PageFile:
        return self

    def __exit__(self, *_unused: object) -> None:
        self._file.close()
        self._redo.close()

    def read_record_at_page(self, number: int) -> bytes:
        """Return the content of the record that begins at a page of an index file.

        Raises IndexPageError, also for a page that was read before.
        """
        content = b""
        while len(content) <= _MAX_RECORD_BYTES:
            if number in self._read_pages:
                raise IndexPageError(self.path, f"repeated page {number}")
            self._read_pages.add(number)
            page = self._read_page(number)
            if len(page) < _PAGE_HEAD.size:
                break
            kind, _unused, following, _unused = _PAGE_HEAD.unpack_from(page)
            if kind == _LAST_PAGE:
                return content + page[_PAGE_HEAD.size : _PAGE_HEAD.size + following]
            if kind != _PART_PAGE:
                break
            content += page[_PAGE_HEAD.size :]
            number = following
        raise IndexPageError(self.path, f"incomplete page {number}")

    def has_pages(self) -> bool:
        """Return whether a kahaDB index has pages: a broker that was killed in its first start leaves one without.

        A broker does not restore pages into an empty file.
        """
        return self._size > HEADER_SIZE or bool(self._redo.offsets)

    def _read_page(self, number: int) -> bytes:
        if number in self._redo.offsets:
            return self._redo.read_page(number)
        offset = HEADER_SIZE + number * self._page_size
        if number < 0 or offset >= self._size:
            return b""
        self._file.seek(offset)
        return self._file.read(self._page_size)

    def walk_btree(
        self,
        root: int,
        read_key: Callable[[bytes, int], tuple[_Key, int]],
        read_value: Callable[[bytes, int], tuple[_Value, int]],
    ) -> Iterator[tuple[_Key, _Value]]:
        """Walk a B-tree in the index file of a kahaDB store, and yield its keys and values."""
        pending: list[int] = [root]
        while pending:
            content = self.read_record_at_page(pending.pop())
            (count,) = _SHORT.unpack_from(content)
            at = _SHORT.size
            keys = []
            for _index in range(count):
                key, at = read_key(content, at)
                keys.append(key)
            is_branch, at = content[at], at + 1
            if is_branch:
                pending += struct.unpack_from(f">{count + 1}q", content, at)
                continue
            for key in keys:
                value, at = read_value(content, at)
                yield key, value

    def walk_position_keys_backwards(
        self, root: int, key_format: struct.Struct
    ) -> Generator[tuple[int, int], tuple[int, int] | None, None]:
        """Walk the B-tree of a destination's message positions backwards, and yield each position (data file, offset).

        Sending a position to the generator continues at the last smaller one, and reads no page in between.
        ``key_format``: the format of a key, which begins with the two numbers of the position.
        """
        below: tuple[int, int] | None = None
        pending: list[tuple[tuple[int, int] | None, int]] = [(None, root)]
        while pending:
            least, number = pending.pop()
            if least is not None and below is not None and least >= below:
                continue
            content = self.read_record_at_page(number)
            (count,) = _SHORT.unpack_from(content)
            at = _SHORT.size + count * key_format.size
            if content[at]:
                keys = [_position_key(content, key_format.size, index) for index in range(count)]
                # A child contains the keys from the one before it on.
                pending += zip([least, *keys], struct.unpack_from(f">{count + 1}q", content, at + 1))
                continue
            while count := _count_keys_below(content, key_format.size, count, below):
                key = _position_key(content, key_format.size, count - 1)
                below = (yield key) or key


def _count_keys_below(content: bytes, key_size: int, count: int, below: tuple[int, int] | None) -> int:
    """Return how many of the first ``count`` positions of a page are smaller than ``below``, by a binary search."""
    if below is None:
        return count
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _position_key(content, key_size, middle) < below:
            low = middle + 1
        else:
            high = middle
    return low


def _position_key(content: bytes, key_size: int, index: int) -> tuple[int, int]:
    file, offset = _POSITION_KEY.unpack_from(content, _SHORT.size + index * key_size)
    return file, offset


class _RedoPages:
    """The pages in the ``db.redo`` of an index, by number; none if the file is missing or was not written completely.

    Only the offset of each page is in memory, so that the file can have any size.
    """

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._file: BinaryIO | None = None
        self.offsets: dict[int, int] = {}

    def open(self, path: str) -> None:
        """Open kahaDB's recovery file ``db.redo``; if it is complete, set ``offsets`` of its pages. Raises OSError."""
        try:
            self._file = os.fdopen(open_file(path), "rb")
        except FileNotFoundError:
            return
        head = self._file.read(_REDO_HEAD.size)
        if len(head) < _REDO_HEAD.size:
            return
        _transaction, expected_checksum, count = _REDO_HEAD.unpack(head)
        offsets, checksum = {}, 1
        self._file.seek(HEADER_SIZE)
        for index in range(count):
            entry = self._file.read(_LONG.size + self._page_size)
            (number,) = _LONG.unpack_from(entry) if len(entry) == _LONG.size + self._page_size else (None,)
            # A broker writes each page once. A hole of a sparse file has the number 0 again and again.
            if number is None or number in offsets:
                return
            checksum = zlib.adler32(entry[_LONG.size :], checksum)
            offsets[number] = HEADER_SIZE + index * len(entry) + _LONG.size
        if checksum == expected_checksum:
            self.offsets = offsets

    def read_page(self, number: int) -> bytes:
        """Return the bytes of a kahaDB index page in ``db.redo``, by a page number in ``offsets``. Raises OSError."""
        if self._file is None:
            return b""
        self._file.seek(self.offsets[number])
        return self._file.read(self._page_size)

    def close(self) -> None:
        if self._file:
            self._file.close()


def _redo_path(index_path: str) -> str:
    """Return the path of the ``db.redo`` of an index; an index that was moved aside has the same suffix."""
    directory, name = os.path.split(index_path)
    return os.path.join(directory, name.replace("db.data", "db.redo", 1))
