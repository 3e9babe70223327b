"""Place boxes in rows, and the lines between them so that none crosses a box.

A line between neighbours of a row is straight. Any other line runs in the channels above and below rows, where it has a
lane of its own, and from channel to channel along the left edge. Its caption stands above its lane.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

from activemq_fleet.diagram.canvas import Point
from activemq_fleet.diagram.lines import Stroke
from activemq_fleet.diagram.placement import LINE_HEIGHT, Box, Label, Placement, place_in_grid
from activemq_fleet.diagram.scene import Connection
from activemq_fleet.diagram.text import width_of, wrap

_GAP, _LINE_GAP, _MARGIN, _SIDE = 26.0, 60.0, 16.0, 16.0
# Lines leave a box below at multiples of this, and a box above halfway between: lines of two boxes never meet.
_SLOT = 24.0
_LANE, _LANE_WITHOUT_CAPTION, _CAPTION_WIDTH = 26.0, 18.0, 132.0
# A caption's patch, above its lane, and the room to a line that passes it.
_PATCH_TOP, _PATCH_BOTTOM, _PASSING = 18.0, 3.0, 8.0

Captions = Callable[[Connection], list[str]]


def place_in_rows(
    boxes: Sequence[Box], connections: Sequence[Connection], columns: int, captions: Captions = lambda _: []
) -> Placement:
    """Return boxes placed in rows of ``columns``, with a line for each connection; the function
    ``captions`` gives a line's caption.
    """
    return _Rows(boxes, connections, columns, captions).placement


def _order_above(x: float) -> Callable[[tuple[float, int]], tuple[int, float, int]]:
    """Return the sort key of (other end's x, line) by which lines that leave a box at ``x`` upwards cross least.

    From left to right: lines to the left, the nearest first; straight ones; lines to the right, the farthest first.
    """
    return lambda end: ((end[0] > x) - (end[0] < x), -end[0], end[1])


class _Rows:
    """The rows of boxes, numbered from 0; row r lies between the channels r and r + 1."""

    def __init__(
        self, boxes: Sequence[Box], connections: Sequence[Connection], columns: int, captions: Captions
    ) -> None:
        self._spot = {box.name: divmod(number, columns) for number, box in enumerate(boxes)}
        self._captions = captions
        self._straight = [c for c in connections if self._are_neighbours(c)]
        self._routed = [c for c in connections if not self._are_neighbours(c)]
        self._channels = [(self._channel(c.a, c.b), self._channel(c.b, c.a)) for c in self._routed]
        self._ends = self._ends_of_lines()
        self._lane_height = _LANE if any(map(captions, self._routed)) else _LANE_WITHOUT_CAPTION
        self.placement = self._grid(boxes, columns)
        self._areas = self.placement.box_areas
        self._ports = self._ports_of_lines()
        self._lanes = self._lanes_of_lines()
        self._draw_straight()
        self._draw_routed()

    def _are_neighbours(self, connection: Connection) -> bool:
        (row_a, column_a), (row_b, column_b) = self._spot[connection.a], self._spot[connection.b]
        return row_a == row_b and abs(column_a - column_b) == 1

    def _channel(self, name: str, other: str) -> int:
        """Return the channel in which a line to another box leaves the box ``name``."""
        row, other_row = self._spot[name][0], self._spot[other][0]
        return row if other_row <= row else row + 1

    def _is_far(self, line: int) -> bool:
        """Return whether a line runs through two channels, and along the left edge from one to the other."""
        first, second = self._channels[line]
        return first != second

    def _grid(self, boxes: Sequence[Box], columns: int) -> Placement:
        """Return the boxes in rows, with room for lines and captions; a box gets as wide as its lines need."""
        wider: dict[int, float] = defaultdict(float)
        for connection in self._straight:
            needed = max((width_of(line, "label") + 24 for line in self._wrapped(connection)), default=0.0)
            column = max(self._spot[connection.a][1], self._spot[connection.b][1])
            wider[column] = max(wider[column], needed - _GAP, _LINE_GAP - _GAP)
        far = sum(map(self._is_far, range(len(self._routed))))
        wider[0] = far * _SIDE + 10 if far else 0.0
        lines: dict[int, int] = defaultdict(int)
        for channels in self._channels:
            for channel in set(channels):
                lines[channel] += 1
        last = -(-len(boxes) // columns)
        outer = {channel: _GAP if channel in (0, last) else 0.0 for channel in lines}
        lower = {channel: outer[channel] + number * self._lane_height for channel, number in lines.items()}
        widths: dict[str, float] = {}
        for (name, _), ends in self._ends.items():
            widths[name] = max(widths.get(name, 0.0), _SLOT * (len(ends) + 1) + 2 * _MARGIN)
        return place_in_grid(boxes, columns, (_GAP, _GAP), wider, lower, widths)

    def _ends_of_lines(self) -> dict[tuple[str, int], list[tuple[int, str]]]:
        """Return (line, the line's other box) for the lines that leave a box in a channel, by (box, channel)."""
        ends: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        for line, (connection, (first, second)) in enumerate(zip(self._routed, self._channels, strict=True)):
            ends[connection.a, first].append((line, connection.b))
            ends[connection.b, second].append((line, connection.a))
        return ends

    def _ports_of_lines(self) -> dict[tuple[int, str], float]:
        """Return x where a line leaves a box, by (line, box): in an order in which few lines cross."""
        ports = {}
        for (name, channel), ends in self._ends.items():
            area, above = self._areas[name], channel == self._spot[name][0]
            others = [(-math.inf if self._is_far(line) else self._areas[other].x, line) for line, other in ends]
            others.sort(key=_order_above(area.x) if above else None)
            shift = _SLOT / 2 if above else 0.0
            first = math.ceil((area.x + _MARGIN - shift) / _SLOT) * _SLOT + shift
            slots = int((area.right - _MARGIN - first) // _SLOT) + 1
            for number, (_, line) in enumerate(others, 1):
                ports[line, name] = first + _SLOT * (number * (slots + 1) // (len(ends) + 1) - 1)
        for line, connection in enumerate(self._routed):
            x, area = ports[line, connection.a], self._areas[connection.b]
            taken = [other for (number, name), other in ports.items() if name == connection.b and number != line]
            adjacent = self._spot[connection.b][0] - self._spot[connection.a][0] == 1
            free = all(abs(x - other) > _SLOT for other in (area.x, area.right, *taken))
            if adjacent and area.x < x < area.right and free:
                ports[line, connection.b] = x
        return ports

    def _lanes_of_lines(self) -> dict[tuple[int, int], float]:
        """Return y of a line's lane, by (line, channel); shorter lines run nearer to the row below."""
        lengths: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for line, (connection, channels) in enumerate(zip(self._routed, self._channels, strict=True)):
            a, b = self._ports[line, connection.a], self._ports[line, connection.b]
            if self._is_far(line):
                lengths[channels[0]].append((a, line))
                lengths[channels[1]].append((b, line))
            elif a == b and len(self._ends[connection.a, channels[0]]) < len(self._ends[connection.b, channels[0]]):
                lengths[channels[0]].append((math.inf, line))  # its caption has more room above the others' lanes
            else:
                lengths[channels[0]].append((abs(a - b), line))
        tops = {self._spot[name][0]: area.y for name, area in self._areas.items()}
        return {
            (line, channel): tops.get(channel, self.placement.height) - _GAP / 2 - self._lane_height * (lane + 0.5)
            for channel, found in lengths.items()
            for lane, (_, line) in enumerate(sorted(found))
        }

    def _wrapped(self, connection: Connection) -> list[str]:
        """Return a connection's caption, wrapped to the gap between neighbouring boxes."""
        return [part for line in self._captions(connection) for part in wrap(line.split(), "label", _CAPTION_WIDTH)]

    def _draw_straight(self) -> None:
        together: dict[tuple[str, str], list[Connection]] = defaultdict(list)
        for connection in self._straight:
            together[connection.a, connection.b].append(connection)
        for names, connections in together.items():
            left, right = sorted(names, key=self._areas.__getitem__)
            start, end = self._areas[left].right, self._areas[right].x
            step = 24 + LINE_HEIGHT * max(len(self._wrapped(connection)) for connection in connections)
            for number, connection in enumerate(connections):
                y = self._areas[left].y + self._areas[left].height / 2 + (number - (len(connections) - 1) / 2) * step
                points = ((start, y), (end, y)) if connection.a == left else ((end, y), (start, y))
                self.placement.strokes.append(Stroke.of(connection, points))
                lines = self._wrapped(connection)
                middle = (start + end) / 2, y - LINE_HEIGHT * len(lines)
                self.placement.labels.append(Label(middle, lines))

    def _draw_routed(self) -> None:
        sides = 0
        runs = []
        for line, (connection, (first, second)) in enumerate(zip(self._routed, self._channels, strict=True)):
            xa, xb = self._ports[line, connection.a], self._ports[line, connection.b]
            lane_a, lane_b = self._lanes[line, first], self._lanes[line, second]
            start, end = (xa, self._edge(connection.a, first)), (xb, self._edge(connection.b, second))
            points: tuple[Point, ...]
            if first == second:
                points = (start, end) if xa == xb else (start, (xa, lane_a), (xb, lane_a), end)
                runs.append((min(xa, xb), max(xa, xb), lane_a))
            else:
                side = sides * _SIDE + 4
                sides += 1
                points = (start, (xa, lane_a), (side, lane_a), (side, lane_b), (xb, lane_b), end)
                runs.append((side, *max((xa, lane_a), (xb, lane_b))))
            self.placement.strokes.append(Stroke.of(connection, points))
        for connection, run in zip(self._routed, runs, strict=True):
            self._write_caption(self._captions(connection), *run)

    def _edge(self, name: str, channel: int) -> float:
        """Return y of the edge of a box that lies at a channel."""
        return self._areas[name].y if channel == self._spot[name][0] else self._areas[name].bottom

    def _write_caption(self, lines: Sequence[str], left: float, right: float, y: float) -> None:
        """Add the caption of a line whose lane runs from ``left`` to ``right`` at ``y``, where it hides no line.

        A caption without room loses its first lines; the last one is written in any case.
        """
        top, bottom, middle = y - _PATCH_TOP, y - _PATCH_BOTTOM, (left + right) / 2
        passing = [
            x
            for stroke in self.placement.strokes
            for (x, y1), (x2, y2) in pairwise(stroke.points)
            if x == x2 and min(y1, y2) <= bottom and top <= max(y1, y2)
        ]
        for text in (" · ".join(lines[first:]) for first in range(len(lines))):
            half = width_of(text, "label") / 2 + 4
            reach = half + _PASSING
            beside = [x + sign * reach for x in passing for sign in (1, -1)]
            near = [x for x in beside if max(half, left - reach - 1) <= x <= right + reach + 1]
            hidden, _, left_of = min(
                (sum(abs(x - other) < reach - 1 for other in passing), abs(x - middle), -x)
                for x in (max(middle, half), *near)
            )
            if not hidden or text == lines[-1]:
                self.placement.labels.append(Label((-left_of, y - 7), [text]))
                self.placement.width = max(self.placement.width, half - left_of)
                return
