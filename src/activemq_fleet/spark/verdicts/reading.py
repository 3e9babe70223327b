"""Files of journals, read through Spark -> their records."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from activemq_fleet.spark.inputs import binary
from activemq_fleet.spark.verdicts import words
from activemq_fleet.spark.verdicts.records import parse_journal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from activemq_fleet.spark.inputs import Inputs

_LINES = "host string, file string, line long, value string, problem string"
LARGEST = 1 << 30
"""Bytes of a file that is read: it is one value in Spark. Agents begin a new one at 16 MiB."""
_AT_ONCE = 4 << 20
"""Characters of lines that are handed back to Spark together."""
_GZIP = b"\x1f\x8b"  # its first bytes; no line of a journal begins so, whatever the file is called


def journal_records(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """One row a line of the journals of ``inputs``: columns ``RECORDS``."""
    journals = inputs.of_kind("journal")
    large = [(file.host, file.file, 1, None, words.TOO_LARGE) for file in journals if file.size > LARGEST]
    paths = [file.path for file in journals if file.size <= LARGEST]
    unread = parse_journal(spark.createDataFrame(large, _LINES))
    if not paths:
        return unread
    found = parse_journal(binary(spark, paths).select("path", "content").mapInArrow(lines_of_files, _LINES))
    return found.unionByName(unread) if large else found


def lines_of_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Whole files (path, content) -> their lines; runs in Spark's Python workers."""
    import pyarrow as pa

    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            host, file = place_of(path.as_py())
            for rows in _portions(content.as_buffer()):
                lines, values, problems = zip(*rows, strict=True)
                columns: list[Any] = [[host] * len(rows), [file] * len(rows), lines, values, problems]
                types = [pa.string(), pa.string(), pa.int64(), pa.string(), pa.string()]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
                    names=["host", "file", "line", "value", "problem"],
                )


def place_of(path: str) -> tuple[str, str]:
    """Host and file, as ``agent/NAME``, of a path that ends with HOST/agent/NAME."""
    host, directory, name = path.rsplit("/", 3)[1:]
    return host, f"{directory}/{name}"


_Row = tuple[int, str | None, str | None]


def _portions(content: Any) -> Iterator[list[_Row]]:
    rows: list[_Row] = []
    size = 0
    for row in _rows(content):
        rows.append(row)
        size += len(row[1] or "") + 64
        if size >= _AT_ONCE:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _rows(content: Any) -> Iterator[_Row]:
    number, rest = 0, b""
    problem: str | None = None
    view = memoryview(content).cast("B")  # Arrow's buffers have signed bytes
    for piece, found in _unpacked(view) if view[:2] == _GZIP else _pieces(view):
        problem = found
        # A line ends with LF alone; what stands before it may be anything.
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            number += 1
            yield number, line.decode(errors="backslashreplace"), None
    if rest:
        number += 1
        yield number, rest.decode(errors="backslashreplace"), None
    if problem is not None:
        yield number + 1, None, problem


def _pieces(view: memoryview) -> Iterator[tuple[bytes, str | None]]:
    for at in range(0, len(view), _AT_ONCE):
        yield bytes(view[at : at + _AT_ONCE]), None


def _unpacked(view: memoryview) -> Iterator[tuple[bytes, str | None]]:
    """A gzip file of one or more members, piece by piece; the last piece says whether it ends too soon."""
    given: bytes | memoryview = view
    while given:
        unpacker = zlib.decompressobj(31)
        try:
            while not unpacker.eof:
                piece = unpacker.decompress(given, _AT_ONCE)
                given = unpacker.unconsumed_tail
                if not (piece or given or unpacker.eof):
                    yield b"", words.CUT_OFF
                    return
                yield piece, None
        except zlib.error:
            yield b"", words.CUT_OFF
            return
        given = unpacker.unused_data.lstrip(b"\0")  # some tools pad to a whole block
