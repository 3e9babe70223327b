"""Plan the links between pairs (or brokers without a peer) and compute how many bridges a message may pass (TTL).

A unit is what the network sees as one broker: a pair, or with ``activemq_ha: none`` a single
broker. Plans are made between units and then given to each broker of the source unit, so that
both nodes of a pair carry the same links whichever is active.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypedDict

from activemq_fleet import uris
from activemq_fleet.addresses import parse_url
from activemq_fleet.settings.network import LinkSettings, SplitTtl
from activemq_fleet.topology.brokers import discovery_of, multicast_uri
from activemq_fleet.topology.model.broker import Broker, Link, dialling_order
from activemq_fleet.topology.model.fleet import Unit

MULTICAST_TTL = 3
# A duplex link tells its far end which advisories to follow. To 5.5 the far end puts the prefix before
# it, so that of what later releases send nothing is left and nothing ever comes back (measured:
# 6.3.1 to 5.5.1). Said twice, the second one is right there and either is right here.
_FILTER_FOR_OLD = ",".join(["ActiveMQ.Advisory.Consumer.>"] * 2)


class _Ttls(TypedDict):
    network_ttl: int | None
    consumer_ttl: int | None
    message_ttl: int | None


@dataclass(frozen=True, slots=True)
class PlannedLink:
    """A planned link from the pair ``source`` to the pair ``target`` (or a broker without a peer).

    ``entry`` is the entry of ``activemq_links`` that asks for it, None for ``activemq_topology``; ``meshed``: it is
    part of a group's mesh.
    """

    source: str
    target: str
    duplex: bool
    name: str
    entry: LinkSettings | None = None
    meshed: bool = False

    @property
    def include(self) -> tuple[str, ...]:
        """The destinations that the link carries; empty where it carries all."""
        return (*self.entry.include, *self.entry.static_include) if self.entry and self.entry.include else ()

    @property
    def leads_outside(self) -> bool:
        """Whether ``target`` names brokers outside of the inventory."""
        return self.entry is not None and bool(self.entry.addresses)


def units_of(brokers: Iterable[Broker]) -> dict[str, Unit]:
    """Return the pairs, and the brokers without a peer, as ends of links: by name, sorted by group and number."""
    members: dict[str, list[Broker]] = defaultdict(list)
    for broker in brokers:
        members[broker.unit].append(broker)
    ordered = sorted(members.items(), key=lambda item: (item[1][0].group, _number(item[1][0]), item[0]))
    return {name: Unit(name, found[0].group, dialling_order(found)) for name, found in ordered}


def _number(broker: Broker) -> tuple[int, str]:
    number = broker.identity.number
    return (int(number), number) if number.isascii() and number.isdigit() else (0, number)


def plan_group(units: Sequence[Unit]) -> list[PlannedLink]:
    """Return the planned links between the pairs of one group, as ``activemq_topology`` of the
    group's first broker says.

    ``mesh``: a one-way link from each unit to each other. ``hub``: each other unit opens one duplex link to the
    first. ``ring`` and ``chain``: each unit opens one duplex link to the next.
    """
    first = units[0].brokers[0]
    kind = first.settings.topology
    if len(units) < 2 or kind == "none" or discovery_of(first.settings, first.release) == "multicast":
        return []
    if kind == "mesh":
        return [_plan(a, b, duplex=False, meshed=True) for a in units for b in units if a is not b]
    if kind == "hub":
        return [_plan(unit, units[0], duplex=True) for unit in units[1:]]
    neighbours = list(pairwise(units))
    if kind == "ring" and len(units) > 2:
        neighbours.append((units[-1], units[0]))
    return [_plan(a, b, duplex=True) for a, b in neighbours]


def plan_between(link: LinkSettings, sources: Sequence[Unit], targets: Sequence[Unit]) -> list[PlannedLink]:
    """Return the planned links of one entry of ``activemq_links``: one from each source (a pair or
    single broker) to each target.
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


def _plan(a: Unit, b: Unit, *, duplex: bool, meshed: bool = False) -> PlannedLink:
    return PlannedLink(a.name, b.name, duplex, f"{a.name}-to-{b.name}", meshed=meshed)


@dataclass(frozen=True)
class Network:
    """The planned links of a fleet, and the graph that they and the groups with multicast discovery make.

    ``plans`` are by source unit, ``multicast_groups`` maps a group that uses multicast discovery to its units, and
    ``components`` are the sets of units that bridges join, directly or through others. By unit, ``longest`` is the
    number of bridges on the longest shortest path of its component, and ``pure_mesh`` whether all its component's links
    are of a mesh.
    """

    units: Mapping[str, Unit]
    plans: Mapping[str, Sequence[PlannedLink]]
    multicast_groups: Mapping[str, Sequence[Unit]]
    components: Sequence[Sequence[Unit]]
    longest: Mapping[str, int]
    pure_mesh: Mapping[str, bool]

    @classmethod
    def of(cls, units: Mapping[str, Unit], plans: Sequence[PlannedLink]) -> Network:
        """Return the network that planned links make of pairs and single brokers, with its connected components
        and their longest paths.
        """
        multicast: dict[str, list[Unit]] = defaultdict(list)
        for unit in units.values():
            broker = unit.brokers[0]
            if discovery_of(broker.settings, broker.release) == "multicast":
                multicast[unit.group].append(unit)
        by_source: dict[str, list[PlannedLink]] = defaultdict(list)
        onward: dict[str, set[str]] = {name: set() for name in units}
        for plan in plans:
            by_source[plan.source].append(plan)
            if plan.leads_outside:
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
        components = components_of(onward)
        for component in components:
            furthest = max(max(hops_from(name, onward).values()) for name in component)
            longest |= dict.fromkeys(component, max(1, furthest))
            mesh |= dict.fromkeys(
                component,
                all(plan.meshed or plan.leads_outside for name in component for plan in by_source.get(name, ())),
            )
        return cls(units, by_source, multicast, [[units[name] for name in one] for one in components], longest, mesh)

    def planned(self, broker: Broker) -> tuple[Link, ...]:
        """Return the planned links that a broker's pair opens, except links to pairs without a port that bridges can
        dial.
        """
        return tuple(
            _planned_link(broker, plan, self.units.get(plan.target), self)
            for plan in self.plans.get(broker.unit, ())
            if plan.leads_outside or self.units[plan.target].addresses
        )


def connected_components(edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return, for every name in ``edges``, the alphabetically first name of its connected component."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for one, other in edges:
        first, second = sorted((root(one), root(other)))
        parent[second] = first
    return {name: root(name) for name in sorted(parent)}


def components_of(onward: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Return the connected components of a network of pairs and single brokers, whichever way its links
    run, as tuples of names.

    ``onward`` maps each unit to those that its links lead to.
    """
    least = connected_components((name, target) for name, targets in onward.items() for target in targets)
    members: dict[str, list[str]] = defaultdict(list)
    for name in onward:
        members[least.get(name, name)].append(name)
    return [tuple(found) for found in members.values()]


def hops_from(start: str, onward: Mapping[str, set[str]]) -> dict[str, int]:
    """Return, for each name that can be reached from ``start``, the least number of bridges on the way to it."""
    hops, frontier = {start: 0}, {start}
    while frontier and len(hops) < len(onward):
        distance = hops[next(iter(frontier))] + 1
        frontier = set().union(*(onward[here] for here in frontier)).difference(hops)
        hops |= dict.fromkeys(frontier, distance)
    return hops


def links_of(broker: Broker, network: Network) -> tuple[Link, ...]:
    """Return every link of one broker in the order of its activemq.xml: multicast, planned links,
    and the link to its peer.
    """
    return tuple(_links(broker, network))


def _links(broker: Broker, network: Network) -> Iterator[Link]:
    if broker.group in network.multicast_groups:
        yield _multicast_link(broker)
    yield from network.planned(broker)
    peer = broker.peer_address
    if broker.settings.pair_links == "static" and broker.peer and peer and not broker.profile.replicates:
        scheme = broker.openwire.scheme if broker.openwire else "tcp"
        yield Link(
            name=f"{broker.identity.host}-to-{broker.peer.partition('.')[0]}",
            kind="static",
            target=broker.peer.partition(".")[0],
            uri=uris.bridge([peer], broker.release, "static", scheme=scheme, options=broker.settings.network_options),
            addresses=(peer,),
            duplex=False,
            network_ttl=1,
            attributes=broker.settings.network_attributes,
        )


def _multicast_link(broker: Broker) -> Link:
    settings, profile = broker.settings, broker.profile
    return Link(
        name=settings.multicast_name
        or f"{broker.pair if profile.shares_store else broker.identity.host}-{broker.group}",
        kind="multicast",
        target=broker.group,
        uri=multicast_uri(broker),
        addresses=(),
        # Masters of the 2011 network are duplex; a promoted slave only drains, one way.
        duplex=profile.replicates and broker.role == "master",
        **_ttls(settings.network_ttl or MULTICAST_TTL),
        attributes=settings.network_attributes,
    )


def _planned_link(broker: Broker, plan: PlannedLink, target: Unit | None, network: Network) -> Link:
    """Return a planned link of one broker; ``target`` is None where it leads outside of the inventory."""
    settings, release, entry = broker.settings, broker.release, plan.entry
    dialled = [parse_url(text) for text in entry.addresses] if entry else []
    addresses = target.addresses if target else tuple(address for address, _ in dialled)
    chosen = discovery_of(settings, release)
    if chosen == "multicast":
        chosen = "masterslave" if release.has_masterslave_discovery else "failover"
    if chosen == "masterslave" and not release.has_masterslave_discovery:
        chosen = "failover"  # T011 has said so; the rest of the fleet is still worth checking
    if len(addresses) == 1:
        chosen = "static"
    duplex = plan.duplex and not broker.is_replication_slave
    requested_ttl = (entry.ttl if entry else None) or settings.network_ttl
    if requested_ttl is None:
        unlimited = network.pure_mesh[broker.unit] and release.has_consumer_ttl
        requested_ttl = SplitTtl() if unlimited else network.longest[broker.unit]
    listening = (b.openwire.scheme for b in target.brokers if b.openwire) if target else iter(())
    scheme = next(listening, "ssl" if any(tls for _, tls in dialled) else "tcp")
    options = settings.network_options if entry is None or entry.options is None else entry.options
    return Link(
        name=plan.name,
        kind=chosen,
        target=plan.target,
        uri=uris.bridge(addresses, release, chosen, scheme=scheme, options=options),
        addresses=addresses,
        duplex=duplex,
        **_ttls(requested_ttl),
        include=entry.include if entry else (),
        static_include=entry.static_include if entry else (),
        exclude=entry.exclude if entry else (),
        attributes=tuple({**dict(settings.network_attributes), **dict(entry.attributes if entry else ())}.items()),
        destination_filter=_FILTER_FOR_OLD if duplex and target and _reads_filter_otherwise(broker, target) else None,
    )


def _ttls(ttl: int | SplitTtl) -> _Ttls:
    """Return the TTLs of a link, as its attributes."""
    if isinstance(ttl, SplitTtl):
        return {"network_ttl": None, "consumer_ttl": ttl.consumer, "message_ttl": ttl.message}
    return {"network_ttl": ttl, "consumer_ttl": None, "message_ttl": None}


def _reads_filter_otherwise(broker: Broker, target: Unit) -> bool:
    old = any(node.release.prefixes_duplex_filter for node in target.brokers)
    return old and not broker.release.prefixes_duplex_filter
