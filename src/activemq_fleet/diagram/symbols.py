"""Draw the symbols that cards and legend share: star, store, badge."""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet.diagram.canvas import Canvas, decimal
from activemq_fleet.diagram.text import width_of
from activemq_fleet.findings import Finding

_STAR = (
    (0, -6), (1.7, -2), (6, -1.9), (2.7, 0.9), (3.7, 5.2), (0, 2.8),
    (-3.7, 5.2), (-2.7, 0.9), (-6, -1.9), (-1.7, -2),
)  # fmt: skip
_MOST_SAID = 10


def draw_star(canvas: Canvas, x: float, y: float, *, filled: bool) -> None:
    """Draw a star of twelve pixels with its middle at (x, y); a ``filled`` star marks the preferred master."""
    first, *others = (f"{decimal(x + dx)} {decimal(y + dy)}" for dx, dy in _STAR)
    canvas.path(f"M{first}L{'L'.join(others)}Z", "star" if filled else "star-open")


def draw_cylinder(canvas: Canvas, x: float, y: float, width: float, height: float) -> None:
    """Draw a cylinder, the symbol of a store, with its upper left corner at (x, y)."""
    half, flat = decimal(width / 2), 3.6
    lid = f"M{decimal(x)} {decimal(y + flat)}"
    side = decimal(height - 2 * flat)
    canvas.path(
        f"{lid}v{side}a{half} {flat} 0 0 0 {decimal(width)} 0v-{side}a{half} {flat} 0 0 0 {decimal(-width)} 0Z",
        "store",
    )
    canvas.path(f"{lid}a{half} {flat} 0 0 0 {decimal(width)} 0", "thin tie")


def badge_text(findings: Sequence[Finding]) -> str:
    """Return a broker's badge text: the rule of its worst finding and the number of its other
    findings, as in ``T006 +2``.
    """
    more = len(findings) - 1
    return findings[0].rule + (f" +{more}" if more else "")


def badge_width(text: str) -> float:
    """Return the width of a badge with this text in pixels."""
    return width_of(text, "badge") + 12


def draw_badge(canvas: Canvas, right: float, middle: float, text: str, severity: str) -> None:
    """Draw a badge whose right end is at ``right``, coloured by ``severity``: a finding's severity or ``waived``."""
    width = badge_width(text)
    canvas.rect(right - width, middle - 8, width, 16, f"badge-{severity}", 8)
    canvas.text(right - width / 2, middle + 3.6, text, "badge on-badge", "middle")


def badge_tooltip(findings: Sequence[Finding]) -> str:
    """Return the tooltip text of a badge: a line for each finding, at most ten."""
    shown = findings[:_MOST_SAID]
    lines = [f"{f.severity if f.waived is None else 'waived'} {f.rule}: {f.message}" for f in shown]
    return "\n".join([*lines, f"and {len(findings) - _MOST_SAID} more"] if len(findings) > _MOST_SAID else lines)
