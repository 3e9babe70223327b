"""Draw a group as a box: a heading with what its pairs have in common, its load balancers, and the pairs inside."""

from __future__ import annotations

from collections.abc import Sequence

from activemq_fleet.canvas import SvgCanvas, format_decimal, shorten_to_width, text_width, wrap_words
from activemq_fleet.diagram.captions_and_descriptions import (
    common_result,
    dns_domain_of_broker,
    group_heading_texts,
    usual_release,
)
from activemq_fleet.diagram.grid import place_in_grid
from activemq_fleet.diagram.layout_model import DiagramLayout, DrawableBox, PaperSheet, most_readable_layout
from activemq_fleet.diagram.lines import draw_arrow_head
from activemq_fleet.diagram.pair_card import CardStyle, PairCard
from activemq_fleet.diagram.scene import BalancerView, DrawnConnection, Flow, GroupView
from activemq_fleet.diagram.star import place_star
from activemq_fleet.node.printable import count_with_noun

MAX_MESHED = 5
_MAX_MESHED_COMPACT, _MAX_ROUTED, _MAX_NOTES = 3, 10, 8
_PAD, _FRAME_PAD = 16.0, 12.0
_SHEET = PaperSheet(2.0)


class LabeledBox:
    """A box with a label, in a picture of a fleet.

    The label is a name and a line of text below. The box represents a load balancer, or the bus of a multicast network.
    """

    def __init__(self, css: str, name: str, text: str, tooltip: str, *, most_width: float = 340.0) -> None:
        self.name, self._css, self._text, self._tooltip = name, css, text, tooltip
        self.width = min(most_width, max(text_width(name, "label"), text_width(text, "small")) + 24)
        self.height = 36.0

    def draw(self, canvas: SvgCanvas, x: float, y: float) -> None:
        """Draw the labeled box on a canvas at a position.

        Its upper left corner is at (x, y), in pixels.
        """
        with canvas.svg_group(self._tooltip):
            canvas.add_rect(self._css, x, y, self.width, self.height, radius=6)
            room, middle = self.width - 20, y + self.height / 2
            canvas.add_text("label ink", x + 10, middle - 3, shorten_to_width(self.name, "label", room))
            canvas.add_text("small muted", x + 10, middle + 11, shorten_to_width(self._text, "small", room))


class PairGroupWithFrame:
    """The broker pairs of a group with a frame around them, in a picture of a fleet.

    The frame represents a full mesh in place of n² lines, or shows to which pairs load balancers connect clients.
    """

    def __init__(self, css: str, caption: str, inside: DiagramLayout | PairGroupWithFrame) -> None:
        self._css, self._caption, self._inside = css, caption, inside
        self._top = _FRAME_PAD + (18 if caption else 0)
        self.width: float = max(inside.width, text_width(caption, "label")) + 2 * _FRAME_PAD
        self.height: float = self._top + inside.height + _FRAME_PAD

    def draw(self, canvas: SvgCanvas, x: float, y: float) -> None:
        """Draw the frame of a group box and the broker pairs inside on a canvas at a position.

        The position (x, y) is that of the frame's upper left corner, in pixels.
        """
        canvas.add_rect(self._css, x, y, self.width, self.height, radius=10)
        if self._caption:
            canvas.add_text("label ink", x + _FRAME_PAD, y + 19, self._caption)
        self._inside.draw(canvas, x + (self.width - self._inside.width) / 2, y + self._top)


class GroupBox:
    """The box that shows one group of broker pairs in a picture of a fleet.

    It has a heading and the cards of the group's pairs. It is measured when it is created. ``width`` and ``height`` are
    in pixels; both may grow before the box is drawn. ``shared_facts`` are facts that the heading of the picture shows
    for all groups, so that the heading of the box omits them. ``meshed`` is the kind of links of a full mesh that is
    drawn as a frame, and ``drawn`` are the connections that are drawn as lines.
    """

    def __init__(self, view: GroupView, *, detailed: bool, shared_facts: Sequence[str] = ()) -> None:
        self.view, self.name, self._detailed = view, view.name, detailed
        style = CardStyle.card_style_for_detail_level(
            usual_release(view), common_result(view.nodes_of_all_pairs, dns_domain_of_broker), detailed=detailed
        )
        width = max(style.card_width_for(pair) for pair in view.pairs)
        cards = {pair.name: PairCard(pair, width, style) for pair in view.pairs}
        # All cards have the same height, so that lines between cards side by side are straight.
        height = max(card.height for card in cards.values())
        for card in cards.values():
            card.height = height
        is_large = len(cards) > (MAX_MESHED if detailed else _MAX_MESHED_COMPACT)
        self.meshed = view.connections[0].kind if view.shape.name == "mesh" and is_large else None
        placement = self._place_pairs([cards[name] for name in view.shape.order])
        self.drawn = [connection for connection, _ in placement.lines]
        notes = (
            [] if self.meshed else [f"{c.a} {c.direction_arrow} {c.b}" for c in view.connections if c not in self.drawn]
        )
        if detailed:
            self.drawn += [connection for pair in view.pairs for connection in pair.links[:1]]
        self._inside: DiagramLayout | PairGroupWithFrame = placement
        if self.meshed:
            total = count_with_noun(sum(connection.represented_link_count for connection in view.connections), "link")
            size = view.pair_count_and_noun
            caption = (
                f"full mesh of {count_with_noun(*size)}: {total}, from each {size.noun} to every other {size.noun}"
            )
            # The caption must not make a box wider where many boxes are side by side.
            if not detailed and text_width(caption, "label") > placement.width:
                caption = f"full mesh, {total}"
            self._inside = PairGroupWithFrame(f"line line-{self.meshed}", caption, self._inside)
        if view.balancers:
            self._inside = PairGroupWithFrame("balanced", "", self._inside)
        self._balancers = [balancer_box(balancer) for balancer in view.balancers]
        widest = max([self._inside.width, *(box.width + 22 for box in self._balancers)])
        self.width = (
            max(widest, min(text_width(view.name, "group-name"), 420.0), 250.0 if detailed else 190.0) + 2 * _PAD
        )
        facts = [fact for fact in group_heading_texts(view, with_ports=not detailed) if fact not in shared_facts]
        self._facts = wrap_words(facts, "facts", self.width - 2 * _PAD, " · ")
        self._notes = wrap_words(notes, "small", self.width - 2 * _PAD, ", ")
        if (hidden := len(self._notes) - _MAX_NOTES) > 0:
            self._notes[_MAX_NOTES:] = [f"and {count_with_noun(hidden, 'more line')} of links"]
        self._top = 48.0 + 17 * len(self._facts)
        self._inside_top = self._top + sum(box.height + 6 for box in self._balancers) + (10 if view.balancers else 0)
        self.height = self._inside_top + self._inside.height + _PAD
        if self._notes:
            self.height += 16 * len(self._notes) + 12

    def _place_pairs(self, cards: Sequence[DrawableBox]) -> DiagramLayout:
        """Place the cards of the pairs by the shape of their network: as a star, or in a grid."""
        view, shape = self.view, self.view.shape.name
        if view.multicast is not None:
            flow: Flow = "duplex" if view.multicast.duplex else "each way"
            text = f"{'duplex' if flow == 'duplex' else 'one-way'} links, network TTL {view.multicast.network_ttl}"
            bus = LabeledBox("cloud", view.multicast.uri, text, f"multicast network of group {view.name}")
            title = f"discovers the other brokers of group {view.name} by multicast"
            spokes = [DrawnConnection(bus.name, c.name, "multicast", flow, tooltip=f"{c.name} {title}") for c in cards]
            return place_star(bus, cards, spokes, (26, 38) if self._detailed else (14, 34), _SHEET)
        if shape == "hub":
            gap = (30, 38) if self._detailed else (14, 34)
            return place_star(cards[0], cards[1:], view.connections, gap, _SHEET)
        is_line = shape in ("ring", "chain")
        are_few = len(cards) <= MAX_MESHED + 1 and len(view.connections) <= _MAX_ROUTED
        drawn = view.connections if is_line or (are_few and not self.meshed) else ()
        gap = (26, 22) if self._detailed else (14, 11)
        if drawn:
            gap = (52, 40) if self._detailed else (28, 24)
        if drawn and not is_line:
            return place_in_grid(cards, len(cards), gap, drawn)
        return most_readable_layout(
            len(cards), lambda columns: place_in_grid(cards, columns, gap, drawn, alternating=is_line), _SHEET
        )

    def draw(self, canvas: SvgCanvas, x: float, y: float) -> None:
        """Draw the box of a group of broker pairs on a canvas at a position.

        Its upper left corner is at (x, y), in pixels.
        """
        with canvas.svg_group(f"group {self.name}", position=(x, y)):
            canvas.add_rect("group-box", 0, 0, self.width, self.height, radius=12)
            canvas.add_text(
                "group-name ink", _PAD, 28, shorten_to_width(self.name, "group-name", self.width - 2 * _PAD)
            )
            for row, line in enumerate(self._facts):
                canvas.add_text("facts muted", _PAD, 48 + 17 * row, line)
            left = _PAD
            for row, (box, view) in enumerate(zip(self._balancers, self.view.balancers, strict=True)):
                top, trunk = self._top + (box.height + 6) * row, left + 8
                path = f"M{format_decimal(left + 22)} {format_decimal(top + box.height / 2)}H{format_decimal(trunk)}"
                with canvas.svg_group(view.tooltip):
                    canvas.add_path("balances", f"{path}V{format_decimal(self._inside_top - 7)}")
                    draw_arrow_head(canvas, "head-balances", (trunk, top), (trunk, self._inside_top))
                box.draw(canvas, left + 22, top)
            self._inside.draw(canvas, left, self._inside_top)
            for row, line in enumerate(self._notes):
                canvas.add_text("small muted", _PAD, self._inside_top + self._inside.height + 22 + 16 * row, line)


def balancer_box(view: BalancerView) -> LabeledBox:
    """Return the box that shows a load balancer in a picture of a fleet.

    The box has the virtual address and ports of the load balancer.
    """
    return LabeledBox("balancer", view.host, " · ".join((view.address, *view.ports)), view.tooltip)
