"""Convert local times of a host to UTC, many at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from activemq_fleet.errors import InputError

_FIRST, _LAST = 1970, 2100
_HOUR = 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Seconds = NDArray[np.int64]


@lru_cache(maxsize=256)
def _changes(name: str) -> tuple[Seconds, Seconds, Seconds]:
    """Return a zone's local seconds at which offsets begin to hold, the offsets, and the seconds repeated before each.

    A skipped hour has the offset from before the change, as in Java's and Python's calendars.
    """
    if name.upper() in ("UTC", "Z", "GMT", "ETC/UTC", ""):
        zero = np.zeros(1, dtype=np.int64)
        return np.array([-(1 << 62)]), zero, zero
    zone = zone_of(name)
    begins, offsets, repeated = [-(1 << 62)], [_offset(zone, _at(_FIRST))], [0]
    at, end = _at(_FIRST), _at(_LAST)
    while at < end:
        # No zone changes twice within a week but by errors of old tables, which no log is about.
        then = min(at + 7 * 24 * _HOUR, end)
        if _offset(zone, then) != offsets[-1]:
            moment = _moment(zone, at, then)
            before, after = offsets[-1], _offset(zone, moment)
            begins.append(moment + max(before, after))
            offsets.append(after)
            repeated.append(max(0, before - after))
        at = then
    return np.array(begins), np.array(offsets), np.array(repeated)


def _at(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def _moment(zone: ZoneInfo | timezone, before: int, after: int) -> int:
    """Return the first second in (before, after] that has the offset of ``after``."""
    offset = _offset(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == offset:
            after = middle
        else:
            before = middle
    return after


def _offset(zone: ZoneInfo | timezone, second: int) -> int:
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset() or timedelta()
    return int(offset.total_seconds())


def zone_of(name: str) -> ZoneInfo | timezone:
    """Return the time zone called ``Europe/Berlin``, ``UTC`` or ``+02:00``. Raises InputError for an unknown name."""
    if name[:1] in "+-" and name[1:].replace(":", "").isdigit():
        digits = name[1:].replace(":", "").ljust(4, "0")
        delta = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
        if delta < timedelta(hours=24):
            return timezone(-delta if name[0] == "-" else delta)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise InputError(f"time zone {name!r} is not known: name one as in Europe/Berlin, UTC or +02:00") from None


class Clock:
    """Converts the local times of one log, read piece after piece in order, to UTC.

    The hour that an autumn night has twice is resolved by order: times count as the second hour from where the log
    steps back, and as the first where it does not.
    """

    def __init__(self, zone: str) -> None:
        self._begins, self._offsets, self._repeated = _changes(zone)
        self._last: int | None = None
        self._late = False

    def utc(self, seconds: Seconds) -> Seconds:
        """Return seconds of local time since 1970 as seconds of UTC."""
        begins, offsets = self._begins, self._offsets
        if len(begins) == 1 or not len(seconds):
            shifted: Seconds = seconds - offsets[0]
            return shifted
        which = np.searchsorted(begins, seconds, side="right") - 1
        found = seconds - offsets[which]
        following = np.minimum(which + 1, len(begins) - 1)
        # ``begins`` is where the repeated hour ends; within it both offsets may hold.
        doubtful = (seconds >= begins[following] - self._repeated[following]) & (following > which)
        if doubtful.any():
            self._second_time(seconds, found, doubtful, offsets[which] - offsets[following])
        self._last = int(seconds[-1])
        self._late &= bool(doubtful[-1])
        return found

    def _second_time(self, seconds: Seconds, found: Seconds, doubtful: NDArray[np.bool_], shift: Seconds) -> None:
        """Move the times that follow a step back within a repeated hour to its second occurrence, in place."""
        for at in np.flatnonzero(doubtful):
            before = int(seconds[at - 1]) if at else self._last
            if at and not doubtful[at - 1]:
                self._late = False
            if before is not None and before - seconds[at] > shift[at] // 2:
                self._late = True
            if self._late:
                found[at] += shift[at]
