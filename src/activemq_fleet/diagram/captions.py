"""Describe links between groups in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from activemq_fleet.diagram.scene import Connection, Edge
from activemq_fleet.diagram.text import join_words
from activemq_fleet.node.printable import counted

_MOST_NAMED = 3


def caption(connection: Connection, sizes: Mapping[str, int], *, whole: bool = False) -> list[str]:
    """Return the lines of text beside a connection of two groups: numbers of pairs and links, and carried destinations.

    ``sizes`` are the groups' numbers of pairs; between groups of one pair each no pairs are named. The kind of a single
    link shows in its line, and is written only with ``whole``.
    """
    edges = connection.edges
    lines = []
    if (sizes.get(connection.a), sizes.get(connection.b)) != (1, 1):
        lines = _ways(connection, sizes)
    if connection.count > (2 if connection.flow == "each way" else 1):
        lines.append(f"{connection.count} × {connection.kind}")
    elif whole:
        lines.append(connection.kind)
    carried = {edge.link.include for edge in edges}
    include = carried.pop() if len(carried) == 1 else ()
    return lines + ([f"only {join_words(name.partition('://')[2] for name in include)}"] if include else [])


def describe(connection: Connection, sizes: Mapping[str, int]) -> str:
    """Return one line of text about a connection between two groups, for a list below the picture."""
    backward = connection.flow == "backward"
    source, target = (connection.b, connection.a) if backward else (connection.a, connection.b)
    return f"{source} {_arrow(connection)} {target} ({', '.join(caption(connection, sizes, whole=True))})"


def _ways(connection: Connection, sizes: Mapping[str, int]) -> list[str]:
    """Return between which pairs the links of a connection run; both directions unless one mirrors the other."""
    edges = connection.edges
    if connection.flow != "each way":
        return _ends(edges, sizes, _arrow(connection))
    there = [edge for edge in edges if edge.source_group == connection.a]
    back = [edge for edge in edges if edge.source_group != connection.a]
    if {(edge.source, edge.target) for edge in there} == {(edge.target, edge.source) for edge in back}:
        return _ends(there, sizes, connection.arrow)
    return _ends(there, sizes, "→") + _ends(back, sizes, "→")


def _ends(edges: Sequence[Edge], sizes: Mapping[str, int], arrow: str) -> list[str]:
    """Return which pairs are linked: by name, as "each pair", or [] where no short form exists."""
    ends = [(edge.source, edge.target) for edge in edges]
    sources, targets = {source for source, _ in ends}, {target for _, target in ends}
    every = len(ends) == len(sources) * len(targets)
    if len(ends) == 1 or (len(ends) <= _MOST_NAMED and not every):
        return [f"{source} {arrow} {target}" for source, target in ends]
    if not every:
        return []
    source = _side(sources, sizes.get(edges[0].source_group))
    target = _side(targets, sizes.get(edges[0].target_group))
    return [f"{source} {arrow} {target}"]


def _side(names: set[str], size: int | None) -> str:
    if len(names) == 1:
        return min(names)
    return "each pair" if len(names) == size else counted(len(names), "pair")


def _arrow(connection: Connection) -> str:
    return "→" if connection.flow == "backward" else connection.arrow
