"""Place the cards of a group's pairs and their links, by the shape that the links make."""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet.diagram.canvas import Canvas, Point
from activemq_fleet.diagram.lines import Stroke
from activemq_fleet.diagram.placement import Area, Box, Placement, Sheet, column_counts, most_readable, place_in_grid
from activemq_fleet.diagram.rows import place_in_rows
from activemq_fleet.diagram.scene import GroupView
from activemq_fleet.diagram.star import place_star
from activemq_fleet.diagram.text import shorten, width_of
from activemq_fleet.node.printable import counted
from activemq_fleet.topology import Link

MOST_MESHED = 5
_MOST_MESHED_SMALL = 3
_MOST_ROUTED = 10
_MOST_IN_A_ROW = 4
_BUS = 32.0
_SHEET = Sheet(2.0)


class MulticastBar:
    """The drawn bar that joins the pairs of a group with multicast discovery, captioned with
    its URI; sizes in pixels.
    """

    name = ""
    height, hanging = _BUS, 0.0

    def __init__(self, caption: str, width: float) -> None:
        self.caption = caption
        self.width = width

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw the bar with its upper left corner at (x, y), in pixels."""
        canvas.rect(x, y, self.width, self.height, "cloud", self.height / 2)
        text = shorten(self.caption, "label", self.width - 30)
        canvas.text(x + self.width / 2, y + self.height / 2 + 4, text, "label ink", "middle")


class MeshFrame:
    """A frame with a caption that represents a full mesh of pairs, in place of n² lines; ``kind``
    is that of the links.
    """

    name = ""
    hanging = 0.0

    def __init__(self, kind: str, caption: str, width: float, height: float) -> None:
        self.kind = kind
        self.caption = caption
        self.width = width
        self.height = height

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw the frame with its upper left corner at (x, y), in pixels."""
        canvas.rect(x, y + 8, self.width, self.height - 8, f"line line-{self.kind}", 12)
        canvas.rect(x + 20, y, width_of(self.caption, "label") + 16, 16, "group-box-fill")
        canvas.text(x + 28, y + 12, self.caption, "label ink")


def place_pairs(view: GroupView, cards: Sequence[Box], *, small: bool) -> Placement:
    """Return the positions of a group's pairs and their lines; ``cards`` are the pairs' cards,
    in the order of the pairs.
    """
    by_name = {card.name: card for card in cards}
    ordered = [by_name[name] for name in view.shape.order]
    shape = view.shape.name
    if view.multicast is not None:
        return _on_bus(view, view.multicast, ordered, small)
    if shape == "hub":
        return place_star(view.shape.order[0], ordered, view.connections, (14, 28) if small else (30, 34), _SHEET)
    if shape in ("ring", "chain"):
        return _winding(view, ordered, small)
    if shape == "mesh" and len(cards) > (_MOST_MESHED_SMALL if small else MOST_MESHED):
        return _framed(view, ordered, small)
    if view.connections and len(cards) <= MOST_MESHED + 1 and len(view.connections) <= _MOST_ROUTED:
        return place_in_rows(ordered, view.connections, len(ordered))
    placement = _in_grid(ordered, (14, 11) if small else (26, 22))
    placement.notes = _notes(view)
    return placement


def _in_grid(cards: Sequence[Box], gap: tuple[float, float], left: float = 0.0, top: float = 0.0) -> Placement:
    """Return the cards in a grid about twice as wide as high, with room (pixels) at its left and its top."""
    grids = (place_in_grid(cards, columns, gap, {0: left}, {0: top}) for columns in column_counts(len(cards)))
    return most_readable(grids, _SHEET)


def _notes(view: GroupView) -> list[str]:
    return [f"{c.a} {c.arrow} {c.b}" for c in view.connections]


def _framed(view: GroupView, cards: Sequence[Box], small: bool) -> Placement:
    placement = _in_grid(cards, (14, 11) if small else (26, 22), 18, 26)
    total = counted(sum(c.count for c in view.connections), "link")
    caption = f"full mesh of {len(cards)} pairs: one link from each to each other, {total}"
    # A box is not made wider by a sentence where many boxes stand beside each other.
    if small and width_of(caption, "label") + 60 > placement.width + 18:
        caption = f"full mesh, {total}"
    placement.width = max(placement.width + 18, width_of(caption, "label") + 60)
    placement.height += 18
    frame = MeshFrame(view.connections[0].kind, caption, placement.width, placement.height)
    placement.boxes.insert(0, (frame, Area(0.0, 0.0, frame.width, frame.height)))
    return placement


def _on_bus(view: GroupView, link: Link, cards: Sequence[Box], small: bool) -> Placement:
    """Place a multicast group's cards below a bus; lines to rows other than the first run along the left edge."""
    left = 30.0
    placement = _in_grid(cards, (16, 34) if small else (30, 46), left, _BUS + 44)
    caption = f"{link.uri} · {'duplex' if link.duplex else 'one-way'} links, TTL {link.network_ttl}"
    placement.width = max(placement.width, width_of(caption, "label") + 50)
    first = placement.boxes[0][1].y
    for card, (x, y, card_width, _) in placement.boxes:
        middle = x + card_width / 2
        around = ((10.0, _BUS), (10.0, y - 20), (middle, y - 20), (middle, y))
        points = ((middle, _BUS), (middle, y)) if y == first else around
        title = f"{card.name} finds the others of group {view.name} by multicast"
        placement.strokes.append(Stroke(points, "multicast", "duplex" if link.duplex else "each way", title))
    placement.boxes.insert(0, (MulticastBar(caption, placement.width), Area(0.0, 0.0, placement.width, _BUS)))
    placement.notes = _notes(view)
    return placement


def _winding(view: GroupView, cards: Sequence[Box], small: bool) -> Placement:
    """Place a chain or ring in rows of alternating direction, so that neighbours stay neighbours.

    A ring has an even number of rows, because its path ends where it began.
    """
    ring, count = view.shape.name == "ring", len(cards)
    gap, left = ((28.0, 11.0), 40.0) if small else ((70.0, 34.0), 50.0)
    if ring:
        possible = [columns for columns in column_counts(count) if columns > 1 and -(-count // columns) % 2 == 0]
    else:
        possible = [count] if count <= _MOST_IN_A_ROW else column_counts(count)
    left = 0.0 if possible == [count] else left
    grids = (place_in_grid(cards, columns, gap, {0: left}) for columns in possible)
    placement = most_readable(grids, _SHEET)
    right = placement.width
    placement.width += left
    rows = sorted({area.y for _, area in placement.boxes})
    placement.boxes = [
        (card, area._replace(x=left + right - area.right) if rows.index(area.y) % 2 else area)
        for card, area in placement.boxes
    ]
    areas = placement.box_areas
    drawn: dict[tuple[str, str], int] = {}
    for connection in view.connections:
        again = drawn[connection.a, connection.b] = drawn.get((connection.a, connection.b), -1) + 1
        a, b = areas[connection.a], areas[connection.b]
        ya, yb = (area.y + area.height / 2 + 22 * again for area in (a, b))
        points: tuple[Point, ...]
        if a.y == b.y and abs(a.x - b.x) < a.width + gap[0] + 1:
            points = ((a.right, ya), (b.x, yb)) if a.x < b.x else ((a.x, ya), (b.right, yb))
        elif min(a.right, b.right) > right - 1:
            points = ((right, ya), (right + 24, ya), (right + 24, yb), (right, yb))
        else:
            # One row apart is a turn of the path, more is where a ring closes.
            side = 4.0 if abs(ya - yb) > rows[1] - rows[0] + 1 else left - 24
            points = ((a.x, ya), (side, ya), (side, yb), (b.x, yb))
        placement.strokes.append(Stroke.of(connection, points))
    return placement
