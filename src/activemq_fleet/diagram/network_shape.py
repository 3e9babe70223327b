"""Find the shape (hub, ring, chain, mesh) of the links in a group, by which its picture is laid out,
and the order of groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

ShapeName = Literal["none", "chain", "ring", "hub", "mesh", "other"]


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """The shape of the network of a group's broker pairs, such as ``hub`` or ``ring``.

    ``order`` names the pairs along a chain or ring, or the hub first.
    """

    name: ShapeName
    order: tuple[str, ...]


def network_shape(
    pairs: Sequence[str], links: Mapping[tuple[str, str], bool], configured_topology: str
) -> NetworkShape:
    """Return the shape of the network that links between broker pairs form, such as ``hub``.

    ``links`` maps (source, target) to whether a link is duplex. ``configured_topology`` is ``activemq_topology``; it
    only decides whether three pairs in a row are a chain or a hub.
    """
    neighbors: dict[str, set[str]] = defaultdict(set)
    for a, b in links:
        neighbors[a].add(b)
        neighbors[b].add(a)
    in_order = tuple(pairs)
    if not links:
        return NetworkShape("none", in_order)
    degrees = [len(neighbors[name]) for name in pairs]
    if len(links) == len(pairs) * (len(pairs) - 1) and not any(links.values()):
        return NetworkShape("mesh", in_order)
    hub = _find_hub(pairs, degrees, configured_topology)
    if hub is not None:
        return NetworkShape("hub", (hub, *(name for name in pairs if name != hub)))
    path = _find_path(pairs, neighbors)
    if path and max(degrees) <= 2:
        return NetworkShape("ring" if min(degrees) == 2 and len(pairs) > 2 else "chain", path)
    return NetworkShape("other", in_order)


def _find_hub(pairs: Sequence[str], degrees: Sequence[int], configured_topology: str) -> str | None:
    """Return the hub: the pair with a link to every other pair, if no other links exist. Return None without a hub."""
    if len(pairs) < 3 or sum(degrees) != 2 * (len(pairs) - 1) or max(degrees) != len(pairs) - 1:
        return None
    if len(pairs) == 3 and configured_topology == "chain":
        return None
    return pairs[degrees.index(max(degrees))]


def _find_path(pairs: Sequence[str], neighbors: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Return the pairs in the order of their links, or () if the links do not form one line."""
    position = {name: index for index, name in enumerate(pairs)}
    pair = next((name for name in pairs if len(neighbors[name]) == 1), pairs[0])
    path, visited = [pair], {pair}
    while unvisited := neighbors[pair] - visited:
        pair = min(unvisited, key=lambda name: position[name])
        path.append(pair)
        visited.add(pair)
    return tuple(path) if len(path) == len(pairs) else ()


def names_in_flow_order(names: Sequence[str], links: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names of network nodes, such as groups, in the order in which messages flow over links between them.

    Links lead from earlier to later names where possible; names in a cycle keep their order.
    """
    sources_by_target: dict[str, set[str]] = defaultdict(set)
    for source, target in links:
        sources_by_target[target].add(source)
    ordered: list[str] = []
    remaining = list(names)
    while remaining:
        remaining_names = set(remaining)
        next_name = next(
            (name for name in remaining if not (sources_by_target[name] & remaining_names) - {name}), remaining[0]
        )
        ordered.append(next_name)
        remaining.remove(next_name)
    return ordered
