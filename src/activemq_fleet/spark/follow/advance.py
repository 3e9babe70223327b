"""From one offset to the next: what may be read now, and what is held back until more has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from activemq_fleet.errors import InputError
from activemq_fleet.spark.follow.contents import Content
from activemq_fleet.spark.follow.looking import Found, Looker, match
from activemq_fleet.spark.follow.places import GONE, HEAD, Offset, Place, Seat, changes, digest
from activemq_fleet.spark.follow.records import last_start

HOLD = 5.0
"""Seconds that a file must not have changed before its last record is read without the next one having begun."""
LONGEST = 64 << 20
"""Bytes of a file that are held back at most, and read at once to find where its last record begins. What goes on for
longer, such as a line without end, is read in parts, each as a record of its own."""
_WINDOW = 16 << 20


@dataclass(slots=True)
class _Budget:
    """Bytes that one micro-batch may still take."""

    left: int | None

    def take(self, size: int) -> None:
        if self.left is not None:
            self.left = max(0, self.left - size)

    @property
    def spent(self) -> bool:
        return self.left == 0


@dataclass(slots=True)
class Tail:
    """Follows the directories of the hosts below ``root``. ``salt``: what else results depend on; another is news."""

    root: Path
    hold: float = HOLD
    salt: str = ""
    clock: Callable[[], float] = time.monotonic
    _lookers: dict[str, Looker] = field(default_factory=dict)
    _since: dict[tuple[str, str], tuple[object, float]] = field(default_factory=dict)

    def advance(self, start: Offset, most: int | None = None) -> Offset:
        """Where a stream that stands at ``start`` can go. ``most``: bytes after which it goes no further at once.

        ``start`` itself if there is nothing new. A host that went away keeps its place.
        """
        budget = _Budget(most)
        hosts = dict(start.hosts)
        for host in self._hosts():
            seat = self._seat(host, start.hosts.get(host, Seat()), budget)
            if seat.files or seat.facts or host in start.hosts:
                hosts[host] = seat
        end = Offset(hosts)
        return end if any(changes(start, end)) else start

    def _hosts(self) -> list[str]:
        try:
            return sorted(path.name for path in self.root.iterdir() if path.is_dir() and not path.name.startswith("."))
        except FileNotFoundError:
            return []  # a mount that is away, not a fleet that is gone
        except OSError as error:
            raise InputError(f"{self.root}: {error.strerror or error}") from None

    def _seat(self, host: str, seat: Seat, budget: _Budget) -> Seat:
        looker = self._lookers.setdefault(host, Looker(self.root / host))
        files = dict(seat.files)
        found = match(files, looker.look(files), lambda item: self._still(host, f"?{item.file}", item.stamp))
        files = self._without_gone(host, files, found.known)
        for number, item in found.known.items():
            place = replace(files[number], file=item.file, gone=False)
            files[number] = self._further(host, place, item, budget)
        following = seat.following
        for item in found.new:
            place = self._further(host, Place(item.file, item.kind), item, budget)
            if place.upto:
                files[following] = place
                following += 1
        return Seat(self.salt + looker.facts(), following, _bounded(files))

    def _without_gone(self, host: str, files: Mapping[int, Place], known: Mapping[int, Found]) -> dict[int, Place]:
        """A file is gone when it has not been seen for as long as a renaming can possibly take."""
        left = {}
        for number, place in files.items():
            missing = number not in known and self._still(host, f"-{number}", "gone")
            if number in known:
                self._since.pop((host, f"-{number}"), None)
            left[number] = replace(place, gone=True) if missing else place
        return left

    def _still(self, host: str, what: str, value: object) -> bool:
        """Whether ``what`` has had this value for the time of holding."""
        now = self.clock()
        before, since = self._since.get((host, what), (None, now))
        if before != value:
            since = now
        self._since[host, what] = (value, since)
        return now - since >= self.hold

    def _further(self, host: str, place: Place, found: Found, budget: _Budget) -> Place:
        quiet = self._still(host, found.file, (found.size, found.tail))
        if budget.spent or found.size == place.upto:
            return place
        try:
            with Content(self.root / host / found.file, self.root) as content:
                if place.upto and not content.holds(place):
                    return place  # renamed since the look: the next one tells
                moved = _moved(content, place, budget.left, quiet=quiet and content.size == found.size)
        except OSError:
            return place
        budget.take(max(0, moved.upto - place.at))
        return moved


def _moved(content: Content, place: Place, most: int | None, *, quiet: bool) -> Place:
    """``place`` after all that can be read now. The last record is left while it may yet go on, unless all is quiet."""
    start, line, ends = _last_record(content, place, most)
    if ends and (quiet or content.size < place.upto):
        upto = content.size
    elif start > place.at:
        upto = start
    else:
        return place  # nothing new is whole; what had been read is not taken back because it goes on
    sure = start + content.read(start, upto).rfind(b"\n") + 1
    hashed = min(HEAD, sure or upto)
    head = digest(content.head()[:hashed])
    place = replace(place, head=head, hashed=hashed, sure=sure, tail=content.tail(sure))
    return replace(place, at=start, line=line, upto=upto)


def _last_record(content: Content, place: Place, most: int | None) -> tuple[int, int, bool]:
    """Where the last record begins that is within reach, the line ends before it, and whether the file ends with it."""
    start, line = place.at, place.line
    limit = content.size if most is None or content.packed else min(content.size, place.at + most)
    window = _WINDOW if most is None else min(_WINDOW, most)
    while True:
        data = content.read(start, start + window)
        step = last_start(data, place.kind)
        ends = start + len(data) >= content.size
        if not step and len(data) >= LONGEST:
            step = data.rfind(b"\n") + 1 or len(data)
        start, line = start + step, line + data.count(b"\n", 0, step)
        if ends or (start > place.at and start + window > limit):
            return start, line, ends
        if not step:
            window = min(2 * window, LONGEST)  # a record longer than that


def _bounded(files: Mapping[int, Place]) -> dict[int, Place]:
    gone = [number for number, place in sorted(files.items()) if place.gone]
    forgotten = set(gone[: max(0, len(gone) - GONE)])
    return {number: place for number, place in files.items() if number not in forgotten}
