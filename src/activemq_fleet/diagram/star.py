"""Lay out a star: a group to which many groups are linked beside rows of those groups.

The lines run together along a trunk and above each row, with a caption above each box; two dozen separate lines could
not be followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from activemq_fleet.diagram.boxes import GroupBox
from activemq_fleet.diagram.canvas import Point
from activemq_fleet.diagram.captions import caption
from activemq_fleet.diagram.layout import Label, Layout, layout_cost
from activemq_fleet.diagram.lines import Stroke
from activemq_fleet.diagram.scene import Connection, Flow
from activemq_fleet.diagram.text import width_of, wrap

_LEAST_SPOKES = 5
_GAP, _CHANNEL, _ABOVE, _TRUNK, _DROP, _LINE = 26.0, 46.0, 12.0, 36.0, 22.0, 15.0
_BACK: Mapping[Flow, Flow] = {
    "forward": "backward", "backward": "forward", "duplex": "duplex", "each way": "each way",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Star:
    """A group in the middle and the groups linked to it; a spoke's connection is None where it has none."""

    hub: GroupBox
    spokes: tuple[tuple[GroupBox, Connection | None], ...]

    @classmethod
    def of(cls, boxes: Sequence[GroupBox], between: Sequence[Connection]) -> Star | None:
        """Return the star that the connections make.

        Returns None unless at least five connections, of one kind and direction, join one group with different groups.
        """
        ends = [{connection.a, connection.b} for connection in between]
        shared = set.intersection(*ends) if ends else set()
        if len(between) < _LEAST_SPOKES or len(shared) != 1:
            return None
        (name,) = shared
        by_spoke = {connection.b if connection.a == name else connection.a: connection for connection in between}
        looks = {(c.kind, c.flow if c.a == name else _BACK[c.flow]) for c in between}
        if len(by_spoke) < len(between) or len(looks) > 1:
            return None
        hub = next(box for box in boxes if box.view.name == name)
        return cls(hub, tuple((box, by_spoke.get(box.view.name)) for box in boxes if box is not hub))

    def layout(self) -> Layout:
        """Return the star's layout in the number of columns that makes the picture largest on paper."""
        counts = {-(-len(self.spokes) // rows) for rows in range(1, len(self.spokes) + 1)}
        return min((self._in_columns(count) for count in sorted(counts)), key=layout_cost)

    def _in_columns(self, columns: int) -> Layout:
        left = self.hub.width + 2 * _TRUNK
        sizes = {box.view.name: len(box.view.pairs) for box, _ in (*self.spokes, (self.hub, None))}
        captions = {box.view.name: _caption_lines(box, connection, sizes) for box, connection in self.spokes}
        channel = _CHANNEL + _LINE * (max(map(len, captions.values())) - 1)
        starts = [left]
        for column in range(min(columns, len(self.spokes))):
            starts.append(starts[-1] + max(box.width for box, _ in self.spokes[column::columns]) + _GAP)
        result = Layout(boxes=[(self.hub, (0.0, channel), self.hub.height)])
        start = (self.hub.width, channel + self.hub.height / 2)
        y = 0.0
        for first in range(0, len(self.spokes), columns):
            row = self.spokes[first : first + columns]
            y += channel
            height = max(box.height for box, _ in row)
            for column, (box, connection) in enumerate(row):
                x = starts[column]
                result.boxes.append((box, (x, y), height))
                if connection:
                    end = (x + _DROP, y)
                    result.strokes.append(self._stroke(connection, start, end, y - channel + _ABOVE))
                    _write(result, captions[box.view.name], end)
            y += height
        result.width = starts[-1] - _GAP
        result.height = max(y, channel + self.hub.height)
        return result

    def _stroke(self, connection: Connection, start: Point, end: Point, lane: float) -> Stroke:
        trunk = start[0] + _TRUNK
        points = (start, (trunk, start[1]), (trunk, lane), (end[0], lane), end)
        flow = connection.flow if connection.a == self.hub.view.name else _BACK[connection.flow]
        return Stroke(points, connection.kind, flow, connection.tooltip)


def _caption_lines(box: GroupBox, connection: Connection | None, sizes: Mapping[str, int]) -> list[str]:
    """Return a connection's caption, wrapped to the width of the spoke's box."""
    words = caption(connection, sizes) if connection else []
    return wrap(words, "label", box.width - _DROP - 20, " · ")


def _write(result: Layout, lines: list[str], end: Point) -> None:
    if lines:
        middle = end[0] + 14 + max(width_of(line, "label") for line in lines) / 2
        result.labels.append(Label((middle, end[1] - 10 - _LINE * (len(lines) - 1)), lines))
