"""Count the work of a function, or compare how its time grows, in place of a time limit.

A duration depends on the machine as much as on the code. The number of executed lines does not depend on the machine,
but does not include the work of C code, such as a regular expression: for that, compare two sizes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

TIMES = 8
"""How many times as long the large input of :func:`growth_of_time` is."""
QUADRATIC = 4.0
"""A bound for :func:`growth_of_time`: linear work gives 1, quadratic work gives 8."""


def count_lines(act: Callable[[], object]) -> int:
    """Return how many lines of Python ``act`` executes in this thread, including the functions that it calls."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines


def growth_of_time(act: Callable[[T], object], make: Callable[[int], T], size: int) -> float:
    """Return how much more CPU time one input of ``TIMES * size`` takes than ``TIMES`` inputs of ``size``.

    Both are the same amount of input, so that 1 means linear work and 8 quadratic work. If the first measurement is
    close to 1, it is the result. Otherwise the medians of five measurements are compared, because another process can
    disturb a single measurement. The inputs are made before the clock starts.
    """
    small, large = make(size), make(TIMES * size)
    act(small)  # the first call also loads modules and fills caches
    pairs: list[tuple[float, float]] = []
    while len(pairs) < 5:
        pairs.append((_processor_time(act, [small] * TIMES), _processor_time(act, [large])))
        short, long = (median(times) for times in zip(*pairs, strict=True))
        if len(pairs) == 1 and long < short * QUADRATIC / 2:
            break
    return float(long / short)


def _processor_time(act: Callable[[T], object], inputs: Sequence[T]) -> float:
    began = time.process_time_ns()
    for single in inputs:
        act(single)
    return max(1, time.process_time_ns() - began)
