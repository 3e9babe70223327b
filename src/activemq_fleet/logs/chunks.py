"""Cut the bytes of a log into pieces that end where log records end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from activemq_fleet.logs.decompression import STEP, inflated_pieces_with_problems
from activemq_fleet.logs.event_batches import record_layout_of

Piece = tuple[memoryview, bool, str]
"""Bytes, whether they are the last of their file, and the problem of these bytes."""


def unpacked_record_pieces(content: memoryview, *, compressed: bool) -> Iterator[Piece]:
    """Yield the content of a log file in pieces of whole records, each as (bytes, is last, unpacking error or "").

    Content that is compressed with gzip is unpacked, as far as it is intact. Only the last piece can have an
    error, the reason why the rest cannot be unpacked. That piece is empty if nothing can be unpacked.
    """
    if not compressed:
        if len(content):
            yield content, True, ""
        return
    yield from _unpacked_pieces([content])


def _unpacked_pieces(parts: Iterable[bytes | memoryview]) -> Iterator[Piece]:
    """Yield the content of a gzip file in pieces of whole records; ``parts`` are the bytes of the file in order."""
    rest = b""
    for data, last, problem in inflated_pieces_with_problems(parts):
        rest += data
        if last:
            if rest or problem:
                yield memoryview(rest), True, problem
            return
        last_record_offset = offset_of_last_record(rest)
        if last_record_offset:
            yield memoryview(rest)[:last_record_offset], False, ""
            rest = rest[last_record_offset:]


def offset_of_last_record(data: bytes | memoryview) -> int:
    """Return the byte offset at which the last log record in a piece of a log begins.

    The result is 0 if the data contains at most one record.
    """
    record_start, _ = record_layout_of(data)
    end = len(data)
    for distance in (1 << 14, 1 << 18, 1 << 22, end):
        search_start = max(0, end - distance)
        record_offset = 0
        for match in record_start.finditer(data, search_start):
            if match.start() and bytes(data[match.start() - 1 : match.start()]) == b"\n":
                record_offset = match.start()
        if record_offset or not search_start:
            return record_offset
    return 0


def record_pieces_from_line_batches(
    batches: Iterable[pa.RecordBatch], file_size: int, *, compressed: bool
) -> Iterator[Piece]:
    """Yield a log file's content in pieces of whole records, as (bytes, is last, error), from batches of its lines.

    A batch is an Arrow record batch of one binary column. Lines come without their ends. They are those of the bytes on
    disk, also of a file that is compressed with gzip, which is unpacked as by ``unpacked_record_pieces``. ``file_size``
    is in bytes. It shows whether the last line has an end.
    """
    if compressed:
        yield from _unpacked_pieces(_file_parts(batches, file_size))
        return
    rest, byte_count = b"", 0
    for batch in batches:
        lines = b"".join(line + b"\n" for line in batch.column(0).to_pylist())
        rest, byte_count = rest + lines, byte_count + len(lines)
        if len(rest) > STEP and (last_record_offset := offset_of_last_record(rest)):
            yield memoryview(rest)[:last_record_offset], False, ""
            rest = rest[last_record_offset:]
    if rest:
        yield memoryview(rest[:-1] if byte_count - 1 == file_size else rest), True, ""


def _file_parts(batches: Iterable[pa.RecordBatch], file_size: int) -> Iterator[bytes]:
    """Yield the bytes of a file in order, from batches of its lines."""
    byte_count = 0
    for batch in batches:
        lines = b"".join(line + b"\n" for line in batch.column(0).to_pylist())
        yield lines[: file_size - byte_count]
        byte_count += len(lines)
