# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the durable subscriptions from the index of a kahaDB store, even if data files of the journal are missing.

The index (``db.data``) is a file of pages of 4096 bytes with B-trees: page 0 names the tree of destinations, and the
record of a topic there names the tree of its subscriptions (PageFile, BTreeNode and
MessageDatabase.StoredDestinationMarshaller of 5.5.1 to 6.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ..protocols import read_varint_and_next_offset

_HEADER = 4096
_HEADER_TEXT = 2048
_PAGE_HEAD = struct.Struct(">Bqqi")
"""Type, transaction, next page (of the last page of a record: the length of its content), checksum."""
_PART_PAGE, _LAST_PAGE = 1, 2
_POSITION = struct.Struct(">?ii")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">H")
_INT = struct.Struct(">i")
_DESTINATION_SIZE = 3 * _LONG.size
_PRIORITIES_SIZE = 2 * _LONG.size
_MAX_PAGES = 1_000_000
"""Maximum pages of one tree that are read, because the pages of a damaged index may form a cycle."""


class IndexPageError(ValueError):
    """An error for a page of a kahaDB index (``db.data``) that is damaged or has an unknown format."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"the index {path} is damaged ({detail}): restore the store from a backup")


def subscriptions_in_index(index_path: str) -> set[tuple[str, str]]:
    """Return the durable subscriptions in the index of a kahaDB store, as a set of (destination, subscription key).

    ``index_path`` is the path of its ``db.data``. An example is ``("1:prices", "client:name")``. Subscriptions since
    the last checkpoint may be missing. Raises IndexPageError for a damaged index, OSError.
    """
    with _PageFile(index_path) as pages:
        try:
            root, version = _root_and_version(pages.read_record_at_page(0))
            return {
                (destination, key)
                for destination, tree in pages.walk_btree(
                    root, lambda content, at: _read_destination(content, at, version)
                )
                if tree is not None
                for key, _unused in pages.walk_btree(tree, _skip_framed_value)
            }
        except IndexPageError:
            raise
        except (struct.error, IndexError, ValueError) as error:
            raise IndexPageError(pages.path, str(error)) from None


def index_version(index_path: str) -> int:
    """Return the version of a kahaDB index file.

    5 from 5.9 on, 6 from 5.12 on. Raises IndexPageError, OSError.
    """
    with _PageFile(index_path) as pages:
        try:
            return _root_and_version(pages.read_record_at_page(0))[1]
        except (struct.error, IndexError) as error:
            raise IndexPageError(index_path, f"page 0: {error}") from None


def _root_and_version(page: bytes) -> tuple[int, int]:
    """Return the page of the tree of destinations and the version of the index, from the record of page 0."""
    (root,) = _LONG.unpack_from(page, _INT.size)
    at = _INT.size + _LONG.size
    for _index in range(3):
        at += _POSITION.size if page[at] else 1
    return root, _INT.unpack_from(page, at)[0]


def _read_destination(content: bytes, at: int, version: int) -> tuple[int | None, int]:
    """Return the page of a destination's subscriptions, None for a queue, and the offset of the next record."""
    at += _DESTINATION_SIZE
    tree = None
    is_topic, at = content[at], at + 1
    if is_topic:
        (tree,) = _LONG.unpack_from(content, at)
        # Subscriptions and their acknowledgements; from version 3 on also the positions of the acknowledgements, from
        # version 5 on (5.9) those of the subscriptions.
        at += _LONG.size * (2 + (version >= 3) + (version >= 5))
    return tree, at + (_PRIORITIES_SIZE if version >= 2 else 0)


def _skip_framed_value(content: bytes, at: int) -> tuple[None, int]:
    size, at = read_varint_and_next_offset(content, at)
    return None, at + size


class _PageFile:
    """The pages of an index, opened for reading."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "rb")  # noqa: SIM115 - closed with the object
        header = self._file.read(_HEADER_TEXT)
        sizes = [line for line in header.split(b"\n") if line.startswith(b"pageSize=")]
        self._page_size = int(sizes[0].partition(b"=")[2]) if sizes and sizes[0].partition(b"=")[2].isdigit() else 4096
        if not _PAGE_HEAD.size < self._page_size <= 1 << 20:
            raise IndexPageError(path, f"page size {self._page_size}")

    def __enter__(self) -> _PageFile:
        return self

    def __exit__(self, *_unused: object) -> None:
        self._file.close()

    def read_record_at_page(self, number: int) -> bytes:
        """Return the content of the record that begins at a page of an index file.

        Raises IndexPageError.
        """
        content = b""
        for _index in range(_MAX_PAGES):
            if number < 0:
                break
            self._file.seek(_HEADER + number * self._page_size)
            page = self._file.read(self._page_size)
            if len(page) < _PAGE_HEAD.size:
                break
            kind, _unused, following, _unused = _PAGE_HEAD.unpack_from(page)
            if kind == _LAST_PAGE:
                return content + page[_PAGE_HEAD.size : _PAGE_HEAD.size + following]
            if kind != _PART_PAGE or len(content) > 1 << 26:
                break
            content += page[_PAGE_HEAD.size :]
            number = following
        raise IndexPageError(self.path, f"incomplete page {number}")

    def walk_btree(
        self, root: int, read_value: Callable[[bytes, int], tuple[int | None, int]]
    ) -> Iterator[tuple[str, int | None]]:
        """Walk a B-tree with text keys in the index file of a kahaDB store, and yield its keys and values."""
        pending: list[int] = [root]
        visited: set[int] = set()
        while pending:
            number = pending.pop()
            if number in visited or len(visited) > _MAX_PAGES:
                raise IndexPageError(self.path, f"repeated page {number}")
            visited.add(number)
            content = self.read_record_at_page(number)
            (count,) = _SHORT.unpack_from(content)
            at = _SHORT.size
            keys = []
            for _index in range(count):
                (size,) = _SHORT.unpack_from(content, at)
                at += _SHORT.size
                keys.append(content[at : at + size].decode())
                at += size
            is_branch, at = content[at], at + 1
            if is_branch:
                pending += struct.unpack_from(f">{count + 1}q", content, at)
                continue
            for key in keys:
                value, at = read_value(content, at)
                yield key, value
