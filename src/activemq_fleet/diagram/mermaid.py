"""Write a fleet as a Mermaid flowchart, for Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from activemq_fleet.diagram.captions_and_descriptions import (
    connection_caption_lines,
    group_heading_texts,
    worst_rule_and_others_text,
)
from activemq_fleet.diagram.group_box import MAX_MESHED
from activemq_fleet.diagram.scene import (
    MAX_NAMED_AGENTS,
    BrokerView,
    DrawnConnection,
    GroupView,
    PairView,
    PictureContent,
    picture_content,
)
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.topology import Fleet

# Limits beyond which Mermaid draws nothing, in characters and edges (maxTextSize, maxEdges, Mermaid 11).
MAX_TEXT, MAX_EDGES = 50_000, 500
_PLAIN_CHARACTER = re.compile(r"[A-Za-z0-9 .,:/()_+@★☆→←↔⇄×·-]")


def to_mermaid(fleet: Fleet, states: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the picture of a fleet as a Mermaid flowchart.

    Groups are subgraphs, and pairs are nodes. ``states`` are those of brokers at run time, by host. A fleet whose text
    Mermaid would refuse (over 50,000 characters or 500 edges) is drawn by groups, with their pairs counted.
    """
    scene = picture_content(fleet, states)
    lines = list(_pair_level_lines(scene))
    text = "\n".join(lines) + "\n"
    if len(text) > MAX_TEXT or sum(map(_is_edge, lines)) > MAX_EDGES:
        text = "\n".join(_group_level_lines(scene)) + "\n"
    return text


def _mermaid_label(*lines: str) -> str:
    """Return texts as one quoted label for Mermaid.

    Characters that Mermaid or HTML might interpret become character codes.
    """
    return '"' + "<br/>".join("".join(_escape_character(character) for character in line) for line in lines) + '"'


def _escape_character(character: str) -> str:
    return character if _PLAIN_CHARACTER.fullmatch(character) else f"#{ord(character)};"


def _is_edge(line: str) -> bool:
    return any(arrow in line for arrow in (" -->", " <-->"))


def _pair_level_lines(scene: PictureContent) -> Iterator[str]:
    names = {pair.name: f"p{position}" for position, pair in enumerate(scene.pairs)}
    groups = {group.name: f"g{position}" for position, group in enumerate(scene.groups)}
    yield "flowchart LR"
    for group in scene.groups:
        # One line only, because Mermaid reserves space for a single line.
        title = f"{group.name} ({', '.join(group_heading_texts(group)[:4])})"
        yield f"  subgraph {groups[group.name]}[{_mermaid_label(title)}]"
        for pair in group.pairs:
            yield f"    {names[pair.name]}[{_mermaid_label(*_pair_lines(pair))}]"
        if group.multicast is not None:
            yield f"    {groups[group.name]}bus([{_mermaid_label(group.multicast.uri)}])"
        yield "  end"
    for group in scene.groups:
        yield from _group_lines(group, names, f"{groups[group.name]}bus")
    yield from _group_edge_lines(scene, groups)
    yield from _balancer_lines(scene, groups)
    yield from _mark_lines(scene, names)
    yield from _common_finding_lines(scene)
    if not scene.groups:
        yield f"  none[{_mermaid_label('no brokers')}]"


def _group_level_lines(scene: PictureContent) -> Iterator[str]:
    groups = {group.name: f"g{position}" for position, group in enumerate(scene.groups)}
    yield "flowchart LR"
    for group in scene.groups:
        yield f"  {groups[group.name]}[{_mermaid_label(group.name, *group_heading_texts(group))}]"
    edges = [*_group_edge_lines(scene, groups), *_balancer_lines(scene, groups)]
    yield from [line for line in edges if not _is_edge(line)]
    yield from [line for line in edges if _is_edge(line)][:MAX_EDGES]
    yield from _common_finding_lines(scene)


def _balancer_lines(scene: PictureContent, groups: dict[str, str]) -> Iterator[str]:
    """Yield load balancers as nodes, with an edge to each group whose address they hold."""
    names = {host: f"b{position}" for position, host in enumerate(scene.balancers)}
    for host, name in names.items():
        lines = (host, "load balancer", *(["no address"] if host in scene.idle_balancers else []))
        yield f"  {name}[{_mermaid_label(*lines)}]"
    for group in scene.groups:
        for view in group.balancers:
            yield f"  {names[view.host]} -->|{_mermaid_label(view.address, *view.ports)}| {groups[group.name]}"


def _common_finding_lines(scene: PictureContent) -> Iterator[str]:
    """Yield a box with the rules whose findings every broker has; no broker is marked for them."""
    rules = dict.fromkeys(grouped.finding.rule for grouped in scene.findings if not grouped.marked)
    if rules:
        brokers = count_with_noun(sum(len(pair.nodes) for pair in scene.pairs), "broker")
        text = f"findings of all {brokers}: {', '.join(rules)}"
        yield f"  found[{_mermaid_label(text)}]"


def _pair_lines(pair: PairView) -> list[str]:
    are_named = len(pair.agents) <= MAX_NAMED_AGENTS
    agents = [f"agent {name}" for name in pair.agents] if are_named else [count_with_noun(len(pair.agents), "agent")]
    return [f"{pair.name} · {pair.pair_releases_text}", *(_node_line(node) for node in pair.nodes), *agents]


def _node_line(node: BrokerView) -> str:
    broker = node.broker
    star = {"master": "★ ", "slave": "☆ "}.get(node.preferred_role, "")
    address = "" if broker.address == broker.host else broker.address
    port = f":{broker.openwire.port}" if broker.openwire else ""
    badge = f" ({worst_rule_and_others_text(node.findings)})" if node.findings else ""
    state = f" {node.state}" if node.state else ""
    return f"{star}{node.short_host_name} {address}{port}".rstrip() + state + badge


def _group_lines(group: GroupView, names: dict[str, str], bus: str) -> Iterator[str]:
    if group.multicast is not None:
        for pair in group.pairs:
            yield f"  {names[pair.name]} <--> {bus}"
    if group.shape.name == "mesh" and len(group.pairs) > MAX_MESHED:
        return  # The title contains "full mesh".
    for connection in group.connections:
        yield _edge_line(connection, names[connection.a], names[connection.b], connection.kind)


def _group_edge_lines(scene: PictureContent, groups: dict[str, str]) -> Iterator[str]:
    for connection in scene.between:
        captions = connection_caption_lines(connection, scene.pair_count_and_noun_by_group, with_kind=True)
        yield _edge_line(connection, groups[connection.a], groups[connection.b], *captions)


def _edge_line(connection: DrawnConnection, a: str, b: str, *captions: str) -> str:
    if connection.flow == "backward":
        a, b = b, a
    arrow = "-->" if connection.flow in ("forward", "backward") else "<-->"
    lines = (*captions, "one each way") if connection.flow == "each way" else captions
    return f"  {a} {arrow}|{_mermaid_label(*lines)}| {b}"


def _mark_lines(scene: PictureContent, names: dict[str, str]) -> Iterator[str]:
    for severity, color in (("error", "#cf222e"), ("warning", "#bf8700")):
        node_names = [
            names[pair.name] for pair in scene.pairs if any(node.worst_severity == severity for node in pair.nodes)
        ]  # fmt: skip
        if node_names:
            yield f"  classDef {severity} stroke:{color},stroke-width:2px"
            yield f"  class {','.join(node_names)} {severity}"
