"""A simple reader of a broker's log, and random malformed logs, for tests and ``make fuzz``.

The reader shares only the data of the kinds with the scanner. It reads line by line, tries one expression after
another, and uses Python's time zones.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from activemq_fleet.node.log.kinds import LogEvent
from activemq_fleet.node.log.log_layouts import DefaultLogLayoutConverter
from activemq_fleet.node.log.log_records import Record

_DATE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \| ", re.ASCII)
_CONSOLE = re.compile(r"( INFO| WARN|ERROR|DEBUG|TRACE|FATAL) \| (.*)")
_HEAD = re.compile(r".{23} \| (?:.{20} \| )??(?:([A-Z]+) +|\[ *([A-Z]+) *\] *)\| ")
_END = re.compile(r"(.*) \| ([^\s|]+) \| (.*)")

Row = dict[str, Any]


def read_rows(data: bytes, zone: str = "UTC") -> list[Row]:
    """Return every event of a log in order: the columns of the scanner, ``kind`` and ``fields`` for any release."""
    single = re.sub(rb"\r\n", b"\n", data)
    text = re.sub(rb"(?<=[^\n])\r\Z", b"", single).decode(errors="backslashreplace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    dated = [_time(line) is not None for line in lines]
    console = not any(dated) and any(map(_CONSOLE.match, lines))
    begins = [bool(_CONSOLE.match(line)) for line in lines] if console else dated
    starts = [at for at, begin in enumerate(begins) if begin]
    bounds = sorted({0, *starts, len(lines)}) if lines else []
    rows = []
    for begin, end in pairwise(bounds):
        part = lines[begin:end]
        row = _orphan(part) if not begins[begin] else _console(part) if console else _record(part, zone)
        rows.append({"line": begin + 1, "end_line": end, **row})
    return rows


def _time(line: str) -> datetime | None:
    match = _DATE.match(line)
    if match is None:
        return None
    try:
        time = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f")
    except ValueError:
        return None
    return time if 1970 <= time.year < 2100 else None


def _row(**columns: Any) -> Row:
    empty = dict.fromkeys(("time", "raw_time", "level", "stack", "logger", "thread", "fields"))
    return {**empty, "kind": "UNKNOWN", "parsed": True, **columns}


def _orphan(lines: list[str]) -> Row:
    return _row(message="\n".join(lines), parsed=False)


def _console(lines: list[str]) -> Row:
    match = _CONSOLE.fullmatch(lines[0])
    assert match is not None
    stack = "\n".join(lines[1:]) or None
    return _classified(_row(level=match[1].strip(), message=match[2], stack=stack))


def _record(lines: list[str], zone: str) -> Row:
    local = _time(lines[0])
    assert local is not None
    times = {"raw_time": lines[0][:23], "time": local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)}
    head = _HEAD.match(lines[0])
    if head is None:
        return _row(**times, message="\n".join(lines)[26:], parsed=False)
    lines = [lines[0][head.end() :], *lines[1:]]
    for at, line in enumerate(lines):
        end = _END.fullmatch(line)
        if end:
            message, stack = "\n".join([*lines[:at], end[1]]), "\n".join(lines[at + 1 :]) or None
            row = _row(**times, level=head[1] or head[2], message=message, logger=end[2], thread=end[3], stack=stack)
            return _classified(row)
    return _row(**times, level=head[1] or head[2], message="\n".join(lines), parsed=False)


def _classified(row: Row) -> Row:
    name, fields = first_matching_kind(row["message"], log_message_kind_ids())
    if name != "UNKNOWN" and not log_message_kind(name).can_be_written_by(row["logger"] or "", row["thread"] or ""):
        name, fields = "UNKNOWN", {}
    return {**row, "kind": name, "fields": fields or None}


def logger_of(message: str) -> str:
    """Return a logger that writes a message, for logs that tests make; any logger for a message without a kind."""
    name, _ = first_matching_kind(message, log_message_kind_ids())
    classes = log_message_kind(name).classes if name != "UNKNOWN" else ()
    return f"org.apache.activemq.{min(classes, default='X')}"


def event_of_any_kind(record: Record) -> LogEvent | None:
    """Return an event of the first kind that a record's message matches, if its class and thread write that kind."""
    name, fields = first_matching_kind(record.message, log_message_kind_ids())
    is_known = name != "UNKNOWN" and log_message_kind(name).can_be_written_by(record.logger, record.thread)
    return LogEvent(name, record, fields) if is_known else None


def first_matching_kind(message: str, kinds: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return the first of the kinds whose expression matches, with its fields."""
    for name in kinds:
        match = log_message_kind(name).regex.search(message)
        if match:
            return name, {key: value for key, value in match.groupdict().items() if value is not None}
    return "UNKNOWN", {}


# -- malformed logs ------------------------------------------------------------------------------

LINES = [
    b"2026-03-01 10:00:00,123 | INFO  | Connector stomp started | org.apache.activemq.broker.TransportConnector | main",
    b"2026-03-29 02:30:00,000 | WARN  | a | b.C | d | org.x.Y | ActiveMQ Transport: tcp:///127.0.0.1:47178@61616",
    b"2026-03-01 10:00:01,000 | ERROR | Failed to load: URL [file:/x.xml], reason: first",
    b"second line of the message | org.apache.activemq.xbean.XBeanBrokerFactory | main",
    b"java.io.IOException: outer",
    b"\tat some.Place.method(Place.java:1)",
    b"Caused by: java.net.BindException: Address already in use",
    b"2026-13-41 10:00:00,000 | INFO  | no such day | l | t",
    b"2026-02-29 10:00:00,000 | INFO  | no such day | l | t",
    b"2024-02-29 23:59:59,999 | FATAL |  | l | ",
    b"2026-03-01 10:00:02,000 | INFO  | torn",
    b"2026-03-01 10:00:02,000 | IN",
    b"2026-03-01 10:00",
    b"20 messages were dropped",
    b"2026-03-01 10:00:03,000 | VERBOSE | a level of its own | l | t",
    b"2026-03-01 10:00:03,000 | amq-openwire         | INFO  | with its connector | l | t",
    b"2026-03-01 10:00:04,000 | INFO  | x || y |  | z | l | t",
    b"2026-03-01 10:00:04,000 | DEBUG | no logger | two words | t",
    b" INFO | Connector openwire started",
    b"ERROR | Failed to load: URL",
    b"",
    b" | ",
    b"caf\xc3\xa9 \xff\xfe \xe2\x82 NUL\0\0",
]
_INSERTED = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xc3",
    b" | ",
    b"|",
    b" ",
    b"20",
    b"2026-",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\x1c",
]


def make_malformed_log(random: Random, known_logs: Sequence[bytes] = ()) -> bytes:
    """Return a log of well-formed and malformed lines, or a part of a known log, with random changes."""
    lines = [random.choice(LINES) for _ in range(random.randrange(1, 14))]
    data = bytearray(random.choice([b"\n", b"\n", b"\r\n"]).join(lines))
    if known_logs and random.random() < 0.5:
        log = random.choice(known_logs)
        at = random.randrange(len(log) + 1)
        data[len(data) // 2 : len(data) // 2] = log[at : at + random.randrange(1, 1 << 14)]
    for _ in range(random.randrange(4)):
        at = random.randrange(len(data) + 1)
        change = random.randrange(4)
        if change == 0:
            data[at:at] = random.choice(_INSERTED)
        elif change == 1:
            del data[at : at + random.randrange(1, 8)]
        elif change == 2 and at < len(data):
            data[at] = random.randrange(256)
        elif random.random() < 0.05:
            data[at:at] = random.choice([b"x", b"x ", b"| ", b"\n20", b"\xff"]) * random.randrange(1, 1 << 18)
    return bytes(data) + random.choice([b"", b"\n", b"\n", b"\n\n", b"\r\n"])


def first_difference(data: bytes, zone: str = "UTC") -> str:
    """Return a description of what the scanner reads or counts differently from ``read_rows``; empty without one."""
    from activemq_fleet.logs.event_batches import LogReleaseAndTimeZone, LogScanner

    if has_another_layout(data):
        return ""
    scanner = LogScanner(LogReleaseAndTimeZone(None, zone))
    scanned = [row for batch in scanner.arrow_batches_of_log_records(data) for row in _valid(batch)]
    expected = read_rows(data, zone)
    line_count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if sum(row["end_line"] - row["line"] + 1 for row in scanned) != line_count or scanner.line != line_count + 1:
        return f"{line_count} lines, counted: {[(row['line'], row['end_line']) for row in scanned]}"
    if len(scanned) != len(expected):
        return f"{len(scanned)} events in place of {len(expected)}"
    for row, expected_row in zip(scanned, expected, strict=True):
        row["fields"] = dict(row["fields"]) if row["fields"] else None
        differing_columns = [name for name in expected_row if row[name] != expected_row[name]]
        if differing_columns:
            return (
                f"line {expected_row['line']}: {[(name, row[name], expected_row[name]) for name in differing_columns]}"
            )
    return ""


def has_another_layout(data: bytes) -> bool:
    """Return whether a line of a log is a record of another layout, which ``read_rows`` does not read."""
    rewriter = DefaultLogLayoutConverter()
    lines = data.decode(errors="backslashreplace").split("\n")
    return any(rewriter.lines_in_default_layout(line.removesuffix("\r")) != [line.removesuffix("\r")] for line in lines)


def _valid(batch: Any) -> list[Row]:
    batch.validate(full=True)
    rows: list[Row] = batch.to_pylist()
    return rows


# -- messages of each kind -----------------------------------------------------------------------


@cache
def examples_of(id_: str) -> tuple[str, ...]:
    """Return messages that match an expression: with and without its optional parts, each alternative once."""
    return tuple({_example_text(re._parser.parse(log_message_kind(id_).regex.pattern), which) for which in range(4)})  # type: ignore[attr-defined]


def _example_text(parsed: Any, which: int) -> str:
    """Return a text that matches a parsed expression; ``which`` selects repetitions and branches."""
    text = ""
    for code, value in parsed:
        name = str(code)
        if name == "LITERAL":
            text += chr(value)
        elif name in ("ANY", "NOT_LITERAL"):
            text += "a"
        elif name == "IN":
            text += _character_of(value)
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inner = value
            text += _example_text(inner, which) * min(int(high), max(low, which % 2))
        elif name == "SUBPATTERN":
            text += _example_text(value[-1], which)
        elif name == "BRANCH":
            branches = value[1]
            text += _example_text(branches[which % len(branches)], which)
    return text


_CLASSES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_SPACE": r"\s",
}


def _character_of(members: Any) -> str:
    """Return a character of a set."""
    pattern = ""
    for code, value in members:
        name = str(code)
        if name == "NEGATE":
            pattern += "^"
        elif name == "LITERAL":
            pattern += re.escape(chr(value))
        elif name == "RANGE":
            pattern += "-".join(re.escape(chr(end)) for end in value)
        else:
            pattern += _CLASSES[str(value)]
    return next(character for character in "7x" + string.printable if re.fullmatch(f"[{pattern}]", character))
