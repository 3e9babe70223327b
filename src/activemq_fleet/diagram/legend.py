"""Draw what stands below the picture: findings in words, and the legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from activemq_fleet.diagram.canvas import Canvas
from activemq_fleet.diagram.lines import Stroke, arrow_head, draw_stroke
from activemq_fleet.diagram.scene import Flow, GroupedFinding, Scene
from activemq_fleet.diagram.symbols import badge_width, draw_badge, draw_cylinder, draw_star
from activemq_fleet.diagram.text import join_words, wrap
from activemq_fleet.findings import Finding
from activemq_fleet.node.printable import counted
from activemq_fleet.profiles import PROFILES

MOST_FINDINGS = 16
_MOST_HOSTS = 3
_SAMPLE, _LINE = 46.0, 15.0
_LEAST_COLUMN, _MOST_COLUMN = 300.0, 420.0
_PAIR = "A pair: two brokers that stand in for each other. One is active at a time."
_STARS = "Preferred master and preferred slave; this never changes. Which node is active is found out at run time."
_SINGLE = "A single broker: no other takes over from it."
_KINDS = {
    "masterslave": "masterslave: a link to whichever node of the pair is active.",
    "failover": "failover: a link to whichever node of the pair is active; its addresses are tried in turn.",
    "static": "static: a link to fixed addresses.",
}
_FLOWS: dict[Flow, str] = {
    "forward": "One way: messages go where the arrow points.",
    "duplex": "Duplex: one link, messages go both ways.",
    "each way": "Two links, one each way.",
}
_FRAME = "A full mesh: each pair inside has a link to each other."
_MULTICAST = "Multicast: the brokers of a group find each other here and link to every other that they hear."
_BALANCERS = "A load balancer and the address that it holds for the pairs in the dotted frame, or takes over."
_AGENTS = "An agent at its home pair. It tries the preferred master first."
_AGENTS_MANY = "How many agents are at home at a pair. They try its preferred master first."


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A legend entry: the function ``draw`` draws a sample of up to 36 × 20 pixels around (18,
    10), ``text`` explains it.
    """

    draw: Callable[[Canvas], None]
    text: str


def draw_findings(canvas: Canvas, scene: Scene, x: float, y: float, width: float) -> float:
    """Draw the fleet's findings as text, worst first; return the height in pixels, 0 without findings."""
    if not scene.findings:
        return 0.0
    top = y
    canvas.text(x, y + 13, "Findings", "heading ink")
    y += 26
    for group in scene.grouped_findings[:MOST_FINDINGS]:
        finding = group.finding
        severity = "waived" if finding.waived is not None else finding.severity
        pill = badge_width(finding.rule)
        indent = max(62.0, pill + 10)
        draw_badge(canvas, x + pill, y + 7, finding.rule, severity)
        text = f"{_hosts_of(group)}: {finding.message}"
        if finding.waived is not None:
            text += f" (waived: {finding.waived})"
        lines = wrap(text.split(), "note", width - indent - 8)
        for row, line in enumerate(lines):
            canvas.text(x + indent, y + 11 + 16 * row, line, "note ink" if severity != "waived" else "note muted")
        y += 16 * len(lines) + 6
    hidden = len(scene.grouped_findings) - MOST_FINDINGS
    if hidden > 0:
        canvas.text(x + 62, y + 11, f"and {hidden} more: activemq-fleet check lists them all", "note muted")
        y += 22
    return y - top + 14


def _hosts_of(group: GroupedFinding) -> str:
    if group.everywhere:
        return f"all {counted(len(group.hosts), 'broker')}"
    shown = list(group.hosts[:_MOST_HOSTS])
    more = len(group.hosts) - len(shown)
    return join_words([*shown, f"{more} more"] if more else shown)


def draw_legend(canvas: Canvas, signs: Sequence[LegendEntry], x: float, y: float, width: float) -> float:
    """Draw the legend in columns; return its height in pixels."""
    if not signs:
        return 0.0
    canvas.text(x, y + 13, "What you are looking at", "heading ink")
    columns = max(1, min(len(signs), int(width // _LEAST_COLUMN)))
    column = min(width / columns, _MOST_COLUMN)
    wrapped = [wrap(sign.text.split(), "note", column - _SAMPLE - 16) for sign in signs]
    heights = [max(26.0, _LINE * len(lines) + 11) for lines in wrapped]
    share = sum(heights) / columns
    tops = [y + 28.0] * columns
    at, used_height = 0, 0.0
    for sign, lines, height in zip(signs, wrapped, heights, strict=True):
        if used_height + height / 2 > share * (at + 1) and at < columns - 1:
            at += 1
        left, top = x + at * column, tops[at]
        with canvas.group(at=(left, top)):
            sign.draw(canvas)
            for row, line in enumerate(lines):
                canvas.text(_SAMPLE, 14 + _LINE * row, line, "note ink")
        tops[at] += height
        used_height += height
    return max(tops) - y


def legend_entries(
    scene: Scene, strokes: Sequence[Stroke], frames: AbstractSet[str], *, small: bool
) -> list[LegendEntry]:
    """Return the legend entries for the symbols that the picture uses, in reading order: pairs, nodes, stores,
    links, agents, findings.

    ``frames`` are the kinds of links that a frame around a full mesh stands for.
    """
    drawn = {pair.profile.name for pair in scene.pairs}
    profiles = [profile for profile in PROFILES.values() if profile.name in drawn]
    signs = []
    if any(profile.has_peer for profile in profiles):
        signs += [LegendEntry(_pair, _PAIR), LegendEntry(_stars, _STARS)]
    if not all(profile.has_peer for profile in profiles):
        signs.append(LegendEntry(_single, _SINGLE))
    if not small:
        signs += [LegendEntry(_replicates if one.replicates else _store, one.legend) for one in profiles if one.legend]
    signs += _links(strokes, frames)
    signs += [LegendEntry(_frame(kind), _FRAME) for kind in sorted(frames)]
    if any(group.multicast for group in scene.groups):
        signs.append(LegendEntry(_bus, _MULTICAST))
    if any(group.balancers for group in scene.groups):
        signs.append(LegendEntry(_balancer, _BALANCERS))
    if any(pair.agents for pair in scene.pairs):
        signs.append(LegendEntry(_agents if small else _agent, _AGENTS_MANY if small else _AGENTS))
    if scene.findings:
        signs.append(
            LegendEntry(_badge(min(scene.findings, key=_is_too_wide)), "A finding, by its rule; in words above.")
        )
    return signs


def _links(strokes: Sequence[Stroke], frames: AbstractSet[str]) -> list[LegendEntry]:
    """Return the legend's entries for the kinds of links in the picture, and for the directions messages take."""
    drawn = {stroke.kind for stroke in strokes} | frames
    kinds = [name for name in _KINDS if name in drawn]
    flows = {"forward" if stroke.flow == "backward" else stroke.flow for stroke in strokes}
    sample = kinds[0] if kinds else "multicast"
    return [LegendEntry(_line(name), _KINDS[name]) for name in kinds] + [
        LegendEntry(_line(sample, flow), text) for flow, text in _FLOWS.items() if flow in flows
    ]


def _line(kind: str, flow: Flow | None = None) -> Callable[[Canvas], None]:
    def draw(canvas: Canvas) -> None:
        if flow is None:
            canvas.path("M2 10H34", f"line line-{kind}")
        else:
            draw_stroke(canvas, Stroke(((1, 10), (35, 10)), kind, flow))

    return draw


def _frame(kind: str) -> Callable[[Canvas], None]:
    return lambda canvas: canvas.rect(3, 2, 30, 16, f"line line-{kind}", 4)


def _pair(canvas: Canvas) -> None:
    canvas.rect(6, 0, 24, 20, "card", 4)
    canvas.rect(9, 3, 18, 6, "node node-master", 2)
    canvas.rect(9, 11, 18, 6, "node", 2)


def _single(canvas: Canvas) -> None:
    canvas.rect(6, 3, 24, 14, "card", 4)
    canvas.rect(9, 6, 18, 8, "node", 2)


def _stars(canvas: Canvas) -> None:
    draw_star(canvas, 10, 10, filled=True)
    draw_star(canvas, 27, 10, filled=False)


def _store(canvas: Canvas) -> None:
    draw_cylinder(canvas, 9, 0, 18, 20)


def _replicates(canvas: Canvas) -> None:
    canvas.path("M18 0V14", "line tie")
    canvas.path(arrow_head((18, 0), (18, 20)), "head-tie")


def _bus(canvas: Canvas) -> None:
    canvas.rect(1, 4, 34, 12, "cloud", 6)


def _balancer(canvas: Canvas) -> None:
    canvas.rect(10, 0, 24, 9, "balancer", 3)
    canvas.path("M10 4.5H4V9", "balances")
    canvas.path(arrow_head((4, 4), (4, 15)), "head-balances")
    canvas.rect(0, 15, 34, 5, "balanced", 2)


def _agent(canvas: Canvas) -> None:
    canvas.rect(3, 2, 30, 16, "agent", 8)
    canvas.circle(12, 10, 3, "agent-dot")


def _agents(canvas: Canvas) -> None:
    canvas.rect(3, 2, 30, 16, "agent", 8)
    canvas.circle(12, 10, 3, "agent-dot")
    canvas.text(19, 13.6, "2", "badge ink")


def _is_too_wide(finding: Finding) -> bool:
    """Return whether a finding's badge is too wide for a sample; the first one that is not is the sample."""
    return badge_width(finding.rule) > _SAMPLE


def _badge(finding: Finding) -> Callable[[Canvas], None]:
    severity = "waived" if finding.waived is not None else finding.severity
    return lambda canvas: draw_badge(canvas, 35, 10, finding.rule, severity)
