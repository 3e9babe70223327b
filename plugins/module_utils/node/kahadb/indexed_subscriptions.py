# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the durable subscriptions from the index of a kahaDB store, even if data files of the journal are missing.

The record of a topic in the tree of destinations names the tree of its subscriptions.
"""

from __future__ import annotations

import struct

from ..protocols import read_varint_and_next_offset
from .index_pages import IndexPageError, PageFile, read_text_key

_POSITION = struct.Struct(">?ii")
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_DESTINATION_SIZE = 3 * _LONG.size
_PRIORITIES_SIZE = 2 * _LONG.size
_FIRST_VERSION_WITH_STATISTICS = 7
"""The first version of an index that also has the page of each destination's statistics (5.16)."""


def subscriptions_in_index(index_path: str) -> set[tuple[str, str]]:
    """Return the durable subscriptions in the index of a kahaDB store, as a set of (destination, subscription key).

    ``index_path`` is the path of its ``db.data``. An example is ``("1:prices", "client:name")``. Subscriptions since
    the last checkpoint may be missing. Raises IndexPageError for a damaged index, OSError.
    """
    with PageFile(index_path) as pages:
        try:
            root, version = destination_tree_page_and_index_version(pages.read_record_at_page(0))
            return {
                (destination, key)
                for destination, tree in pages.walk_btree(
                    root,
                    read_text_key,
                    lambda content, at: read_subscriptions_page_and_next_offset(content, at, version),
                )
                if tree is not None
                for key, _unused in pages.walk_btree(tree, read_text_key, _skip_framed_value)
            }
        except IndexPageError:
            raise
        except (struct.error, IndexError, ValueError) as error:
            raise IndexPageError(pages.path, str(error)) from None


def index_version(index_path: str) -> int:
    """Return the version of a kahaDB index file.

    5 from 5.9 on, 6 from 5.12 on. Raises IndexPageError, OSError.
    """
    with PageFile(index_path) as pages:
        try:
            return destination_tree_page_and_index_version(pages.read_record_at_page(0))[1]
        except (struct.error, IndexError) as error:
            raise IndexPageError(index_path, f"page 0: {error}") from None


def destination_tree_page_and_index_version(page: bytes) -> tuple[int, int]:
    """Return the page number of the destinations' B-tree, and the format version, from page 0 of a kahaDB index."""
    (root,) = _LONG.unpack_from(page, _INT.size)
    at = _INT.size + _LONG.size
    for _index in range(3):
        at += _POSITION.size if page[at] else 1
    # An index of version 1 does not name its version.
    return root, _INT.unpack_from(page, at)[0] if len(page) >= at + _INT.size else 1


def read_subscriptions_page_and_next_offset(content: bytes, at: int, version: int) -> tuple[int | None, int]:
    """Return the subscriptions' page number (None for a queue) in a kahaDB index record, and the offset after it."""
    at += _DESTINATION_SIZE
    tree = None
    is_topic, at = content[at], at + 1
    if is_topic:
        (tree,) = _LONG.unpack_from(content, at)
        # Subscriptions and their acknowledgements; from version 3 on also the positions of the acknowledgements, from
        # version 5 on (5.9) those of the subscriptions.
        at += _LONG.size * (2 + (version >= 3) + (version >= 5))
    at += _PRIORITIES_SIZE if version >= 2 else 0
    return tree, at + (_LONG.size if version >= _FIRST_VERSION_WITH_STATISTICS else 0)


def _skip_framed_value(content: bytes, at: int) -> tuple[None, int]:
    size, at = read_varint_and_next_offset(content, at)
    return None, at + size
