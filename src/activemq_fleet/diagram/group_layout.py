"""Lay out the boxes of groups, and the lines between them.

Boxes stand in rows. Lines run in the gap between neighbours of a row, or in lanes of the channels between rows, or, to
a row farther away, along the left edge; never across a box.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from activemq_fleet.diagram.boxes import GroupBox
from activemq_fleet.diagram.canvas import Point
from activemq_fleet.diagram.caption_positions import ABOVE_LINE, Run, best_caption_position
from activemq_fleet.diagram.captions import caption
from activemq_fleet.diagram.lanes import assign_lanes
from activemq_fleet.diagram.layout import Label, Layout, layout_cost
from activemq_fleet.diagram.lines import Stroke
from activemq_fleet.diagram.scene import Connection
from activemq_fleet.diagram.star import Star
from activemq_fleet.diagram.text import width_of, wrap

MOST_DRAWN = 24
_GAP, _CHANNEL, _LANE, _SIDE, _BEND, _APART = 26.0, 26.0, 26.0, 16.0, 60.0, 12.0
_LABEL_ROOM, _SMALL_LABEL_ROOM, _LEAST_GAP = 132.0, 112.0, 60.0
_MOST_COLUMNS = 24


def choose_layout(boxes: Sequence[GroupBox], between: Sequence[Connection]) -> Layout:
    """Return the layout of boxes and lines whose number of columns makes the boxes largest on paper."""
    if not boxes:
        return Layout()
    star = Star.of(boxes, between)
    if star:
        return star.layout()
    drawn = between if len(between) <= MOST_DRAWN else ()
    columns = {math.ceil(len(boxes) / rows) for rows in range(1, len(boxes) + 1)}
    candidates = [_Rows(boxes, count, drawn) for count in sorted(columns) if count <= _MOST_COLUMNS]
    best = min(candidates, key=lambda rows: (layout_cost(rows.size), rows.columns)).layout()
    best.listed = len(drawn) < len(between)
    return best


class _Rows:
    """A layout candidate: the boxes in rows of ``columns`` boxes."""

    def __init__(self, boxes: Sequence[GroupBox], columns: int, between: Sequence[Connection]) -> None:
        self.columns = columns
        self._boxes = boxes
        self._between = between
        self._rows = [boxes[start : start + columns] for start in range(0, len(boxes), columns)]
        self._spot = {box.view.name: divmod(position, columns) for position, box in enumerate(boxes)}
        self._sizes = {box.view.name: len(box.view.pairs) for box in boxes}
        far = sum(1 for c in between if abs(self._spot[c.a][0] - self._spot[c.b][0]) > 1)
        self._left = far * _SIDE + 10 if far else 0.0
        self._runs: list[Run] = []
        self._x = self._columns()
        self.width = max(self._x[b.view.name] + b.width for b in boxes)
        self._ports = self._ports_of()
        self._lanes, channels = self._channels()
        self._y, self.height = self._heights(channels)

    @property
    def size(self) -> Layout:
        """A layout with the candidate's width and height only, for comparing candidates."""
        return Layout(self.width, self.height)

    def _near(self, connection: Connection) -> bool:
        """Return whether a connection joins neighbours in a row, so that its line is straight."""
        (row_a, column_a), (row_b, column_b) = self._spot[connection.a], self._spot[connection.b]
        return row_a == row_b and abs(column_a - column_b) == 1

    def _columns(self) -> dict[str, float]:
        room: dict[int, float] = defaultdict(lambda: _GAP)
        for connection in self._between:
            if self._near(connection):
                words = max((width_of(line, "label") for line in self._beside(connection)), default=0.0)
                column = min(self._spot[connection.a][1], self._spot[connection.b][1])
                room[column] = max(room[column], words + 24, _LEAST_GAP)
        widths = [max(row[c].width for row in self._rows if c < len(row)) for c in range(len(self._rows[0]))]
        starts = [self._left]
        for column, width in enumerate(widths):
            starts.append(starts[-1] + width + room[column])
        return {name: starts[column] for name, (_, column) in self._spot.items()}

    def _side(self, connection: Connection, name: str) -> int:
        """Return the channel in which a line leaves a box; row r lies between channels r and r + 1."""
        row, other = self._spot[name][0], self._spot[connection.b if name == connection.a else connection.a][0]
        return row if other < row else row + 1

    def _ports_of(self) -> dict[tuple[int, str], float]:
        """Return x of each end of each line that leaves a box at its top or bottom, by (connection, box name)."""
        ends: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        for position, connection in enumerate(self._between):
            if self._near(connection):
                continue
            for name, other in ((connection.a, connection.b), (connection.b, connection.a)):
                ends[name, self._side(connection, name)].append((self._x[other], position))
        width = {box.view.name: box.width for box in self._boxes}
        ports = {}
        for (name, side), found in ends.items():
            # Boxes above and below a channel are often equal: their lines must not meet in it.
            shift = _APART if side == self._spot[name][0] else 0.0
            for index, (_, position) in enumerate(sorted(found)):
                ports[position, name] = self._x[name] + width[name] * (index + 1) / (len(found) + 1) + shift
        return self._kept_apart(self._straightened(ports))

    def _kept_apart(self, ports: dict[tuple[int, str], float]) -> dict[tuple[int, str], float]:
        """Return the line ends moved apart, so that no two lines of a channel start at one point and seem to fork."""
        channels: dict[int, list[tuple[float, int, str]]] = defaultdict(list)
        for (position, name), x in ports.items():
            channels[self._side(self._between[position], name)].append((x, position, name))
        for found in channels.values():
            last: tuple[float, int] | None = None
            for before, position, name in sorted(found):
                x = ports[position, name]
                if last and last[1] != position and x - last[0] < _APART:
                    x = last[0] + _APART
                    connection = self._between[position]
                    other = connection.b if name == connection.a else connection.a
                    if abs(ports[position, other] - before) < 1:  # a straight line stays one
                        ports[position, other] = x
                    ports[position, name] = x
                last = x, position
        return ports

    def _straightened(self, ports: dict[tuple[int, str], float]) -> dict[tuple[int, str], float]:
        """Return the line ends with slightly bent lines made straight, where their end is free to move."""
        widths = {box.view.name: box.width for box in self._boxes}
        for position, connection in enumerate(self._between):
            a, b = (ports.get((position, name)) for name in (connection.a, connection.b))
            apart = self._spot[connection.a][0] != self._spot[connection.b][0]
            if a is None or b is None or not apart or abs(a - b) > _BEND:
                continue
            left, right = self._x[connection.b], self._x[connection.b] + widths[connection.b]
            others = [x for (other, name), x in ports.items() if name == connection.b and other != position]
            if all(abs(x - a) > 2 * _SIDE for x in (left, right, *others)):
                ports[position, connection.b] = a
        return ports

    def _channels(self) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
        """Return the lane of each line by (line, channel), and the number of lanes that each channel needs."""
        spans: dict[int, list[tuple[int, tuple[float, float]]]] = defaultdict(list)
        sides = 0
        for position, connection in enumerate(self._between):
            if self._near(connection):
                continue
            a, b = (self._ports[position, name] for name in (connection.a, connection.b))
            first, second = self._side(connection, connection.a), self._side(connection, connection.b)
            if first == second:
                middle, half = (a + b) / 2, max(abs(a - b) / 2, self._label_width(connection) / 2 + 6)
                spans[first].append((position, (middle - half, middle + half)))
            else:
                side = sides * _SIDE
                sides += 1
                spans[first].append((position, (side, a)))
                spans[second].append((position, (side, b)))
        lanes: dict[tuple[int, int], int] = {}
        needed: dict[int, int] = {}
        for channel, found in spans.items():
            given = assign_lanes([span for _, span in found], apart=12)
            needed[channel] = max(given) + 1
            lanes |= {(position, channel): lane for (position, _), lane in zip(found, given, strict=True)}
        return lanes, needed

    def _beside(self, connection: Connection) -> list[str]:
        """Return a connection's caption, wrapped to the gap between neighbouring boxes."""
        lines = caption(connection, self._sizes)
        room = _SMALL_LABEL_ROOM if self._boxes[0].small else _LABEL_ROOM
        return [part for line in lines for part in wrap(line.split(), "label", room)]

    def _label_width(self, connection: Connection) -> float:
        return width_of(" · ".join(caption(connection, self._sizes)), "label") + 12

    def _heights(self, channels: dict[int, int]) -> tuple[list[float], float]:
        """Return y of the top of each row (the last entry: below the last row), and the total height."""
        tops, y = [], 0.0
        for row, boxes in enumerate([*self._rows, []]):
            lanes = channels.get(row, 0)
            y += _CHANNEL + lanes * _LANE if lanes else (0.0 if row in (0, len(self._rows)) else _GAP)
            tops.append(y)
            y += max((box.height for box in boxes), default=0.0)
        return tops, y

    def _lane_y(self, position: int, channel: int) -> float:
        return self._y[channel] - _CHANNEL / 2 - _LANE * (self._lanes[position, channel] + 0.5)

    def layout(self) -> Layout:
        result = Layout(self.width, self.height)
        height = [max(box.height for box in row) for row in self._rows]
        for box in self._boxes:
            row = self._spot[box.view.name][0]
            result.boxes.append((box, (self._x[box.view.name], self._y[row]), height[row]))
        self._draw_near(result)
        sides = 0
        for position, connection in enumerate(self._between):
            if not self._near(connection):
                sides += self._draw_far(result, position, connection, sides, height)
        for run in self._runs:
            self._label(result, run)
        return result

    def _draw_near(self, result: Layout) -> None:
        together: dict[tuple[str, str], list[Connection]] = defaultdict(list)
        for connection in self._between:
            if self._near(connection):
                together[connection.a, connection.b].append(connection)
        where = {box.view.name: (box, at, height) for box, at, height in result.boxes}
        for (a, b), found in together.items():
            left, right = sorted((a, b), key=lambda name: self._spot[name][1])
            start = where[left][1][0] + where[left][0].width
            end, top = where[right][1]
            middle = top + min(where[left][0].height, where[right][0].height) / 2
            for index, connection in enumerate(found):
                y = middle + (index - (len(found) - 1) / 2) * 84
                points = ((start, y), (end, y)) if connection.a == left else ((end, y), (start, y))
                result.strokes.append(Stroke(points, connection.kind, connection.flow, connection.tooltip))
                lines = self._beside(connection)
                result.labels.append(Label(((start + end) / 2, y - 15 - 15 * (len(lines) - 1)), lines))

    def _draw_far(self, result: Layout, position: int, connection: Connection, sides: int, height: list[float]) -> int:
        """Draw a line through channels between rows; return 1 where it runs along the left edge, otherwise 0."""
        ends: list[Point] = []
        points: tuple[Point, ...]
        for name in (connection.a, connection.b):
            row, channel = self._spot[name][0], self._side(connection, name)
            y = self._y[row] if channel == row else self._y[row] + height[row]
            ends.append((self._ports[position, name], y))
        (xa, ya), (xb, yb) = ends
        first, second = self._side(connection, connection.a), self._side(connection, connection.b)
        lane_a, lane_b = self._lane_y(position, first), self._lane_y(position, second)
        if first == second:
            points = ((xa, ya), (xb, yb)) if abs(xa - xb) < 1 else ((xa, ya), (xa, lane_a), (xb, lane_a), (xb, yb))
            self._runs.append(Run(connection, min(xa, xb), max(xa, xb), lane_a))
        else:
            side = sides * _SIDE + 4
            points = ((xa, ya), (xa, lane_a), (side, lane_a), (side, lane_b), (xb, lane_b), (xb, yb))
            x, y = max((xa, lane_a), (xb, lane_b))
            self._runs.append(Run(connection, side, x, y))
        result.strokes.append(Stroke(points, connection.kind, connection.flow, connection.tooltip))
        return int(first != second)

    def _label(self, result: Layout, run: Run) -> None:
        """Place a line's caption where it covers least; a caption too long, or over a line, loses its first lines."""
        lines = caption(run.connection, self._sizes)
        texts = (" · ".join(lines[start:]) for start in range(len(lines)))
        halves = {text: width_of(text, "label") / 2 + 6 for text in texts}
        # Beside a straight line the picture may become wider: its caption says it all.
        room = math.inf if run.left == run.right else self.width
        positions = {
            text: best_caption_position(run, half, result, room) for text, half in halves.items() if 2 * half <= room
        }
        if positions:
            text = min(positions, key=lambda text: positions[text][0])
            where = positions[text][1]
            result.width = max(result.width, where + halves[text])
            result.labels.append(Label((where, run.y - ABOVE_LINE), [text]))
