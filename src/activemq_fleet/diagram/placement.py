"""Place boxes of one picture in a grid, and hold what was placed: boxes, lines and captions with their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from activemq_fleet.diagram.canvas import Canvas, Point
from activemq_fleet.diagram.lines import Stroke, draw_stroke
from activemq_fleet.diagram.text import width_of

LINE_HEIGHT = 15.0
"""Pixels from one line of a caption to the next."""
_MOST_COLUMNS = 24


class Box(Protocol):
    """The interface of all that is drawn as a box: the card of a pair, or the box of a group; sizes in pixels.

    ``hanging`` is the height of what hangs below it. Its placement sets its size before it is drawn.
    """

    name: str
    width: float
    height: float
    hanging: float

    def draw(self, canvas: Canvas, x: float, y: float) -> None: ...


class Area(NamedTuple):
    """A rectangle, by its upper left corner and its size in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The horizontal position of the right edge, in pixels."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The vertical position of the lower edge, in pixels."""
        return self.y + self.height


@dataclass(slots=True)
class Label:
    """A caption of one or more lines on a background of its own; ``at`` is the middle of its first line, in pixels."""

    at: Point
    lines: list[str]

    def draw(self, canvas: Canvas) -> None:
        """Draw the caption and its background."""
        x, y = self.at
        for row, line in enumerate(self.lines):
            width = width_of(line, "label") + 8
            canvas.rect(x - width / 2, y + LINE_HEIGHT * row - 11, width, LINE_HEIGHT, "paper")
            canvas.text(x, y + LINE_HEIGHT * row, line, "label ink", "middle")


@dataclass(slots=True)
class Placement:
    """Boxes, lines and captions with their positions in pixels, counted from the upper left corner (0, 0).

    ``notes`` are links that are written below as text, where lines could not be followed.
    """

    width: float = 0.0
    height: float = 0.0
    boxes: list[tuple[Box, Area]] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def box_areas(self) -> dict[str, Area]:
        """The rectangle that each box covers, by the name of the box."""
        return {box.name: area for box, area in self.boxes}

    def draw(self, canvas: Canvas) -> None:
        """Draw all boxes, lines and captions."""
        for stroke in self.strokes:
            draw_stroke(canvas, stroke)
        for box, area in self.boxes:
            box.width, box.height = area.width, area.height
            box.draw(canvas, area.x, area.y)
        for label in self.labels:
            label.draw(canvas)


def place_in_grid(
    boxes: Sequence[Box],
    columns: int,
    gap: tuple[float, float],
    before_column: Mapping[int, float] | None = None,
    before_row: Mapping[int, float] | None = None,
    least_widths: Mapping[str, float] | None = None,
) -> Placement:
    """Return boxes placed row by row in a grid of ``columns``; the boxes of a row become equally high.

    ``gap`` is the room (pixels) between columns and between rows. ``before_column`` and ``before_row`` are additional
    room before a column or row of this number, the number of rows standing for the room below all. ``least_widths`` are
    widths that boxes have at least, by name.
    """
    wider, lower, least = before_column or {}, before_row or {}, least_widths or {}
    widths = {box.name: max(box.width, least.get(box.name, 0.0)) for box in boxes}
    rows = [boxes[first : first + columns] for first in range(0, len(boxes), columns)]
    placement = Placement()
    left: list[float] = []
    for column in range(len(rows[0])):
        left.append(placement.width + wider.get(column, 0.0) + (gap[0] if column else 0.0))
        placement.width = left[-1] + max(widths[row[column].name] for row in rows if column < len(row))
    for number, row in enumerate(rows):
        top = placement.height + lower.get(number, 0.0) + (gap[1] if number else 0.0)
        height = max(box.height for box in row)
        placement.boxes += [(box, Area(x, top, widths[box.name], height)) for box, x in zip(row, left, strict=False)]
        placement.height = top + height + max(box.hanging for box in row)
    placement.height += lower.get(len(rows), 0.0)
    return placement


def column_counts(boxes: int) -> list[int]:
    """Return the numbers of columns worth trying for a grid of ``boxes`` boxes, ascending: one for each
    possible number of rows.
    """
    counts = {-(-boxes // rows) for rows in range(1, boxes + 1)}
    return sorted(count for count in counts if count <= _MOST_COLUMNS)


class Sheet(NamedTuple):
    """A sheet of paper: its aspect ratio (width by height), and the pixels of its height that
    heading and legend use.
    """

    aspect: float
    besides: float = 0.0


def most_readable(placements: Iterable[Placement], sheet: Sheet) -> Placement:
    """Return the placement that stays largest when it is scaled to fit a sheet; of equally
    large placements, the first.
    """
    return min(placements, key=lambda one: max(one.width / sheet.aspect, one.height + sheet.besides))
