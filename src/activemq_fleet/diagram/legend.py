"""Draw what is below the picture: findings in words, and the legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from activemq_fleet.canvas import SvgCanvas, wrap_words
from activemq_fleet.diagram.captions_and_descriptions import join_words
from activemq_fleet.diagram.lines import draw_arrow_head, draw_connection
from activemq_fleet.diagram.pair_card import (
    badge_width,
    draw_badge,
    draw_cylinder,
    draw_preferred_master_or_slave_star,
    draw_replication_arrow,
)
from activemq_fleet.diagram.scene import DrawnConnection, FindingWithHosts, Flow, PictureContent, severity_or_waived
from activemq_fleet.findings import Finding
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.profiles import PROFILES
from activemq_fleet.topology import LinkKind

MAX_FINDINGS = 16
_MAXIMUM_HOSTS = 3
_SAMPLE_WIDTH, _LINE_HEIGHT = 46.0, 15.0
_MIN_COLUMN_WIDTH, _MAX_COLUMN_WIDTH = 300.0, 420.0
_PAIR = "A pair: two brokers that take over from each other. One is active at a time."
_STARS = (
    "The preferred master and the preferred slave of a pair. Run `activemq-fleet status` to see which node is active."
)
_SINGLE = "A single broker: no other broker takes over when it fails."
_MESH = "A full mesh: each pair inside the frame has a link to every other pair."
_MULTICAST = "Multicast: the brokers of a group discover each other, and each opens a link to every other broker."
_BALANCER = "A load balancer. It holds, or can take over, the virtual address of the pairs in the dotted frame."
_AGENT = "A failover agent, at the pair to which it connects. The agent tries the preferred master first."
_AGENTS = "The number of failover agents that connect to this pair. Each agent tries the preferred master first."
_KIND_EXPLANATIONS: dict[LinkKind, str] = {
    "masterslave": "masterslave: a link to the active node of the pair.",
    "failover": "failover: a link to the active node of the pair. The broker tries the addresses in turn.",
    "static": "static: a link to fixed addresses.",
}
_FLOW_EXPLANATIONS: dict[Flow, str] = {
    "forward": "One way: messages flow in the direction of the arrow.",
    "duplex": "Duplex: one link, messages flow in both directions.",
    "each way": "Two links, one for each direction of messages.",
}


class LegendEntry(NamedTuple):
    """An entry of the legend of a fleet's picture: a symbol and its explanation.

    ``draw`` draws a sample of up to 36 × 20 pixels around (18, 10), ``text`` explains it.
    """

    draw: Callable[[SvgCanvas], None]
    text: str


def draw_findings(canvas: SvgCanvas, scene: PictureContent, x: float, y: float, width: float) -> float:
    """Draw the findings of a fleet as text below its picture, and return the height of the text in pixels.

    The worst findings come first. The height is 0 without findings.
    """
    if not scene.findings:
        return 0.0
    top = y
    canvas.add_text("heading ink", x, y + 13, "Findings")
    y += 26
    for grouped in scene.findings[:MAX_FINDINGS]:
        finding, severity = grouped.finding, severity_or_waived(grouped.finding)
        indent = max(62.0, badge_width(finding.rule) + 10)
        draw_badge(canvas, x + badge_width(finding.rule), y + 7, finding.rule, severity)
        text = f"{_hosts_phrase(grouped)}: {finding.message}"
        if finding.waived is not None:
            text += f" (waived: {finding.waived})"
        lines = wrap_words(text.split(), "note", width - indent - 8)
        for row, line in enumerate(lines):
            css = "note muted" if severity == "waived" else "note ink"
            canvas.add_text(css, x + indent, y + 11 + 16 * row, line)
        y += 16 * len(lines) + 6
    hidden = len(scene.findings) - MAX_FINDINGS
    if hidden > 0:
        canvas.add_text(
            "note muted", x + 62, y + 11, f"and {hidden} more findings: activemq-fleet check lists all findings"
        )
        y += 22
    return y - top + 14


def _hosts_phrase(grouped: FindingWithHosts) -> str:
    if grouped.everywhere:
        return f"all {count_with_noun(len(grouped.hosts), 'broker')}"
    hidden = len(grouped.hosts) - _MAXIMUM_HOSTS
    return join_words([*grouped.hosts[:_MAXIMUM_HOSTS], *([f"{hidden} more"] if hidden > 0 else [])])


def draw_legend(canvas: SvgCanvas, entries: Sequence[LegendEntry], x: float, y: float, width: float) -> float:
    """Draw the legend of a fleet's picture, and return its height in pixels.

    The legend has columns of about equal heights.
    """
    if not entries:
        return 0.0
    canvas.add_text("heading ink", x, y + 13, "Legend")
    columns = max(1, min(len(entries), int(width // _MIN_COLUMN_WIDTH)))
    column_width = min(width / columns, _MAX_COLUMN_WIDTH)
    texts = [wrap_words(entry.text.split(), "note", column_width - _SAMPLE_WIDTH - 16) for entry in entries]
    heights = [max(26.0, _LINE_HEIGHT * len(lines) + 11) for lines in texts]
    tops = [y + 28.0] * columns
    for entry, lines, height in zip(entries, texts, heights, strict=True):
        column = tops.index(min(tops))
        with canvas.svg_group(position=(x + column * column_width, tops[column])):
            entry.draw(canvas)
            for row, line in enumerate(lines):
                canvas.add_text("note ink", _SAMPLE_WIDTH, 14 + _LINE_HEIGHT * row, line)
        tops[column] += height
    return max(tops) - y


def legend_entries(
    scene: PictureContent, drawn: Sequence[DrawnConnection], meshed: AbstractSet[LinkKind], *, detailed: bool
) -> list[LegendEntry]:
    """Return the entries of the legend of a fleet's picture.

    There is an entry for each symbol that the picture uses, in reading order. ``drawn`` are the connections that are
    drawn as lines, ``meshed`` the kinds of links that a frame around a full mesh represents.
    """
    names = {pair.high_availability_profile.name for pair in scene.pairs}
    profiles = [profile for profile in PROFILES.values() if profile.name in names]
    findings = [grouped.finding for grouped in scene.findings]
    kinds = [
        kind for kind in _KIND_EXPLANATIONS if kind in meshed or any(connection.kind == kind for connection in drawn)
    ]
    flows = {"forward" if connection.flow == "backward" else connection.flow for connection in drawn}
    entries: list[tuple[object, Callable[[SvgCanvas], None], str]] = [
        (any(profile.has_peer for profile in profiles), _draw_pair, _PAIR),
        (any(profile.has_peer for profile in profiles), _draw_stars, _STARS),
        (not all(profile.has_peer for profile in profiles), _draw_single, _SINGLE),
    ]
    for profile in profiles:
        draw = _draw_replication if profile.replicates else _draw_store
        entries.append((profile.legend and detailed, draw, profile.legend))
    entries += [(True, partial(_draw_line, kind), _KIND_EXPLANATIONS[kind]) for kind in kinds]
    for flow, text in _FLOW_EXPLANATIONS.items():
        sample = DrawnConnection("", "", kinds[0] if kinds else "multicast", flow)
        entries.append((flow in flows, partial(_draw_flow, sample), text))
    entries += [(True, partial(_draw_frame, kind), _MESH) for kind in sorted(meshed)]
    entries += [
        (any(group.multicast for group in scene.groups), _draw_bus, _MULTICAST),
        (any(group.balancers for group in scene.groups), _draw_balancer, _BALANCER),
        (any(pair.agents for pair in scene.pairs), _draw_agent, _AGENT if detailed else _AGENTS),
        (
            findings,
            partial(_draw_badge, findings),
            "A finding: the badge shows its rule. The text of the finding is above the legend.",
        ),
    ]
    return [LegendEntry(draw, text) for is_shown, draw, text in entries if is_shown]


def _draw_line(kind: LinkKind, canvas: SvgCanvas) -> None:
    canvas.add_path(f"line line-{kind}", "M2 10H34")


def _draw_flow(connection: DrawnConnection, canvas: SvgCanvas) -> None:
    draw_connection(canvas, connection, [(1, 10), (35, 10)])


def _draw_frame(kind: LinkKind, canvas: SvgCanvas) -> None:
    canvas.add_rect(f"line line-{kind}", 3, 2, 30, 16, radius=4)


def _draw_pair(canvas: SvgCanvas) -> None:
    canvas.add_rect("card", 6, 0, 24, 20, radius=4)
    canvas.add_rect("node node-master", 9, 3, 18, 6, radius=2)
    canvas.add_rect("node", 9, 11, 18, 6, radius=2)


def _draw_single(canvas: SvgCanvas) -> None:
    canvas.add_rect("card", 6, 3, 24, 14, radius=4)
    canvas.add_rect("node", 9, 6, 18, 8, radius=2)


def _draw_stars(canvas: SvgCanvas) -> None:
    draw_preferred_master_or_slave_star(canvas, 10, 10, filled=True)
    draw_preferred_master_or_slave_star(canvas, 27, 10, filled=False)


def _draw_store(canvas: SvgCanvas) -> None:
    draw_cylinder(canvas, 9, 0, 18, 20)


def _draw_replication(canvas: SvgCanvas) -> None:
    draw_replication_arrow(canvas, 18, 0, 20)


def _draw_bus(canvas: SvgCanvas) -> None:
    canvas.add_rect("cloud", 1, 4, 34, 12, radius=4)


def _draw_balancer(canvas: SvgCanvas) -> None:
    canvas.add_rect("balancer", 10, 0, 24, 9, radius=3)
    canvas.add_path("balances", "M10 4.5H4V9")
    draw_arrow_head(canvas, "head-balances", (4, 4), (4, 15))
    canvas.add_rect("balanced", 0, 15, 34, 5, radius=2)


def _draw_agent(canvas: SvgCanvas) -> None:
    canvas.add_rect("agent", 3, 2, 30, 16, radius=8)
    canvas.add_circle("agent-dot", 12, 10, 3)


def _draw_badge(findings: Sequence[Finding], canvas: SvgCanvas) -> None:
    """Draw the badge of the first finding whose rule fits."""
    finding = min(findings, key=lambda finding: badge_width(finding.rule) > _SAMPLE_WIDTH)
    draw_badge(canvas, 35, 10, finding.rule, severity_or_waived(finding))
