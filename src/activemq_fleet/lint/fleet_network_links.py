"""Find the links of a fleet as deployed: those of the model, and those that fragments add or change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.network_demand import covers, destinations
from activemq_fleet.routes.bridges import ttls_of
from activemq_fleet.routes.documents import changes_network_connectors
from activemq_fleet.routes.shape import limit_of
from activemq_fleet.topology.links import components_of, hops_from

if TYPE_CHECKING:
    from activemq_fleet.findings import Severity
    from activemq_fleet.lint.document import Element
    from activemq_fleet.lint.fleets import FleetView
    from activemq_fleet.topology import Broker, Link

_OUTSIDE = "a broker outside the fleet"


@dataclass(frozen=True, slots=True)
class LintedLink:
    """A network link from a pair, or from a broker without a peer, to another, as lint rules examine it.

    ``target`` is "" for multicast, which leads to all units of the group. A TTL of -1 is ``UNLIMITED``. ``include`` and
    ``exclude`` are ``queue://NAME`` or ``topic://NAME``. ``node`` is the networkConnector where a fragment added or
    changed the link.
    """

    broker: Broker
    name: str
    target: str
    duplex: bool
    consumer_ttl: int
    message_ttl: int
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    node: Element | None = None

    @property
    def source(self) -> str:
        """The name of the pair, or of the broker without a peer, that the link comes from."""
        return self.broker.unit

    def problem(self, message: str, attribute: str = "", severity: Severity | None = None) -> Problem:
        """Return a lint problem about a network link; it names a line only where an XML fragment wrote the link."""
        return Problem(message, node=self.node, attribute=attribute, severity=severity, host=self.broker.host)

    def may_share_destination(self, other: LintedLink) -> bool:
        """Return whether messages of some queue or topic may cross both links."""
        if self.include and other.include:
            both = [(mine, theirs) for mine in self.include for theirs in other.include]
            return any(_covers(mine, theirs) or _covers(theirs, mine) for mine, theirs in both)
        for one, two in ((self, other), (other, self)):
            if one.include and all(any(_covers(out, name) for out in two.exclude) for name in one.include):
                return False
        return True


def _covers(pattern: str, name: str) -> bool:
    kind, _, wanted = pattern.partition("://")
    other, _, given = name.partition("://")
    return kind == other and covers(wanted, given)


class Bridges:
    """All bridges of a fleet, and the graph that they form between pairs (or brokers without a peer)."""

    def __init__(self, view: FleetView) -> None:
        self._view = view
        self.planned: list[LintedLink] = []
        self.multicast: dict[str, list[LintedLink]] = defaultdict(list)
        self.of_broker: dict[str, list[LintedLink]] = {}
        for broker in _different(view):
            own = self.of_broker[broker.host] = list(_of(view, broker))
            for bridge in own:
                if bridge.target:
                    self.planned.append(bridge)
                else:
                    self.multicast[broker.group].append(bridge)

    def bridges_of(self, unit: str) -> Sequence[LintedLink]:
        """Return the bridges of the brokers of a pair (or of a single broker); nodes with equal links count once."""
        return [bridge for broker in self._view.units[unit] for bridge in self.of_broker.get(broker.host, ())]

    @cached_property
    def by_ends(self) -> Mapping[tuple[str, str], Sequence[LintedLink]]:
        """The bridges without multicast by (source, target), which are names of pairs or of single brokers."""
        found: dict[tuple[str, str], list[LintedLink]] = defaultdict(list)
        for bridge in self.planned:
            found[bridge.source, bridge.target].append(bridge)
        return found

    @cached_property
    def one_hop_targets(self) -> Mapping[str, set[str]]:
        """The names of the pairs (or single brokers) one bridge away, by name of the pair; without multicast."""
        found: dict[str, set[str]] = {unit: set() for unit in self._view.units}
        for bridge in self.planned:
            found[bridge.source].add(bridge.target)
            if bridge.duplex:
                found[bridge.target].add(bridge.source)
        return found

    @cached_property
    def multicast_groups(self) -> Mapping[str, frozenset[str]]:
        """The names of the pairs (or single brokers) that find each other by multicast, by name of the group."""
        return {group: frozenset(bridge.source for bridge in found) for group, found in self.multicast.items()}

    @cached_property
    def components(self) -> Sequence[frozenset[str]]:
        """The sets of two or more pairs (or single brokers) that bridges of either direction connect."""
        joined = {unit: set(targets) for unit, targets in self.one_hop_targets.items()}
        for members in self.multicast_groups.values():
            joined[min(members)] |= members
        return [frozenset(names) for names in components_of(joined) if len(names) > 1]

    def distances(self, component: frozenset[str]) -> Mapping[str, Mapping[str, int]]:
        """Return the hops from each pair (or single broker) of a component to each it reaches, multicast included."""
        onward = {unit: set(self.one_hop_targets[unit]) for unit in component}
        for members in self.multicast_groups.values():
            for unit in members & component:
                onward[unit] |= members
        return {unit: hops_from(unit, onward) for unit in component}


def _different(view: FleetView) -> Iterator[Broker]:
    """Yield every broker except those whose links equal those of the other node of their pair."""
    for brokers in view.units.values():
        first = brokers[0]
        yield first
        changed = changes_network_connectors(first)
        for other in brokers[1:]:
            if changed or changes_network_connectors(other) or other.links != first.links:
                yield other


def _of(view: FleetView, broker: Broker) -> Iterator[LintedLink]:
    """Yield the links of one broker that lead to other units of the fleet."""
    document = view.document(broker) if changes_network_connectors(broker) else None
    links = [_of_link(broker, link) for link in broker.links]
    if document is not None:
        planned = {link.name: link.target for link in links}
        links = [_of_node(view, broker, node, planned.get(node.get("name"))) for node in document.links]
    return (one for one in links if not one.target or (one.target != broker.unit and one.target in view.units))


def _of_link(broker: Broker, link: Link) -> LintedLink:
    target = "" if link.kind == "multicast" else link.target
    return LintedLink(broker, link.name, target, link.duplex, *ttls_of(link), link.include, link.exclude)


def _of_node(view: FleetView, broker: Broker, node: Element, target: str | None) -> LintedLink:
    """Return the link of a networkConnector; ``target`` is that of the model's link of its name, None without one."""
    if target is None:
        dialled = (view.broker_at(peer.host, peer.port) for peer in node.uri().transports)
        target = next((peer.unit for peer in dialled if peer is not None), _OUTSIDE)
    network = node.number("networkTTL")
    own = (node.number(name) for name in ("consumerTTL", "messageTTL"))
    consumer, message = (limit_of(network if ttl is None else ttl) for ttl in own)
    include, exclude = (
        tuple(f"{one.name}://{one.get('physicalName')}" for one in destinations(node, where))
        for where in ("dynamicallyIncludedDestinations", "excludedDestinations")
    )
    duplex = bool(node.flag("duplex", default=False))
    return LintedLink(broker, node.get("name"), target, duplex, consumer, message, include, exclude, node)
