"""Lay out charts as SVG shapes; the templates write these as markup.

Times are in seconds since the epoch. A chart is 1000 units of its drawing wide, and as wide as its page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from activemq_fleet.audit.scraped_availability import ScrapedAvailability

_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_NAME = 23  # characters of a name that have room
_DIGIT = 3.6  # half the width of a digit of a mark's number


class Shape(NamedTuple):
    """An SVG element with its attributes; ``tooltip`` and ``text`` are plain text."""

    tag: str
    attributes: dict[str, str | float]
    tooltip: str
    text: str


class Chart:
    """A chart that is drawn row by row downwards, over a horizontal scale of seconds.

    ``height`` is where the next row begins; ``title`` describes the chart to screen readers.
    """

    def __init__(self, title: str, began: float, ended: float, left: float = 178, right: float = 962) -> None:
        self.title, self.began, self.ended, self.left, self.right = title, began, max(ended, began + 0.5), left, right
        self.height = 6.0
        self.shapes: list[Shape] = []
        self._free = 0.0  # where the number of the last mark ends

    def position_of(self, at: float) -> float:
        """Return the horizontal position of a time in pixels; times beyond the scale are drawn at its end."""
        share = (min(max(at, self.began), self.ended) - self.began) / (self.ended - self.began)
        return self.left + share * (self.right - self.left)

    def add_shape(self, tag: str, kind: str, tooltip: str = "", text: str = "", **attributes: str | float) -> None:
        """Add an SVG element of the CSS class ``kind``."""
        rounded = {name: value if isinstance(value, str) else round(value, 1) for name, value in attributes.items()}
        self.shapes.append(Shape(tag, {"class": kind, **rounded}, tooltip, text))

    def add_rectangle(self, kind: str, x: float, y: float, width: float, height: float, tooltip: str = "") -> None:
        """Add a rectangle."""
        self.add_shape("rect", kind, tooltip, x=x, y=y, width=width, height=height)

    def add_line(self, kind: str, x: float, y: float, to_x: float, to_y: float, tooltip: str = "") -> None:
        """Add a straight line."""
        self.add_shape("line", kind, tooltip, x1=x, y1=y, x2=to_x, y2=to_y)

    def add_text(self, x: float, y: float, text: str, kind: str = "small", anchor: str = "middle") -> None:
        """Add a line of text; ``anchor`` is start, middle or end."""
        self.add_shape("text", kind, text=text, x=x, y=y, **{"text-anchor": anchor})

    def add_name(self, y: float, name: str, note: str = "", kind: str = "host") -> None:
        """Add the name of a row to the left of the scale, shortened where it is long, and a note below the name."""
        cut = name if len(name) <= _NAME or note else f"{name[: _NAME - 1]}…"
        self.add_shape("text", kind, name if cut != name else "", cut, x=self.left - 10, y=y, **{"text-anchor": "end"})
        if note:
            self.add_text(self.left - 10, y + 14, note, anchor="end")

    def add_bar(self, kind: str, began: float, ended: float, tooltip: str = "", height: float = 12) -> None:
        """Add a bar from ``began`` to ``ended`` to the current row, at least one pixel wide;
        ``height`` is in pixels.
        """
        x = self.position_of(began)
        self.add_rectangle(kind, x, self.height, max(1.0, self.position_of(ended) - x), height, tooltip)

    def begin_pair(self, name: str) -> float:
        """Add the name of a pair above the rows of its hosts; return the vertical position of
        the name, for ``add_mark``.
        """
        self.add_name(self.height + 12, name, kind="pair")
        self._free = 0.0
        self.height += 18
        return self.height - 18

    def add_mark(self, kind: str, at: float, number: str, tooltip: str, top: float, shaded_until: float = 0) -> None:
        """Add a vertical line at the time ``at`` through a pair's rows, and its number where there is room.

        Classes are ``KIND-line`` and ``KIND-number``. The rows are shaded until ``shaded_until``.
        """
        x, half = self.position_of(at), _DIGIT * len(number) + 2
        if (width := self.position_of(shaded_until) - x) >= 1.5:
            self.add_rectangle("gap", x, top + 14, width, self.height - top - 14, tooltip)
        self.add_line(f"{kind}-line", x, top + 14, x, self.height, tooltip)
        if x - half >= self._free:
            self.add_text(x, top + 11, number, f"{kind}-number")
            self._free = x + half

    def add_axis(self, ticks: Iterable[tuple[float, str]], caption: str) -> Chart:
        """Add grid lines, labels below them and a caption, all behind the other shapes; return the chart."""
        shapes, self.shapes = self.shapes, []
        for at, label in ticks:
            x = self.position_of(at)
            self.add_line("grid", x, 6, x, self.height)
            self.add_text(x, self.height + 15, label)
        self.add_text((self.left + self.right) / 2, self.height + 31, caption)
        self.shapes += shapes
        self.height += 36
        return self


def add_scrapes(chart: Chart, scraped: ScrapedAvailability, pair: str) -> None:
    """Add a row with the times in which scrapes of a pair's metrics showed an active node, and in which none did."""
    chart.add_text(chart.left - 10, chart.height + 8, "by scrapes", anchor="end")
    for one in scraped.active:
        if one.pair == pair:
            chart.add_bar("s-active", one.began, one.ended, f"{one.host}: active in every scrape", height=8)
    for gap in scraped.unserved:
        if gap.pair == pair:
            chart.add_bar("silence", gap.began, gap.ended, f"no active node for {gap.seconds:.1f} s", height=8)
    chart.height += 14


def tick_step(length: float, most: int) -> int:
    """Return the seconds between two ticks of an axis, so that there are at most ``most`` steps;
    whole days for long axes.
    """
    return next((step for step in _STEPS if length / step <= most), 86400 * math.ceil(length / 86400 / most))
