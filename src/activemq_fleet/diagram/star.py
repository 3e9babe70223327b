"""Place a star: a box to which many boxes are linked, next to rows of those boxes.

The lines run together along a trunk and above each row, with a caption above each box; two dozen separate lines could
not be followed.
"""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet.canvas import Point, text_width, wrap_words
from activemq_fleet.diagram.grid import place_in_grid
from activemq_fleet.diagram.layout_model import (
    LINE_HEIGHT,
    Caption,
    Captions,
    DiagramLayout,
    DrawableBox,
    PaperSheet,
    Rectangle,
    most_readable_layout,
)
from activemq_fleet.diagram.scene import DrawnConnection

_MIN_SPOKES = 5
# The lane of the first row is at the height of the middle of a small hub, so the line between them is straight.
_LANE, _TRUNK, _DROP, _CAPTION_MARGIN = 18.0, 36.0, 22.0, 20.0


def hub_box_name(connections: Sequence[DrawnConnection]) -> str | None:
    """Return the name of the hub, the box of a picture at which all connections meet, or None.

    Each connection leads to a different box. Returns None unless there are at least five, of one kind and direction.
    """
    if len(connections) < _MIN_SPOKES:
        return None
    shared = set.intersection(*({connection.a, connection.b} for connection in connections))
    ends = {name for connection in connections for name in (connection.a, connection.b)}
    if len(shared) != 1 or len(ends) != len(connections) + 1:
        return None
    (hub,) = shared
    one_way = {(c.kind, c.flow, c.a == hub if c.flow in ("forward", "backward") else None) for c in connections}
    return hub if len(one_way) == 1 else None


def place_star(
    hub: DrawableBox,
    spokes: Sequence[DrawableBox],
    connections: Sequence[DrawnConnection],
    gap: Point,
    sheet: PaperSheet,
    captions: Captions = lambda _: [],
) -> DiagramLayout:
    """Place the boxes of a picture as a star (a hub and its spokes), and return the placement.

    The hub is next to rows of the other boxes, each joined to the hub. ``gap`` is the room (pixels) between columns and
    rows; their number is chosen for ``sheet``.
    """
    spoke_names = [c.b if c.a == hub.name else c.a for c in connections]
    room = min(box.width for box in spokes) - _DROP - _CAPTION_MARGIN
    texts = [wrap_words(captions(connection), "label", room, " · ") for connection in connections]
    channel = gap[1] + LINE_HEIGHT * max(map(len, texts))
    offset = hub.width + 2 * _TRUNK
    placement = most_readable_layout(
        len(spokes), lambda columns: place_in_grid(spokes, columns, (gap[0], channel)), sheet
    )
    placement.boxes = [(box, area._replace(x=area.x + offset, y=area.y + channel)) for box, area in placement.boxes]
    top = 0.0 if hub.height <= 2 * _LANE else channel
    placement.boxes.append((hub, Rectangle(0.0, top, hub.width, hub.height)))
    placement.width += offset
    placement.height = channel + max(placement.height, hub.height)
    areas, start = placement.areas_by_box, (hub.width, top + hub.height / 2)
    for number, (connection, name, text) in enumerate(zip(connections, spoke_names, texts, strict=True)):
        earlier_count = spoke_names[:number].count(name)  # a second connection runs next to the first
        trunk, lane = hub.width + _TRUNK - 9 * earlier_count, areas[name].y - channel + _LANE - 9 * earlier_count
        x, y = areas[name].x + _DROP + 18 * earlier_count, areas[name].y
        points = list(dict.fromkeys([start, (trunk, start[1]), (trunk, lane), (x, lane), (x, y)]))
        placement.lines.append((connection, points if connection.a == hub.name else points[::-1]))
        if text:
            middle = x + 14 + max(text_width(line, "label") for line in text) / 2
            placement.labels.append(Caption((middle, y - 10 - LINE_HEIGHT * (len(text) - 1)), text))
    return placement
