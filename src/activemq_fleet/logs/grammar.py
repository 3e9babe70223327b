"""Read lines of a broker's log into records.

The layout has been ``%d | %-5p | %m | %c | %t%n`` since 5.3, under log4j 1, reload4j and log4j 2 alike (source:
conf/log4j*.properties of the releases; measured on 1,781 records of 5.17.2). A message may hold line ends, and a
thread's name spaces and colons, so a record is read from both ends: time and level first, logger and thread last. The
console has ``%5p | %m%n``. ``event_batches.py`` reads the same grammar many times faster; tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

# Dates that exist, from 1970 to 2099, so that what begins a record never depends on a calendar.
_DATE = (
    r"(?:(?:19[7-9]\d|20\d\d)-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    r"|(?:19(?:[79][26]|8[048])|20(?:[02468][048]|[13579][26]))-02-29)"
)
START = _DATE + r" (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d,\d{3} \| "
"""The regular expression of a record's beginning in a log file, at the beginning of a line."""
CONSOLE_START = r"(?:TRACE|DEBUG| INFO| WARN|ERROR|FATAL) \| "
"""The regular expression of a record's beginning in the console's layout."""

_START = re.compile(START, re.ASCII)
# A layout that every release ships commented out has the connector before the level, 20 wide.
_FIRST = re.compile(r"(?P<time>.{23}) \| (?:[^\n]{20} \| )??(?P<level>[A-Z]+) +\| ")
_LAST = re.compile(r"^(?P<message>.*) \| (?P<logger>[^\s|]+) \| (?P<thread>.*)$", re.MULTILINE)
_TIME = len("2026-03-01 10:00:00,123")


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of one log record as text; ``whole`` is False for a record that is cut off or of unknown layout."""

    time: str
    level: str
    message: str
    logger: str
    thread: str
    stack: str
    whole: bool


def read(text: str) -> RecordFields:
    """Return the fields of one log record, given its text from its date to the next record.

    The message ends with the first line that ends in logger and thread; what follows is the stack trace.
    """
    first = _FIRST.match(text)
    if first is None:
        return RecordFields(text[:_TIME], "", text[_TIME + 3 :], "", "", "", whole=False)
    body = text[first.end() :]
    last = _LAST.search(body)
    if last is None:
        return RecordFields(first["time"], first["level"], body, "", "", "", whole=False)
    message, stack = body[: last.end("message")], body[last.end() + 1 :]
    return RecordFields(first["time"], first["level"], message, last["logger"], last["thread"], stack, whole=True)


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    """One record of a broker's log, with its time, level, message and stack trace.

    ``line`` is the number of its first line, from 1. ``time`` is the local time of the broker's host, without a zone,
    because the log holds none. ``stack`` is the text up to the next record, usually a stack trace. ``logger`` and
    ``thread`` are "" where the record was cut off, by a crash or a rolled file.
    """

    line: int
    time: datetime
    level: str
    message: str
    logger: str
    thread: str
    stack: str = ""


class Parser:
    """A parser of a broker's log that may still be growing, fed piece by piece.

    With ``stacks`` (the default) a record is returned when the next record begins, or at ``close``. Without, a record
    is returned as soon as its first part is complete, and its stack trace is dropped, for callers that watch a live
    log.
    """

    def __init__(self, *, stacks: bool = True) -> None:
        self._stacks = stacks
        self._rest = ""
        self._number = 0
        self._begun_at = 0
        self._lines: list[str] = []

    def feed(self, text: str) -> list[ParsedRecord]:
        """Parse the next piece of the log, which may end anywhere; return the records that it completes."""
        lines = (self._rest + text).split("\n")
        self._rest = lines.pop()
        return self.feed_lines(lines)

    def feed_lines(self, lines: Iterable[str]) -> list[ParsedRecord]:
        """Parse the next lines of the log, with or without line ends; return the records that they complete."""
        return [record for line in lines for record in self._take(line.removesuffix("\n").removesuffix("\r"))]

    def close(self) -> list[ParsedRecord]:
        """End the log, and return the records that its end completes."""
        done = self.feed_lines([self._rest]) if self._rest else []
        self._rest = ""
        return [*done, *self._finish()]

    def _take(self, line: str) -> Iterator[ParsedRecord]:
        self._number += 1
        if _START.match(line):
            yield from self._finish()
            self._begun_at, self._lines = self._number, [line]
        elif not self._lines:
            return  # the end of a record that an earlier file holds, or a stack that nobody waits for
        else:
            self._lines.append(line)
        if self._stacks or not _LAST.search(line) or not _FIRST.match(self._lines[0]):
            return
        if read("\n".join(self._lines)).whole:
            yield from self._finish()

    def _finish(self) -> Iterator[ParsedRecord]:
        if not self._lines:
            return
        parts = read("\n".join(self._lines))
        self._lines = []
        time = datetime.strptime(parts.time, "%Y-%m-%d %H:%M:%S,%f")
        yield ParsedRecord(self._begun_at, time, parts.level, parts.message, parts.logger, parts.thread, parts.stack)


def parse(source: str | Iterable[str]) -> Iterator[ParsedRecord]:
    """Yield the records of a whole log, given as a text or as its lines, with or without line ends."""
    parser = Parser()
    for line in source.split("\n") if isinstance(source, str) else source:
        yield from parser.feed_lines([line])
    yield from parser.close()
