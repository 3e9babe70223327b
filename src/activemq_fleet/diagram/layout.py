"""Hold a finished layout, boxes and lines with their positions, and compute the cost by which layouts are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from activemq_fleet.diagram.boxes import GroupBox
from activemq_fleet.diagram.canvas import Canvas, Point
from activemq_fleet.diagram.lines import Stroke, draw_stroke
from activemq_fleet.diagram.text import width_of

# Paper of the A sizes; heading and legend take about so many pixels of its height.
_SHEET, _BESIDES = math.sqrt(2), 240


@dataclass(slots=True)
class Label:
    """Lines of text above a point of a line, on a background that hides other lines there."""

    at: Point
    lines: list[str]


@dataclass(slots=True)
class Layout:
    """The positions of all boxes and lines, from (0, 0), in pixels; each box with its upper left corner and height.

    ``listed`` is True where the links between groups are too many to draw, so that the picture lists them as text.
    """

    width: float = 0.0
    height: float = 0.0
    boxes: list[tuple[GroupBox, Point, float]] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    listed: bool = False

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        with canvas.group(at=(x, y)):
            for box, (left, top), height in self.boxes:
                box.draw(canvas, left, top, height)
            for stroke in self.strokes:
                draw_stroke(canvas, stroke)
            for label in self.labels:
                _draw_label(canvas, label)


def layout_cost(layout: Layout) -> float:
    """Return the larger of width and height in pixels, each scaled to a landscape sheet of paper; less is better."""
    return max(layout.width / _SHEET, layout.height + _BESIDES)


def _draw_label(canvas: Canvas, label: Label) -> None:
    x, y = label.at
    for row, line in enumerate(label.lines):
        width = width_of(line, "label") + 8
        canvas.rect(x - width / 2, y + 15 * row - 11, width, 15, "paper")
        canvas.text(x, y + 15 * row, line, "label ink", "middle")
