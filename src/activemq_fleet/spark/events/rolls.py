"""The files that a log was rolled into: their order, and what is missing between them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_NAME = re.compile(r"activemq\.log(?:[.-](?P<suffix>.+?))?(?:\.gz)?")


@dataclass(frozen=True, slots=True)
class Roll:
    """One file of a host's log. ``first`` is the second of its first record, None where none has a time."""

    file: str
    first: int | None = None

    @property
    def number(self) -> int | None:
        """The number that the logger gave it; None for the file that is written and for other names."""
        match = _NAME.fullmatch(self.file)
        suffix = match["suffix"] if match else None
        return int(suffix) if suffix is not None and re.fullmatch(r"[0-9]{1,4}", suffix) else None

    @property
    def current(self) -> bool:
        """Whether it is the file that the broker writes."""
        match = _NAME.fullmatch(self.file)
        return match is not None and match["suffix"] is None


def ordered(rolls: Iterable[Roll], *, counts_up: bool = False) -> list[Roll]:
    """Oldest first.

    log4j 1 gives the newest of the rolled files the number 1, log4j 2 the oldest: their first records tell
    which. Where those say neither, as after an upgrade that changed the logger, time alone counts.
    ``counts_up`` is what is taken for true when no two numbered files have times.
    """
    rolls = list(rolls)
    numbered = sorted((roll for roll in rolls if roll.number is not None), key=lambda roll: roll.number or 0)
    times = [roll.first for roll in numbered if roll.first is not None]
    up = any(one < other for one, other in pairwise(times))
    down = any(one > other for one, other in pairwise(times))
    others = [roll for roll in rolls if roll.number is None and not roll.current]
    if others or (up and down):
        return sorted(rolls, key=lambda roll: (roll.current, roll.first or 0, roll.file))
    ascending = up if up or down else counts_up
    current = sorted((roll for roll in rolls if roll.current), key=lambda roll: roll.first or 0)
    return [*(numbered if ascending else reversed(numbered)), *current]


def adjacent(rolls: Sequence[Roll], at: int, *, counts_up: bool = False) -> bool:
    """Whether no file is missing before the one at this place, as far as names tell; ``rolls`` oldest first."""
    if not at:
        return False
    one, other = rolls[at - 1], rolls[at]
    if one.number is not None and other.number is not None:
        return abs(one.number - other.number) == 1
    numbers = [roll.number for roll in rolls if roll.number is not None]
    up = numbers[0] < numbers[-1] if len(numbers) > 1 else counts_up
    return one.number in (None, 1) or up


def missing(rolls: Iterable[Roll]) -> list[str]:
    """What is missing between the files, in words. Both loggers give the numbers from 1 on without a gap."""
    rolls = list(rolls)
    numbers = {roll.number for roll in rolls if roll.number is not None}
    found = [
        f"activemq.log.{number} is missing" for number in range(1, max(numbers, default=0)) if number not in numbers
    ]
    if not any(roll.current for roll in rolls):
        found.append("activemq.log is missing")
    return found
