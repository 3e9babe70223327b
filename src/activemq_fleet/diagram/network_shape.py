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


def network_shape(pairs: Sequence[str], links: Mapping[tuple[str, str], bool], wanted: str) -> NetworkShape:
    """Return the shape of the network that links between broker pairs form, such as ``hub``.

    ``links`` maps (source, target) to whether a link is duplex. ``wanted`` is ``activemq_topology``; it only decides
    whether three pairs in a row are a chain or a hub.
    """
    neighbours: dict[str, set[str]] = defaultdict(set)
    for a, b in links:
        neighbours[a].add(b)
        neighbours[b].add(a)
    in_order = tuple(pairs)
    if not links:
        return NetworkShape("none", in_order)
    degrees = [len(neighbours[name]) for name in pairs]
    if len(links) == len(pairs) * (len(pairs) - 1) and not any(links.values()):
        return NetworkShape("mesh", in_order)
    hub = _find_hub(pairs, degrees, wanted)
    if hub is not None:
        return NetworkShape("hub", (hub, *(name for name in pairs if name != hub)))
    path = _find_path(pairs, neighbours)
    if path and max(degrees) <= 2:
        return NetworkShape("ring" if min(degrees) == 2 and len(pairs) > 2 else "chain", path)
    return NetworkShape("other", in_order)


def _find_hub(pairs: Sequence[str], degrees: Sequence[int], wanted: str) -> str | None:
    """Return the pair to which every other pair is linked, and nothing else; None without such a pair."""
    if len(pairs) < 3 or sum(degrees) != 2 * (len(pairs) - 1) or max(degrees) != len(pairs) - 1:
        return None
    if len(pairs) == 3 and wanted == "chain":
        return None
    return pairs[degrees.index(max(degrees))]


def _find_path(pairs: Sequence[str], neighbours: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Return the pairs along their links from an end, or () where they do not lie on one line."""
    position = {name: index for index, name in enumerate(pairs)}
    pair = next((name for name in pairs if len(neighbours[name]) == 1), pairs[0])
    path, visited = [pair], {pair}
    while onward := neighbours[pair] - visited:
        pair = min(onward, key=lambda name: position[name])
        path.append(pair)
        visited.add(pair)
    return tuple(path) if len(path) == len(pairs) else ()


def names_in_flow_order(names: Sequence[str], links: Iterable[tuple[str, str]]) -> list[str]:
    """Return names, such as those of groups, in the order in which messages flow over links between them.

    Links lead from earlier to later names where possible; names in a cycle keep their order.
    """
    into: dict[str, set[str]] = defaultdict(set)
    for source, target in links:
        into[target].add(source)
    ordered: list[str] = []
    waiting = list(names)
    while waiting:
        left = set(waiting)
        free = next((name for name in waiting if not (into[name] & left) - {name}), waiting[0])
        ordered.append(free)
        waiting.remove(free)
    return ordered
