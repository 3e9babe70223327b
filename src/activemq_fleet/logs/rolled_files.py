"""Put the files of a rolled log in order, and find which are missing between them.

Names with numbers show missing files. A missing day does not show in names with dates, because a broker without load
logs nothing for days: only records do (``audit.gaps``).
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

import numpy as np

from activemq_fleet.errors import ReleaseError
from activemq_fleet.logs.chunks import unpacked_record_pieces
from activemq_fleet.logs.decompression import without_compression_ending
from activemq_fleet.logs.event_batches import LogReleaseAndTimeZone, count_bytes_before_first_record, first_record_time
from activemq_fleet.logs.zones import LocalTimeConverter
from activemq_fleet.node.host_paths import BROKER_LOG
from activemq_fleet.releases import Release

_BEFORE_NUMBER = r"activemq(?:\.log[.-]|[-_.]?)(?!(?:19|20)\d\d)"
_NUMBER = r"(?P<number>\d{1,4})(?P<after>(?:\.log)?)"
_NUMBERED_NAME = re.compile(rf"(?P<before>{_BEFORE_NUMBER}){_NUMBER}")
_NUMBERED_DATE = re.compile(rf"(?P<before>.*\d[-_.]|.*\d/{_BEFORE_NUMBER}){_NUMBER}", re.DOTALL)
"""The date is in the name of the file or of its directory."""
BEGINNING = 1 << 20
"""Number of bytes at the start of a file that are searched for its first record. The text before that record belongs to
the previous file.
"""


@dataclass(frozen=True, slots=True)
class LogPreambleAndFirstRecordDate:
    """The beginning of a log file: the bytes before its first record, and the date of that record.

    It shows whether a record continues from an earlier file. The date is None without a record.
    """

    head: bytes
    first: str | None


@dataclass(frozen=True, slots=True)
class PlaceAmongLogFiles:
    """The position of a log file in the sequence of its host's log files.

    ``order`` counts from 0, the oldest. ``skip``: bytes at its beginning that belong to the file before. ``after``:
    bytes of the next file that belong to the last record of this one.
    """

    order: int = 0
    skip: int = 0
    after: bytes = b""


@dataclass(frozen=True, slots=True)
class RolledFile:
    """One file in a host's sequence of rolled log files.

    ``first`` is the time of its first record in seconds, None without a dated record.
    """

    file: str
    first: int | None = None

    @property
    def roll_number(self) -> int | None:
        """The number in the name of a rolled log file without a date.

        It is 3 for ``activemq.log.3`` and ``activemq-3.log``. It is None for ``activemq.log`` and other names.
        """
        series = self.series
        return series[1] if series else None

    @property
    def series(self) -> tuple[str, int] | None:
        """The log file's name with ``{}`` for its roll number, and the number; None for a name without the number."""
        return _series_of_match(_NUMBERED_NAME.fullmatch(without_compression_ending(self.file)))

    @property
    def is_current(self) -> bool:
        """Whether the log file is the one that the broker is writing, ``activemq.log``."""
        return self.file == BROKER_LOG


def _series_of_match(match: re.Match[str] | None) -> tuple[str, int] | None:
    return (f"{match['before']}{{}}{match['after']}", int(match["number"])) if match else None


def series_and_number_by_dated_file(files: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return {file: (name with ``{}`` for the number, number)} of log files with a date and a number in the name.

    ``activemq-2026-11-30-2.log.gz`` has the number 2 in the series ``activemq-2026-11-30-{}.log``. The date can also be
    the directory: ``2026/11/30/activemq-2.log``. A series counts only if one of its numbers has one digit, because
    days, hours and minutes have two.
    """
    matches = {file: _NUMBERED_DATE.fullmatch(without_compression_ending(file)) for file in files}
    numbered = {
        file: (series, len(match["number"]) == 1)
        for file, match in matches.items()
        if match and (series := _series_of_match(match)) and RolledFile(file).series is None
    }
    counting = {series[0] for series, has_one_digit in numbered.values() if has_one_digit}
    return {file: series for file, (series, _) in numbered.items() if series[0] in counting}


def preamble_and_first_record_date(first_bytes: memoryview, *, compressed: bool) -> LogPreambleAndFirstRecordDate:
    """Return the bytes before the first record of a log file, and that record's date.

    ``first_bytes`` are the first bytes of the file.
    """
    data = b"".join(bytes(piece) for piece, _, _ in unpacked_record_pieces(first_bytes, compressed=compressed))
    return LogPreambleAndFirstRecordDate(data[: count_bytes_before_first_record(data)], first_record_time(data))


def log_file_positions_by_name(
    beginnings: Mapping[str, LogPreambleAndFirstRecordDate], source: LogReleaseAndTimeZone
) -> dict[str, PlaceAmongLogFiles]:
    """Return a dictionary from file name to the log file's position in its host's sequence of log files, oldest first.

    ``source`` is the broker's release and time zone.
    """
    rolls = [RolledFile(file, _utc_seconds(beginning.first, source.zone)) for file, beginning in beginnings.items()]
    counts_up = _numbers_count_up(source.release)
    order = rolled_files_oldest_first(rolls, counts_up=counts_up)
    successors = direct_successor_flags_of_rolls(order, counts_up=counts_up)
    places = {roll.file: PlaceAmongLogFiles(position) for position, roll in enumerate(order)}
    for position, (previous_roll, roll) in enumerate(pairwise(order), 1):
        roll_beginning = beginnings[roll.file]
        # A file without a record does not show which file precedes it.
        has_records = roll_beginning.first is not None and beginnings[previous_roll.file].first is not None
        if roll_beginning.head and has_records and successors[position]:
            places[previous_roll.file] = replace(places[previous_roll.file], after=roll_beginning.head)
            places[roll.file] = replace(places[roll.file], skip=len(roll_beginning.head))
    return places


def rolled_files_oldest_first(rolls: Iterable[RolledFile], *, counts_up: bool = False) -> list[RolledFile]:
    """Return the rolled log files of a host, the oldest first.

    log4j 1 gives the newest of the rolled files the number 1, log4j 2 the oldest: the times of their first records show
    which. If they match neither, as after an upgrade that changed the logger, the files are sorted by time alone. Files
    with dates in their names are sorted by name if the times agree, else by time. ``counts_up`` is assumed if no two
    numbered files have times.
    """
    rolls = list(rolls)
    numbered = sorted((roll for roll in rolls if roll.roll_number is not None), key=lambda roll: roll.roll_number or 0)
    times = [roll.first for roll in numbered if roll.first is not None]
    has_ascending_times = any(previous < following for previous, following in pairwise(times))
    has_descending_times = any(previous > following for previous, following in pairwise(times))
    files_without_number = [roll for roll in rolls if roll.roll_number is None and not roll.is_current]
    if files_without_number or (has_ascending_times and has_descending_times):
        by_name = sorted(rolls, key=lambda roll: (roll.is_current, _natural_sort_key(roll.file)))
        times_by_name = [roll.first for roll in by_name if roll.first is not None]
        if times_by_name == sorted(times_by_name):
            return by_name
        return sorted(by_name, key=lambda roll: (roll.is_current, roll.first or 0))
    ascending = has_ascending_times if has_ascending_times or has_descending_times else counts_up
    current = sorted((roll for roll in rolls if roll.is_current), key=lambda roll: roll.first or 0)
    return [*(numbered if ascending else reversed(numbered)), *current]


def _natural_sort_key(file: str) -> list[tuple[int, int, str]]:
    """Return a sort key of a file name in which numbers count by their value."""
    parts = re.split(r"(\d+)", without_compression_ending(file))
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def direct_successor_flags_of_rolls(rolls: Sequence[RolledFile], *, counts_up: bool = False) -> list[bool]:
    """Return for each rolled log file whether it directly follows the previous one, by the numbers in the names.

    The oldest of ``rolls`` is first; it is no successor.
    """
    dated = series_and_number_by_dated_file(roll.file for roll in rolls)
    is_ascending = _do_numbers_ascend([roll.series for roll in rolls], default=counts_up)
    dates_ascend = _do_numbers_ascend([dated.get(roll.file) for roll in rolls], default=True)
    return [
        index > 0 and _is_direct_successor(rolls[index - 1], roll, dated, is_ascending, dates_ascend)
        for index, roll in enumerate(rolls)
    ]


def _do_numbers_ascend(numbers: Iterable[tuple[str, int] | None], *, default: bool) -> bool:
    """Return whether the newest file of a series has its highest number.

    ``numbers`` are the series and numbers of files, the oldest first. The first two files in a row that are of one
    series show it; ``default`` is returned without such files.
    """
    pairs = pairwise(filter(None, numbers))
    return next(
        (number < following for (series, number), (next_series, following) in pairs if series == next_series), default
    )


def _is_direct_successor(
    previous: RolledFile,
    following: RolledFile,
    dated: Mapping[str, tuple[str, int]],
    is_ascending: bool,
    dates_ascend: bool,
) -> bool:
    if previous.roll_number is not None and following.roll_number is not None:
        return abs(previous.roll_number - following.roll_number) == 1
    previous_series, previous_number = dated.get(previous.file, (None, 1))
    following_series, following_number = dated.get(following.file, (None, 1))
    if previous_series is not None and previous_series == following_series:
        return abs(previous_number - following_number) == 1
    if (following_number if dates_ascend else previous_number) != 1:
        return False
    return previous.roll_number in (None, 1) or is_ascending


def missing_rolled_file_messages(files: Iterable[str], *, is_listed: bool = False) -> list[str]:
    """Return a message for each rolled log file that is missing from a host's log files.

    The numbers in the names of ``files``, the oldest first, show it. A series of numbers begins with 1. If its newest
    file has the highest number, the oldest series of a date and a series without a date may begin with a higher number:
    loggers delete the oldest files. ``is_listed`` is as for ``is_newest_file_missing``.
    """
    rolls = [RolledFile(file) for file in files]
    dated = series_and_number_by_dated_file(roll.file for roll in rolls)
    # Files without records follow the current file; their order is unknown.
    ordered = list(takewhile(lambda roll: not roll.is_current, rolls))
    has_direct_write = len(ordered) == len(rolls) and not _have_numbers_of_current_file(rolls)
    series_from_any_number = set()
    if _do_numbers_ascend([roll.series for roll in ordered], default=has_direct_write):
        series_from_any_number |= {roll.series[0] for roll in rolls if roll.series}
    dates_ascend = _do_numbers_ascend([dated.get(roll.file) for roll in ordered], default=True)
    if dates_ascend and rolls and rolls[0].file in dated:
        series_from_any_number.add(dated[rolls[0].file][0])
    numbers: dict[str, set[int]] = {}
    for series, number in filter(None, (roll.series or dated.get(roll.file) for roll in rolls)):
        numbers.setdefault(series, set()).add(number)
    problems = [
        f"the log file {series.format(number)} is missing, so its events are unknown: collect it from the host again"
        for series, present in sorted(numbers.items())
        for number in range(min(present) if series in series_from_any_number else 1, max(present))
        if number not in present
    ]
    if is_newest_file_missing(rolls, is_listed=is_listed):
        message = (
            "the log file activemq.log is missing, so the newest events are unknown: collect it from the host again"
        )
        if not _have_numbers_of_current_file(rolls):
            message += (
                ". If the broker writes no activemq.log, run the playbook activemq.fleet.collect for this host: its "
                "host.json shows this"
            )
        problems.append(message)
    return problems


def is_newest_file_missing(rolls: Sequence[RolledFile], *, is_listed: bool = False) -> bool:
    """Return whether ``activemq.log`` is missing from the log files of a host.

    A broker has none if it writes directly into files with dates or numbers in their names. Only a list of the
    directory on the host shows that: ``is_listed`` is whether there is one.
    """
    if any(roll.is_current for roll in rolls):
        return False
    return not is_listed or _have_numbers_of_current_file(rolls)


def _have_numbers_of_current_file(rolls: Iterable[RolledFile]) -> bool:
    """Return whether all log files of a host are named as older ones of ``activemq.log``: ``activemq.log.1``."""
    return all(roll.series and roll.series[0].startswith(BROKER_LOG) for roll in rolls)


def _utc_seconds(first: str | None, zone: str) -> int | None:
    try:
        local = calendar.timegm(time.strptime((first or "")[:19], "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return None
    return int(LocalTimeConverter(zone).to_utc(np.array([local]))[0])


def _numbers_count_up(release: str | None) -> bool:
    """Return whether the release's logger gives the newest of the rolled files the highest number."""
    try:
        return release is not None and Release.of(release).log_file_name.startswith("log4j2")
    except ReleaseError:
        return False
