"""Lay out the cards of a group's pairs and their links, by the shape that the links make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from activemq_fleet.diagram.canvas import Point
from activemq_fleet.diagram.cards import Card
from activemq_fleet.diagram.lanes import assign_lanes
from activemq_fleet.diagram.lines import Stroke
from activemq_fleet.diagram.scene import Connection, GroupView
from activemq_fleet.diagram.text import width_of
from activemq_fleet.printable import counted

MOST_MESHED = 5
_MOST_MESHED_SMALL = 3
_MOST_ARCS = 10
_MOST_BESIDE_HUB = 8
_MOST_IN_A_ROW = 4
_LANE, _BUS, _SPREAD = 20.0, 32.0, 26.0
_ASPECT = 2.0


@dataclass(slots=True)
class PairLayout:
    """The content of a group's box, from (0, 0), in pixels.

    ``bus`` is the height of the multicast bus, ``frame`` the kind of links that a frame around a full mesh stands for;
    ``caption`` stands on either. ``notes`` are links listed as text.
    """

    width: float = 0.0
    height: float = 0.0
    places: list[tuple[Card, Point]] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    bus: float | None = None
    frame: str | None = None
    caption: str = ""
    notes: list[str] = field(default_factory=list)


class Grid:
    """A grid of cards of equal size; ``gap_x`` and ``gap_y`` leave room for lines (pixels)."""

    def __init__(self, cards: Sequence[Card], columns: int, gap_x: float, gap_y: float) -> None:
        self.cards = cards
        self.columns = columns
        self.rows = math.ceil(len(cards) / columns)
        self.gap_x = gap_x
        self.card_width = cards[0].width
        self.card_height = max(card.height for card in cards)
        self.step_y = self.card_height + max(card.hanging for card in cards) + gap_y
        self.width = columns * (self.card_width + gap_x) - gap_x
        self.height = self.rows * self.step_y - gap_y

    def at(self, column: int, row: int) -> Point:
        """Return the upper left corner of a cell."""
        return column * (self.card_width + self.gap_x), row * self.step_y


def arrange(view: GroupView, cards: Sequence[Card], *, small: bool) -> PairLayout:
    """Return the layout of a group's pairs; ``cards`` are in the order of the group's pairs."""
    by_name = {card.pair.name: card for card in cards}
    ordered = [by_name[name] for name in view.shape.order]
    if view.multicast is not None:
        return _on_bus(view, ordered, small)
    shape = view.shape.name
    if shape == "hub":
        return _around_hub(view, ordered, small)
    if shape in ("ring", "chain"):
        return _along(view, ordered, small)
    if shape == "mesh" and len(cards) > (_MOST_MESHED_SMALL if small else MOST_MESHED):
        return _framed(view, ordered, small)
    if shape in ("mesh", "other") and len(cards) <= MOST_MESHED + 1 and len(view.connections) <= _MOST_ARCS:
        return _arched(view, ordered, small)
    inside = _plain(ordered, small)
    inside.notes = [f"{c.a} {c.arrow} {c.b}" for c in view.connections]
    return inside


def columns_for(cards: Sequence[Card], gap_x: float, gap_y: float, *, winding: bool = False) -> int:
    """Return the number of columns that makes a grid about twice as wide as high, with few empty cells.

    ``winding`` is for a ring, whose path ends where it began: its number of rows is even.
    """
    count = len(cards)
    cell_width = cards[0].width + gap_x
    cell_height = max(card.height for card in cards) + max(card.hanging for card in cards) + gap_y

    def layout_cost(columns: int) -> tuple[float, int]:
        rows = math.ceil(count / columns)
        shape = abs(math.log(columns * cell_width / (rows * cell_height) / _ASPECT))
        return shape + (rows * columns - count) / count, -columns

    possible = [c for c in range(1, count + 1) if not winding or (c > 1 and math.ceil(count / c) % 2 == 0)]
    return min(possible, key=layout_cost)


def _plain(cards: Sequence[Card], small: bool, gap_y: float = 22.0) -> PairLayout:
    gap_x = 14.0 if small else 26.0
    grid = Grid(cards, columns_for(cards, gap_x, gap_y), gap_x, gap_y if not small else 11.0)
    return PairLayout(grid.width, grid.height, _fill(grid))


def _fill(grid: Grid, at: Point = (0.0, 0.0)) -> list[tuple[Card, Point]]:
    positions = []
    for position, card in enumerate(grid.cards):
        x, y = grid.at(position % grid.columns, position // grid.columns)
        positions.append((card, (x + at[0], y + at[1])))
    return positions


def _framed(view: GroupView, cards: Sequence[Card], small: bool) -> PairLayout:
    """Lay out a full mesh of many pairs as a frame with a caption, in place of n² lines."""
    inside = _plain(cards, small)
    inside.places = [(card, (x + 18, y + 26)) for card, (x, y) in inside.places]
    total = counted(sum(c.count for c in view.connections), "link")
    short = f"full mesh, {total}"
    full = f"full mesh of {len(cards)} pairs: one link from each to each other, {total}"
    # A box is not made wider by a sentence where many boxes stand beside each other.
    inside.caption = full if not small or width_of(full, "label") + 60 <= inside.width + 36 else short
    inside.width = max(inside.width + 36, width_of(inside.caption, "label") + 60)
    inside.height += 44
    inside.frame = view.connections[0].kind
    return inside


def _on_bus(view: GroupView, cards: Sequence[Card], small: bool) -> PairLayout:
    """Lay out a multicast group with a bus that every pair is connected to."""
    link = view.multicast
    if link is None:
        raise ValueError(f"group {view.name} has no multicast link")
    gap_x, gap_y = (16.0, 34.0) if small else (30.0, 46.0)
    grid = Grid(cards, columns_for(cards, gap_x, gap_y), gap_x, gap_y)
    left = 30.0 if grid.rows > 1 else 0.0
    top = _BUS + 44
    caption = f"{link.uri} · {'duplex' if link.duplex else 'one-way'} links, TTL {link.network_ttl}"
    width = max(grid.width + left, width_of(caption, "label") + 50)
    left += (width - left - grid.width) / 2 if grid.rows == 1 else 0
    inside = PairLayout(width, top + grid.height, _fill(grid, (left, top)), bus=_BUS, caption=caption)
    for position, (card, (x, y)) in enumerate(inside.places):
        middle = x + card.width / 2
        way = ((10.0, _BUS), (10.0, y - 20), (middle, y - 20), (middle, y))
        points = way if position >= grid.columns else ((middle, _BUS), (middle, y))
        title = f"{card.pair.name} finds the others of group {view.name} by multicast"
        inside.strokes.append(Stroke(points, "multicast", "duplex" if link.duplex else "each way", title))
    inside.notes = [f"{c.a} {c.arrow} {c.b}" for c in view.connections]
    return inside


def _along(view: GroupView, cards: Sequence[Card], small: bool) -> PairLayout:
    """Lay out a chain or a ring in rows of alternating direction, so that neighbours stay neighbours."""
    gap_x, gap_y = (28.0, 11.0) if small else (70.0, 34.0)
    ring = view.shape.name == "ring"
    columns = len(cards)
    if ring or len(cards) > _MOST_IN_A_ROW:
        columns = columns_for(cards, gap_x, gap_y, winding=ring)
    grid = Grid(cards, columns, gap_x, gap_y)
    left = (40.0 if small else 50.0) if grid.rows > 1 else 0.0
    inside = PairLayout(grid.width + 2 * left, grid.height)
    spots: dict[str, tuple[int, int]] = {}
    for position, card in enumerate(cards):
        row, column = divmod(position, columns)
        column = columns - 1 - column if row % 2 else column
        spots[card.pair.name] = (column, row)
        x, y = grid.at(column, row)
        inside.places.append((card, (x + left, y)))
    where = {card.pair.name: point for card, point in inside.places}
    middle = grid.card_height / 2
    for connection, shift in _side_by_side(view.connections):
        a, b = where[connection.a], where[connection.b]
        points = _neighbours((a[0], a[1] + middle + shift), (b[0], b[1] + middle + shift), grid, left)
        inside.strokes.append(_stroke(connection, points))
    return inside


def _neighbours(a: Point, b: Point, grid: Grid, left: float) -> tuple[Point, ...]:
    """Return the points of a line between cards, given left edges: straight in a row, else around the nearer side."""
    width = grid.card_width
    if a[1] == b[1] and abs(abs(a[0] - b[0]) - width - grid.gap_x) < 1:
        return _facing(a[0], b[0], a[1], width)
    if min(a[0], b[0]) + width > left + grid.width - 1:
        side = left + grid.width + 24
        return (a[0] + width, a[1]), (side, a[1]), (side, b[1]), (b[0] + width, b[1])
    # Around the left: one row apart is a turn of the path, more is where a ring closes.
    far = abs(a[1] - b[1]) > grid.step_y + 1
    side = 4.0 if far else left - 24
    return a, (side, a[1]), (side, b[1]), b


def _around_hub(view: GroupView, cards: Sequence[Card], small: bool) -> PairLayout:
    hub, *spokes = cards
    if len(spokes) > _MOST_BESIDE_HUB:
        return _below_hub(view, hub, spokes, small)
    gap_x, gap_y = (56.0, 14.0) if small else (92.0, 28.0)
    columns = [spokes[: len(spokes) // 2], spokes[len(spokes) // 2 :]]
    cell = max(card.height for card in cards) + max(card.hanging for card in cards) + gap_y
    height = max(1, *(len(column) for column in columns)) * cell - gap_y
    step = hub.width + gap_x
    inside = PairLayout(3 * hub.width + 2 * gap_x, height)
    inside.places.append((hub, (step, (height - cell + gap_y) / 2)))
    for column, x in zip(columns, (0.0, 2 * step), strict=True):
        top = (height - len(column) * cell + gap_y) / 2
        inside.places += [(card, (x, top + row * cell)) for row, card in enumerate(column)]
    where = {card.pair.name: point for card, point in inside.places}
    middle = max(card.height for card in cards) / 2
    for connection, shift in _side_by_side(view.connections):
        spoke = connection.b if connection.a == hub.pair.name else connection.a
        start, end = where[hub.pair.name], where[spoke]
        right = end[0] > start[0]
        x1, x2 = (start[0] + hub.width, end[0]) if right else (start[0], end[0] + hub.width)
        y1, y2 = start[1] + middle + shift, end[1] + middle + shift
        points = _elbow((x1, y1), (x2, y2), (x1 + x2) / 2)
        inside.strokes.append(_stroke(connection, points if connection.a == hub.pair.name else points[::-1]))
    return inside


def _below_hub(view: GroupView, hub: Card, spokes: Sequence[Card], small: bool) -> PairLayout:
    """Lay out a hub with many spokes: rows beside the hub, each row below a line from the hub."""
    gap_x, gap_y = (14.0, 28.0) if small else (30.0, 48.0)
    grid = Grid(spokes, columns_for(spokes, gap_x, gap_y), gap_x, gap_y)
    left, top = hub.width + (54 if small else 70), 18.0
    inside = PairLayout(left + grid.width, top + grid.height, [(hub, (0.0, top)), *_fill(grid, (left, top))])
    where = {card.pair.name: point for card, point in inside.places}
    for connection, shift in _side_by_side(view.connections):
        spoke = connection.b if connection.a == hub.pair.name else connection.a
        x, y = where[spoke]
        middle, lane, trunk = x + hub.width / 2 + shift, y - 16 - shift / 3, hub.width + 32 + shift / 3
        start = (hub.width, top + hub.height / 2 + shift / 3)
        points = (start, (trunk, start[1]), (trunk, lane), (middle, lane), (middle, y))
        inside.strokes.append(_stroke(connection, points if connection.a == hub.pair.name else points[::-1]))
    return inside


def _arched(view: GroupView, cards: Sequence[Card], small: bool) -> PairLayout:
    """Lay out the cards in a row: neighbours joined straight, others by lines above, the shortest lowest."""
    gap_x = 46.0 if small else 66.0
    grid = Grid(cards, len(cards), gap_x, 0)
    spot = {card.pair.name: position for position, card in enumerate(cards)}
    far = [c for c in view.connections if abs(spot[c.a] - spot[c.b]) > 1]
    spans = [(min(spot[c.a], spot[c.b]), max(spot[c.a], spot[c.b])) for c in far]
    lanes = assign_lanes(spans)
    top = _LANE * (max(lanes, default=-1) + 1) + (24 if far else 0)
    inside = PairLayout(grid.width, top + grid.height, _fill(grid, (0.0, top)))
    for connection, shift in _side_by_side([c for c in view.connections if c not in far]):
        y = top + grid.card_height / 2 + shift
        left, right = (grid.at(spot[name], 0)[0] for name in (connection.a, connection.b))
        inside.strokes.append(_stroke(connection, _facing(left, right, y, grid.card_width)))
    for connection, lane in zip(far, lanes, strict=True):
        y = top - 24 - _LANE * lane
        a, b = (_port(grid, spot, connection, name, far) for name in (connection.a, connection.b))
        inside.strokes.append(_stroke(connection, ((a, top), (a, y), (b, y), (b, top))))
    return inside


def _port(grid: Grid, spot: dict[str, int], connection: Connection, name: str, far: Sequence[Connection]) -> float:
    """Return x where a line ends on a card's top; lines that go farther end farther out, so that few lines cross."""
    here = spot[name]
    others = sorted(
        (spot[c.b if c.a == name else c.a], position)
        for position, c in enumerate(far)
        if name in (c.a, c.b)
    )  # fmt: skip
    leftward = sorted((o for o in others if o[0] < here), key=lambda o: (-o[0], o[1]))
    rightward = sorted((o for o in others if o[0] > here), key=lambda o: (-o[0], o[1]))
    # Left to right: what goes left, the nearest first; then what goes right, the farthest first.
    ports = [position for _, position in (*leftward, *rightward)]
    index = ports.index(far.index(connection))
    step = min(_SPREAD, (grid.card_width - 30) / len(ports))
    return grid.at(here, 0)[0] + grid.card_width / 2 + (index - (len(ports) - 1) / 2) * step


def _side_by_side(connections: Sequence[Connection]) -> list[tuple[Connection, float]]:
    """Return each connection with its shift (pixels), so that two connections of the same cards do not overlap."""
    together: dict[tuple[str, str], list[Connection]] = {}
    for connection in connections:
        together.setdefault((connection.a, connection.b), []).append(connection)
    return [
        (connection, (position - (len(found) - 1) / 2) * 22)
        for found in together.values()
        for position, connection in enumerate(found)
    ]


def _facing(a: float, b: float, y: float, width: float) -> tuple[Point, Point]:
    """Return the ends of a line between neighbours in a row, given the cards' left edges."""
    return ((a + width, y), (b, y)) if a < b else ((a, y), (b + width, y))


def _elbow(start: Point, end: Point, turn: float) -> tuple[Point, ...]:
    if abs(start[1] - end[1]) < 0.5:
        return start, end
    return start, (turn, start[1]), (turn, end[1]), end


def _stroke(connection: Connection, points: tuple[Point, ...]) -> Stroke:
    return Stroke(points, connection.kind, connection.flow, connection.tooltip)
