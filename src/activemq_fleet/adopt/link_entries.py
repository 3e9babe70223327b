"""Reduce links between pairs or single brokers to the fewest entries of ``activemq_links`` that make them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from activemq_fleet.adopt.bridges import Ttl
from activemq_fleet.topology import Broker, Fleet


@dataclass(frozen=True, slots=True)
class AdoptedLink:
    """One adopted link between two units (a pair, or a broker without a peer).

    ``source`` and ``target`` are names of units; ``hosts`` are all brokers of the source, each of which carries the
    link; ``kind`` is how a pair is dialled, "" where one address tells nothing.
    """

    source: str
    target: str
    name: str
    duplex: bool
    ttl: Ttl
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    kind: str
    hosts: tuple[str, ...]

    @property
    def own_name(self) -> str | None:
        """The link's name, or None where it is the default name ``SOURCE-to-TARGET``."""
        return None if self.name == f"{self.source}-to-{self.target}" else self.name


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of ``activemq_links``, and the links that it makes, which have equal settings."""

    source: str
    target: str
    links: tuple[AdoptedLink, ...]

    def to_setting(self, *, with_ttl: bool) -> dict[str, Any]:
        """Return the entry as ``activemq_links`` holds it."""
        link = self.links[0]
        entry: dict[str, Any] = {"from": self.source, "to": self.target}
        if link.duplex:
            entry["duplex"] = True
        if link.own_name:
            entry["name"] = link.own_name
        for name, patterns in (("include", link.include), ("exclude", link.exclude)):
            if patterns:
                entry[name] = [pattern.removeprefix("queue://") for pattern in patterns]
        if with_ttl and link.ttl != "unlimited":
            entry["ttl"] = link.ttl
        return entry


def entries_for(links: Sequence[AdoptedLink], fleet: Fleet) -> tuple[list[Entry], list[AdoptedLink]]:
    """Return entries of ``activemq_links``, those of groups before those of pairs, and the links no entry can make."""
    members = _members(fleet)
    home = {broker.unit: broker for broker in fleet.brokers}
    groups: dict[Any, dict[tuple[str, str], AdoptedLink]] = defaultdict(dict)
    kinds = {}
    for link in links:
        kind = link.own_name, link.duplex, link.ttl, link.include, link.exclude
        kinds[id(link)] = kind
        groups[kind][link.source, link.target] = link
    entries, left, done = [], [], set()
    for link in links:
        if id(link) in done:
            continue
        same_settings = groups[kinds[id(link)]]
        for source, target in _ends(home[link.source], home[link.target]):
            ends = [(a, b) for a in members[source] for b in members[target] if a != b]
            several = len({b for _, b in ends}) > 1
            free = all(pair in same_settings and id(same_settings[pair]) not in done for pair in ends)
            if free and not (several and link.own_name):
                made = tuple(same_settings[pair] for pair in ends)
                done |= {id(one) for one in made}
                entries.append(Entry(source, target, made))
                break
        else:
            left.append(link)
    return entries, left


def _ends(source: Broker, target: Broker) -> Iterator[tuple[str, str]]:
    if source.group != target.group:
        yield source.group, target.group
        yield source.group, target.pair
        yield source.pair, target.group
    yield source.pair, target.pair


def _members(fleet: Fleet) -> dict[str, list[str]]:
    """Return the units by every group and pair name that ``activemq_links`` accepts; groups hide equal pair names."""
    pairs: dict[str, dict[str, None]] = defaultdict(dict)
    groups: dict[str, dict[str, None]] = defaultdict(dict)
    for broker in fleet.brokers:
        pairs[broker.pair][broker.unit] = None
        groups[broker.group][broker.unit] = None
    return {name: list(units) for name, units in (pairs | groups).items()}
