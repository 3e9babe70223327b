"""Draw a pair as a card: its two nodes, the store or replication between them, and the agents of the pair.

A small fleet has detailed cards. A large fleet has compact cards, and the group's heading shows what the pairs of a
group have in common.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from activemq_fleet.addresses import join_host_port
from activemq_fleet.canvas import (
    SvgCanvas,
    cut_host_name_in_middle,
    format_decimal,
    shorten_to_width,
    text_width,
    wrap_words,
)
from activemq_fleet.diagram.captions_and_descriptions import badge_tooltip, port_texts, worst_rule_and_others_text
from activemq_fleet.diagram.lines import draw_arrow_head, draw_connection
from activemq_fleet.diagram.scene import MAX_NAMED_AGENTS, BrokerView, PairView
from activemq_fleet.node.printable import count_with_noun

_MAXIMUM_WIDTH = 300.0
_LINE_HEIGHT, _LINKS_WIDTH, _MAX_TOOLTIP_LINES = 15.0, 34.0, 20
_STAR = (
    (0, -6), (1.7, -2), (6, -1.9), (2.7, 0.9), (3.7, 5.2), (0, 2.8),
    (-3.7, 5.2), (-2.7, 0.9), (-6, -1.9), (-1.7, -2),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CardStyle:
    """The style of cards in a picture of a fleet; a card shows one broker pair.

    The style has measures in pixels, and fonts. ``usual_release`` and ``domain`` are those in the group's heading. A
    node's name is ``baseline`` below the top of the node, which is ``node`` high without its details.
    """

    detailed: bool
    usual_release: str
    domain: str | None
    least_width: float
    title: str
    name: str
    header: float
    pad: float
    node: float
    baseline: float
    radius: float

    @classmethod
    def card_style_for_detail_level(cls, usual_release: str, domain: str | None, *, detailed: bool) -> CardStyle:
        """Return the style of a diagram's cards, each of which shows a pair of brokers, for a level of detail.

        Cards are detailed if ``detailed`` is true, else compact. They do not repeat
        ``usual_release`` and ``domain``, which the group's heading shows.
        """
        if detailed:
            return cls(detailed, usual_release, domain, 228.0, "pair-name", "host", 32.0, 10.0, 30.0, 19.0, 6.0)
        return cls(detailed, usual_release, domain, 118.0, "pair-small", "label", 25.0, 6.0, 16.0, 12.0, 4.0)

    @property
    def text_indent(self) -> float:
        """The indent, in pixels, of the texts about a broker in the card of its pair.

        The star that marks the preferred master is at the left of the texts.
        """
        return 27.0 if self.detailed else 21.0

    def role_release_or_address_text(self, node: BrokerView) -> str:
        """Return the text right of a broker's name in a pair's card: its role and state, its release, or its address.

        Detailed cards show role and state. Other cards show what differs from the group's heading.
        """
        if self.detailed:
            return " · ".join(filter(None, (node.preferred_role, node.state)))
        broker = node.broker
        if node.state or broker.release.text != self.usual_release:
            return node.state or broker.release.text
        if broker.address == broker.host:
            return ""
        return join_host_port(broker.address, broker.openwire.port) if broker.openwire else broker.address

    @property
    def right_text_font_name(self) -> str:
        """The name of the font for the text at the right of a broker's name in the card of its pair."""
        return "small" if self.detailed else "mono"

    def shown_address(self, node: BrokerView) -> str:
        """Return the address that the card of a pair shows for a broker; it is empty if the card shows none.

        The card shows none where the group's heading shows the address. Compact cards show no addresses.
        """
        broker = node.broker
        is_in_heading = broker.address == broker.host and broker.identity.domain == self.domain
        return "" if is_in_heading or not self.detailed else broker.address

    def card_width_for(self, pair: PairView) -> float:
        """Return the width, in pixels, of the card for a broker pair.

        The pair's names, addresses and paths fit at this width, within limits.
        """
        widths = [text_width(pair.name, self.title) + text_width(_corner_text(pair, self), "small") + 34]
        for node in pair.nodes:
            texts = [
                text_width(node.short_host_name, self.name),
                text_width(self.role_release_or_address_text(node), self.right_text_font_name) + 8,
            ]
            if node.findings and not self.detailed:
                texts.append(badge_width(worst_rule_and_others_text(node.findings)))
            widths.append(self.text_indent + sum(texts) + 2 * self.pad + 10)
            widths.append(text_width(self.shown_address(node), "mono") + self.text_indent + 30)
        if self.detailed:
            text_margin = self.text_indent + 34 + (_LINKS_WIDTH if pair.links else 0)
            widths += [text_width(text, css.split()[0]) + text_margin for text, css in _store_texts(pair)]
        return min(max(self.least_width, *widths), _MAXIMUM_WIDTH)


class PairCard:
    """The card that shows a broker pair in a picture of a fleet.

    Its content is drawn when it is created, which also measures its size.
    """

    def __init__(self, pair: PairView, width: float, style: CardStyle) -> None:
        self.pair = pair
        self.name = pair.name
        self.width = width
        self._style = style
        self._content = SvgCanvas()
        self.height = self._draw_content(self._content) + style.pad

    def draw(self, canvas: SvgCanvas, x: float, y: float) -> None:
        """Draw the card of a broker pair on a canvas at a position.

        Its upper left corner is at (x, y), in pixels.
        """
        with canvas.svg_group(f"pair {self.name}", position=(x, y)):
            canvas.add_rect("card", 0, 0, self.width, self.height, radius=self._style.radius + 3)
            canvas.add_elements_of(self._content)

    def _draw_content(self, canvas: SvgCanvas) -> float:
        """Draw the content of the card, without its own rectangle.

        Return the vertical position (pixels) of the content's end.
        """
        pair, style = self.pair, self._style
        self._draw_header(canvas)
        y = style.header
        for position, node in enumerate(pair.nodes):
            if position:
                y = self._draw_joint(canvas, y)
            y = self._draw_node(canvas, y, node)
        if pair.has_only_one_of_two_nodes:
            y = self._draw_joint(canvas, y)
            canvas.add_rect("absent", style.pad, y, self.width - 2 * style.pad, style.node, radius=style.radius)
            text = "the inventory lacks the other node" if style.detailed else "other node missing"
            canvas.add_text("small muted", self.width / 2, y + style.baseline, text, "middle")
            y += style.node
        return self._draw_agents(canvas, y) if style.detailed else y

    def _draw_header(self, canvas: SvgCanvas) -> None:
        """Draw the header of the card.

        The header has the pair's name, and in the corner its releases or its number of agents.
        """
        pair, style = self.pair, self._style
        right, baseline = self.width - style.pad - 2, style.header * 2 / 3
        text = _corner_text(pair, style)
        room = right - style.pad - 2 - text_width(text, "small")
        if style.detailed:
            canvas.add_text("small muted", right, baseline, text, "end")
        elif text:
            room -= 24
            _draw_agent(canvas, right + 2, baseline - 12, text, _agents_tooltip(pair), "badge", 16.0)
        name = cut_host_name_in_middle(pair.name, style.title, room - 10 if text else room, pair.pair_number_digits)
        canvas.add_text(f"{style.title} ink", style.pad + 2, baseline, name)

    def _draw_node(self, canvas: SvgCanvas, y: float, node: BrokerView) -> float:
        """Draw a node (broker) of the pair with its badge and details.

        Return the vertical position (pixels) of its end.
        """
        style, x, width = self._style, self._style.pad, self.width - 2 * self._style.pad
        indent = style.text_indent if node.preferred_role else 12.0
        lines = []
        if address := style.shown_address(node):
            lines.append((shorten_to_width(address, "mono", width - indent - 6), "mono muted"))
        if style.detailed:
            port_lines = port_texts(node)
            if node.broker.is_replication_slave:
                port_lines = ["opens its ports only after promotion", *port_lines]
            lines += [(line, "small muted") for line in wrap_words(port_lines, "small", width - indent - 6, " · ")]
        height = style.node + _LINE_HEIGHT * len(lines)
        with canvas.svg_group(_node_tooltip(node)):
            master = " node-master" if node.preferred_role == "master" else ""
            canvas.add_rect(f"node{master}", x, y, width, height, radius=style.radius)
            if node.worst_severity:
                canvas.add_rect(f"thin ringed ring-{node.worst_severity}", x, y, width, height, radius=style.radius)
            middle, baseline, right = y + style.baseline - 4, y + style.baseline, x + width - 8
            if node.preferred_role:
                draw_preferred_master_or_slave_star(
                    canvas, x + style.text_indent / 2 + 0.5, middle, filled=node.preferred_role == "master"
                )
            right_text, text = style.role_release_or_address_text(node), worst_rule_and_others_text(node.findings)
            if node.worst_severity:
                with canvas.svg_group(badge_tooltip(node.findings)):
                    draw_badge(
                        canvas, *((right, y) if style.detailed else (x + width, middle)), text, node.worst_severity
                    )
                if not style.detailed:
                    right = x + width - badge_width(text) - 5
            room = right - x - indent
            right_text_width = (
                text_width(right_text, style.right_text_font_name) + 8 if node.state or style.detailed else 0.0
            )
            label = cut_host_name_in_middle(
                node.short_host_name, style.name, room - right_text_width, self.pair.pair_number_digits
            )
            canvas.add_text(f"{style.name} ink", x + indent, baseline, label)
            room -= text_width(label, style.name) + 8
            if right_text and room > 24:
                text = shorten_to_width(right_text, style.right_text_font_name, room)
                canvas.add_text(f"{style.right_text_font_name} {_state_css(node)}", right, baseline, text, "end")
            for row, (text, css) in enumerate(lines, 1):
                canvas.add_text(css, x + indent, baseline + 1 + _LINE_HEIGHT * row, text)
        return y + height

    def _draw_joint(self, canvas: SvgCanvas, y: float) -> float:
        """Draw the joint of the pair's two nodes: their shared store or replication, and links.

        Return the vertical position (pixels) of its end.
        """
        pair, x = self.pair, self._style.pad + 15
        if not self._style.detailed:
            return y + 1
        texts = _store_texts(pair)
        bottom = y + (46.0 if pair.high_availability_profile.has_peer or pair.links else 14.0)
        if pair.high_availability_profile.replicates:
            draw_replication_arrow(canvas, x, y, bottom)
        elif pair.high_availability_profile.has_peer:
            canvas.add_path("line tie", f"M{format_decimal(x)} {format_decimal(y)}V{format_decimal(bottom)}")
            draw_cylinder(canvas, x - 10, y + 9, 20, bottom - y - 18)
        room = self.width - x - 36 - (_LINKS_WIDTH if pair.links else 0)
        for row, (text, css) in enumerate(texts):
            canvas.add_text(css, x + 18, y + 20 + _LINE_HEIGHT * row, shorten_to_width(text, css.split()[0], room))
        if pair.links and len(pair.nodes) > 1:
            right = self.width - self._style.pad - 18
            draw_connection(canvas, pair.links[0], [(right, y), (right, bottom)])
        return bottom

    def _draw_agents(self, canvas: SvgCanvas, y: float) -> float:
        """Draw the pair's agents by name, or their number if they are many.

        Return the vertical position (pixels) of their end.
        """
        agents = self.pair.agents
        names = agents if len(agents) <= MAX_NAMED_AGENTS else (count_with_noun(len(agents), "agent"),)
        for name in names:
            tooltip = f"agent {name}" if len(agents) <= MAX_NAMED_AGENTS else _agents_tooltip(self.pair)
            y += 6
            text = shorten_to_width(name, "small", self.width - 52)
            left = self._style.pad
            _draw_agent(canvas, left + text_width(text, "small") + 32, y, text, tooltip, "small", 20.0)
            y += 20
        return y


def _draw_agent(canvas: SvgCanvas, right: float, y: float, text: str, tooltip: str, font: str, height: float) -> None:
    """Draw an agent, or several, as a pill with a text whose right end is at ``right``."""
    width = text_width(text, font) + 1.2 * height + 8
    with canvas.svg_group(tooltip):
        canvas.add_rect("agent", right - width, y, width, height, radius=height / 2)
        canvas.add_circle("agent-dot", right - width + height * 0.55, y + height / 2, 3)
        canvas.add_text(f"{font} ink", right - width + height, y + height / 2 + 3.8, text)


def _agents_tooltip(pair: PairView) -> str:
    lines = [f"agent {name}" for name in pair.agents[:_MAX_TOOLTIP_LINES]]
    if len(pair.agents) > _MAX_TOOLTIP_LINES:
        lines.append(f"and {len(pair.agents) - _MAX_TOOLTIP_LINES} more agents")
    return "\n".join(lines)


def _corner_text(pair: PairView, style: CardStyle) -> str:
    """Return the text in a card's corner: releases, or the number of agents where the agents are not drawn."""
    if style.detailed:
        return pair.pair_releases_text
    return str(len(pair.agents)) if pair.agents else ""


def _store_texts(pair: PairView) -> list[tuple[str, str]]:
    """Return what the nodes of a pair share (store, database, replication) as up to two (text, CSS classes) lines."""
    broker = pair.nodes[0].broker
    if pair.high_availability_profile.shares_store_directory:
        return [("shared store with one lock", "small ink"), (broker.store_directory, "mono muted")]
    if pair.high_availability_profile.has_database_lease:
        # The URL itself is never shown, because it contains the password for some drivers.
        product = re.match(r"jdbc:([a-z0-9]+)", broker.settings.jdbc.url if broker.settings.jdbc else "")
        return [
            ("shared database with one lease", "small ink"),
            (product[1] if product else "jdbc", "mono muted"),
        ]
    port = broker.ports.get("replication")
    if pair.high_availability_profile.replicates and port:
        return [("master replicates to slave", "small ink"), (f"on port {port}", "mono muted")]
    return []


def _node_tooltip(node: BrokerView) -> str:
    broker = node.broker
    role = f"preferred {node.preferred_role} of" if node.preferred_role else "single node of"
    ports = ", ".join(port_texts(node)) or "no ports"
    return f"{broker.host}: {role} {broker.pair}, release {broker.release.text}, address {broker.address}, {ports}"


def _state_css(node: BrokerView) -> str:
    return {"active": "good", "standby": "muted", "": "muted"}.get(node.state, "badge-error")


def badge_width(text: str) -> float:
    """Return the width, in pixels, of the badge with a given text that marks a broker's findings."""
    return text_width(text, "badge") + 12


def draw_badge(canvas: SvgCanvas, right: float, middle: float, text: str, severity: str) -> float:
    """Draw the badge that marks a broker's findings, in the color of a severity.

    The badge's right end is at ``right``. Return its width in pixels.
    """
    width = badge_width(text)
    canvas.add_rect(f"badge-{severity}", right - width, middle - 8, width, 16, radius=8)
    canvas.add_text("badge on-badge", right - width / 2, middle + 3.6, text, "middle")
    return width


def draw_preferred_master_or_slave_star(canvas: SvgCanvas, x: float, y: float, *, filled: bool) -> None:
    """Draw the star of a preferred master (``filled``) or the open star of a preferred slave at a position.

    The star is twelve pixels wide, with its middle at (x, y).
    """
    points = "L".join(f"{format_decimal(x + dx)} {format_decimal(y + dy)}" for dx, dy in _STAR)
    canvas.add_path("star" if filled else "star-open", f"M{points}Z")


def draw_cylinder(canvas: SvgCanvas, x: float, y: float, width: float, height: float) -> None:
    """Draw a cylinder, the symbol of a message store, at a position.

    The cylinder's upper left corner is at (x, y).
    """
    half, lid_height = format_decimal(width / 2), 3.6
    lid, side = f"M{format_decimal(x)} {format_decimal(y + lid_height)}", format_decimal(height - 2 * lid_height)
    bottom = f"a{half} {lid_height} 0 0 0 {format_decimal(width)} 0"
    canvas.add_path("store", f"{lid}v{side}{bottom}v-{side}a{half} {lid_height} 0 0 0 {format_decimal(-width)} 0Z")
    canvas.add_path("thin tie", lid + bottom)


def draw_replication_arrow(canvas: SvgCanvas, x: float, top: float, bottom: float) -> None:
    """Draw the arrow that represents replication from a master to its slave.

    The arrow is vertical and points downwards.
    """
    canvas.add_path("line tie", f"M{format_decimal(x)} {format_decimal(top)}V{format_decimal(bottom - 7)}")
    draw_arrow_head(canvas, "head-tie", (x, top), (x, bottom))
