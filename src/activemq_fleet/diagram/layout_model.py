"""Hold what is placed in a picture: boxes, lines and captions with their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from activemq_fleet.canvas import Point, SvgCanvas, text_width
from activemq_fleet.diagram.lines import draw_connection
from activemq_fleet.diagram.scene import DrawnConnection

LINE_HEIGHT = 15.0
"""Pixels from one line of a caption to the next."""
_MAX_COLUMNS = 24

Captions = Callable[[DrawnConnection], list[str]]


class DrawableBox(Protocol):
    """The interface of all boxes that can be drawn in a picture, such as the card of a broker pair.

    Sizes are in pixels. A box's placement sets its size before the box is drawn.
    """

    name: str
    width: float
    height: float

    def draw(self, canvas: SvgCanvas, x: float, y: float) -> None: ...


class Rectangle(NamedTuple):
    """A rectangle, by its upper left corner and its size in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right_edge(self) -> float:
        """The horizontal position of the rectangle's right edge, in pixels."""
        return self.x + self.width

    @property
    def lower_edge(self) -> float:
        """The vertical position of the rectangle's lower edge, in pixels."""
        return self.y + self.height


class Caption(NamedTuple):
    """A caption in a picture, of one or more lines.

    ``middle`` is the middle of its first line, in pixels.
    """

    middle: Point
    lines: Sequence[str]


@dataclass(slots=True)
class DiagramLayout:
    """The layout of a picture: all its boxes, lines and captions, with their positions.

    Positions are in pixels, counted from the upper left corner (0, 0).
    """

    width: float = 0.0
    height: float = 0.0
    boxes: list[tuple[DrawableBox, Rectangle]] = field(default_factory=list)
    lines: list[tuple[DrawnConnection, Sequence[Point]]] = field(default_factory=list)
    labels: list[Caption] = field(default_factory=list)

    @property
    def areas_by_box(self) -> dict[str, Rectangle]:
        """The area (rectangle) that each box of a picture covers, by the name of the box."""
        return {box.name: area for box, area in self.boxes}

    def draw(self, canvas: SvgCanvas, x: float, y: float) -> None:
        """Draw the placed boxes, lines and captions of a picture on a canvas at a position.

        The position of the picture's upper left corner is (x, y), in pixels. A caption has a background.
        """
        with canvas.svg_group(position=(x, y)):
            for connection, points in self.lines:
                draw_connection(canvas, connection, points)
            for box, area in self.boxes:
                box.width, box.height = area.width, area.height
                box.draw(canvas, area.x, area.y)
            for (middle, first), lines in self.labels:
                for row, line in enumerate(lines):
                    width, baseline = text_width(line, "label") + 8, first + LINE_HEIGHT * row
                    canvas.add_rect("paper", middle - width / 2, baseline - 11, width, LINE_HEIGHT)
                    canvas.add_text("label ink", middle, baseline, line, "middle")


class PaperSheet(NamedTuple):
    """A sheet of paper on which a picture has to fit.

    ``aspect`` is its aspect ratio (width by height), and ``reserved`` the pixels of height that heading and legend use.
    """

    aspect: float
    reserved: float = 0.0


def most_readable_layout(boxes: int, place: Callable[[int], DiagramLayout], sheet: PaperSheet) -> DiagramLayout:
    """Return the most readable placement of boxes on a sheet of paper.

    The most readable placement stays largest when it is scaled to fit the sheet; of equally large ones it is the first.
    ``place`` is called with each number of columns worth trying: one for each possible number of rows.
    """
    counts = sorted({-(-boxes // rows) for rows in range(1, boxes + 1)})
    placements = [place(count) for count in counts if count <= _MAX_COLUMNS]
    return min(placements, key=lambda layout: max(layout.width / sheet.aspect, layout.height + sheet.reserved))
