"""Write SVG elements, one on each line, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from activemq_fleet.node.printable import escape_html

Point = tuple[float, float]


def decimal(value: float) -> str:
    """Return a number as text with at most one decimal, so that the same picture has the
    same bytes on every machine.
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


class Canvas:
    """A collector of SVG elements; ``css`` is one or more classes of the style sheet, lengths are in pixels."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, css: str, radius: float = 0) -> None:
        """Add a rectangle with its upper left corner at (x, y) and corners rounded by ``radius``."""
        rounded = f' rx="{decimal(radius)}"' if radius else ""
        self._lines.append(
            f'<rect class="{css}" x="{decimal(x)}" y="{decimal(y)}" '
            f'width="{decimal(width)}" height="{decimal(height)}"{rounded}/>'
        )

    def text(self, x: float, y: float, content: str, css: str, anchor: str = "start") -> None:
        """Add a text whose baseline is at ``y``; ``anchor`` is start, middle or end."""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._lines.append(
            f'<text class="{css}" x="{decimal(x)}" y="{decimal(y)}"{where}>{escape_html(content)}</text>'
        )

    def path(self, d: str, css: str) -> None:
        """Add a path; ``d`` is SVG path data."""
        self._lines.append(f'<path class="{css}" d="{d}"/>')

    def circle(self, x: float, y: float, radius: float, css: str) -> None:
        """Add a circle around (x, y)."""
        self._lines.append(f'<circle class="{css}" cx="{decimal(x)}" cy="{decimal(y)}" r="{decimal(radius)}"/>')

    @contextmanager
    def group(self, title: str = "", at: Point | None = None) -> Iterator[None]:
        """Group the elements added within the context; ``title`` is read by screen readers and shown as a tooltip."""
        moved = f' transform="translate({decimal(at[0])} {decimal(at[1])})"' if at else ""
        self._lines.append(f"<g{moved}>")
        if title:
            self._lines.append(f"<title>{escape_html(title)}</title>")
        yield
        self._lines.append("</g>")

    def __str__(self) -> str:
        return "\n".join(self._lines)
