"""Choose where along a line its caption stands: in the middle, unless other lines or captions are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from activemq_fleet.diagram.layout import Layout
from activemq_fleet.diagram.scene import Connection
from activemq_fleet.diagram.text import width_of

# Shares of the way from left to right, the best first.
_ALONG = tuple(sorted((step / 50 for step in range(1, 50)), key=lambda share: abs(share - 0.5)))
# A caption's letters stand above its line, and its patch of 15 pixels ends above the line too.
ABOVE_LINE, _PATCH_TOP, _PATCH_BOTTOM = 7.0, 18.0, 3.0
_COVERED_TEXT = 10


@dataclass(frozen=True, slots=True)
class Run:
    """The horizontal part of a connection's line, at height ``y``, from ``left`` to ``right`` (pixels)."""

    connection: Connection
    left: float
    right: float
    y: float


def best_caption_position(run: Run, half: float, layout: Layout, width: float) -> tuple[int, float]:
    """Return (cost, x) of the position where a caption covers least; x is its middle, its width is twice ``half``."""
    candidates = list(_candidates(run, half, width))
    covered = [(_covered(x - half, x + half, run, layout), index) for index, x in enumerate(candidates)]
    cost, index = min(covered)
    return cost, candidates[index]


def _candidates(run: Run, half: float, width: float) -> Iterator[float]:
    """Yield positions for a caption's middle: on the line where it has room, then beside it; the middle in any case."""
    middle = min(max((run.left + run.right) / 2, half), max(width - half, half))
    yield middle
    for share in _ALONG:
        x = run.left + (run.right - run.left) * share
        if run.left + half <= x <= run.right - half:
            yield x
    for x in (run.right + half + 4, run.left - half - 4):
        if half <= x <= width - half:
            yield x


def _covered(left: float, right: float, run: Run, layout: Layout) -> int:
    top, bottom = run.y - _PATCH_TOP, run.y - _PATCH_BOTTOM
    count = 0
    for stroke in layout.strokes:
        for (x1, y1), (x2, y2) in pairwise(stroke.points):
            level = abs(y1 - y2) < 1
            if level and abs(y1 - run.y) < 1 and min(x1, x2) >= run.left - 1 and max(x1, x2) <= run.right + 1:
                continue  # the line itself
            across = min(x1, x2) <= right and left <= max(x1, x2)
            count += across and min(y1, y2) <= bottom and top <= max(y1, y2)
    for label in layout.labels:
        x, y = label.at
        reach = max(width_of(line, "label") for line in label.lines) / 2 + 4
        beside = x + reach < left or right < x - reach
        count += 0 if beside or y + 15 * len(label.lines) < top or bottom < y - 11 else _COVERED_TEXT
    return count
