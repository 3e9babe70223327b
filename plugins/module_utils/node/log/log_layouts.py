# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Rewrites the lines of a log in another layout as lines of the default layout, which ``log_records`` reads.

The layouts are JSON with one object per line (JsonLayout with ``compact`` and ``eventEol``, JsonTemplateLayout with its
templates, the JSON layout of Logstash), and patterns of log4j that begin with the date, such as
``%d{ISO8601} [%t] %-5p %c - %m%n`` and ``%d %-5p [%c] (%t) %m%n``. A pattern must have the full class name (``%c``).
The layout of a log is that of its first record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from ..text_lines import split_lines

_DATE = (
    r"(?:(?:19[7-9]\d|20\d\d)-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    r"|(?:19(?:[79][26]|8[048])|20(?:[02468][048]|[13579][26]))-02-29)"
)
"""Dates that exist, from 1970 to 2099, so that the beginning of a record does not depend on a calendar."""
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
START = rf"{_DATE} {_CLOCK},\d{{3}} \| "
"""The regular expression of a record's beginning in the default layout, at the beginning of a line."""
READABLE_LAYOUTS = (
    "configure the log of the broker with the pattern %d | %-5p | %m | %c | %t%n, with a pattern that begins with %d "
    "and has %p, %c and %m, or as JSON with one object per line"
)
"""The advice for a log whose layout is not supported."""

_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)"
_TIME = rf"\[?{_DATE}[ T]{_CLOCK}(?:[.,]\d{{1,9}})?(?: ?{_ZONE})?\]?"
_LEVELS = "(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
_LEVEL = rf"\[? *{_LEVELS} *\]?"
_NAME = r"[\w$-]{2,}(?:\.[\w$-]+)+"  # not o.a.a.b.BrokerService
_CLASS = rf"[\[(]?{_NAME}[\])]?"
_THREAD = rf"(?!.{_NAME}[\])])(?:\[[^\n]{{0,300}}?\]|\([^\n]{{0,300}}?\))"

_BARS_BEGIN = rf"{_TIME} \| {_LEVEL} *\| "
_PATTERN_BEGIN = rf"{_TIME} +(?:{_THREAD} +)?{_LEVEL} +(?:{_THREAD} +)?{_CLASS}(?= |:)"

_TIME_PARTS = re.compile(
    rf"\[?(?P<date>{_DATE})[ T](?P<clock>{_CLOCK})(?:[.,](?P<fraction>\d{{1,9}}))?(?: ?(?P<zone>{_ZONE}))?\]?", re.ASCII
)
_PATTERN = re.compile(
    rf"(?P<time>{_TIME}) +(?:(?P<thread>{_THREAD}) +)?(?P<level>{_LEVEL}) +"
    rf"(?:(?P<logger_before>[\[(]{_NAME}[\])]) +(?P<thread_last>\([^\n]{{0,300}}?\)) +"
    rf"|(?:(?P<thread_between>{_THREAD}) +)?(?P<logger>{_CLASS})(?: +(?P<thread_after>{_THREAD})(?= +[-:] ))?)"
    r" *(?:[-:] +)?(?P<message>.*)",
    re.ASCII | re.DOTALL,
)
_BAR_LAYOUT = re.compile(rf"(?P<time>{_TIME}) \| (?P<rest>{_LEVEL} *\| .*)", re.ASCII | re.DOTALL)
_START = re.compile(START, re.ASCII)
_NO_THREAD = "-"

_TIMES = ("@timestamp", "timestamp", "timeMillis", "time", "instant")
_LEVEL_KEYS = ("level", "log.level", "severity", "levelname")
_LOGGERS = ("loggerName", "logger_name", "log.logger", "logger", "_logger")
_THREADS = ("thread", "thread_name", "threadName", "process.thread.name", "_thread")
_MESSAGES = ("message", "short_message", "msg")
_STACKS = (
    "thrown.extendedStackTrace",
    "error.stack_trace",
    "exception.stacktrace",
    "exception.stackTrace",
    "_exception.stackTrace",
    "stack_trace",
    "stackTrace",
    "full_message",
)
_SYSLOG_LEVELS = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_LEVEL_SYNONYMS = {"WARNING": "WARN", "CRITICAL": "FATAL", "EMERGENCY": "FATAL", "ALERT": "FATAL", "NOTICE": "INFO"}


_JSON_BEGIN = r'\{ ?"'
OTHER_BEGINS = (_JSON_BEGIN, _BARS_BEGIN, _PATTERN_BEGIN)
"""The regular expressions of a record's beginning in the layouts that are rewritten, at the beginning of a line."""
OTHER_FIRST_LETTERS = "{[12"
"""The letters with which such a record can begin."""


class DefaultLogLayoutConverter:
    """A rewriter of the lines of a log from other layouts to the default layout.

    It needs the lines in the order of the log. Times with a zone become times of ``zone``, None for that of this
    machine, and lose their zone.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._last_object_time = ""

    def lines_in_default_layout(self, line: str) -> list[str]:
        """Rewrite a line of a broker's log from another layout, such as JSON, to ActiveMQ's default layout.

        Returns the resulting lines. ``line`` is without its end. A JSON object with a stack has several. A line that is
        no record of another layout stays as it is: it continues a record, or is one of the default layout.
        """
        if line[:1] not in OTHER_FIRST_LETTERS:
            return [line]
        if _START.match(line):
            self._last_object_time = ""
            return [line]
        if line.startswith("{"):
            return self._rewrite_object(line)
        record = self._rewrite_bars(line) or self._rewrite_pattern(line)
        return [line if record is None else record]

    def _rewrite_bars(self, line: str) -> str | None:
        match = _BAR_LAYOUT.match(line)
        return f"{self._to_local_time(match['time'])} | {match['rest']}" if match else None

    def _rewrite_pattern(self, line: str) -> str | None:
        match = _PATTERN.match(line)
        if match is None:
            return None
        threads = (match["thread"], match["thread_last"], match["thread_between"], match["thread_after"])
        return _default_line(
            self._to_local_time(match["time"]),
            match["level"].strip("[] "),
            match["message"],
            (match["logger_before"] or match["logger"]).strip("[]()"),
            next((thread[1:-1] for thread in threads if thread), _NO_THREAD),
        )

    def _rewrite_object(self, line: str) -> list[str]:
        try:
            fields = json.loads(line)
            lines = list(self._object_lines(fields))
        except (ValueError, LookupError, TypeError, OverflowError, OSError, RecursionError):
            # A record without a level is one that could not be read.
            return [f"{self._last_object_time} | {line}" if self._last_object_time else line]
        return lines

    def _object_lines(self, fields: Mapping[str, Any]) -> Iterator[str]:
        time = self._parse_time(_first_value(fields, _TIMES))
        level = _first_value(fields, _LEVEL_KEYS)
        if isinstance(level, int):
            level = _SYSLOG_LEVELS[level]
        level = str(level).upper()
        stack = _first_value(fields, _STACKS, "")
        message = str(_first_value(fields, _MESSAGES))
        if "_exception" in fields and isinstance(stack, str):  # GcpLayout.json appends it to the message
            message = message.rstrip().removesuffix(f" {stack.strip()}")
        yield _default_line(
            time,
            _LEVEL_SYNONYMS.get(level, level),
            "\\n".join(split_lines(message)),
            str(_first_value(fields, _LOGGERS)),
            str(_first_value(fields, _THREADS, _NO_THREAD)),
        )
        frames = split_lines(stack) if isinstance(stack, str) else _cause_lines(fields.get("thrown"))
        self._last_object_time = time
        yield from (f" {frame}" if _START.match(frame) else frame for frame in frames)

    def _parse_time(self, value: Any) -> str:
        if isinstance(value, dict):
            value = value["epochSecond"] + value.get("nanoOfSecond", 0) / 1e9
        elif isinstance(value, int) and value > 1 << 33:  # milliseconds: no log is of the year 2242
            value /= 1000
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._default_time(datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=value))
        return self._to_local_time(value)

    def _to_local_time(self, text: str) -> str:
        """Return the time of a record in the default form; one with a zone as local time. Raises ValueError."""
        match = _TIME_PARTS.fullmatch(text)
        if match is None:
            raise ValueError(text)
        millis = (match["fraction"] or "")[:3].ljust(3, "0")
        if not match["zone"]:
            return f"{match['date']} {match['clock']},{millis}"
        zone = match["zone"].replace(":", "").replace("Z", "+00").ljust(5, "0")
        zoned_time = datetime.strptime(f"{match['date']} {match['clock']}.{millis} {zone}", "%Y-%m-%d %H:%M:%S.%f %z")
        return self._default_time(zoned_time)

    def _default_time(self, zoned_time: datetime) -> str:
        local_time = zoned_time.astimezone(self._zone)
        return f"{local_time:%Y-%m-%d %H:%M:%S},{local_time.microsecond // 1000:03}"


def _default_line(time: str, level: str, message: str, logger: str, thread: str) -> str:
    return f"{time} | {level:<5} | {message} | {logger} | {thread.replace(' | ', ' ')}"


def _cause_lines(thrown: Any) -> Iterator[str]:
    """Yield an exception and its causes, of which JsonLayout writes the frames as objects."""
    prefix = ""
    while isinstance(thrown, dict):
        text = f"{thrown.get('name', '')}: {thrown.get('message', '')}"
        yield prefix + "\\n".join(split_lines(text))
        prefix, thrown = "Caused by: ", thrown.get("cause")


def _first_value(fields: Mapping[str, Any], names: tuple[str, ...], default: Any = None) -> Any:
    """Return the first of the named fields of an object, whose dots may separate objects. Raises KeyError."""
    for name in names:
        if name in fields:
            return fields[name]
        value: Any = fields
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            return value
    if default is None:
        raise KeyError(names[0])
    return default
