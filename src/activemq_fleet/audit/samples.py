"""Estimate quantiles of numbers that many tasks see, each of which keeps a sample of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST = 500
"""Numbers that a sample keeps: then a quantile is exact to a fifth of a percent of what each task has seen."""


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
