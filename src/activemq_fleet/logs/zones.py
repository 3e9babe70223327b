"""Convert local times of a host to UTC, many at once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from activemq_fleet.errors import InputError

_QUARTER_HOUR_SECONDS = 900
"""The number of seconds in a quarter of an hour. The offset of a zone changes only at a quarter of an hour."""
_LONGEST_CLOCK_CORRECTION_SECONDS = 300
"""The longest step back within a repeated hour that counts as a correction of the clock, and not as its second hour."""
_NAMES_OF_UTC = ("UTC", "Z", "GMT", "ETC/UTC", "")
_BEGINNING_OF_TIME = datetime(1970, 1, 1)

Seconds = NDArray[np.int64]


@lru_cache(maxsize=1 << 14)
def _utc_offsets(name: str, quarter: int) -> tuple[float, float]:
    """Return a time zone's offset from UTC, in seconds, before and after a change of its clocks.

    ``quarter`` is a quarter of an hour of local time since 1970. The two offsets differ only where clocks go back, in
    the hour that occurs twice, and where they go forward, in the skipped hour. The first is the offset from before the
    change, as in Java's and Python's calendars.
    """
    local = _BEGINNING_OF_TIME + timedelta(seconds=quarter * _QUARTER_HOUR_SECONDS)
    zone = time_zone_of(name)
    before, after = (zone.utcoffset(local.replace(fold=fold)) or timedelta() for fold in (0, 1))
    return before.total_seconds(), after.total_seconds()


def time_zone_of(name: str) -> ZoneInfo | timezone:
    """Return the time zone with a name such as ``Europe/Berlin``, ``UTC`` or ``+02:00``.

    The function raises InputError for an unknown name.
    """
    if name[:1] in "+-" and name[1:].replace(":", "").isdigit():
        digits = name[1:].replace(":", "").ljust(4, "0")
        delta = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
        if delta < timedelta(hours=24):
            return timezone(-delta if name[0] == "-" else delta)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise InputError(
            f"the time zone {name!r} is unknown: use a name such as Europe/Berlin, UTC or +02:00"
        ) from None


def first_occurrence_of_repeated_time(zone: str, moment: datetime) -> tuple[datetime, datetime] | None:
    """Return (begin, end) in UTC of the first occurrence of an hour that clocks repeat, if ``moment`` is in it.

    Its second occurrence begins at its end, and is as long. The result is None for all other times.
    """
    shift_seconds = 0 if zone.upper() in _NAMES_OF_UTC else _seconds_until_second_occurrence(zone, moment)
    if not shift_seconds:
        return None
    shift = timedelta(seconds=shift_seconds)
    quarter_hour = timedelta(seconds=_QUARTER_HOUR_SECONDS)
    end = moment - timedelta(seconds=moment.timestamp() % _QUARTER_HOUR_SECONDS) + quarter_hour
    while _seconds_until_second_occurrence(zone, end):
        end += quarter_hour
    return end - shift, end


def _seconds_until_second_occurrence(zone: str, moment: datetime) -> float:
    """Return after how many seconds the local time of a moment occurs again; 0 if it does not."""
    local = moment.astimezone(time_zone_of(zone))
    first, second = (local.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    return 0 if local.fold else max((first - second).total_seconds(), 0)


class LocalTimeConverter:
    """A converter of the local times in one log to UTC.

    The log must be converted piece after piece, in order. The hour that an autumn night has twice is resolved by order:
    times count as the second hour from where the log steps back, and as the first where it does not.
    """

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._last_local_time: int | None = None
        self._is_second_occurrence = False

    def to_utc(self, seconds: Seconds) -> Seconds:
        """Return local times, in seconds since 1970, converted to UTC."""
        if self._zone.upper() in _NAMES_OF_UTC or not len(seconds):
            return seconds
        quarters, indices = np.unique(seconds // _QUARTER_HOUR_SECONDS, return_inverse=True)
        offsets = np.array([_utc_offsets(self._zone, quarter) for quarter in quarters.tolist()], np.int64)[indices]
        utc_times: Seconds = seconds - offsets[:, 0]
        shift = offsets[:, 0] - offsets[:, 1]
        is_ambiguous = shift > 0
        if is_ambiguous.any():
            self._shift_repeated_hour(seconds, utc_times, is_ambiguous, shift)
        self._last_local_time = int(seconds[-1])
        self._is_second_occurrence &= bool(is_ambiguous[-1])
        return utc_times

    def _shift_repeated_hour(
        self, seconds: Seconds, utc_times: Seconds, is_ambiguous: NDArray[np.bool_], shift: Seconds
    ) -> None:
        """Move the times that follow a step back within a repeated hour to its second occurrence, in place."""
        for index in np.flatnonzero(is_ambiguous):
            before = int(seconds[index - 1]) if index else self._last_local_time
            if index and not is_ambiguous[index - 1]:
                self._is_second_occurrence = False
            if before is not None and before - seconds[index] > _LONGEST_CLOCK_CORRECTION_SECONDS:
                self._is_second_occurrence = True
            if self._is_second_occurrence:
                utc_times[index] += shift[index]
