"""Draw the load balancers of a group: a box for each, with its host and the virtual address it holds.

Each box has a line to the frame around the group's pairs, because an address stands for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet.diagram.canvas import Canvas, decimal
from activemq_fleet.diagram.lines import arrow_head
from activemq_fleet.diagram.scene import BalancerView
from activemq_fleet.diagram.text import shorten, width_of

PAD = 12.0
_HEIGHT, _GAP, _INDENT, _TRUNK, _DROP = 36.0, 6.0, 22.0, 8.0, 16.0
_MOST_WIDTH = 340.0


class BalancerBoxes:
    """The boxes of a group's load balancers, stacked above a frame around the group's pairs.

    ``extra`` is the height (pixels) that boxes and frame need above the group's content, which begins ``PAD`` below the
    top of the frame; ``foot`` is the height below; ``width`` is the width of the boxes.
    """

    def __init__(self, views: Sequence[BalancerView]) -> None:
        self._views = views
        self.extra = len(views) * (_HEIGHT + _GAP) - _GAP + _DROP + PAD if views else 0.0
        self.foot = PAD if views else 0.0
        self.width = min(_MOST_WIDTH, max(map(_natural_width, views))) + _INDENT if views else 0.0

    def draw(self, canvas: Canvas, width: float, height: float) -> None:
        """Draw the balancers' boxes and the frame from (0, 0), for group content ``height`` pixels high
        and a frame ``width`` wide.
        """
        if not self._views:
            return
        top = self.extra - PAD
        canvas.rect(0, top, width, height + 2 * PAD, "balanced", 10)
        for position, view in enumerate(self._views):
            y = position * (_HEIGHT + _GAP)
            with canvas.group(view.tooltip):
                canvas.path(
                    f"M{decimal(_INDENT)} {decimal(y + _HEIGHT / 2)}H{decimal(_TRUNK)}V{decimal(top - 7)}",
                    "balances",
                )
                canvas.path(arrow_head((_TRUNK, y), (_TRUNK, top)), "head-balances")
                _draw_box(canvas, view, y, min(width, self.width) - _INDENT)


def _natural_width(view: BalancerView) -> float:
    return max(width_of(view.host, "label") + 20, width_of(view.served, "small") + 20)


def _draw_box(canvas: Canvas, view: BalancerView, y: float, width: float) -> None:
    canvas.rect(_INDENT, y, width, _HEIGHT, "balancer", 6)
    room = width - 20
    canvas.text(_INDENT + 10, y + 15, shorten(view.host, "label", room), "label ink")
    canvas.text(_INDENT + 10, y + 29, shorten(view.served, "small", room), "small muted")


def draw_idle(canvas: Canvas, hosts: Sequence[str], x: float, y: float, width: float) -> float:
    """Draw boxes for balancers without a virtual address in rows; return the height of all rows in pixels."""
    left, top = x, y
    for host in hosts:
        view = BalancerView(host, "", "no address", (), 0, masters_only=False)
        needed = min(_MOST_WIDTH, _natural_width(view))
        if left > x and left + needed > x + width:
            left, top = x, top + _HEIGHT + _GAP
        with canvas.group(f"load balancer {host}: it holds no address"):
            canvas.rect(left, top, needed, _HEIGHT, "balancer", 6)
            canvas.text(left + 10, top + 15, shorten(host, "label", needed - 20), "label ink")
            canvas.text(left + 10, top + 29, view.address, "small muted")
        left += needed + _GAP
    return top + _HEIGHT + 18 - y
