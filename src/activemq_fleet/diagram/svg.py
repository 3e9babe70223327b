"""Draw a fleet as SVG: a single file without scripts, fonts or images from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from activemq_fleet.diagram.balancers import draw_idle
from activemq_fleet.diagram.boxes import GroupBox, heading_facts, shared_facts, usual_release
from activemq_fleet.diagram.canvas import Canvas, decimal
from activemq_fleet.diagram.captions import describe
from activemq_fleet.diagram.cards import FullCard, SmallCard
from activemq_fleet.diagram.group_layout import MOST_DRAWN, are_too_many_to_draw, place_groups
from activemq_fleet.diagram.legend import draw_findings, draw_legend, legend_entries
from activemq_fleet.diagram.pair_layout import MeshFrame
from activemq_fleet.diagram.scene import SEVERITIES, GroupView, Scene, scene_of
from activemq_fleet.diagram.style import style_sheet
from activemq_fleet.diagram.text import join_words, wrap
from activemq_fleet.node.printable import counted, escape_html
from activemq_fleet.topology import Fleet

MOST_FULL = 12
_MARGIN = 26.0
_LEAST_WIDTH = 720.0


def to_svg(fleet: Fleet, states: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the fleet as an SVG document, the same bytes for the same fleet.

    Up to ``MOST_FULL`` pairs are drawn in full; with more, pairs show only what differs within a group. The picture
    follows the reader's light or dark mode and prints in light colours. ``states`` are those of brokers at run time, by
    host; they stand beside the brokers.
    """
    scene = scene_of(fleet, states)
    small = len(scene.pairs) > MOST_FULL
    known = shared_facts(scene.groups) if small else ()
    full = max((FullCard.natural_width(pair) for pair in scene.pairs), default=0.0)
    boxes = [
        GroupBox(group, small=small, card_width=_small_width(group) if small else full, known=known)
        for group in scene.groups
    ]
    return _document(scene, boxes, known, small=small)


def _small_width(group: GroupView) -> float:
    """Return the width of a group's small cards (pixels); a long name in one group does not widen other groups."""
    usual = usual_release(group)
    return max(SmallCard.natural_width(pair, usual) for pair in group.pairs)


def _document(scene: Scene, boxes: list[GroupBox], known: Sequence[str], *, small: bool) -> str:
    placement = place_groups(boxes, scene.between)
    strokes = [*placement.strokes, *(stroke for box in boxes for stroke in box.connection_lines)]
    frames = {inner.kind for box in boxes for inner, _ in box.inside.boxes if isinstance(inner, MeshFrame)}
    width = max(placement.width, _LEAST_WIDTH)
    canvas = Canvas()
    y = _draw_heading(canvas, scene, known, width)
    if scene.idle_balancers:
        y += draw_idle(canvas, scene.idle_balancers, _MARGIN, y, width)
    with canvas.group(at=(_MARGIN + (width - placement.width) / 2, y)):
        placement.draw(canvas)
    y += placement.height + 24
    if are_too_many_to_draw(scene.between):
        y += _draw_between(canvas, scene, y, width)
    y += draw_findings(canvas, scene, _MARGIN, y, width)
    y += draw_legend(canvas, legend_entries(scene, strokes, frames, small=small), _MARGIN, y, width) + 18
    total = (decimal(width + 2 * _MARGIN), decimal(y))
    title, description = escape_html(_title(scene)), escape_html(describe_fleet(scene))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fleet" width="{total[0]}" height="{total[1]}" '
        f'viewBox="0 0 {total[0]} {total[1]}" role="img" aria-labelledby="fleet-title fleet-description">\n'
        f'<title id="fleet-title">{title}</title>\n<desc id="fleet-description">{description}</desc>\n'
        f"<style>\n{style_sheet()}\n</style>\n"
        f'<rect class="paper" width="{total[0]}" height="{total[1]}"/>\n{canvas}\n</svg>\n'
    )


def _draw_heading(canvas: Canvas, scene: Scene, known: Sequence[str], width: float) -> float:
    canvas.text(_MARGIN, 42, "ActiveMQ fleet", "title ink")
    verdict, css = _verdict(scene)
    canvas.text(_MARGIN + width, 42, verdict, f"summary {css}", "end")
    lines = wrap(_summary(scene), "summary", width, " · ")
    if known:
        lines += wrap([f"all groups: {known[0]}", *known[1:]], "summary", width, " · ")
    for row, line in enumerate(lines):
        canvas.text(_MARGIN, 64 + 18 * row, line, "summary muted")
    return 64 + 18 * len(lines) + 6


def _title(scene: Scene) -> str:
    names = [group.name for group in scene.groups]
    return f"ActiveMQ fleet: {join_words(names) if len(names) <= 6 else counted(len(names), 'group')}"


def _summary(scene: Scene) -> list[str]:
    brokers = [node.broker for pair in scene.pairs for node in pair.nodes]
    agents = sum(len(pair.agents) for pair in scene.pairs)
    releases = {broker.release.text: broker.release.version for broker in brokers}
    parts = [
        counted(len(scene.groups), "group"),
        counted(len(scene.pairs), "pair"),
        counted(len(brokers), "broker"),
    ]
    parts += [counted(agents, "agent")] if agents else []
    parts += [f"ActiveMQ {join_words(sorted(releases, key=lambda text: releases[text]))}"] if releases else []
    if scene.balancers:
        shown = ", ".join(scene.balancers[:4])
        parts.append(f"{counted(len(scene.balancers), 'load balancer')} {shown}")
    return parts


def _verdict(scene: Scene) -> tuple[str, str]:
    found = Counter("waived" if f.waived is not None else f.severity for f in scene.findings)
    if not found:
        return "no findings", "good"
    words = [counted(found[name], name, "info" if name == "info" else None) for name in SEVERITIES if found[name]]
    words += [f"{found['waived']} waived"] if found["waived"] else []
    worst = next((severity for severity in (*SEVERITIES, "waived") if found[severity]), "info")
    return ", ".join(words), f"badge-{worst}"


def _draw_between(canvas: Canvas, scene: Scene, y: float, width: float) -> float:
    """Write the links between groups as text, where lines would cover each other; return the height used."""
    canvas.text(_MARGIN, y + 13, f"Links between groups ({len(scene.between)})", "heading ink")
    words = [describe(connection, _sizes(scene)) for connection in scene.between]
    lines = wrap(words, "note", width, ", ")
    hidden = len(lines) - 16
    for row, line in enumerate(lines[:16] + ([f"and {counted(hidden, 'line')} more"] if hidden > 0 else [])):
        canvas.text(_MARGIN, y + 33 + 16 * row, line, "note muted")
    return 33 + 16 * min(len(lines), 17) + 12


def describe_fleet(scene: Scene) -> str:
    """Return the content of the picture in words, for people who do not see it; pairs are named where they are few."""
    sentences = [", ".join(_summary(scene)) + "."]
    few = len(scene.pairs) <= MOST_FULL
    for group in scene.groups:
        sentences.append(f"Group {group.name}: {', '.join(heading_facts(group, small=False))}.")
        sentences += _pairs_in_words(group) if few else []
        sentences += [f"{view.tooltip[0].upper()}{view.tooltip[1:]}." for view in group.balancers]
    if len(scene.between) <= MOST_DRAWN:
        sentences += [f"Link between groups: {describe(connection, _sizes(scene))}." for connection in scene.between]
    sentences += [f"Load balancer {host} holds no address." for host in scene.idle_balancers]
    sentences.append(f"Findings: {_verdict(scene)[0]}." if scene.findings else "No findings.")
    return " ".join(sentences)


def _sizes(scene: Scene) -> dict[str, int]:
    return {group.name: len(group.pairs) for group in scene.groups}


def _pairs_in_words(group: GroupView) -> list[str]:
    sentences = []
    for pair in group.pairs:
        nodes = join_words(
            f"{node.label} (preferred {node.broker.role}{f', {node.state}' if node.state else ''})"
            for node in pair.nodes
        )
        agents = f", home of {counted(len(pair.agents), 'agent')}" if pair.agents else ""
        sentences.append(f"Pair {pair.name}: {nodes}{agents}.")
    return sentences
