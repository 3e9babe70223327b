"""Place the boxes of groups, and the lines between them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from activemq_fleet.diagram.boxes import GroupBox
from activemq_fleet.diagram.captions import caption
from activemq_fleet.diagram.placement import Placement, Sheet, column_counts, most_readable
from activemq_fleet.diagram.rows import place_in_rows
from activemq_fleet.diagram.scene import Connection
from activemq_fleet.diagram.star import hub_of, place_star

MOST_DRAWN = 24
# Paper of the A sizes; heading and legend take about so many pixels of its height.
_PAPER = Sheet(math.sqrt(2), 240)


def place_groups(boxes: Sequence[GroupBox], between: Sequence[Connection]) -> Placement:
    """Return the most readable positions, on a sheet of paper, of group boxes and of the lines between them.

    More connections than ``MOST_DRAWN`` are not drawn, unless they all lead to one group.
    """
    if not boxes:
        return Placement()
    sizes = {box.name: len(box.view.pairs) for box in boxes}
    hub = hub_of(between)
    if hub is not None:
        captions = {(c.b if c.a == hub else c.a): caption(c, sizes) for c in between}
        return place_star(hub, boxes, between, (26, 31), _PAPER, captions)
    drawn = between if len(between) <= MOST_DRAWN else ()
    counts = column_counts(len(boxes))
    return most_readable(
        (place_in_rows(boxes, drawn, columns, lambda c: caption(c, sizes)) for columns in counts), _PAPER
    )


def are_too_many_to_draw(between: Sequence[Connection]) -> bool:
    """Return whether connections between groups are too many to be drawn as lines, and must be listed as text."""
    return len(between) > MOST_DRAWN and hub_of(between) is None
