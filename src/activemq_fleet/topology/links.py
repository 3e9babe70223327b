"""Plan the links between pairs (or brokers without a peer) and compute how many bridges a message may pass (TTL).

A unit is a node of the network of brokers: a pair, or with ``activemq_ha: none`` a single
broker. Plans are made between units and then given to each broker of the source unit, so that
both nodes of a pair carry the same links whichever is active.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TypedDict

from activemq_fleet import uris
from activemq_fleet.addresses import Address, host_name_without_domain, parse_address_and_tls
from activemq_fleet.findings import Finding
from activemq_fleet.settings.connectors_and_links import LinkSettings, SplitTtl
from activemq_fleet.topology.link_end_problems import (
    link_end_inside_inventory_finding,
    link_to_itself_finding,
    unknown_link_end_findings,
)
from activemq_fleet.topology.model.broker import Broker, Link, LinkKind, brokers_in_dialling_order
from activemq_fleet.topology.model.fleet import PairOrSingleBroker, WholeInventoryFacts
from activemq_fleet.topology.single_broker_problems import (
    unsupported_link_attribute_findings,
    unsupported_link_ttl_findings,
    unsupported_network_setting_findings,
    unsupported_network_ttl_findings,
)

MULTICAST_TTL = 3
# A duplex link sends its far end the advisories to follow. To 5.5 the far end puts the prefix before
# it, so that of what later releases send nothing is left and nothing ever comes back (measured:
# 6.3.1 to 5.5.1). With both, the second one is right there and either is right here.
_FILTER_FOR_OLD = ",".join(["ActiveMQ.Advisory.Consumer.>"] * 2)


class _Ttls(TypedDict):
    network_ttl: int | None
    consumer_ttl: int | None
    message_ttl: int | None


@dataclass(frozen=True, slots=True)
class PlannedLink:
    """A planned network link from a source pair to a target pair.

    A broker without a peer can be in place of a pair. ``entry`` is the entry of ``activemq_links`` that defines it,
    None for ``activemq_topology``; ``meshed``: it is part of a group's mesh.
    """

    source: str
    target: str
    duplex: bool
    name: str
    entry: LinkSettings | None = None
    meshed: bool = False

    @property
    def leads_outside_inventory(self) -> bool:
        """Whether the planned link leads to brokers outside of the inventory."""
        return self.entry is not None and bool(self.entry.addresses)


def pairs_and_single_brokers_by_name(brokers: Iterable[Broker]) -> dict[str, PairOrSingleBroker]:
    """Return each pair, and each broker without a peer, by its name: the possible ends of links.

    They are sorted by group and number.
    """
    members: dict[str, list[Broker]] = defaultdict(list)
    for broker in brokers:
        members[broker.name_in_links].append(broker)
    ordered = sorted(members.items(), key=lambda unit: (unit[1][0].group, _number_sort_key(unit[1][0]), unit[0]))
    return {
        name: PairOrSingleBroker(name, brokers[0].group, brokers_in_dialling_order(brokers))
        for name, brokers in ordered
    }


def _number_sort_key(broker: Broker) -> tuple[int, str]:
    number = broker.identity.number
    return (int(number), number) if number.isascii() and number.isdigit() else (0, number)


def _plan_group_links(units: Sequence[PairOrSingleBroker]) -> list[PlannedLink]:
    """Plan the links between the pairs of one group, and return them.

    ``activemq_topology`` of the group's first broker decides. ``mesh``: a one-way link from each unit to each other.
    ``hub``: each other unit opens one duplex link to the first. ``ring`` and ``chain``: each unit opens one duplex link
    to the next.
    """
    first = units[0].brokers[0]
    kind = first.settings.topology
    if len(units) < 2 or kind == "none" or first.bridge_discovery_method == "multicast":
        return []
    if kind == "mesh":
        return [_planned_link_between(a, b, duplex=False, meshed=True) for a in units for b in units if a is not b]
    if kind == "hub":
        return [_planned_link_between(unit, units[0], duplex=True) for unit in units[1:]]
    neighbours = list(pairwise(units))
    if kind == "ring" and len(units) > 2:
        neighbours.append((units[-1], units[0]))
    return [_planned_link_between(a, b, duplex=True) for a, b in neighbours]


def _plan_links_of_entry(
    link: LinkSettings, sources: Sequence[PairOrSingleBroker], targets: Sequence[PairOrSingleBroker]
) -> list[PlannedLink]:
    """Plan the links of one entry of ``activemq_links``, and return them.

    There is one from each source (a pair or single broker) to each target.
    """
    pairs = [(a, b) for a in sources for b in targets if a is not b]
    plans = []
    for a, b in pairs:
        name = link.name or f"{a.name}-to-{b.name}"
        if link.name and len({target.name for _, target in pairs}) > 1:
            name = f"{link.name}-{b.name}"
        plans.append(PlannedLink(a.name, b.name, link.duplex, name, link))
    if link.addresses:
        named = [(a, link.name or f"{a.name}-to-{link.to}") for a in sources]
        plans += [PlannedLink(a.name, link.to, link.duplex, name, link) for a, name in named]
    return plans


def _planned_link_between(
    a: PairOrSingleBroker, b: PairOrSingleBroker, *, duplex: bool, meshed: bool = False
) -> PlannedLink:
    return PlannedLink(a.name, b.name, duplex, f"{a.name}-to-{b.name}", meshed=meshed)


def plan_network(
    brokers: Sequence[Broker], whole_inventory: WholeInventoryFacts | None
) -> tuple[PlannedNetwork, list[Finding]]:
    """Plan the network of brokers: return the links between pairs that the settings define, and findings.

    ``activemq_topology`` and ``activemq_links`` define the links; the findings are T007 and T011.
    """
    units = pairs_and_single_brokers_by_name(brokers)
    by_group: dict[str, list[PairOrSingleBroker]] = defaultdict(list)
    by_pair: dict[str, list[PairOrSingleBroker]] = defaultdict(list)
    for unit in units.values():
        by_group[unit.group].append(unit)
        by_pair[unit.brokers[0].pair].append(unit)
    plans = [plan for members in by_group.values() for plan in _plan_group_links(members)]
    known_names = {*by_group, *by_pair}
    findings: list[Finding] = []
    for entry, (host, position) in _configured_links(brokers, whole_inventory).items():
        sources = by_group.get(entry.source) or by_pair.get(entry.source)
        targets = by_group.get(entry.to) or by_pair.get(entry.to)
        if entry.addresses and targets:
            findings.append(link_end_inside_inventory_finding(host, position, entry.to))
            targets = None
        planned = _plan_links_of_entry(entry, sources or (), targets or ())
        for broker in (broker for source in sources or () for broker in source.brokers):
            findings += unsupported_link_ttl_findings(broker, entry, host, position)
            findings += unsupported_link_attribute_findings(broker, entry, host, position)
        if sources and targets and not planned:
            findings.append(link_to_itself_finding(host, position, sources[0].name))
        plans += planned
        if whole_inventory is None:
            findings += unknown_link_end_findings(entry, host, position, known_names)
    network = PlannedNetwork.network_from_planned_links(units, plans)
    for broker in brokers:
        findings += unsupported_network_setting_findings(broker, network.links_by_host[broker.host])
        if network.uses_network_ttl(broker):
            findings += unsupported_network_ttl_findings(broker)
    return network, findings


def _configured_links(
    brokers: Sequence[Broker], rest: WholeInventoryFacts | None
) -> dict[LinkSettings, tuple[str, int]]:
    if rest is not None:
        return {entry: (host, position) for entry, host, position in rest.links}
    return first_places_of_entries((broker.host, broker.settings.links) for broker in brokers)


def first_places_of_entries(
    entries_by_host: Iterable[tuple[str, Iterable[LinkSettings]]],
) -> dict[LinkSettings, tuple[str, int]]:
    """Return each distinct entry of ``activemq_links`` with the first host that has it, and its index on that host.

    ``entries_by_host`` are pairs of a host and its entries.
    """
    places: dict[LinkSettings, tuple[str, int]] = {}
    for host, entries in entries_by_host:
        for position, entry in enumerate(entries):
            places.setdefault(entry, (host, position))
    return places


@dataclass(frozen=True)
class PlannedNetwork:
    """The planned network of a fleet's brokers: the links between pairs, and the graph that they form.

    Groups with multicast discovery are part of the graph. A unit is a pair or a single broker. ``plans`` are by source
    unit, ``multicast_groups`` maps a group that uses multicast discovery to its units, and ``components`` are the sets
    of units that bridges join, directly or through others. By unit, ``longest`` is the number of bridges on the longest
    shortest path of its component, and ``pure_mesh`` whether all its component's links are of a mesh.
    """

    units: Mapping[str, PairOrSingleBroker]
    plans: Mapping[str, Sequence[PlannedLink]]
    multicast_groups: Mapping[str, Sequence[PairOrSingleBroker]]
    components: Sequence[Sequence[PairOrSingleBroker]]
    longest: Mapping[str, int]
    pure_mesh: Mapping[str, bool]

    @classmethod
    def network_from_planned_links(
        cls, units: Mapping[str, PairOrSingleBroker], plans: Sequence[PlannedLink]
    ) -> PlannedNetwork:
        """Return the network of pairs and single brokers that planned links form.

        It has their connected components, and the longest path of each.
        """
        multicast: dict[str, list[PairOrSingleBroker]] = defaultdict(list)
        for unit in units.values():
            if unit.brokers[0].bridge_discovery_method == "multicast":
                multicast[unit.group].append(unit)
        by_source: dict[str, list[PlannedLink]] = defaultdict(list)
        onward: dict[str, set[str]] = {name: set() for name in units}
        for plan in plans:
            by_source[plan.source].append(plan)
            if plan.leads_outside_inventory:
                continue
            onward[plan.source].add(plan.target)
            if plan.duplex:
                onward[plan.target].add(plan.source)
        for members in multicast.values():
            names = {unit.name for unit in members}
            for name in names:
                onward[name] |= names - {name}
        longest: dict[str, int] = {}
        mesh: dict[str, bool] = {}
        components = network_components(onward)
        for component in components:
            furthest = max(max(hop_counts_from(name, onward).values()) for name in component)
            longest |= dict.fromkeys(component, max(1, furthest))
            mesh |= dict.fromkeys(
                component,
                all(
                    plan.meshed or plan.leads_outside_inventory
                    for name in component
                    for plan in by_source.get(name, ())
                ),
            )
        return cls(
            units,
            by_source,
            multicast,
            [[units[name] for name in component] for component in components],
            longest,
            mesh,
        )

    @cached_property
    def links_by_host(self) -> dict[str, tuple[Link, ...]]:
        """The network links (networkConnectors) of each broker, by host.

        They are in the order of its activemq.xml: multicast, planned, to its peer.
        """
        return {broker.host: tuple(_links(broker, self)) for unit in self.units.values() for broker in unit.brokers}

    def uses_network_ttl(self, broker: Broker) -> bool:
        """Return whether a broker opens a link to whose TTL ``activemq_network_ttl`` of the broker applies."""
        plans = self.plans.get(broker.name_in_links, ())
        return broker.group in self.multicast_groups or any(not (plan.entry and plan.entry.ttl) for plan in plans)


def component_representative_by_name(edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return for each name in a graph the representative of its connected component, as a dictionary.

    The representative is the component's first name in alphabetical order. The dictionary is sorted by name.
    """
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for source, target in edges:
        first, second = sorted((root(source), root(target)))
        parent[second] = first
    return {name: root(name) for name in sorted(parent)}


def network_components(onward: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Return the connected components of a network of brokers, as tuples of names.

    The direction of links is ignored. ``onward`` maps each unit to those that its links lead to.
    """
    least = component_representative_by_name((name, target) for name, targets in onward.items() for target in targets)
    members: dict[str, list[str]] = defaultdict(list)
    for name in onward:
        members[least.get(name, name)].append(name)
    return [tuple(component) for component in members.values()]


def hop_counts_from(start: str, onward: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the hop count (fewest bridges) from ``start`` to each name that it reaches, by name."""
    hops, frontier = {start: 0}, {start}
    while frontier and len(hops) < len(onward):
        distance = hops[next(iter(frontier))] + 1
        frontier = set().union(*(onward[name] for name in frontier)).difference(hops)
        hops |= dict.fromkeys(frontier, distance)
    return hops


def _links(broker: Broker, network: PlannedNetwork) -> Iterator[Link]:
    """Yield the links of one broker, without those to pairs that have no port that bridges can dial."""
    if broker.group in network.multicast_groups:
        yield _multicast_link(broker)
    for plan in network.plans.get(broker.name_in_links, ()):
        target = network.units.get(plan.target)
        if target is None:
            yield _link_outside(broker, plan, network)
        elif target.openwire_addresses_for_bridges:
            yield _link_to_unit(broker, plan, target, network)
    peer = broker.peer_address
    if broker.settings.pair_links == "static" and broker.peer and peer and not broker.ha_profile.replicates:
        yield _pair_link(broker, host_name_without_domain(broker.peer), peer)


def _multicast_link(broker: Broker) -> Link:
    settings, profile = broker.settings, broker.ha_profile
    return Link(
        name=settings.multicast_name
        or f"{broker.pair if profile.shares_store else broker.identity.short_host_name}-{broker.group}",
        kind="multicast",
        target=broker.group,
        uri=broker.group_multicast_uri,
        addresses=(),
        # Masters of the 2011 network are duplex; a promoted slave only drains, one way.
        duplex=profile.replicates and broker.role == "master",
        **_ttls(settings.network_ttl or MULTICAST_TTL),
        attributes=settings.network_attributes,
    )


def _pair_link(broker: Broker, peer: str, address: Address) -> Link:
    """Return the link of ``activemq_pair_links`` from a broker to the other node of its pair."""
    scheme = broker.openwire.scheme if broker.openwire else "tcp"
    return Link(
        name=f"{broker.identity.short_host_name}-to-{peer}",
        kind="static",
        target=peer,
        uri=uris.bridge_uri(
            [address], broker.release, "static", scheme=scheme, options=broker.settings.network_options
        ),
        addresses=(address,),
        duplex=False,
        network_ttl=1,
        attributes=broker.settings.network_attributes,
    )


def _link_to_unit(broker: Broker, plan: PlannedLink, target: PairOrSingleBroker, network: PlannedNetwork) -> Link:
    """Return the link of one broker to a pair or single broker of the inventory."""
    scheme = next(node.openwire.scheme for node in target.brokers if node.openwire)
    link = _planned_link(broker, plan, target.openwire_addresses_for_bridges, scheme, network)
    is_filtered = link.duplex and _reads_filter_otherwise(broker, target)
    return replace(link, destination_filter=_FILTER_FOR_OLD) if is_filtered else link


def _link_outside(broker: Broker, plan: PlannedLink, network: PlannedNetwork) -> Link:
    """Return the link of one broker to brokers outside of the inventory, whose addresses its entry names."""
    dialled = [parse_address_and_tls(text) for text in plan.entry.addresses] if plan.entry else []
    scheme = "ssl" if any(tls for _, tls in dialled) else "tcp"
    return _planned_link(broker, plan, tuple(address for address, _ in dialled), scheme, network)


def _planned_link(
    broker: Broker, plan: PlannedLink, addresses: tuple[Address, ...], scheme: str, network: PlannedNetwork
) -> Link:
    settings, entry = broker.settings, plan.entry or _NO_ENTRY
    kind = _kind_of(broker, addresses)
    options = settings.network_options if entry.options is None else entry.options
    return Link(
        name=plan.name,
        kind=kind,
        target=plan.target,
        uri=uris.bridge_uri(addresses, broker.release, kind, scheme=scheme, options=options),
        addresses=addresses,
        duplex=plan.duplex and not broker.is_replication_slave,
        **_ttls(entry.ttl or settings.network_ttl or _default_ttl(broker, network)),
        include=entry.include,
        static_include=entry.static_include,
        exclude=entry.exclude,
        attributes=tuple({**dict(settings.network_attributes), **dict(entry.attributes)}.items()),
    )


_NO_ENTRY = LinkSettings.model_validate({"from": "-", "to": "-"})
"""The entry of a link that ``activemq_topology`` plans."""


def _kind_of(broker: Broker, addresses: Sequence[Address]) -> LinkKind:
    """Return the way in which a broker's link connects to its addresses."""
    if len(addresses) == 1:
        return "static"
    has_masterslave = broker.release.has_masterslave_discovery
    if broker.bridge_discovery_method == "multicast":
        return "masterslave" if has_masterslave else "failover"
    if broker.bridge_discovery_method == "masterslave" and not has_masterslave:
        return "failover"  # T011 reports it; the rest of the fleet is still worth checking
    return broker.bridge_discovery_method


def _default_ttl(broker: Broker, network: PlannedNetwork) -> int | SplitTtl:
    """Return the TTL of a link for which none is set: no limit in a mesh, else the network's longest path."""
    if network.pure_mesh[broker.name_in_links] and broker.release.has_consumer_ttl:
        return SplitTtl()
    return network.longest[broker.name_in_links]


def _ttls(ttl: int | SplitTtl) -> _Ttls:
    """Return the TTLs of a link, as its attributes."""
    if isinstance(ttl, SplitTtl):
        return {"network_ttl": None, "consumer_ttl": ttl.consumer, "message_ttl": ttl.message}
    return {"network_ttl": ttl, "consumer_ttl": None, "message_ttl": None}


def _reads_filter_otherwise(broker: Broker, target: PairOrSingleBroker) -> bool:
    old = any(node.release.prefixes_duplex_filter for node in target.brokers)
    return old and not broker.release.prefixes_duplex_filter
