"""Aggregate what many tasks find: samples with quantiles, the first of many things, and durations by their size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

_MOST = 500
"""Numbers that a sample keeps: then a quantile is exact to a fifth of a percent of what each task has seen."""
_PARTS = 8  # of a power of two of milliseconds, by which durations are counted

_T = TypeVar("_T")


class Sample(NamedTuple):
    """Sorted numbers, evenly spaced among all that were ``seen``; all of them where they are few."""

    seen: int
    values: tuple[float, ...]


def sample_of(numbers: Sequence[float] | NDArray[np.int64]) -> Sample:
    """Return a sample of numbers, with the smallest and the largest of them."""
    ordered = np.sort(numbers)
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST)).round().astype(np.int64)
    return Sample(len(ordered), tuple(ordered[places].tolist()))


def quantiles(samples: Iterable[Sample], shares: Sequence[float]) -> list[float]:
    """Return for each share, from 0 to 1, the number below which so many of all numbers are; empty without numbers."""
    weighted = sorted((value, one.seen / len(one.values)) for one in samples for value in one.values)
    total = round(sum(weight for _, weight in weighted))
    found, seen, at = [], 0.0, -1
    for share in sorted(shares) if weighted else ():
        while seen + 1e-6 < max(1, math.ceil(share * total)) and at + 1 < len(weighted):
            at += 1
            seen += weighted[at][1]
        found.append(weighted[at][0])
    return found


class Foremost(Generic[_T]):
    """The first ``most`` by ``key`` of all things that are added, and the number of all."""

    def __init__(self, most: int, key: Callable[[_T], Any]) -> None:
        self._most, self._key = most, key
        self._found: list[_T] = []
        self._all = 0

    def add(self, *things: _T) -> None:
        """Take things into account."""
        self._all += len(things)
        self._found += things
        if len(self._found) > 2 * self._most:
            self._found = self.in_order()

    def merge(self, other: Foremost[_T]) -> None:
        """Take the things into account that were added to another."""
        self.add(*other.in_order())
        self._all += other.left

    def in_order(self) -> list[_T]:
        """Return the first of all things that were added, sorted."""
        return nsmallest(self._most, self._found, key=self._key)

    @property
    def left(self) -> int:
        """The number of things that were added and are not among the first."""
        return max(0, self._all - self._most)


class Durations:
    """Seconds from acceptance to handling, counted by parts of a power of two of milliseconds, each with its longest.

    Quantiles are exact to a part: 9 %. ``backwards``: how many are below 0, and left out of all else.
    """

    def __init__(self) -> None:
        self.backwards = 0
        self._parts: dict[int, tuple[int, float]] = {}

    def add(self, seconds: float) -> None:
        """Take a duration into account."""
        if seconds < 0:
            self.backwards += 1
        else:
            self._count(math.floor(_PARTS * math.log2(max(seconds * 1000, 0.5))), 1, seconds)

    def merge(self, other: Durations) -> None:
        """Add other durations."""
        self.backwards += other.backwards
        for part, (count, longest) in other._parts.items():
            self._count(part, count, longest)

    def _count(self, part: int, count: int, longest: float) -> None:
        known, known_longest = self._parts.get(part, (0, longest))
        self._parts[part] = known + count, max(longest, known_longest)

    @property
    def counts(self) -> Counter[int]:
        """The numbers of durations by power of two of milliseconds."""
        found: Counter[int] = Counter()
        for part, (count, _) in self._parts.items():
            found[part // _PARTS] += count
        return found

    def quantile(self, share: float) -> float | None:
        """Return the seconds that a share of all durations, from 0 to 1, does not exceed; None without durations."""
        wanted, seen = share * sum(count for count, _ in self._parts.values()), 0
        for _, (count, longest) in sorted(self._parts.items()):
            seen += count
            if seen >= wanted:
                return longest
        return None
