"""Reduce links between pairs or single brokers to the fewest entries of ``activemq_links`` that create them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from activemq_fleet.adopt.network_connectors import ReplaceableBridge, ttl_as_number_or_mapping
from activemq_fleet.adopt.proposal import parse_yaml_scalar
from activemq_fleet.topology import Broker, Fleet


@dataclass(frozen=True, slots=True, eq=False)
class AdoptedLink:
    """A network link in existing activemq.xml files.

    It leads from one pair (or broker without a peer) to another. ``source`` and ``target`` are names of units;
    ``hosts`` are all brokers of the source, each of which carries the link as ``bridge``.
    """

    source: str
    target: str
    bridge: ReplaceableBridge
    hosts: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    """The addresses of the link if ``target`` names brokers outside of the inventory."""
    attributes: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] | None = None
    """As its bridge has them; without attributes and None where those of all links are the same."""

    @property
    def has_default_options(self) -> bool:
        """Whether a link has only default options and no filters, so that it forwards messages of all destinations.

        ``activemq_topology`` can make such a link.
        """
        bridge = self.bridge
        carries_all = not bridge.include and not bridge.static_include and not bridge.exclude
        return carries_all and not self.attributes and self.options is None and not self.addresses

    @property
    def non_default_name(self) -> str | None:
        """The name of the link, or None if it is the default name ``SOURCE-to-TARGET``."""
        return None if self.bridge.name == f"{self.source}-to-{self.target}" else self.bridge.name

    @property
    def settings_key(self) -> tuple[object, ...]:
        """The key of a network link's settings, for grouping links with equal settings.

        One entry of ``activemq_links`` can express links with equal keys.
        """
        return self.non_default_name, self.bridge.duplex, self.bridge.traffic_key, self.addresses


@dataclass(frozen=True, slots=True, eq=False)
class LinkEntry:
    """An entry of the variable ``activemq_links``.

    It has the links of equal settings that it makes.
    """

    source: str
    target: str
    links: tuple[AdoptedLink, ...]

    def to_links_entry(self, *, with_ttl: bool) -> dict[str, Any]:
        """Return the link as an entry of the variable ``activemq_links``.

        The entry is a dictionary.
        """
        link, bridge = self.links[0], self.links[0].bridge
        entry: dict[str, Any] = {"from": self.source, "to": self.target}
        if bridge.duplex:
            entry["duplex"] = True
        if link.non_default_name:
            entry["name"] = link.non_default_name
        if link.addresses:
            entry["addresses"] = list(link.addresses)
        for name in ("include", "static_include", "exclude"):
            if patterns := getattr(bridge, name):
                entry[name] = [pattern.removeprefix("queue://") for pattern in patterns]
        if with_ttl:
            entry["ttl"] = ttl_as_number_or_mapping(bridge.ttl)
        if link.attributes:
            entry["attributes"] = {name: parse_yaml_scalar(text) for name, text in link.attributes}
        if link.options is not None:
            entry["options"] = {name: parse_yaml_scalar(text) for name, text in link.options}
        return entry


def entries_and_leftover_links(links: Sequence[AdoptedLink], fleet: Fleet) -> tuple[list[LinkEntry], list[AdoptedLink]]:
    """Return the entries of ``activemq_links`` that express existing links, and the links that no entry can express.

    Entries of groups come first.
    """
    members = _units_by_name(fleet)
    broker_by_unit = {broker.name_in_links: broker for broker in fleet.brokers}
    by_settings: dict[Any, dict[tuple[str, str], AdoptedLink]] = defaultdict(dict)
    for link in links:
        by_settings[link.settings_key][link.source, link.target] = link
    entries: list[LinkEntry] = []
    leftover_links: list[AdoptedLink] = []
    expressed_links: set[AdoptedLink] = set()
    for link in links:
        if link in expressed_links:
            continue
        same_settings = by_settings[link.settings_key]
        source_broker = broker_by_unit[link.source]
        possible_ends = (
            [(source_broker.pair, link.target)]
            if link.addresses
            else _possible_ends(source_broker, broker_by_unit[link.target])
        )
        for source, target in possible_ends:
            targets = [target] if link.addresses else members[target]
            ends = [(a, b) for a in members[source] for b in targets if a != b]
            has_several_targets = len({b for _, b in ends}) > 1
            is_expressible = all(pair in same_settings and same_settings[pair] not in expressed_links for pair in ends)
            if is_expressible and not (has_several_targets and link.non_default_name):
                entries.append(LinkEntry(source, target, tuple(same_settings[pair] for pair in ends)))
                expressed_links.update(entries[-1].links)
                break
        else:
            leftover_links.append(link)
    return entries, leftover_links


def _possible_ends(source: Broker, target: Broker) -> Iterator[tuple[str, str]]:
    """Yield the ends (from, to) of each entry that would link two brokers' units, the most general first."""
    if source.group != target.group:
        yield source.group, target.group
        yield source.group, target.pair
        yield source.pair, target.group
    yield source.pair, target.pair


def _units_by_name(fleet: Fleet) -> dict[str, list[str]]:
    """Return the link units (pairs or brokers) by every group and pair name that ``activemq_links`` accepts.

    A group hides a pair with the same name.
    """
    pairs: dict[str, dict[str, None]] = defaultdict(dict)
    groups: dict[str, dict[str, None]] = defaultdict(dict)
    for broker in fleet.brokers:
        pairs[broker.pair][broker.name_in_links] = None
        groups[broker.group][broker.name_in_links] = None
    return {name: list(units) for name, units in (pairs | groups).items()}
