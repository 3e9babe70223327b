"""Draw charts as SVG elements, which the templates write unchanged.

Times are in seconds since the epoch. A chart is 1000 units of its drawing wide, and as wide as its page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup

from activemq_fleet.audit.scraped_availability import ScrapedAvailability
from activemq_fleet.canvas import SvgCanvas

_TICK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MAXIMUM_NAME_LENGTH = 23  # maximum number of characters of a name
_HALF_DIGIT_WIDTH = 3.6  # half the width of a digit of a mark's number


class SvgChart(SvgCanvas):
    """A chart drawn as SVG, with a horizontal axis in seconds.

    It is drawn row by row downwards. ``height`` is where the next row begins; ``title`` describes the chart to screen
    readers.
    """

    def __init__(self, title: str, began: float, ended: float, left: float = 178, right: float = 962) -> None:
        super().__init__()
        self.title, self.began, self.ended, self.left, self.right = title, began, max(ended, began + 0.5), left, right
        self.height = 6.0
        self._end_of_last_number = 0.0  # the right edge of the number of the last mark

    @property
    def svg_markup(self) -> Markup:
        """The SVG markup of the chart.

        It has every element, with every text escaped.
        """
        return Markup(str(self))  # noqa: S704 -- SvgCanvas escapes every text

    def horizontal_position(self, time: float) -> float:
        """Return the horizontal position of a time in a chart, in pixels.

        Times beyond the scale are drawn at its end.
        """
        fraction = (min(max(time, self.began), self.ended) - self.began) / (self.ended - self.began)
        return self.left + fraction * (self.right - self.left)

    def add_text_label(self, x: float, y: float, text: str, css: str = "small", anchor: str = "middle") -> None:
        """Add a text label to the chart at a position in pixels.

        ``anchor`` is start, middle or end.
        """
        self.add_text(css, x, y, text, anchor)

    def add_row_name(self, y: float, name: str, note: str = "", kind: str = "host") -> None:
        """Add the label of a row, such as a host name, to the timeline chart, to the left of the time axis.

        The note is below it. A long name is shortened.
        """
        shown_name = name if len(name) <= _MAXIMUM_NAME_LENGTH or note else f"{name[: _MAXIMUM_NAME_LENGTH - 1]}…"
        self.add_text(kind, self.left - 10, y, shown_name, "end", name if shown_name != name else "")
        if note:
            self.add_text_label(self.left - 10, y + 14, note, anchor="end")

    def add_bar(self, kind: str, began: float, ended: float, tooltip: str = "", height: float = 12) -> None:
        """Add a bar to the current row of the timeline chart, for the time from ``began`` to ``ended``.

        It is at least one pixel wide. ``height`` is in pixels.
        """
        x = self.horizontal_position(began)
        self.add_rect(kind, x, self.height, max(1.0, self.horizontal_position(ended) - x), height, tooltip)

    def add_pair_name(self, name: str) -> float:
        """Add the name of a broker pair to the timeline chart, and return the vertical position of the name.

        It is above the rows of its hosts. The position is for ``add_vertical_mark_through_rows_of_pair``.
        """
        self.add_row_name(self.height + 12, name, kind="pair")
        self._end_of_last_number = 0.0
        self.height += 18
        return self.height - 18

    def add_vertical_mark_through_rows_of_pair(
        self, kind: str, time: float, number: str, tooltip: str, top: float, shaded_until: float = 0
    ) -> None:
        """Add a vertical line at a time through the rows of a pair in the chart.

        The number is omitted where it has no room. Classes are ``KIND-line`` and
        ``KIND-number``. The rows are shaded until ``shaded_until``.
        """
        x, half = self.horizontal_position(time), _HALF_DIGIT_WIDTH * len(number) + 2
        if (width := self.horizontal_position(shaded_until) - x) >= 1.5:
            self.add_rect("gap", x, top + 14, width, self.height - top - 14, tooltip)
        self.add_line(f"{kind}-line", x, top + 14, x, self.height, tooltip)
        if x - half >= self._end_of_last_number:
            self.add_text_label(x, top + 11, number, f"{kind}-number")
            self._end_of_last_number = x + half

    def add_time_axis(self, ticks: Iterable[tuple[float, str]], caption: str) -> SvgChart:
        """Add the time axis to the chart: grid lines, labels and a caption.

        They are behind the other shapes. The chart is returned.
        """
        elements, self._elements = self._elements, []
        for time, label in ticks:
            x = self.horizontal_position(time)
            self.add_line("grid", x, 6, x, self.height)
            self.add_text_label(x, self.height + 15, label)
        self.add_text_label((self.left + self.right) / 2, self.height + 31, caption)
        self._elements += elements
        self.height += 36
        return self


def add_scraped_availability_row(chart: SvgChart, scraped: ScrapedAvailability, pair: str) -> None:
    """Add a row to a timeline chart: the periods in which scraped metrics showed an active node of a pair, or none."""
    chart.add_text_label(chart.left - 10, chart.height + 8, "by scrapes", anchor="end")
    for period in scraped.active:
        if period.pair == pair:
            chart.add_bar("s-active", period.began, period.ended, f"{period.host}: active in every scrape", height=8)
    for gap in scraped.unserved:
        if gap.pair == pair:
            chart.add_bar("silence", gap.began, gap.ended, f"no active node for {gap.downtime_seconds:.1f} s", height=8)
    chart.height += 14


def tick_interval_seconds(length: float, most: int) -> int:
    """Return the interval between two ticks of a time axis in seconds.

    The axis has at most ``most`` steps, and a long axis steps by whole days.
    """
    return next((step for step in _TICK_STEPS if length / step <= most), 86400 * math.ceil(length / 86400 / most))
