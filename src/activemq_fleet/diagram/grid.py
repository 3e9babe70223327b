"""Place boxes in a grid, and the lines between them so that none crosses a box.

A line between neighbors is straight. Any other line runs in the channels above and below rows, where it has a separate
lane, and from channel to channel along the left edge. Its caption is above its lane.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate, pairwise

from activemq_fleet.canvas import Point, text_width, wrap_words
from activemq_fleet.diagram.layout_model import LINE_HEIGHT, Caption, Captions, DiagramLayout, DrawableBox, Rectangle
from activemq_fleet.diagram.scene import DrawnConnection

# The space for a straight line, around lanes, for a lane along the left edge, and from the corner of a box to a line.
_LINE_GAP, _LANE_GAP, _SIDE_LANE_WIDTH, _MARGIN = 26.0, 26.0, 16.0, 16.0
# Lines leave a lower box at multiples of this, and an upper box halfway between, so lines of two boxes never meet.
_SLOT_WIDTH = 24.0
_LANE, _LANE_WITHOUT_CAPTION, _CAPTION_WIDTH = 26.0, 18.0, 132.0
# The area of a caption above its lane, and the distance to a line that passes it.
_CAPTION_AREA_TOP, _CAPTION_AREA_BOTTOM, _PASSING_DISTANCE = 18.0, 3.0, 8.0


def place_in_grid(
    boxes: Sequence[DrawableBox],
    columns: int,
    gap: Point,
    connections: Sequence[DrawnConnection] = (),
    captions: Captions = lambda _: [],
    *,
    alternating: bool = False,
) -> DiagramLayout:
    """Place the boxes of a picture in a grid, and return the placement.

    ``columns`` is the number of columns of the grid. Boxes are placed row by row, with a line for each connection. The
    boxes of a row become equally high, and those of a column equally wide. ``gap`` is the least room (pixels) between
    columns and rows. With ``alternating`` every second row runs from right to left, so that boxes that follow each
    other are neighbors.
    """
    cells = {}
    for number, box in enumerate(boxes):
        row, column = divmod(number, columns)
        cells[box.name] = (row, columns - 1 - column if alternating and row % 2 else column)
    grid = _Grid(cells, connections, captions)
    grid.place_boxes(boxes, gap)
    grid.connect_neighboring_boxes()
    grid.connect_distant_boxes()
    return grid.placement


class _Grid:
    """A grid of the boxes of a picture; ``cells`` are their (row, column).

    Row r, counted from 0, lies between the channels r and r + 1. A line is the number of a routed connection;
    ``_channels`` are those at its ends ``a`` and ``b``, and ``_ends`` the lines of a box in a channel, with the box at
    their other end. ``_vertical_counts`` counts the straight lines of a box in a channel; they leave it near its
    middle.
    """

    def __init__(
        self, cells: dict[str, tuple[int, int]], connections: Sequence[DrawnConnection], captions: Captions
    ) -> None:
        self.placement = DiagramLayout()
        self._cells, self._captions = cells, captions
        self._straight: dict[tuple[str, str], list[DrawnConnection]] = defaultdict(list)
        self._routed: list[DrawnConnection] = []
        self._vertical_counts: Counter[tuple[str, int]] = Counter()
        for connection in connections:
            a, b = connection.a, connection.b
            is_vertical = cells[a][1] == cells[b][1] and self._are_neighbors(connection)
            if is_vertical:
                self._vertical_counts.update(((a, self._exit_channel(a, b)), (b, self._exit_channel(b, a))))
            if self._are_neighbors(connection) and not (is_vertical and captions(connection)):
                self._straight[a, b].append(connection)
            else:
                self._routed.append(connection)
        self._channels = [(self._exit_channel(c.a, c.b), self._exit_channel(c.b, c.a)) for c in self._routed]
        self._ends: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        for line, (connection, (first, second)) in enumerate(zip(self._routed, self._channels, strict=True)):
            self._ends[connection.a, first].append((line, connection.b))
            self._ends[connection.b, second].append((line, connection.a))
        self._lane_height = _LANE if any(map(captions, self._routed)) else _LANE_WITHOUT_CAPTION

    def _are_neighbors(self, connection: DrawnConnection) -> bool:
        """Return whether the boxes of a connection are side by side, or one is below the other."""
        (row_a, column_a), (row_b, column_b) = self._cells[connection.a], self._cells[connection.b]
        return abs(row_a - row_b) + abs(column_a - column_b) == 1

    def _exit_channel(self, name: str, other: str) -> int:
        """Return the channel in which a line to another box leaves the box ``name``."""
        row, other_row = self._cells[name][0], self._cells[other][0]
        return row if other_row <= row else row + 1

    def _uses_left_edge(self, line: int) -> bool:
        """Return whether a line runs through two channels, and along the left edge from one to the other."""
        return self._channels[line][0] != self._channels[line][1]

    def place_boxes(self, boxes: Sequence[DrawableBox], gap: Point) -> None:
        """Compute the position and size of each box from its row and column, and add them to ``placement``.

        Between the boxes there is room for lines and captions.
        """
        column_gaps, row_gaps = defaultdict[int, float](lambda: gap[0]), defaultdict[int, float](lambda: gap[1])
        widths, heights = defaultdict[int, float](float), defaultdict[int, float](float)
        for box in boxes:
            row, column = self._cells[box.name]
            widths[column], heights[row] = max(widths[column], box.width), max(heights[row], box.height)
        for (name, channel), ends in self._ends.items():
            column, slots = self._cells[name][1], len(ends) + 3 * self._vertical_counts[name, channel] + 3
            widths[column] = max(widths[column], _SLOT_WIDTH * slots + 2 * _MARGIN)
        column_gaps[0] = row_gaps[0] = row_gaps[len(heights)] = 0.0
        for (a, b), connections in self._straight.items():
            row, column = (max(numbers) for numbers in zip(self._cells[a], self._cells[b], strict=True))
            texts = [text for connection in connections for text in self._wrapped_caption(connection)]
            if self._cells[a][0] == self._cells[b][0]:
                column_gaps[column] = max(
                    [column_gaps[column], _LINE_GAP, *(text_width(text, "label") + 24 for text in texts)]
                )
            else:
                row_gaps[row] = max(row_gaps[row], _LINE_GAP)
        for channel, count in Counter(channel for channels in self._channels for channel in set(channels)).items():
            row_gaps[channel] = _LANE_GAP + count * self._lane_height
        if left_edge_lines := sum(map(self._uses_left_edge, range(len(self._routed)))):
            column_gaps[0] = left_edge_lines * _SIDE_LANE_WIDTH + 10
        lefts = list(
            accumulate(
                (widths[number] + column_gaps[number + 1] for number in range(len(widths))), initial=column_gaps[0]
            )
        )
        tops = list(
            accumulate((heights[number] + row_gaps[number + 1] for number in range(len(heights))), initial=row_gaps[0])
        )
        self.placement.width, self.placement.height = lefts[-1] - column_gaps[len(widths)], tops[-1]
        for box in boxes:
            row, column = self._cells[box.name]
            self.placement.boxes.append((box, Rectangle(lefts[column], tops[row], widths[column], heights[row])))

    def _wrapped_caption(self, connection: DrawnConnection) -> list[str]:
        """Return a connection's caption, wrapped to the gap between neighboring boxes."""
        return [
            part for line in self._captions(connection) for part in wrap_words(line.split(), "label", _CAPTION_WIDTH)
        ]

    def connect_neighboring_boxes(self) -> None:
        """Add to a picture's grid the straight lines that connect neighboring boxes.

        The captions of the lines are also added.
        """
        areas = self.placement.areas_by_box
        for (a, b), connections in self._straight.items():
            first, second = sorted((areas[a], areas[b]))
            texts = [self._wrapped_caption(connection) for connection in connections]
            step = 24 + LINE_HEIGHT * max(map(len, texts))
            for number, (connection, text) in enumerate(zip(connections, texts, strict=True)):
                shift = (number - (len(connections) - 1) / 2) * step
                if first.y == second.y:
                    y = first.y + first.height / 2 + shift
                    points = [(first.right_edge, y), (second.x, y)]
                    middle = (first.right_edge + second.x) / 2, y - LINE_HEIGHT * len(text)
                    self.placement.labels.append(Caption(middle, text))
                else:
                    x = first.x + first.width / 2 + shift
                    points = [(x, first.lower_edge), (x, second.y)]
                self.placement.lines.append((connection, points if first is areas[a] else points[::-1]))

    def connect_distant_boxes(self) -> None:
        """Add to a picture's grid the lines that connect boxes that are not neighbors.

        The lines run in channels between the boxes. Their captions are also added.
        """
        areas, ports, side_lanes, caption_spans = self.placement.areas_by_box, self._ports_of_lines(), 0, []
        lanes = self._lanes_of_lines(ports)
        for line, (connection, (first, second)) in enumerate(zip(self._routed, self._channels, strict=True)):
            a, b = areas[connection.a], areas[connection.b]
            xa, xb = ports[line, connection.a], ports[line, connection.b]
            lane_a, lane_b = lanes[line, first], lanes[line, second]
            start = xa, a.y if first == self._cells[connection.a][0] else a.lower_edge
            end = xb, b.y if second == self._cells[connection.b][0] else b.lower_edge
            if first == second:
                corners = [(xa, lane_a), (xb, lane_a)] if xa != xb else []
                caption_spans.append((min(xa, xb), max(xa, xb), lane_a))
            else:
                side_x = side_lanes * _SIDE_LANE_WIDTH + 4
                side_lanes += 1
                corners = [(xa, lane_a), (side_x, lane_a), (side_x, lane_b), (xb, lane_b)]
                caption_spans.append((side_x, *max((xa, lane_a), (xb, lane_b))))
            self.placement.lines.append((connection, [start, *corners, end]))
        for connection, caption_span in zip(self._routed, caption_spans, strict=True):
            self._add_caption(self._captions(connection), *caption_span)

    def _ports_of_lines(self) -> dict[tuple[int, str], float]:
        """Return the x coordinate at which a line leaves a box, by (line, box), so that few lines cross."""
        ports, areas = {}, self.placement.areas_by_box
        placed_counts = Counter({names: len(connections) for names, connections in self._straight.items()})
        for line, connection in enumerate(self._routed):
            a, b = connection.a, connection.b
            if self._are_neighbors(connection):
                ports[line, a] = ports[line, b] = areas[a].x + areas[a].width / 2 + _SLOT_WIDTH * placed_counts[a, b]
                placed_counts[a, b] += 1
        for (name, channel), ends in self._ends.items():
            area, is_above = areas[name], channel == self._cells[name][0]
            shift, middle = (_SLOT_WIDTH / 2 if is_above else 0.0), area.x + area.width / 2
            first = math.ceil((area.x + _MARGIN - shift) / _SLOT_WIDTH) * _SLOT_WIDTH + shift
            count = int((area.right_edge - _MARGIN - first) // _SLOT_WIDTH) + 1
            slots = [first + _SLOT_WIDTH * number for number in range(count)]
            # A straight line has room next to it for its caption.
            slots = [x for x in slots if abs(x - middle) > 1.5 * _SLOT_WIDTH * self._vertical_counts[name, channel]]
            ends = [end for end in ends if (end[0], name) not in ports]
            sorted_ends = [(-math.inf if self._uses_left_edge(line) else areas[other].x, line) for line, other in ends]
            # Above a box, longer lines run higher. On the left, the nearest box comes first, on the right the farthest.
            sorted_ends.sort(key=lambda end: (end[0] > area.x, -end[0] if is_above else end[0]))
            for number, (_, line) in enumerate(sorted_ends, 1):
                ports[line, name] = slots[number * (len(slots) + 1) // (len(ends) + 1) - 1]
        return ports

    def _lanes_of_lines(self, ports: dict[tuple[int, str], float]) -> dict[tuple[int, int], float]:
        """Return the y coordinate of a line's lane, by (line, channel); shorter lines run nearer to the row below.

        Lines that continue along the left edge run above these lines, and straight lines run at the top. In this order,
        fewer lines cross captions.
        """
        lengths: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for line, (connection, (first, second)) in enumerate(zip(self._routed, self._channels, strict=True)):
            xa, xb = ports[line, connection.a], ports[line, connection.b]
            if first == second:
                lengths[first].append((abs(xa - xb) or math.inf, line))
            else:
                lengths[first].append((xa + self.placement.width, line))
                lengths[second].append((xb + self.placement.width, line))
        tops = {self._cells[box.name][0]: area.y for box, area in self.placement.boxes}
        return {
            (line, channel): tops.get(channel, self.placement.height) - _LANE_GAP / 2 - self._lane_height * (lane + 0.5)
            for channel, lengths_and_lines in lengths.items()
            for lane, (_, line) in enumerate(sorted(lengths_and_lines))
        }

    def _add_caption(self, texts: Sequence[str], left: float, right: float, y: float) -> None:
        """Add the caption of a line whose lane runs from ``left`` to ``right`` at ``y``, at a position without lines.

        If there is no such position, the first lines of the caption are omitted. The last line is always written.
        """
        top, bottom, middle = y - _CAPTION_AREA_TOP, y - _CAPTION_AREA_BOTTOM, (left + right) / 2
        passing = [
            x
            for _, points in self.placement.lines
            for (x, y1), (x2, y2) in pairwise(points)
            if x == x2 and min(y1, y2) <= bottom and top <= max(y1, y2)
        ]
        for text in (" · ".join(texts[first:]) for first in range(len(texts))):
            half = text_width(text, "label") / 2 + 4
            reach = half + _PASSING_DISTANCE
            candidates = [x + sign * reach for x in passing for sign in (1, -1)]
            reachable = [x for x in candidates if max(half, left - reach - 1) <= x <= right + reach + 1]
            hidden_lines, _, x = min(
                (sum(abs(x - other) < reach - 1 for other in passing), abs(x - middle), x)
                for x in (max(middle, half), *reachable)
            )
            if not hidden_lines or text == texts[-1]:
                self.placement.labels.append(Caption((x, y - 7), [text]))
                self.placement.width = max(self.placement.width, half + x)
                return
