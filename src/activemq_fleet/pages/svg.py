"""Write parts of a report's drawings as SVG: scales, texts, the patterns of states."""

from __future__ import annotations

from collections.abc import Iterable

from activemq_fleet.printable import escape_html

WIDTH = 1000
"""The width of every drawing, in its own units."""

PATTERNS = (
    '<svg width="0" height="0" class="defs" aria-hidden="true"><defs>'
    '<pattern id="p-starting" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="p-ground"/><rect width="2.5" height="6" class="p-starting"/></pattern>'
    '<pattern id="p-hung" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<rect width="5" height="5" class="p-ground"/><rect width="3" height="5" class="p-hung"/></pattern>'
    "</defs></svg>"
)

"""SVG patterns of the states, to be put on a page once, so that states differ by more than colour."""


class Scale:
    """A linear scale from seconds to pixels; times outside ``began`` to ``ended`` are clamped."""

    def __init__(self, began: float, ended: float, left: float, right: float) -> None:
        self.began, self.ended, self.left, self.right = began, ended, left, right

    def __call__(self, moment: float) -> float:
        share = (min(max(moment, self.began), self.ended) - self.began) / (self.ended - self.began)
        return self.left + share * (self.right - self.left)


def text(x: float, y: float, said: str, kind: str, anchor: str = "start", most: int | None = None) -> str:
    """Return an SVG text; ``anchor`` is start, middle or end; text longer than ``most`` is cut, with a tooltip."""
    shown = said if most is None or len(said) <= most else f"{said[: most - 1]}…"
    title = f"<title>{escape_html(said)}</title>" if shown != said else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{title}{escape_html(shown)}</text>'


def svg(height: float, title: str, parts: Iterable[str]) -> str:
    """Return an SVG drawing as wide as its page; ``title`` describes the drawing to screen readers."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape_html(title)}">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )
