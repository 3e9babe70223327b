"""Read the log files of a host into Arrow record batches with one row for each log record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from activemq_fleet.logs.chunks import Piece, record_pieces_from_line_batches, unpacked_record_pieces
from activemq_fleet.logs.classifier import UNKNOWN
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner
from activemq_fleet.logs.rolled_files import (
    BEGINNING,
    PlaceAmongLogFiles,
    log_file_positions_by_name,
    preamble_and_first_record_date,
)

LINES = 1 << 40
"""A number larger than the number of lines of any file: ``sequence`` is the position of a file multiplied by this
number, plus the line number.
"""

CUT_OFF = (
    "the log file is cut off in its last line, so its last event may be incomplete: collect it from the host again"
)
"""Loggers write complete lines. A collection while a line is written can also cause this."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file of a broker: its host, name, source and compression, and its position among the host's log files.

    ``place`` is the position, None to have it computed.
    """

    host: str
    file: str
    source: LogReleaseAndTimeZone
    compressed: bool = False
    place: PlaceAmongLogFiles | None = None


def arrow_log_record_batches_of_host(files: Sequence[tuple[LogFile, memoryview]]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow record batches with a row for each log record in the log files of one host.

    The record batches are yielded file by file. The files are given with their contents. Files without a place have to
    be all files of the host. The columns are those of ``event_batches.SCHEMA``, before them ``host``, ``file`` and
    ``release``, and ``sequence``: the order of a host's events, over all its files.
    """
    beginning_slice = slice(BEGINNING)
    beginnings = {
        log.file: preamble_and_first_record_date(file_content[beginning_slice], compressed=log.compressed)
        for log, file_content in files
        if not log.place
    }
    places = log_file_positions_by_name(beginnings, files[0][0].source) if beginnings else {}
    for log, content in files:
        log_with_place = log if log.place else replace(log, place=places[log.file])
        yield from arrow_batches_of_log_file(log_with_place, unpacked_record_pieces(content, compressed=log.compressed))


def arrow_batches_of_log_lines(
    log: LogFile, line_batches: Iterable[pa.RecordBatch], file_size: int
) -> Iterator[pa.RecordBatch]:
    """Return Arrow record batches with a row for each log record of one log file.

    The file's content is given in batches of lines, as to ``record_pieces_from_line_batches``. The columns are those of
    ``arrow_log_record_batches_of_host``.
    """
    pieces = record_pieces_from_line_batches(line_batches, file_size, compressed=log.compressed)
    return arrow_batches_of_log_file(log, pieces)


def arrow_batches_of_log_file(log: LogFile, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow record batches with a row for each log record of one log file.

    The file's content is given in pieces of whole records. The columns are those of
    ``arrow_log_record_batches_of_host``. A problem of a file without any readable byte is in a row without text.
    """
    place = log.place or PlaceAmongLogFiles()
    scanner = LogScanner(log.source)
    skip = place.skip
    for records, is_last, problem in pieces:
        piece = records
        if skip:
            scanner.line += bytes(piece[:skip]).count(b"\n")
            piece, skip = piece[skip:], 0
        last_record_continuation = place.after if is_last else b""
        batches = list(scanner.arrow_batches_of_log_records(piece, last_record_continuation))
        if is_last and not last_record_continuation and not problem and bytes(piece[-1:]) not in (b"", b"\n"):
            problem = CUT_OFF
        if problem and batches:
            batches[-1] = _with_problem(batches[-1], problem)
        elif problem:
            batches = [_batch_of_unreadable_file(scanner.line, problem)]
        for batch in batches:
            yield _with_file_columns(batch, log, place.order)


def _batch_of_unreadable_file(line: int, problem: str) -> pa.RecordBatch:
    """Return an Arrow record batch of one row without text, which contains the problem of a file.

    The row has no text that the grammar does not match, so ``parsed`` is True.
    """
    row = {"line": line, "end_line": line, "kind": UNKNOWN, "message": "", "parsed": True, "problem": problem}
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def _with_problem(batch: pa.RecordBatch, problem: str) -> pa.RecordBatch:
    problems = batch.column("problem").to_pylist()
    problems[-1] = "; ".join(filter(None, (problems[-1], problem)))
    return batch.set_column(batch.schema.get_field_index("problem"), "problem", pa.array(problems, pa.string()))


def _with_file_columns(batch: pa.RecordBatch, log: LogFile, order: int) -> pa.RecordBatch:
    labels = {"host": log.host, "file": log.file, "release": log.source.release}
    columns = {name: pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for name, value in labels.items()}
    columns |= {name: batch.column(name) for name in batch.schema.names}
    columns["sequence"] = pc.add(batch.column("line"), pa.scalar(order * LINES, pa.int64()))
    return pa.RecordBatch.from_pydict(columns)
