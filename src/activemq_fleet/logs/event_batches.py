"""Read log bytes into columns of events, one chunk at a time, by the grammar of ``node.log.log_records``.

Spark's workers, the stream and plain processes use this module. In one pass over a chunk, numpy finds line ends, dates
and separators, which are the bounds of all fields of nearly all records. The few records of a different form are read
one by one by ``log_records.parse_broker_log_record``. The module requires numpy and pyarrow, which the extra
``pipeline`` installs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from activemq_fleet.logs.classifier import KINDS, UNKNOWN, LogMessageClassifier, classifier_for_release
from activemq_fleet.logs.kinds import log_message_kind
from activemq_fleet.logs.record_offsets import (
    ChunkRecordOffsets,
    offsets_of_records_and_their_parts,
    record_bounds_of_console,
)
from activemq_fleet.logs.zones import LocalTimeConverter, time_zone_of
from activemq_fleet.node.log.log_layouts import OTHER_BEGINS, START, DefaultLogLayoutConverter
from activemq_fleet.node.log.log_records import CONSOLE_START, is_client_thread

SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("end_line", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("raw_time", pa.string()),
        ("level", pa.string()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("stack", pa.string()),
        ("logger", pa.string()),
        ("thread", pa.string()),
        ("fields", pa.map_(pa.string(), pa.string())),
        ("parsed", pa.bool_()),
        ("problem", pa.string()),
    ]
)
"""One row an event. ``time`` is None for the console, which has none. ``parsed`` is False for text that does not match
the grammar; ``message`` contains this text unchanged. ``problem`` describes invalid bytes in the record.
"""

INVALID_BYTES = "invalid bytes"
"""The problem of a record whose bytes are complete, but not text in UTF-8; their number precedes it."""
PIECE = 1 << 22
"""The approximate number of bytes processed at once, which fits the processor's caches."""

_FILE_RECORD_START = re.compile(rb"^" + START.encode(), re.MULTILINE)
_CONSOLE_RECORD_START = re.compile(rb"^" + CONSOLE_START.encode(), re.MULTILINE)
_OTHER_RECORD_STARTS = [re.compile(rb"^(?:" + begin.encode() + rb")", re.MULTILINE) for begin in OTHER_BEGINS]
_ESCAPED = re.compile(r"\\x[0-9a-f]{2}")
_KIND_NAMES = pa.array(KINDS)
_LONGEST_LINE = 1 << 16
_TIME_LENGTH = len("2026-03-01 10:00:00,123")
_PIECES_PER_RECORD = 10  # pieces of a record: fields and the text between them
_TIME, _MESSAGE, _LOGGER, _THREAD, _STACK = range(0, _PIECES_PER_RECORD, 2)


@dataclass(frozen=True, slots=True)
class LogReleaseAndTimeZone:
    """The ActiveMQ release of the broker that wrote a log, and the time zone of the broker's host.

    ``release`` is None for any release.
    """

    release: str | None = None
    zone: str = "UTC"


class LogScanner:
    """A scanner of one log file, which converts the file's log records to events in Arrow record batches.

    It reads chunks one after the other. ``line`` is the number of the next line. A record ends at the latest with its
    chunk: a caller cuts a log where records begin, or passes the rest of the record.
    """

    def __init__(self, source: LogReleaseAndTimeZone, line: int = 1) -> None:
        self.line = line
        self._zone = source.zone
        self._clock = LocalTimeConverter(source.zone)
        self._classifier = classifier_for_release(source.release)

    def arrow_batches_of_log_records(
        self, chunk: bytes | memoryview, last_record_continuation: bytes = b""
    ) -> Iterator[pa.RecordBatch]:
        """Scan a chunk of a log file, and yield Arrow record batches with a row for each log record in the chunk.

        The batches have the schema ``SCHEMA``. A batch has a few megabytes. ``last_record_continuation`` is from the
        next file; it is added to the chunk's last record, and its lines are not counted.
        """
        record_start, is_console = record_layout_of(chunk)
        for piece, is_last in _split_chunk(chunk, record_start):
            yield self._batch(piece, is_console, last_record_continuation if is_last else b"")

    def _batch(self, piece: bytes, is_console: bool, last_record_continuation: bytes) -> pa.RecordBatch:
        line_count = piece.count(b"\n") + (not piece.endswith(b"\n"))
        text, invalid_byte_counts = _decode_and_escape(piece + last_record_continuation, self.line)
        bounds = (record_bounds_of_console if is_console else offsets_of_records_and_their_parts)(text)
        record_lines = bounds.lines
        if _has_other_layout(text, bounds):
            text, origins = _rewrite_in_default_layout(text, self._zone)
            bounds = offsets_of_records_and_their_parts(text)
            record_lines = origins[bounds.lines]
        columns = _event_columns(text, bounds, self._clock, self._classifier)
        lines = np.append(record_lines, line_count) + self.line
        problem = _problems_of_events(invalid_byte_counts, lines)
        self.line += line_count
        ends = np.maximum(lines[1:] - 1, lines[:-1])
        arrays = [pa.array(lines[:-1]), pa.array(ends), *columns, problem]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def record_layout_of(chunk: bytes | memoryview) -> tuple[re.Pattern[bytes], bool]:
    """Return the layout of a log chunk: the pattern with which its records begin, and whether it is console output.

    The pattern is that of the first record's layout. The layout is the console's only where no line has a date: within
    a log file such lines are text that was logged.
    """
    first_match = _FILE_RECORD_START.search(chunk)
    record_start, first_offset = _FILE_RECORD_START, len(chunk) if first_match is None else first_match.start()
    for other_start in _OTHER_RECORD_STARTS:
        other_match = other_start.search(chunk, 0, first_offset)
        if other_match is not None:
            record_start, first_offset = other_start, other_match.start()
    is_console = first_offset == len(chunk) and _CONSOLE_RECORD_START.search(chunk) is not None
    return (_CONSOLE_RECORD_START if is_console else record_start), is_console


def _has_other_layout(text: bytes, bounds: ChunkRecordOffsets) -> bool:
    """Return whether a log contains a record in a layout other than the default one.

    ``bounds`` has the lines that are no record of the default layout.
    """
    rewriter = DefaultLogLayoutConverter()
    for begin in bounds.others.tolist():
        line = text[begin : _line_end(text, begin)].decode()
        if rewriter.lines_in_default_layout(line) != [line]:
            return True
    return False


def _line_end(text: bytes, begin: int) -> int:
    end = text.find(b"\n", begin)
    return len(text) if end < 0 else end


def _rewrite_in_default_layout(text: bytes, zone: str) -> tuple[bytes, NDArray[np.int64]]:
    """Return a log's text in the default layout, and the number of the original line of each of its lines, from 0."""
    rewriter = DefaultLogLayoutConverter(time_zone_of(zone or "UTC"))
    lines: list[str] = []
    origins: list[int] = []
    for number, line in enumerate(text.decode().split("\n")):
        rewritten = rewriter.lines_in_default_layout(line)
        lines += rewritten
        origins += [number] * len(rewritten)
    return "\n".join(lines).encode(), np.array(origins, np.int64)


def count_bytes_before_first_record(chunk: bytes | memoryview) -> int:
    """Return the number of bytes before the first log record in a chunk.

    They continue an earlier file. Without a record, all bytes count.
    """
    first_record = record_layout_of(chunk)[0].search(chunk)
    return len(chunk) if first_record is None else first_record.start()


def first_record_time(chunk: bytes | memoryview) -> str | None:
    """Return the time of the first log record in a chunk of a log as text, such as ``2026-03-01 10:00:00,123``.

    The time is in the default form, and a zone becomes UTC. The result is None without a record.
    """
    begin = count_bytes_before_first_record(chunk)
    if begin == len(chunk):
        return None
    line = bytes(chunk[begin : begin + _LONGEST_LINE]).partition(b"\n")[0].decode(errors="replace")
    return DefaultLogLayoutConverter(UTC).lines_in_default_layout(line)[0][:_TIME_LENGTH]


def _split_chunk(chunk: bytes | memoryview, record_start: re.Pattern[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield (piece, is last): the chunk in pieces of about ``PIECE`` bytes, cut where records begin."""
    offset, end = 0, len(chunk)
    while offset < end:
        next_record = record_start.search(chunk, offset + PIECE) if end - offset > PIECE + PIECE // 2 else None
        # A search from the middle of a line would match the rest of the line, so a search begins after a line end.
        while next_record is not None and chunk[next_record.start() - 1 : next_record.start()] != b"\n":
            next_record = record_start.search(chunk, next_record.start() + 1)
        cut_offset = end if next_record is None else next_record.start()
        yield bytes(chunk[offset:cut_offset]), cut_offset == end
        offset = cut_offset


def _decode_and_escape(piece: bytes, line: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a piece as UTF-8 with single newlines and invalid bytes as ``\\xNN``, and their numbers as (line, number).

    Only lines with invalid bytes are listed.
    """
    invalid_byte_counts: list[tuple[int, int]] = []
    if b"\r\n" in piece:
        piece = piece.replace(b"\r\n", b"\n")
    if not piece.endswith(b"\n\r") and piece != b"\r":  # In these cases, the carriage return is a separate line.
        piece = piece.removesuffix(b"\r")
    if not piece.isascii():
        try:
            piece.decode()
        except UnicodeDecodeError:
            lines = piece.split(b"\n")
            for index, text in enumerate(lines):
                lines[index], count = _escape_invalid_bytes(text)
                if count:
                    invalid_byte_counts.append((line + index, count))
            piece = b"\n".join(lines)
    return piece, invalid_byte_counts


def _escape_invalid_bytes(text: bytes) -> tuple[bytes, int]:
    try:
        text.decode()
    except UnicodeDecodeError:
        valid_length = len(text.decode(errors="ignore").encode())
        return text.decode(errors="backslashreplace").encode(), len(text) - valid_length
    return text, 0


def _problems_of_events(invalid_byte_counts: list[tuple[int, int]], lines: NDArray[np.int64]) -> pa.Array:
    """Return the problem of each event, or null; ``lines`` are the events' first lines and the line after the end."""
    event_problems: list[str | None] = [None] * (len(lines) - 1)
    if invalid_byte_counts and event_problems:
        counts: dict[int, int] = {}
        for line, line_count in invalid_byte_counts:
            index = min(int(np.searchsorted(lines, line, side="right")) - 1, len(event_problems) - 1)
            counts[index] = counts.get(index, 0) + line_count
        for index, count in counts.items():
            event_problems[index] = f"{count} {INVALID_BYTES}"
    return pa.array(event_problems, pa.string())


def _event_columns(
    text: bytes, bounds: ChunkRecordOffsets, clock: LocalTimeConverter, kinds: LogMessageClassifier
) -> list[pa.Array]:
    """Return the columns from ``time`` to ``parsed`` of a piece."""
    edges = bounds.edges
    offsets = np.append(edges.ravel(), len(text) if not len(edges) else bounds.end).astype(np.int32)
    parts = pa.StringArray.from_buffers(len(edges) * _PIECES_PER_RECORD, pa.py_buffer(offsets), pa.py_buffer(text))
    base = np.arange(len(edges), dtype=np.int64) * _PIECES_PER_RECORD

    def column(part: int, absent: NDArray[np.bool_]) -> pa.Array:
        column_array: pa.Array = parts.take(pa.array(base + part, mask=absent))
        return column_array

    message = column(_MESSAGE, np.zeros(len(edges), bool))
    stack = column(_STACK, edges[:, _STACK] == edges[:, _STACK + 1])
    logger, thread = column(_LOGGER, bounds.bare), column(_THREAD, bounds.bare)
    raw_time = column(_TIME, bounds.timeless)
    level = bounds.levels
    if len(bounds.odd):
        level, message, stack, logger, thread = _with_separately_parsed_records(
            bounds, level, message, stack, logger, thread
        )
    micros = clock.to_utc(bounds.seconds) * 1_000_000 + bounds.millis * 1000
    time = pa.array(micros, mask=bounds.timeless).cast(pa.timestamp("us", tz="UTC"))
    names, fields = _kinds_and_fields(message, logger, thread, bounds.parsed, kinds)
    return [time, raw_time, level, names, message, stack, logger, thread, fields, pa.array(bounds.parsed)]


def _with_separately_parsed_records(bounds: ChunkRecordOffsets, *columns: pa.Array) -> list[pa.Array]:
    """Return the columns of events, with the values of records of unusual shape, which were parsed one by one."""
    order = np.arange(len(bounds.parsed))
    order[bounds.odd] = len(order) + np.arange(len(bounds.odd))
    texts = [
        [parts.level or None for parts in bounds.read],
        [parts.message for parts in bounds.read],
        [parts.stack or None for parts in bounds.read],
        [parts.logger if parts.whole else None for parts in bounds.read],
        [parts.thread if parts.whole else None for parts in bounds.read],
    ]
    indices = pa.array(order)
    return [
        pa.concat_arrays([column, pa.array(texts_, pa.string())]).take(indices)
        for column, texts_ in zip(columns, texts, strict=True)
    ]


def _kinds_and_fields(
    message: pa.Array, logger: pa.Array, thread: pa.Array, parsed: NDArray[np.bool_], kinds: LogMessageClassifier
) -> tuple[pa.Array, pa.Array]:
    """Return the kind of every log message, and its fields.

    The kind is UNKNOWN and the fields are null for messages that could not be read, or that a class wrote that is not
    one of the kind's classes.
    """
    encoded = message.dictionary_encode()
    classifications = [kinds.kind_index_and_values(text) for text in encoded.dictionary.to_pylist()]
    codes = np.fromiter((code for code, _ in classifications), np.int32, len(classifications))
    dictionary_indices = encoded.indices.to_numpy(zero_copy_only=False)
    # A cut-off message may match the pattern of another kind.
    is_classified = parsed & _can_write_kinds(
        codes[dictionary_indices] if len(codes) else dictionary_indices, logger, thread
    )
    dictionary_indices = np.where(is_classified, dictionary_indices, len(encoded.dictionary))
    names = _KIND_NAMES.take(pa.array(np.append(codes, KINDS.index(UNKNOWN)).astype(np.int32)[dictionary_indices]))
    lengths = np.fromiter((len(fields) for _, fields in classifications), np.int32, len(classifications))
    ends = np.cumsum(np.append(lengths, 0), dtype=np.int32)
    pairs: list[tuple[str, Any]] = [pair for _, fields in classifications for pair in fields]
    keys, items = pa.array([key for key, _ in pairs], pa.string()), pa.array([item for _, item in pairs], pa.string())
    maps = pa.MapArray.from_arrays(pa.array(np.insert(ends, 0, 0)), keys, items)
    has_no_fields = np.append(lengths, 0)[dictionary_indices] == 0
    return names, maps.take(pa.array(dictionary_indices, mask=has_no_fields))


def _can_write_kinds(codes: NDArray[np.int32], logger: pa.Array, thread: pa.Array) -> NDArray[np.bool_]:
    """Return, for each log record, whether its class and thread can write a message of its kind.

    Each combination is checked once.
    """
    loggers, threads = logger.dictionary_encode(), thread.dictionary_encode()
    of_client = [is_client_thread(name) for name in threads.dictionary.to_pylist()]
    by_client = np.append(np.array(of_client, bool), False)[_dictionary_indices(threads)]
    names = [*loggers.dictionary.to_pylist(), ""]
    combination_codes = (codes.astype(np.int64) * len(names) + _dictionary_indices(loggers)) * 2 + by_client
    distinct_codes, inverse = np.unique(combination_codes, return_inverse=True)
    is_possible = [
        _can_write_kind(
            int(combination) // 2 // len(names), names[int(combination) // 2 % len(names)], int(combination) % 2
        )
        for combination in distinct_codes
    ]
    record_mask: NDArray[np.bool_] = np.array(is_possible, bool)[inverse]
    return record_mask


def _dictionary_indices(encoded: pa.Array) -> NDArray[np.int64]:
    """Return each value's index into the dictionary; null has the index after the last."""
    indices: NDArray[np.int64] = (
        encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return indices


@cache
def _can_write_kind(code: int, logger: str, by_client: int) -> bool:
    name = KINDS[code]
    return name == UNKNOWN or log_message_kind(name).can_be_written_by(logger, "qtp0" if by_client else "")
