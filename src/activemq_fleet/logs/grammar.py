"""Lines of a broker's log -> records.

The layout has been ``%d | %-5p | %m | %c | %t%n`` since 5.3, under log4j 1, reload4j and log4j 2
alike (source: conf/log4j*.properties of the releases; measured on 1,781 records of 5.17.2).
A message may hold line ends and a thread's name spaces and colons, so a record is read from
both ends: time and level first, logger and thread last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

_START = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \| ")
_END = re.compile(r" \| [\w.$]+ \| .*$")
_WHOLE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \| (?P<level>[A-Z]+)\s* \| "
    r"(?P<message>.*) \| (?P<logger>[\w.$]+) \| (?P<thread>[^\n]*)",
    re.DOTALL,
)
_TORN = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \| (?:(?P<level>[A-Z]+)\s* \| )?(?P<message>.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a broker's log.

    ``line`` counts from 1 and is where the record begins. ``time`` carries no zone, because the
    log carries none: it is the local time of the broker's host. ``stack`` is what follows the
    record up to the next one, most often a stack trace. ``logger`` and ``thread`` are empty when
    the record was torn off, by a crash or a rolled file.
    """

    line: int
    time: datetime
    level: str
    message: str
    logger: str
    thread: str
    stack: str = ""


class Parser:
    """Reads a log that may still be growing.

    With ``stacks`` (the default) a record comes out when the next one begins, or at ``close``.
    Without, it comes out as soon as it is whole, and the lines after it are dropped: that is for
    those who watch a live log and cannot wait for the next line.
    """

    def __init__(self, *, stacks: bool = True) -> None:
        self._stacks = stacks
        self._rest = ""
        self._number = 0
        self._begun_at = 0
        self._head: list[str] = []
        self._whole: re.Match[str] | None = None
        self._tail: list[str] = []

    def feed(self, text: str) -> list[Record]:
        """Take the next piece of text, cut anywhere, and return the records that it completes."""
        lines = (self._rest + text).split("\n")
        self._rest = lines.pop()
        return self.feed_lines(lines)

    def feed_lines(self, lines: Iterable[str]) -> list[Record]:
        """As ``feed``, for whole lines, with or without their line ends."""
        return [record for line in lines for record in self._take(line.rstrip("\r\n"))]

    def close(self) -> list[Record]:
        """What is left at the end of the text."""
        done = self.feed_lines([self._rest]) if self._rest else []
        self._rest = ""
        return [*done, *self._finish()]

    def _take(self, line: str) -> Iterator[Record]:
        self._number += 1
        if _START.match(line):
            yield from self._finish()
            self._begun_at, self._head = self._number, [line]
        elif not self._head:
            return  # the end of a record that an earlier file holds
        elif self._whole is not None:
            self._tail.append(line)
            return
        else:
            self._head.append(line)
        if _END.search(line):
            self._whole = _WHOLE.fullmatch("\n".join(self._head))
        if self._whole is not None and not self._stacks:
            yield from self._finish()

    def _finish(self) -> Iterator[Record]:
        found = self._whole or _TORN.fullmatch("\n".join(self._head))
        logger, thread = (self._whole["logger"], self._whole["thread"]) if self._whole else ("", "")
        stack = "\n".join(self._tail)
        self._head, self._tail, self._whole = [], [], None
        if found is None:
            return
        try:
            time = datetime.strptime(found["time"], "%Y-%m-%d %H:%M:%S,%f")
        except ValueError:
            return  # text that only looks like a date
        yield Record(self._begun_at, time, found["level"] or "", found["message"], logger, thread, stack)


def parse(source: str | Iterable[str]) -> Iterator[Record]:
    """The records of a whole log: a text, or its lines with or without their line ends."""
    parser = Parser()
    for line in source.split("\n") if isinstance(source, str) else source:
        yield from parser.feed_lines([line])
    yield from parser.close()
