"""Lines that run along each other get lanes of their own."""

from __future__ import annotations

from collections.abc import Sequence

Span = tuple[float, float]


def assign_lanes(spans: Sequence[Span], apart: float = 0.0) -> list[int]:
    """A lane for each span, 0 the nearest; two in one lane are more than ``apart`` from each other.

    The shortest come first, so that a line that goes farther runs around those that do not.
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
