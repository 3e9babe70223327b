"""Place a star: a box to which many boxes are linked, beside rows of those boxes.

The lines run together along a trunk and above each row, with a caption above each box; two dozen separate lines could
not be followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from activemq_fleet.diagram.lines import Stroke
from activemq_fleet.diagram.placement import (
    LINE_HEIGHT,
    Area,
    Box,
    Label,
    Placement,
    Sheet,
    column_counts,
    most_readable,
    place_in_grid,
)
from activemq_fleet.diagram.scene import Connection
from activemq_fleet.diagram.text import width_of, wrap

_LEAST_SPOKES = 5
_ABOVE, _TRUNK, _DROP, _BESIDE_LINE = 12.0, 36.0, 22.0, 20.0


def hub_of(connections: Sequence[Connection]) -> str | None:
    """Return the name of the group or pair at which all connections meet, when each leads to a different box.

    Returns None unless there are at least five, of one kind and direction.
    """
    ends = [{connection.a, connection.b} for connection in connections]
    shared = set.intersection(*ends) if ends else set()
    if len(connections) < _LEAST_SPOKES or len(shared) != 1:
        return None
    (name,) = shared
    looks = {(connection.kind, connection.flow_from(name)) for connection in connections}
    return name if len(set.union(*ends)) == len(connections) + 1 and len(looks) == 1 else None


def place_star(
    hub: str,
    boxes: Sequence[Box],
    connections: Sequence[Connection],
    gap: tuple[float, float],
    sheet: Sheet,
    captions: Mapping[str, list[str]] | None = None,
) -> Placement:
    """Return the placement of a hub and its spokes: the box named ``hub`` beside rows of the other
    boxes, each joined to it.

    ``gap`` is the room (pixels) between columns and rows; their number is chosen for ``sheet``. ``captions``
    are the captions of lines, by the name of the other box.
    """
    middle = next(box for box in boxes if box.name == hub)
    spokes = [box for box in boxes if box is not middle]
    lines = {
        box.name: wrap((captions or {}).get(box.name, ()), "label", box.width - _DROP - _BESIDE_LINE, " · ")
        for box in spokes
    }
    channel = gap[1] + LINE_HEIGHT * max(map(len, lines.values()))
    left = middle.width + 2 * _TRUNK

    def in_columns(columns: int) -> Placement:
        placement = place_in_grid(spokes, columns, (gap[0], channel), {0: left}, {0: channel})
        placement.height = max(placement.height, channel + middle.height + middle.hanging)
        return placement

    placement = most_readable(map(in_columns, column_counts(len(spokes))), sheet)
    areas = placement.box_areas
    placement.boxes.insert(0, (middle, Area(0.0, channel, middle.width, middle.height)))
    start = middle.width, channel + middle.height / 2
    drawn: dict[str, int] = {}
    for connection in connections:
        name = connection.b if connection.a == hub else connection.a
        again = drawn[name] = drawn.get(name, -1) + 1  # a second connection runs beside the first
        trunk, lane = middle.width + _TRUNK - 9 * again, areas[name].y - channel + _ABOVE - 9 * again
        end = areas[name].x + _DROP + 18 * again, areas[name].y
        points = (start, (trunk, start[1]), (trunk, lane), (end[0], lane), end)
        placement.strokes.append(Stroke(points, connection.kind, connection.flow_from(hub), connection.tooltip))
    for name, caption in lines.items():
        if caption:
            x = areas[name].x + _DROP + 14 + max(width_of(line, "label") for line in caption) / 2
            y = areas[name].y - 10 - LINE_HEIGHT * (len(caption) - 1)
            placement.labels.append(Label((x, y), caption))
    return placement
