# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the protocol buffers of kahaDB's records in place, in a memory-mapped file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from ..protocols import read_varint_and_next_offset

MAX_NAME = 1 << 20
"""Maximum bytes of a destination, message id, subscription or transaction; a longer one counts as unreadable."""
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


def field_bytes_within_size_limit(data: mmap.mmap, start: int, end: int) -> bytes:
    """Return the bytes of a protocol buffer's field between two offsets; raise ValueError above 1 MiB (``MAX_NAME``).

    The field contains a name or an id. A longer field is no name or id, and must not be copied into memory.
    """
    if end - start > MAX_NAME:
        raise ValueError(end - start)
    return bytes(data[start:end])


def field_numbers_and_offsets(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number and the offsets (start, end) of each field of a protocol buffer.

    Raises ValueError, IndexError.
    """
    while at < end:
        tag, at = read_varint_and_next_offset(data, at)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = read_varint_and_next_offset(data, at)
            stop = at + size
        elif kind == _VARINT:
            stop = read_varint_and_next_offset(data, at)[1]
        elif kind in (_FIXED64, _FIXED32):
            stop = at + (8 if kind == _FIXED64 else 4)
        else:
            raise ValueError(kind)
        if stop > end:
            raise ValueError(stop)
        yield tag >> 3, at, stop
        at = stop
