"""Where records begin, in bytes: what a tail may cut at, and what a task gets as one piece."""

from __future__ import annotations

import re
from collections.abc import Iterator

_RECORD = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \| ")
PIECE = 4 << 20
"""Bytes of a log that are parsed at once."""


def begins(data: bytes, at: int, kind: str) -> bool:
    """Whether a record begins at ``at``, which is the beginning of a line."""
    return kind == "journal" or _RECORD.match(data, at) is not None


def last_start(data: bytes, kind: str) -> int:
    """Where the last record in ``data`` begins; 0 if none begins after its first byte."""
    end = len(data)
    while (line := data.rfind(b"\n", 0, end)) >= 0:
        if begins(data, line + 1, kind):
            return line + 1
        end = line
    return 0


def pieces(data: bytes, kind: str, size: int = PIECE) -> Iterator[tuple[int, bytes]]:
    """Cut at beginnings of records: the number of line ends before a piece, and the piece.

    A piece is larger than ``size`` only where it is one record. Nothing at all is one empty piece.
    """
    begin, line = 0, 0
    while len(data) - begin > size:
        cut = last_start(data[begin : begin + size], kind) or _first_start(data, begin + size, kind) - begin
        yield line, data[begin : begin + cut]
        line += data.count(b"\n", begin, begin + cut)
        begin += cut
    if begin < len(data) or not data:
        yield line, data[begin:]


def _first_start(data: bytes, at: int, kind: str) -> int:
    while (line := data.find(b"\n", at)) >= 0:
        if begins(data, line + 1, kind):
            return line + 1
        at = line + 1
    return len(data)
