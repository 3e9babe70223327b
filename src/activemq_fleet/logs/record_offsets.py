"""Find the fields of all records in a chunk of bytes at once, as numpy arrays of offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from activemq_fleet.node.log.log_layouts import OTHER_FIRST_LETTERS
from activemq_fleet.node.log.log_records import RecordFields, parse_broker_log_record

Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NEWLINE, _SPACE, _BAR = 10, 32, 124
_TIME_TEMPLATE = b"dddd-dd-dd dd:dd:dd,ddd | "
_DIGIT_OFFSETS = np.array([at for at, letter in enumerate(_TIME_TEMPLATE) if letter == ord("d")])
_MARK_OFFSETS = np.array([at for at, letter in enumerate(_TIME_TEMPLATE) if letter != ord("d")])
_MARK_BYTES = np.frombuffer(_TIME_TEMPLATE, np.uint8)[_MARK_OFFSETS]
_HEAD_LENGTH = len(_TIME_TEMPLATE) + 8  # date, level
_TIME_LENGTH = len(_TIME_TEMPLATE) - 3
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_FILE_LEVELS = np.frombuffer(b"".join(f"{level:<5} | ".encode() for level in _LEVELS), "<u8")
_CONSOLE_LEVELS = np.frombuffer(b"".join(f"{level:>5} | ".encode() for level in _LEVELS), "<u8")
_LEVEL_NAMES = pa.array(_LEVELS)
_MONTH_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0, 0])
_PADDING = bytes(_HEAD_LENGTH)
_OTHER_LETTERS = np.frombuffer(OTHER_FIRST_LETTERS.encode(), np.uint8)


@dataclass(frozen=True, slots=True)
class ChunkRecordOffsets:
    """The byte offsets at which each record in a chunk of a log, and its fields such as the time, begin and end.

    An array has an entry per record. ``edges`` holds ten offsets a record: begin and end of time, message, logger,
    thread and stack. ``lines`` is the line, from 0, at which each record begins; ``bare`` is True where logger and
    thread are absent, ``timeless`` where the time is. ``odd`` are indices of records of unusual shape, whose level,
    message, logger, thread and stack are in ``read``, in the same order. ``others`` are the offsets of the lines that
    are no record and may be one of another layout.
    """

    edges: Places
    end: int
    lines: Places
    seconds: Places
    millis: Places
    levels: pa.Array
    bare: Flags
    timeless: Flags
    parsed: Flags
    odd: Places
    read: Sequence[RecordFields]
    others: Places


def offsets_of_records_and_their_parts(text: bytes) -> ChunkRecordOffsets:
    """Return the byte offsets of each log record, and of its fields such as time and message, in a log file's text.

    Text before the first record counts as an unreadable record.
    """
    padded = np.frombuffer(text + _PADDING, np.uint8)
    ends = np.flatnonzero(padded[: len(text)] == _NEWLINE)
    begins = _line_begins(ends, len(text))
    record_lines, seconds, millis = _dated_lines(padded, begins, len(text))
    record_begins = begins[record_lines]
    record_ends = _record_ends(ends, record_begins, len(text))
    head_end = np.append(ends, len(text))[record_lines]
    # The last record may end without a newline, or may have only one line.
    head_end = np.minimum(head_end, record_ends)
    codes, has_level = _level_codes(padded, record_begins + _TIME_LENGTH + 3, _FILE_LEVELS)
    bars = _separator_offsets(padded, len(text))
    separator_counts = np.searchsorted(bars, head_end - 1)
    is_usual = has_level & (separator_counts >= 2)
    # The values of a record without two separators are replaced below.
    padded_separators = np.concatenate(([0, 0], bars))
    before_logger, before_thread = padded_separators[separator_counts], padded_separators[separator_counts + 1]
    is_usual &= (before_logger > record_begins + _HEAD_LENGTH) & (before_thread - before_logger > 3)
    is_usual &= _are_loggers_single_words(text, before_logger, before_thread, is_usual)
    edges = _part_bounds(record_begins, head_end, record_ends, before_logger, before_thread)
    unusual_records = np.flatnonzero(~is_usual)
    edges[unusual_records, 1:] = record_begins[unusual_records, None] + _TIME_LENGTH
    parts = [
        parse_broker_log_record(text[record_begins[index] : record_ends[index]].decode())
        for index in unusual_records.tolist()
    ]
    parsed = np.ones(len(record_begins), bool)
    parsed[unusual_records] = [part.whole for part in parts]
    bounds = ChunkRecordOffsets(
        edges=edges,
        end=len(text),
        lines=record_lines,
        seconds=seconds,
        millis=millis,
        levels=_LEVEL_NAMES.take(pa.array(codes)),
        bare=np.zeros(len(record_begins), bool),
        timeless=np.zeros(len(record_begins), bool),
        parsed=parsed,
        odd=unusual_records,
        read=parts,
        others=_other_layout_lines(padded, np.delete(begins, record_lines)),
    )
    return _with_lines_before_first_record(bounds, text)


def record_bounds_of_console(text: bytes) -> ChunkRecordOffsets:
    """Return the byte offsets of each log record, and of its fields such as level, in a broker's console output.

    A record is level and message in one line, then the stack trace.
    """
    padded = np.frombuffer(text + _PADDING, np.uint8)
    ends = np.flatnonzero(padded[: len(text)] == _NEWLINE)
    begins = _line_begins(ends, len(text))
    codes, is_record = _level_codes(padded, begins, _CONSOLE_LEVELS)
    record_lines = np.flatnonzero(is_record)
    record_begins = begins[record_lines]
    record_ends = _record_ends(ends, record_begins, len(text))
    head_end = np.minimum(np.append(ends, len(text))[record_lines], record_ends)
    stack_begins = np.minimum(head_end + 1, record_ends)
    message = record_begins + 8
    edges = np.stack([record_begins, record_begins, message, *[head_end] * 5, stack_begins, record_ends], axis=1)
    all_true = np.ones(len(record_begins), bool)
    zeros = np.zeros(len(record_begins), np.int64)
    bounds = ChunkRecordOffsets(
        edges=edges,
        end=len(text),
        lines=record_lines,
        seconds=zeros,
        millis=zeros,
        levels=_LEVEL_NAMES.take(pa.array(codes[record_lines])),
        bare=all_true,
        timeless=all_true,
        parsed=all_true.copy(),
        odd=zeros[:0],
        read=(),
        others=zeros[:0],
    )
    return _with_lines_before_first_record(bounds, text)


def _line_begins(ends: Places, length: int) -> Places:
    begins = np.concatenate((np.zeros(1, np.int64), ends + 1))
    return begins[:-1] if begins[-1] == length else begins


def _record_ends(ends: Places, record_begins: Places, length: int) -> Places:
    """Return the offset at which each record ends, without its last line end."""
    last_end = length - 1 if len(ends) and ends[-1] == length - 1 else length
    return np.append(record_begins[1:] - 1, last_end)[: len(record_begins)]


def _other_layout_lines(padded: NDArray[np.uint8], begins: Places) -> Places:
    """Return the beginnings of lines whose first letter can begin a record of another layout."""
    return begins[np.isin(padded[begins], _OTHER_LETTERS)]


def _dated_lines(padded: NDArray[np.uint8], begins: Places, length: int) -> tuple[Places, Places, Places]:
    """Return the lines that begin with an existing date, and their local time: seconds since 1970, and milliseconds."""
    first_bytes = padded[begins]
    line_numbers = np.flatnonzero(
        ((first_bytes == 49) | (first_bytes == 50)) & (begins + len(_TIME_TEMPLATE) <= length)
    )
    letters = padded[begins[line_numbers][:, None] + np.arange(len(_TIME_TEMPLATE))]
    digits = letters[:, _DIGIT_OFFSETS] - 48
    has_time_format = (digits < 10).all(axis=1) & (letters[:, _MARK_OFFSETS] == _MARK_BYTES).all(axis=1)
    line_numbers, digits = line_numbers[has_time_format], digits[has_time_format].astype(np.int64)
    year = digits[:, :4] @ np.array([1000, 100, 10, 1])
    pairs = digits[:, 4:14:2] * 10 + digits[:, 5:14:2]
    month, day, hour, minute, second = pairs.T
    last_day = _MONTH_DAYS[np.minimum(month, 13)] + ((month == 2) & (year % 4 == 0))
    is_valid = (
        (year >= 1970) & (year < 2100) & (day >= 1) & (day <= last_day) & (hour < 24) & (minute < 60) & (second < 60)
    )
    line_numbers = line_numbers[is_valid]
    days = _days_since_1970(year, month, day)
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    millis = digits[:, 14:] @ np.array([100, 10, 1])
    return line_numbers, seconds[is_valid], millis[is_valid]


def _days_since_1970(year: Places, month: Places, day: Places) -> Places:
    """Return the days since 1970-01-01; from 1970 to 2099 every fourth year is a leap year."""
    days_before_month = np.array([0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 0])[np.minimum(month, 13)]
    years = year - 1970
    days: Places = years * 365 + (years + 1) // 4 + days_before_month + ((month > 2) & (year % 4 == 0)) + day - 1
    return days


def _level_codes(
    padded: NDArray[np.uint8], offsets: Places, table: NDArray[np.uint64]
) -> tuple[NDArray[np.int32], Flags]:
    """Return the index of the level at each offset, and whether the bytes at this offset are a level."""
    level_words = np.ascontiguousarray(padded[offsets[:, None] + np.arange(8)]).view("<u8").ravel()
    codes, has_level = np.zeros(len(offsets), np.int32), np.zeros(len(offsets), bool)
    for code, word in enumerate(table):
        is_level = level_words == word
        codes[is_level] = code
        has_level |= is_level
    return codes, has_level


def _separator_offsets(padded: NDArray[np.uint8], length: int) -> Places:
    """Return the offsets of bars (``|``) that have a space on both sides."""
    bars = np.flatnonzero(padded[:length] == _BAR)
    spaced: Places = bars[(padded[bars - 1] == _SPACE) & (padded[bars + 1] == _SPACE)]
    return spaced


def _are_loggers_single_words(text: bytes, before: Places, after: Places, is_usual: Flags) -> Flags:
    """Return whether the text between two bars is a single word, as a logger is; each distinct text is checked once."""
    indices = np.flatnonzero(is_usual)
    bounds = np.stack([before[indices] + 2, after[indices] - 1], axis=1)
    offsets = np.append(bounds.ravel(), len(text)).astype(np.int32)
    words = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * len(indices), [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    ).take(pa.array(np.arange(len(indices), dtype=np.int64) * 2))
    encoded = words.dictionary_encode()
    is_word = np.array([_is_word(word) for word in encoded.dictionary.to_pylist()], bool)
    word_flags = np.zeros(len(is_usual), bool)
    word_flags[indices] = is_word[encoded.indices.to_numpy(zero_copy_only=False)] if len(indices) else False
    return word_flags


def _is_word(word: bytes) -> bool:
    text = word.decode(errors="replace")
    return "|" not in text and not any(letter.isspace() for letter in text) and text != ""


def _part_bounds(begin: Places, head_end: Places, finish: Places, logger: Places, thread: Places) -> Places:
    stack_begins = np.minimum(head_end + 1, finish)
    return np.stack(
        [
            begin,
            begin + _TIME_LENGTH,
            begin + _HEAD_LENGTH,
            logger - 1,
            logger + 2,
            thread - 1,
            thread + 2,
            head_end,
            stack_begins,
            finish,
        ],
        axis=1,
    )


def _with_lines_before_first_record(bounds: ChunkRecordOffsets, text: bytes) -> ChunkRecordOffsets:
    """Return the bounds with the lines before the first record added as an unreadable record."""
    first_record_offset = int(bounds.edges[0, 0]) if len(bounds.edges) else len(text)
    if not first_record_offset:
        return bounds
    preamble_end = first_record_offset - 1 if text[first_record_offset - 1] == _NEWLINE else first_record_offset
    edges = np.array([[0, 0, 0, *[preamble_end] * 7]])
    true_flag, false_flag, zero = np.ones(1, bool), np.zeros(1, bool), np.zeros(1, np.int64)
    return ChunkRecordOffsets(
        edges=np.concatenate((edges, bounds.edges)),
        end=bounds.end,
        lines=np.concatenate((zero, bounds.lines)),
        seconds=np.concatenate((bounds.seconds[:1] if len(bounds.seconds) else zero, bounds.seconds)),
        millis=np.concatenate((zero, bounds.millis)),
        levels=pa.concat_arrays([pa.nulls(1, pa.string()), bounds.levels]),
        bare=np.concatenate((true_flag, bounds.bare)),
        timeless=np.concatenate((true_flag, bounds.timeless)),
        parsed=np.concatenate((false_flag, bounds.parsed)),
        odd=bounds.odd + 1,
        read=bounds.read,
        others=bounds.others,
    )
