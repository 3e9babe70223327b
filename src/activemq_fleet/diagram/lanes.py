"""Assign lanes to lines that run along each other."""

from __future__ import annotations

from collections.abc import Sequence

Span = tuple[float, float]


def assign_lanes(spans: Sequence[Span], apart: float = 0.0) -> list[int]:
    """Return a lane for each span, 0 the nearest; spans in one lane are at least ``apart`` from each other.

    The shortest spans are assigned first, so that longer lines run around shorter ones.
    """
    lanes: list[list[Span]] = []
    lanes_of_spans = [0] * len(spans)
    for position in sorted(range(len(spans)), key=lambda p: (spans[p][1] - spans[p][0], spans[p], p)):
        start, end = spans[position]
        lane = next(
            (i for i, taken in enumerate(lanes) if all(end + apart <= s or e + apart <= start for s, e in taken)),
            len(lanes),
        )
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((start, end))
        lanes_of_spans[position] = lane
    return lanes_of_spans
