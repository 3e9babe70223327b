"""Draw connections as lines with right angles and round corners, with arrow heads where messages arrive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from activemq_fleet.canvas import Point, SvgCanvas, format_decimal
from activemq_fleet.diagram.scene import DrawnConnection

_CORNER_RADIUS, _HEAD_LENGTH, _DOUBLE_LINE_OFFSET = 9.0, 8.0, 4.0


def draw_connection(canvas: SvgCanvas, connection: DrawnConnection, points: Sequence[Point]) -> None:
    """Draw a connection of a fleet's picture as a line through points.

    The line begins at the connection's end ``a``, and is doubled where links run in both directions.
    """
    kind, flow = connection.kind, connection.flow
    with canvas.svg_group(connection.tooltip):
        if flow == "each way":
            _draw_line(canvas, _parallel_line(points, _DOUBLE_LINE_OFFSET), kind, at_start=False, at_end=True)
            _draw_line(canvas, _parallel_line(points, -_DOUBLE_LINE_OFFSET), kind, at_start=True, at_end=False)
        else:
            _draw_line(canvas, points, kind, at_start=flow != "forward", at_end=flow != "backward")


def draw_arrow_head(canvas: SvgCanvas, css: str, start: Point, tip: Point) -> None:
    """Draw the head of an arrow on a canvas, with its tip at a point.

    The arrow points from ``start`` to ``tip``.
    """
    (x, y), (ux, uy) = tip, _direction(start, tip)
    half = _HEAD_LENGTH * 0.46
    left = (x - ux * _HEAD_LENGTH - uy * half, y - uy * _HEAD_LENGTH + ux * half)
    right = (x - ux * _HEAD_LENGTH + uy * half, y - uy * _HEAD_LENGTH - ux * half)
    canvas.add_path(css, f"M{_coordinates_text(tip)}L{_coordinates_text(left)}L{_coordinates_text(right)}Z")


def _draw_line(canvas: SvgCanvas, points: Sequence[Point], kind: str, *, at_start: bool, at_end: bool) -> None:
    """Draw a line with heads at its ends; the line is shortened there, so that none of it shows beyond a tip."""
    path = list(points)
    if at_start:
        path[0] = _move_towards(points[0], points[1], _HEAD_LENGTH - 1)
    if at_end:
        path[-1] = _move_towards(points[-1], points[-2], _HEAD_LENGTH - 1)
    parts = [f"M{_coordinates_text(path[0])}"]
    for previous, corner, following in zip(path, path[1:], path[2:], strict=False):
        radius = min(_CORNER_RADIUS, math.dist(previous, corner) / 2, math.dist(corner, following) / 2)
        start = _coordinates_text(_move_towards(corner, previous, radius))
        end = _coordinates_text(_move_towards(corner, following, radius))
        parts.append(f"L{start}Q{_coordinates_text(corner)} {end}")
    canvas.add_path(f"line line-{kind}", "".join(parts) + f"L{_coordinates_text(path[-1])}")
    if at_start:
        draw_arrow_head(canvas, f"head-{kind}", points[1], points[0])
    if at_end:
        draw_arrow_head(canvas, f"head-{kind}", points[-2], points[-1])


def _parallel_line(points: Sequence[Point], distance: float) -> list[Point]:
    """Return the points of a line of right angles parallel to ``points``, ``distance`` pixels to the right of it."""
    directions = [_direction(start, end) for start, end in pairwise(points)]
    before, after = [directions[0], *directions], [*directions, directions[-1]]
    return [
        (x - distance * (u1[1] or u2[1]), y + distance * (u1[0] or u2[0]))
        for (x, y), u1, u2 in zip(points, before, after, strict=True)
    ]


def _direction(start: Point, end: Point) -> Point:
    length = math.dist(start, end) or 1.0
    return (end[0] - start[0]) / length, (end[1] - start[1]) / length


def _move_towards(start: Point, end: Point, distance: float) -> Point:
    ux, uy = _direction(start, end)
    return start[0] + ux * distance, start[1] + uy * distance


def _coordinates_text(point: Point) -> str:
    return f"{format_decimal(point[0])} {format_decimal(point[1])}"
