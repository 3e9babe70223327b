"""Where a log or a journal may be cut, in bytes."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.spark.events.chunks import last_record

PIECE = 4 << 20
"""Bytes of a file in one row of the stream."""


def last_start(data: bytes, kind: str) -> int:
    """Where the last record, or line of a journal, in ``data`` begins; 0 if none begins after its first byte."""
    return last_record(data) if kind == "log" else data.rfind(b"\n") + 1


def pieces(data: bytes, kind: str, size: int = PIECE) -> Iterator[tuple[int, int, bytes]]:
    """Cut where records begin: bytes and line ends before a piece, and the piece. Nothing at all is one empty piece.

    A piece is larger than ``size`` only where it is one record.
    """
    begin, line, window = 0, 0, size
    while len(data) - begin > window:
        cut = last_start(data[begin : begin + window], kind)
        if not cut:
            window *= 2
            continue
        yield begin, line, data[begin : begin + cut]
        line += data.count(b"\n", begin, begin + cut)
        begin, window = begin + cut, size
    if begin < len(data) or not data:
        yield begin, line, data[begin:]
