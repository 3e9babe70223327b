"""Put the files of a rolled log in order, and find which are missing between them."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from activemq_fleet.errors import ReleaseError
from activemq_fleet.logs.chunks import unpacked_record_pieces
from activemq_fleet.logs.decompression import without_compression_ending
from activemq_fleet.logs.event_batches import LogReleaseAndTimeZone, count_bytes_before_first_record, first_record_time
from activemq_fleet.logs.zones import LocalTimeConverter
from activemq_fleet.releases import Release

_LOG_FILE_NAME = re.compile(r"activemq\.log(?:[.-](?P<suffix>.+))?")
BEGINNING = 1 << 20
"""Number of bytes at the start of a file that are searched for its first record. The text before that record belongs to
the previous file.
"""


@dataclass(frozen=True, slots=True)
class LogBeginning:
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
        """The number in the name of a rolled log file.

        It is 3 for ``activemq.log.3``. It is None for ``activemq.log`` and other names.
        """
        match = _LOG_FILE_NAME.fullmatch(self.file)
        number = without_compression_ending(match["suffix"] or "") if match else ""
        return int(number) if re.fullmatch(r"[0-9]{1,4}", number) else None

    @property
    def is_current(self) -> bool:
        """Whether the log file is the one that the broker is writing, ``activemq.log``."""
        match = _LOG_FILE_NAME.fullmatch(self.file)
        return match is not None and match["suffix"] is None


def preamble_and_first_record_date(first_bytes: memoryview, *, compressed: bool) -> LogBeginning:
    """Return the bytes before the first record of a log file, and that record's date.

    ``first_bytes`` are the first bytes of the file.
    """
    data = b"".join(bytes(piece) for piece, _, _ in unpacked_record_pieces(first_bytes, compressed=compressed))
    return LogBeginning(data[: count_bytes_before_first_record(data)], first_record_time(data))


def log_file_positions_by_name(
    beginnings: Mapping[str, LogBeginning], source: LogReleaseAndTimeZone
) -> dict[str, PlaceAmongLogFiles]:
    """Return a dictionary from file name to the log file's position in its host's sequence of log files, oldest first.

    ``source`` is the broker's release and time zone.
    """
    rolls = [RolledFile(file, _utc_seconds(beginning.first, source.zone)) for file, beginning in beginnings.items()]
    counts_up = _numbers_count_up(source.release)
    order = rolled_files_oldest_first(rolls, counts_up=counts_up)
    places = {roll.file: PlaceAmongLogFiles(position) for position, roll in enumerate(order)}
    for position, (previous_roll, roll) in enumerate(pairwise(order), 1):
        roll_beginning = beginnings[roll.file]
        # A file without a record does not show which file precedes it.
        has_records = roll_beginning.first is not None and beginnings[previous_roll.file].first is not None
        if roll_beginning.head and has_records and is_direct_successor(order, position, counts_up=counts_up):
            places[previous_roll.file] = replace(places[previous_roll.file], after=roll_beginning.head)
            places[roll.file] = replace(places[roll.file], skip=len(roll_beginning.head))
    return places


def rolled_files_oldest_first(rolls: Iterable[RolledFile], *, counts_up: bool = False) -> list[RolledFile]:
    """Return the rolled log files of a host, the oldest first.

    log4j 1 gives the newest of the rolled files the number 1, log4j 2 the oldest: the times of their first records show
    which. If they match neither, as after an upgrade that changed the logger, the files are sorted by time alone.
    ``counts_up`` is assumed if no two numbered files have times.
    """
    rolls = list(rolls)
    numbered = sorted((roll for roll in rolls if roll.roll_number is not None), key=lambda roll: roll.roll_number or 0)
    times = [roll.first for roll in numbered if roll.first is not None]
    has_ascending_times = any(previous < following for previous, following in pairwise(times))
    has_descending_times = any(previous > following for previous, following in pairwise(times))
    files_without_number = [roll for roll in rolls if roll.roll_number is None and not roll.is_current]
    if files_without_number or (has_ascending_times and has_descending_times):
        return sorted(rolls, key=lambda roll: (roll.is_current, roll.first or 0, roll.file))
    ascending = has_ascending_times if has_ascending_times or has_descending_times else counts_up
    current = sorted((roll for roll in rolls if roll.is_current), key=lambda roll: roll.first or 0)
    return [*(numbered if ascending else reversed(numbered)), *current]


def is_direct_successor(rolls: Sequence[RolledFile], index: int, *, counts_up: bool = False) -> bool:
    """Return whether a rolled log file directly follows the one before it, according to their names.

    ``index`` is the position of the file in ``rolls``, of which the oldest is first.
    """
    if not index:
        return False
    previous, following = rolls[index - 1], rolls[index]
    if previous.roll_number is not None and following.roll_number is not None:
        return abs(previous.roll_number - following.roll_number) == 1
    numbers = [roll.roll_number for roll in rolls if roll.roll_number is not None]
    is_ascending = numbers[0] < numbers[-1] if len(numbers) > 1 else counts_up
    return previous.roll_number in (None, 1) or is_ascending


def missing_rolled_file_messages(files: Iterable[str]) -> list[str]:
    """Return a message for each rolled log file that is missing from a host's log files.

    The numbers in the given file names show it.
    """
    rolls = [RolledFile(file) for file in files]
    numbers = {roll.roll_number for roll in rolls if roll.roll_number is not None}
    problems = [
        f"the log file activemq.log.{number} is missing, so its events are unknown: collect it from the host again"
        for number in range(1, max(numbers, default=0))
        if number not in numbers
    ]
    if not any(roll.is_current for roll in rolls):
        problems.append(
            "the log file activemq.log is missing, so the newest events are unknown: collect it from the host again"
        )
    return problems


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
