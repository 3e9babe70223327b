"""Draw links as lines with right angles and round corners, with arrow heads where messages arrive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from activemq_fleet.diagram.canvas import Canvas, Point, decimal
from activemq_fleet.diagram.scene import Connection, Flow

CORNER = 9.0
HEAD = 8.0
APART = 4.0


@dataclass(frozen=True, slots=True)
class Stroke:
    """The drawn line of a connection: ``points`` joined at right angles, from its end ``a`` to its end ``b``."""

    points: tuple[Point, ...]
    kind: str
    flow: Flow
    title: str = ""

    @classmethod
    def of(cls, connection: Connection, points: tuple[Point, ...]) -> Stroke:
        """Return the line that draws a connection through ``points``, from its end ``a`` to its end ``b``."""
        return cls(points, connection.kind, connection.flow, connection.tooltip)


def draw_stroke(canvas: Canvas, stroke: Stroke) -> None:
    """Draw a connection's line, doubled where one-way links run in both directions."""
    with canvas.group(stroke.title):
        if stroke.flow == "each way":
            _draw(canvas, parallel_line(stroke.points, APART), stroke.kind, ends=(False, True))
            _draw(canvas, parallel_line(stroke.points, -APART), stroke.kind, ends=(True, False))
        else:
            ends = (stroke.flow in ("backward", "duplex"), stroke.flow in ("forward", "duplex"))
            _draw(canvas, stroke.points, stroke.kind, ends=ends)


def _draw(canvas: Canvas, points: Sequence[Point], kind: str, ends: tuple[bool, bool]) -> None:
    canvas.path(rounded_path(_cut(points, ends)), f"line line-{kind}")
    if ends[0]:
        canvas.path(arrow_head(points[1], points[0]), f"head-{kind}")
    if ends[1]:
        canvas.path(arrow_head(points[-2], points[-1]), f"head-{kind}")


def parallel_line(points: Sequence[Point], distance: float) -> list[Point]:
    """Return the points of a line parallel to ``points``, ``distance`` pixels to the right of it."""
    shifts = []
    for (x1, y1), (x2, y2) in pairwise(points):
        length = max(abs(x2 - x1), abs(y2 - y1)) or 1.0
        shifts.append(((y1 - y2) / length * distance, (x2 - x1) / length * distance))
    moved = []
    for position, (x, y) in enumerate(points):
        before = shifts[max(position - 1, 0)]
        after = shifts[min(position, len(shifts) - 1)]
        moved.append((x + (before[0] or after[0]), y + (before[1] or after[1])))
    return moved


def rounded_path(points: Sequence[Point]) -> str:
    """Return SVG path data of a line through ``points`` whose corners are rounded as far as there is room."""
    parts = [f"M{_at(points[0])}"]
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(CORNER, _length(before, here) / 2, _length(here, after) / 2)
        parts.append(f"L{_at(_towards(here, before, radius))}Q{_at(here)} {_at(_towards(here, after, radius))}")
    return "".join(parts) + f"L{_at(points[-1])}"


def arrow_head(start: Point, tip: Point) -> str:
    """Return SVG path data of a triangle whose tip is at ``tip`` and which points away from ``start``."""
    length = _length(start, tip) or 1.0
    ux, uy = (tip[0] - start[0]) / length, (tip[1] - start[1]) / length
    base = (tip[0] - ux * HEAD, tip[1] - uy * HEAD)
    half = HEAD * 0.46
    left = (base[0] - uy * half, base[1] + ux * half)
    right = (base[0] + uy * half, base[1] - ux * half)
    return f"M{_at(tip)}L{_at(left)}L{_at(right)}Z"


def _cut(points: Sequence[Point], ends: tuple[bool, bool]) -> list[Point]:
    """Return the points with the ends that have an arrow head shortened, so that no line shows beyond the tip."""
    cut = list(points)
    if ends[0]:
        cut[0] = _towards(points[0], points[1], HEAD - 1)
    if ends[1]:
        cut[-1] = _towards(points[-1], points[-2], HEAD - 1)
    return cut


def _towards(start: Point, end: Point, distance: float) -> Point:
    length = _length(start, end) or 1.0
    return (start[0] + (end[0] - start[0]) / length * distance, start[1] + (end[1] - start[1]) / length * distance)


def _length(a: Point, b: Point) -> float:
    return math.hypot(a[0] - b[0], a[1] - b[1])


def _at(point: Point) -> str:
    return f"{decimal(point[0])} {decimal(point[1])}"
