"""Draw a pair as a card: its two nodes, the store or replication between them, and the agents of the pair.

A small fleet has full cards. A large fleet has small cards, and what the pairs of a group have in common stands once,
in the group's heading.
"""

from __future__ import annotations

import re

from activemq_fleet.addresses import join
from activemq_fleet.diagram.canvas import Canvas, decimal
from activemq_fleet.diagram.lines import Stroke, arrow_head, draw_stroke
from activemq_fleet.diagram.scene import BrokerView, Flow, PairView
from activemq_fleet.diagram.symbols import badge_text, badge_tooltip, badge_width, draw_badge, draw_cylinder, draw_star
from activemq_fleet.diagram.text import shorten, shorten_name, width_of, wrap
from activemq_fleet.node.printable import counted

PAD = 10.0
LEAST_WIDTH, MOST_WIDTH = 228.0, 300.0
LEAST_SMALL = 118.0
NAMED_AGENTS = 3
_INDENT = 27.0
_HEADER, _LINE = 32.0, 15.0
_PILL, _PILL_GAP, _STUB = 21.0, 5.0, 12.0
_ROW, _ROWS_FROM, _INSET = 17.0, 25.0, 6.0
_INNER_ROOM = 34.0


def ports_of(node: BrokerView) -> list[str]:
    """Return a broker's ports as texts such as ``openwire 61616``, in the order of its connectors."""
    return [f"{name} {port}" for name, port in node.broker.ports.items()]


class FullCard:
    """The drawing of a pair as a card with all details.

    ``domain`` is the domain that the group's heading names: an address that only repeats it is left out.
    """

    def __init__(self, pair: PairView, width: float, domain: str | None) -> None:
        self.pair = pair
        self.name = pair.name
        self.width = width
        self._texts = [_node_lines(node, width - 2 * PAD - _INDENT - 6, domain) for node in pair.nodes]
        self._heights = [30.0 + _LINE * len(lines) for lines in self._texts]
        self._between = 46.0 if pair.profile.has_peer or pair.inner_edges else 14.0
        gaps = len(pair.nodes) - 1 + pair.lacks_a_node
        absent = 30.0 if pair.lacks_a_node else 0.0
        self.height = _HEADER + sum(self._heights) + gaps * self._between + absent + PAD
        self._agents = list(pair.agents) if len(pair.agents) <= NAMED_AGENTS else [counted(len(pair.agents), "agent")]
        rows = len(self._agents)
        self.hanging = _STUB + rows * _PILL + (rows - 1) * _PILL_GAP if rows else 0.0

    @staticmethod
    def natural_width(pair: PairView) -> float:
        """Return the width in pixels, within limits, at which a pair's names, addresses and paths fit."""
        needed = [width_of(pair.name, "pair-name") + width_of(" + ".join(pair.releases), "small") + 34]
        for node in pair.nodes:
            needed.append(width_of(node.label, "host") + width_of(node.caption, "small") + _INDENT + 50)
            if node.broker.address != node.broker.host:
                needed.append(width_of(node.broker.address, "mono") + _INDENT + 30)
        room = _INNER_ROOM if pair.inner_edges else 0
        needed += [width_of(text, css.split()[0]) + _INDENT + 34 + room for text, css in _store_text(pair)]
        return min(max(LEAST_WIDTH, *needed), MOST_WIDTH)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw the card with its upper left corner at (x, y), in pixels."""
        with canvas.group(f"pair {self.pair.name}", at=(x, y)):
            self._draw_agents(canvas)
            canvas.rect(0, 0, self.width, self.height, "card", 9)
            releases = " + ".join(self.pair.releases)
            room = self.width - 2 * PAD - width_of(releases, "small") - 12
            canvas.text(PAD + 2, 21, shorten_name(self.pair.name, "pair-name", room, self.pair.number), "pair-name ink")
            canvas.text(self.width - PAD - 2, 21, releases, "small muted", "end")
            top = _HEADER
            for position, node in enumerate(self.pair.nodes):
                if position:
                    self._draw_between(canvas, top)
                    top += self._between
                self._draw_node(canvas, top, position, node)
                top += self._heights[position]
            if self.pair.lacks_a_node:
                self._draw_absent(canvas, top + self._between)

    def _draw_node(self, canvas: Canvas, top: float, position: int, node: BrokerView) -> None:
        inner, height = self.width - 2 * PAD, self._heights[position]
        indent = _INDENT if node.role else 12.0
        with canvas.group(_title_of(node), at=(PAD, top)):
            canvas.rect(0, 0, inner, height, _css_of(node), 6)
            if node.severity:
                canvas.rect(0, 0, inner, height, f"thin ringed ring-{node.severity}", 6)
            if node.role:
                draw_star(canvas, 15, 14.5, filled=node.is_master)
            room = inner - width_of(node.caption, "small") - _INDENT - 18
            canvas.text(indent, 19, shorten_name(node.label, "host", room, self.pair.number), "host ink")
            canvas.text(inner - 9, 19, node.caption, f"small {_css_of_state(node)}", "end")
            for row, (text, css) in enumerate(self._texts[position]):
                canvas.text(indent, 35 + _LINE * row, text, css)
            if node.severity:
                with canvas.group(badge_tooltip(node.findings)):
                    draw_badge(canvas, inner - 8, 0, badge_text(node.findings), node.severity)

    def _draw_between(self, canvas: Canvas, top: float) -> None:
        bottom, x = top + self._between, PAD + 15
        if self.pair.profile.replicates:
            canvas.path(f"M{decimal(x)} {decimal(top)}V{decimal(bottom - 7)}", "line tie")
            canvas.path(arrow_head((x, top), (x, bottom)), "head-tie")
        elif self.pair.profile.has_peer:
            canvas.path(f"M{decimal(x)} {decimal(top)}V{decimal(bottom)}", "line tie")
            draw_cylinder(canvas, x - 10, top + 9, 20, self._between - 18)
        room = self.width - 2 * PAD - _INDENT - 8 - (_INNER_ROOM if self.pair.inner_edges else 0)
        for row, (text, css) in enumerate(_store_text(self.pair)):
            canvas.text(PAD + _INDENT + 6, top + 20 + _LINE * row, shorten(text, css.split()[0], room), css)
        if self.pair.inner_edges:
            x = self.width - PAD - 18
            draw_stroke(canvas, Stroke(((x, top), (x, bottom)), *inner_line(self.pair)))

    def _draw_absent(self, canvas: Canvas, top: float) -> None:
        canvas.rect(PAD, top, self.width - 2 * PAD, 30, "absent", 6)
        canvas.text(self.width / 2, top + 19, "the other node is missing", "small muted", "middle")

    def _draw_agents(self, canvas: Canvas) -> None:
        if not self._agents:
            return
        x, top = self.width / 2, self.height
        canvas.path(f"M{decimal(x)} {decimal(top)}V{decimal(top + self.hanging - _PILL / 2)}", "agent-tie")
        for row, name in enumerate(self._agents):
            text = shorten(name, "small", self.width - 40)
            width = width_of(text, "small") + 32
            left, pill = x - width / 2, top + _STUB + row * (_PILL + _PILL_GAP)
            with canvas.group(_named(self.pair.agents) if text == name else name):
                canvas.rect(left, pill, width, _PILL, "agent", _PILL / 2)
                canvas.circle(left + 12, pill + _PILL / 2, 3.2, "agent-dot")
                canvas.text(left + 21, pill + 14.6, text, "small ink")


class SmallCard:
    """The drawing of a pair as a card of four lines at most, for large fleets.

    ``usual`` is the release that the group's heading names; only another release is written on the card.
    """

    def __init__(self, pair: PairView, width: float, usual: str) -> None:
        self.pair = pair
        self.name = pair.name
        self.width = width
        self.hanging = 0.0
        self._usual = usual
        self.height = _ROWS_FROM + _ROW * (len(pair.nodes) + pair.lacks_a_node) + 5

    @staticmethod
    def natural_width(pair: PairView, usual: str) -> float:
        """Return the width in pixels, within limits, at which the texts of a pair's small card fit."""
        corner = badge_width(f"{len(pair.agents)}") + 18 if pair.agents else 0
        needed = [width_of(pair.name, "pair-small") + 18 + corner]
        for node in pair.nodes:
            beside = [badge_width(badge_text(node.findings)) + 5] if node.findings else []
            release = node.broker.release.text
            text = node.state or (_short_address(node) if release == usual else release)
            beside += [width_of(text, "mono") + 8] if text else []
            needed.append(_INDENT + width_of(node.label, "label") + sum(beside) + 14)
        return min(max(LEAST_SMALL, *needed), MOST_WIDTH)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw the card with its upper left corner at (x, y), in pixels."""
        with canvas.group(f"pair {self.pair.name}", at=(x, y)):
            canvas.rect(0, 0, self.width, self.height, "card", 7)
            room = self.width - 18 - self._draw_corner(canvas)
            canvas.text(9, 17, shorten_name(self.pair.name, "pair-small", room, self.pair.number), "pair-small ink")
            for position, node in enumerate(self.pair.nodes):
                self._draw_row(canvas, _ROWS_FROM + _ROW * position, node)
            if self.pair.lacks_a_node:
                top = _ROWS_FROM + _ROW * len(self.pair.nodes)
                canvas.rect(6, top, self.width - 12, 15, "absent", 4)
                canvas.text(self.width / 2, top + 11.5, "other node missing", "small muted", "middle")

    def _draw_corner(self, canvas: Canvas) -> float:
        """Draw the pair's number of agents in the card's corner; return the width used, in pixels."""
        if not self.pair.agents:
            return 0.0
        text = f"{len(self.pair.agents)}"
        width, right = badge_width(text) + 12, self.width - 7
        with canvas.group(_named(self.pair.agents)):
            canvas.rect(right - width, 5, width, 16, "agent", 8)
            canvas.circle(right - width + 9, 13, 2.8, "agent-dot")
            canvas.text(right - width + 16, 16.6, text, "badge ink")
        return width + 4

    def _draw_row(self, canvas: Canvas, top: float, node: BrokerView) -> None:
        with canvas.group(_title_of(node)):
            canvas.rect(6, top, self.width - 12, 16, _css_of(node), 4)
            if node.severity:
                canvas.rect(6, top, self.width - 12, 16, f"thin ringed ring-{node.severity}", 4)
            if node.role:
                draw_star(canvas, 16, top + 8.3, filled=node.is_master)
            right = self.width - 12
            if node.severity:
                text = badge_text(node.findings)
                with canvas.group(badge_tooltip(node.findings)):
                    draw_badge(canvas, self.width - _INSET, top + 8, text, node.severity)
                right = self.width - _INSET - badge_width(text) - 5
            label = shorten_name(node.label, "label", right - _INDENT, self.pair.number)
            canvas.text(_INDENT, top + 12, label, "label ink")
            release = node.broker.release.text
            beside = node.state or (_short_address(node) if release == self._usual else release)
            room = right - _INDENT - width_of(label, "label") - 8
            if beside and room > 24:
                canvas.text(right, top + 12, shorten(beside, "mono", room), f"mono {_css_of_state(node)}", "end")


def _node_lines(node: BrokerView, width: float, domain: str | None) -> list[tuple[str, str]]:
    """Return address and ports of a node as (text, CSS classes) lines."""
    broker = node.broker
    known = broker.address == broker.host and broker.identity.domain == domain
    lines = [] if known else [(shorten(broker.address, "mono", width), "mono muted")]
    listens = ports_of(node)
    if broker.is_replication_slave:
        listens = ["listens only once promoted", *listens]
    return lines + [(line, "small muted") for line in wrap(listens, "small", width, " · ")]


def _store_text(pair: PairView) -> list[tuple[str, str]]:
    """Return what the nodes of a pair share (store, database, replication) as up to two (text, CSS classes) lines."""
    broker = pair.nodes[0].broker
    if pair.profile.shares_store_directory:
        return [("one store, one lock", "small ink"), (broker.store_directory, "mono muted")]
    if pair.profile.has_database_lease:
        # Never the URL itself: some drivers take the password there.
        url = broker.settings.jdbc.url if broker.settings.jdbc else ""
        found = re.match(r"jdbc:([a-z0-9]+)", url)
        return [("one database, one lease", "small ink"), (found[1] if found else "jdbc", "mono muted")]
    if pair.profile.replicates:
        port = broker.ports.get("replication")
        return [("replicates to its slave", "small ink"), (f"on port {port}", "mono muted")] if port else []
    return []


def inner_line(pair: PairView) -> tuple[str, Flow, str]:
    """Return (kind, flow, tooltip) of the line between the two nodes of a pair, for the links that
    they have to each other.
    """
    first = pair.inner_edges[0].link
    flow: Flow = "duplex" if first.duplex else "each way"
    if len(pair.inner_edges) == 1 and not first.duplex:
        flow = "backward" if first.target == pair.nodes[0].label else "forward"
    return first.kind, flow, "\n".join(edge.link.name for edge in pair.inner_edges)


def _title_of(node: BrokerView) -> str:
    broker = node.broker
    role = f"preferred {node.role} of" if node.role else "single node of"
    listens = ", ".join(ports_of(node)) or "no port of its own"
    return f"{broker.host}: {role} {broker.pair}, release {broker.release.text}, address {broker.address}, {listens}"


def _css_of(node: BrokerView) -> str:
    return "node node-master" if node.role == "master" else "node"


def _css_of_state(node: BrokerView) -> str:
    good = {"active": "good", "standby": "muted", "": "muted"}
    return good.get(node.state, "badge-error")


def _named(agents: tuple[str, ...]) -> str:
    shown = [f"agent {name}" for name in agents[:20]]
    return "\n".join([*shown, f"and {len(agents) - 20} more"] if len(agents) > 20 else shown)


def _short_address(node: BrokerView) -> str:
    """Return address and port of a broker whose address differs from its host name, otherwise ""."""
    broker = node.broker
    if broker.address == broker.host:
        return ""
    return join(broker.address, broker.openwire.port) if broker.openwire else broker.address
