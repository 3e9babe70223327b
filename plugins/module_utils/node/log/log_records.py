# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The grammar of a broker's log: how its lines become records, on hosts, in the lab and in audits.

The layout has been ``%d | %-5p | %m | %c | %t%n`` since 5.3, under log4j 1, reload4j and log4j 2 alike (source:
conf/log4j*.properties of the releases; measured on 1,781 records of 5.17.2). A message may hold line ends, and a
thread's name spaces and colons, so a record is read from both ends: time and level first, logger and thread last. The
console has ``%5p | %m%n``. ``log_layouts`` rewrites the lines of other layouts first.
``activemq_fleet.logs.event_batches`` reads the same grammar many times faster; tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from .log_layouts import START, DefaultLogLayoutConverter

CONSOLE_START = r"(?:TRACE|DEBUG| INFO| WARN|ERROR|FATAL) \| "
"""The regular expression of a record's beginning in the console's layout."""

UNFILLED_ERROR = "{}"
"""The placeholder that some releases (such as 5.11.4 and 5.17.2) log in place of the error of a bridge. The error is in
the stack trace."""
_START = re.compile(START, re.ASCII)
# A layout that every release ships commented out has the connector before the level, 20 wide.
_FIRST = re.compile(r"(?P<time>.{23}) \| (?:[^\n]{20} \| )??(?:(?P<level>[A-Z]+) +|\[ *(?P<bracketed>[A-Z]+) *\] *)\| ")
_LAST = re.compile(r"^(?P<message>.*) \| (?P<logger>[^\s|]+) \| (?P<thread>.*)$", re.MULTILINE)
_TIME_LENGTH = len("2026-03-01 10:00:00,123")
_CLIENT_THREAD = re.compile(r"ActiveMQ (?:NIO Worker|Transport: \w[\w+.-]*:///)|qtp\d")


def is_client_thread(thread: str) -> bool:
    """Return whether a thread of a broker serves a client's connection, by the thread's name."""
    return _CLIENT_THREAD.match(thread) is not None


@dataclass(frozen=True)
class RecordFields:
    """The parts of one record of a broker's log, as text: time, level, message, logger, thread and stack trace.

    ``whole`` is False for a record that is cut off or of unknown layout.
    """

    time: str
    level: str
    message: str
    logger: str
    thread: str
    stack: str
    whole: bool


def parse_broker_log_record(text: str) -> RecordFields:
    """Parse the text of one record of a broker's log, and return its fields, such as time, level and message.

    The text begins at its date and ends before the next record. The message ends with the first line that ends in
    logger and thread; what follows is the stack trace.
    """
    first = _FIRST.match(text)
    if first is None:
        return RecordFields(text[:_TIME_LENGTH], "", text[_TIME_LENGTH + 3 :], "", "", "", whole=False)
    level = first["level"] or first["bracketed"]
    body = text[first.end() :]
    last = _LAST.search(body)
    if last is None:
        return RecordFields(first["time"], level, body, "", "", "", whole=False)
    message, stack = body[: last.end("message")], body[last.end() + 1 :]
    return RecordFields(first["time"], level, message, last["logger"], last["thread"], stack, whole=True)


@dataclass(frozen=True)
class Record:
    """One record of a broker's log.

    It has a time, level, message and stack trace. ``line`` is the number of its first line, from 1. ``time`` is the
    local time of the broker's host, without a zone, because the log holds none. ``stack`` is the text up to the next
    record, usually a stack trace. ``logger`` (the Java class that wrote the record) and ``thread`` are "" if the record
    was cut off, by a crash or a log rotation.
    """

    line: int
    time: datetime
    level: str
    message: str
    logger: str
    thread: str
    stack: str = ""

    @property
    def is_of_client_thread(self) -> bool:
        """Whether the log record was written by a thread that serves a client's connection."""
        return is_client_thread(self.thread)

    @property
    def message_with_error(self) -> str:
        """The log message with the error of the stack trace, if the message ends with ``{}`` in its place.

        A message without a stack trace is unchanged.
        """
        error = error_of_stack_trace(self.stack)
        if not error or not self.message.endswith(UNFILLED_ERROR):
            return self.message
        return self.message[: -len(UNFILLED_ERROR)] + error


def error_of_stack_trace(stack: str) -> str:
    """Return the first line of a Java stack trace that is not empty, which has the error; "" without one."""
    return next((line.strip() for line in stack.split("\n") if line.strip()), "")


class IncrementalLogParser:
    """A parser that receives a broker's log piece by piece, and returns the records that each piece completes.

    The log may still be growing. With ``stacks`` (the default) a record is returned when the next record begins, or at
    ``finish_parsing``. Without, a record is returned as soon as its first part is complete, and its stack trace is
    dropped, for callers that watch a live log.
    """

    def __init__(self, *, stacks: bool = True) -> None:
        self._stacks = stacks
        self._incomplete_line = ""
        self._line_number = 0
        self._first_line_number = 0
        self._lines: list[str] = []
        self._rewriter = DefaultLogLayoutConverter()

    def feed(self, text: str) -> list[Record]:
        """Parse the next piece of a broker's log, and return the log records that it completes.

        The piece may end anywhere.
        """
        lines = (self._incomplete_line + text).split("\n")
        self._incomplete_line = lines.pop()
        return list(self.feed_lines(lines))

    def feed_lines(self, lines: Iterable[str]) -> Iterator[Record]:
        """Parse the next lines of a broker's log, and yield the log records that they complete.

        The lines may have line ends.
        """
        for line in lines:
            yield from self._parse_line(line.removesuffix("\n").removesuffix("\r"))

    def finish_parsing(self) -> list[Record]:
        """Parse the unfinished rest of a broker's log at its end, and return the log records in it."""
        records = list(self.feed_lines([self._incomplete_line])) if self._incomplete_line else []
        self._incomplete_line = ""
        return [*records, *self._finish_record()]

    def _parse_line(self, line: str) -> Iterator[Record]:
        self._line_number += 1
        for rewritten in self._rewriter.lines_in_default_layout(line):
            yield from self._parse_rewritten_line(rewritten)

    def _parse_rewritten_line(self, line: str) -> Iterator[Record]:
        if _START.match(line):
            yield from self._finish_record()
            self._first_line_number, self._lines = self._line_number, [line]
        elif not self._lines:
            return  # the end of a record of an earlier file, or an unused stack trace
        else:
            self._lines.append(line)
        if self._stacks or not _LAST.search(line) or not _FIRST.match(self._lines[0]):
            return
        fields = parse_broker_log_record("\n".join(self._lines))
        if fields.whole:
            self._lines = []
            yield _make_record(self._first_line_number, fields)

    def _finish_record(self) -> Iterator[Record]:
        if self._lines:
            fields = parse_broker_log_record("\n".join(self._lines))
            self._lines = []
            yield _make_record(self._first_line_number, fields)


def _make_record(line: int, fields: RecordFields) -> Record:
    time = datetime.fromisoformat(fields.time.replace(",", "."))
    return Record(line, time, fields.level, fields.message, fields.logger, fields.thread, fields.stack)


def parse_log(source: str | Iterable[str], *, stacks: bool = True) -> Iterator[Record]:
    """Parse a whole log, given as a text or as lines, and yield its records.

    Lines may have line ends. Without ``stacks`` their stack traces are dropped.
    """
    parser = IncrementalLogParser(stacks=stacks)
    yield from parser.feed_lines(source.split("\n") if isinstance(source, str) else source)
    yield from parser.finish_parsing()
