"""Aggregate results of many tasks: samples with quantiles, the first of many items, and histograms of durations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

_SAMPLE_SIZE = 500
"""Numbers that a sample keeps: then a quantile is exact to a fifth of a percent of what each task has seen."""
_BUCKETS_PER_POWER = 8  # number of ranges per power of two of milliseconds, in which durations are counted

_T = TypeVar("_T")


class SortedSample(NamedTuple):
    """A sorted sample of numbers, which represents a larger set of numbers.

    The sample is evenly spaced among all numbers; ``seen`` is their total number. Small sets are kept completely.
    """

    seen: int
    values: tuple[float, ...]


def sorted_sample(numbers: Sequence[float] | NDArray[np.int64]) -> SortedSample:
    """Return a sorted sample of ``numbers``, limited in size, that represents all of them.

    The sample contains the smallest and the largest number.
    """
    ordered = np.sort(numbers)
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), _SAMPLE_SIZE)).round().astype(np.int64)
    return SortedSample(len(ordered), tuple(ordered[places].tolist()))


def quantiles(samples: Iterable[SortedSample], shares: Sequence[float]) -> list[float]:
    """Return the quantiles of numbers at the given shares, estimated from sorted samples of the numbers.

    ``shares`` are between 0 and 1, such as 0.5 for the median. The result is in their ascending order, and empty
    without numbers.
    """
    weighted = sorted((value, sample.seen / len(sample.values)) for sample in samples for value in sample.values)
    total = round(sum(weight for _, weight in weighted))
    quantile_values, cumulative_weight, index = [], 0.0, -1
    for share in sorted(shares) if weighted else ():
        while cumulative_weight + 1e-6 < max(1, math.ceil(share * total)) and index + 1 < len(weighted):
            index += 1
            cumulative_weight += weighted[index][1]
        quantile_values.append(weighted[index][0])
    return quantile_values


class FirstItemsBySortKey(Generic[_T]):
    """A collector that keeps the items with the smallest sort keys, and counts all items.

    It keeps at most ``limit`` items; ``key`` returns the sort key of an item.
    """

    def __init__(self, limit: int, key: Callable[[_T], Any]) -> None:
        self._limit, self._key = limit, key
        self._smallest_items: list[_T] = []
        self._item_count = 0

    def add_items_keeping_smallest_keys(self, *items: _T) -> None:
        """Add items to the collector, which keeps those with the smallest sort keys up to its limit, and counts all.

        A later item can displace an earlier one.
        """
        self._item_count += len(items)
        self._smallest_items += items
        if len(self._smallest_items) > 2 * self._limit:
            self._smallest_items = self.items_with_smallest_keys()

    def merge_items_with_smallest_keys(self, other: FirstItemsBySortKey[_T]) -> None:
        """Merge the items of another collector into this one, which keeps those with the smallest sort keys.

        The counts of all items are added.
        """
        self.add_items_keeping_smallest_keys(*other.items_with_smallest_keys())
        self._item_count += other.items_left_out

    def items_with_smallest_keys(self) -> list[_T]:
        """Return a list of the items with the smallest sort keys of all items added to the collector, in sort order.

        It has at most ``limit`` items.
        """
        return nsmallest(self._limit, self._smallest_items, key=self._key)

    @property
    def items_left_out(self) -> int:
        """The number of added items that the collector does not keep, because they are beyond its limit."""
        return max(0, self._item_count - self._limit)


class DurationHistogram:
    """A histogram of durations in seconds, such as the times from an event's acceptance to its handling.

    It has eight parts for each power of two. Quantiles are exact to a part: 9 %. ``backwards``: how many are below 0,
    and left out of all else.
    """

    def __init__(self) -> None:
        self.backwards = 0
        self._buckets: dict[int, tuple[int, float]] = {}

    def count_duration(self, seconds: float) -> None:
        """Count a duration, in seconds, in the histogram."""
        if seconds < 0:
            self.backwards += 1
        else:
            self._count(math.floor(_BUCKETS_PER_POWER * math.log2(max(seconds * 1000, 0.5))), 1, seconds)

    def add_counts_of_histogram(self, other: DurationHistogram) -> None:
        """Add the counts of another duration histogram to this one."""
        self.backwards += other.backwards
        for part, (count, longest) in other._buckets.items():
            self._count(part, count, longest)

    def _count(self, part: int, count: int, longest: float) -> None:
        known, known_longest = self._buckets.get(part, (0, longest))
        self._buckets[part] = known + count, max(longest, known_longest)

    @property
    def duration_counts_by_power_of_two_ms(self) -> Counter[int]:
        """The number of durations in each range of the histogram from 2**N to 2**(N+1) ms, by N.

        At key 10 it is the number of durations from 1,024 to 2,048 ms.
        """
        counts: Counter[int] = Counter()
        for part, (count, _) in self._buckets.items():
            counts[part // _BUCKETS_PER_POWER] += count
        return counts

    def quantile_seconds(self, share: float) -> float | None:
        """Return a quantile of all durations in the histogram, in seconds.

        ``share`` (0 to 1) of all durations do not exceed it. Returns None without durations.
        """
        required_count, cumulative_count = share * sum(count for count, _ in self._buckets.values()), 0
        for _, (count, longest) in sorted(self._buckets.items()):
            cumulative_count += count
            if cumulative_count >= required_count:
                return longest
        return None
