"""Find the links of a fleet as deployed: those of the model, and those that fragments add or change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from activemq_fleet.connection_refusals import outgoing_tls_settings
from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.network_subscriptions import wildcard_covers
from activemq_fleet.network.connectors import NetworkConnector
from activemq_fleet.routes.bridges import ConnectorPeerLookup, has_network_connector_fragments, network_connector_of
from activemq_fleet.topology.links import hop_counts_from, network_components

if TYPE_CHECKING:
    from activemq_fleet.findings import Severity
    from activemq_fleet.lint.document import Document, Element
    from activemq_fleet.topology import Broker

_EVERY_DESTINATION = ("queue://>", "topic://>")


@dataclass(frozen=True, slots=True)
class LintedLink:
    """A network link between two brokers or pairs that lint rules check.

    The source is a pair, or a broker without a peer. ``target`` is "" for multicast, which leads to all pairs of the
    group. ``node`` is the networkConnector where a fragment added or changed the link.
    """

    broker: Broker
    connector: NetworkConnector
    target: str
    node: Element | None = None

    @property
    def source_pair_name(self) -> str:
        """The name of the network link's source pair; the pair of a broker without a peer is the broker itself."""
        return self.broker.name_in_links

    @property
    def connector_name(self) -> str:
        """The name of the network link's networkConnector element.

        It is "" if a fragment defines the element without a name.
        """
        return self.connector.name

    @property
    def is_duplex(self) -> bool:
        """Whether the network link carries messages in both directions."""
        return self.connector.duplex is True

    def problem(self, message: str, attribute: str = "", severity: Severity | None = None, *, fix: str = "") -> Problem:
        """Return a lint problem about a network link between brokers.

        The problem names a line only if an XML fragment defines the link.
        """
        return Problem(message, node=self.node, attribute=attribute, severity=severity, fix=fix, host=self.broker.host)

    def may_share_destination(self, other: LintedLink) -> bool:
        """Return whether messages of the same queue or topic may cross both of two network links."""
        return may_share_destination(self.connector, other.connector)


def may_share_destination(connector: NetworkConnector, other_connector: NetworkConnector) -> bool:
    """Return whether messages of the same queue or topic may cross the bridges of both networkConnectors."""
    excluded = (*connector.exclude, *other_connector.exclude)
    for pattern in _carried_patterns(connector):
        for other_pattern in _carried_patterns(other_connector):
            if not _covers(pattern, other_pattern) and not _covers(other_pattern, pattern):
                continue
            narrower = other_pattern if _covers(pattern, other_pattern) else pattern
            if not any(_covers(exclusion, narrower) for exclusion in excluded):
                return True
    return False


def _carried_patterns(connector: NetworkConnector) -> tuple[str, ...]:
    """Return the patterns of the destinations that a connector carries; none for an idle static bridge."""
    return connector.carried_destinations or (_EVERY_DESTINATION if connector.subscribes else ())


def _covers(pattern: str, name: str) -> bool:
    pattern_kind, _, pattern_name = pattern.partition("://")
    kind, _, plain_name = name.partition("://")
    return pattern_kind == kind and wildcard_covers(pattern_name, plain_name)


class FleetBridges:
    """All network bridges of a fleet as a graph between pairs.

    A broker without a peer counts as a pair.
    """

    def __init__(
        self,
        brokers_by_pair: Mapping[str, Sequence[Broker]],
        document_of: Callable[[Broker], Document | None],
        connector_peers: ConnectorPeerLookup,
    ) -> None:
        self._brokers_by_pair = brokers_by_pair
        self.planned: list[LintedLink] = []
        self.multicast: dict[str, list[LintedLink]] = defaultdict(list)
        self.of_broker: dict[str, list[LintedLink]] = {}
        for broker in _brokers_with_distinct_links(brokers_by_pair):
            links = _links_of_broker(
                broker, document_of(broker) if has_network_connector_fragments(broker) else None, connector_peers
            )
            # Only the links that lead to other pairs or brokers of the fleet are kept.
            self.of_broker[broker.host] = [
                link
                for link in links
                if not link.target or (link.target != broker.name_in_links and link.target in brokers_by_pair)
            ]
            for bridge in self.of_broker[broker.host]:
                if bridge.target:
                    self.planned.append(bridge)
                else:
                    self.multicast[broker.group].append(bridge)

    def bridges_opened_by(self, pair_or_broker: str) -> Sequence[LintedLink]:
        """Return the network bridges that the brokers of a pair, or a single broker, open to others.

        Equal links of the two nodes count once.
        """
        return [
            bridge for broker in self._brokers_by_pair[pair_or_broker] for bridge in self.of_broker.get(broker.host, ())
        ]

    @cached_property
    def bridges_by_source_and_target_pair(self) -> Mapping[tuple[str, str], Sequence[LintedLink]]:
        """The network bridges of a fleet by the names of their source pair and target pair.

        A broker without a peer counts as a pair. Multicast bridges are omitted.
        """
        bridges: dict[tuple[str, str], list[LintedLink]] = defaultdict(list)
        for bridge in self.planned:
            bridges[bridge.source_pair_name, bridge.target].append(bridge)
        return bridges

    @cached_property
    def one_hop_targets_by_pair(self) -> Mapping[str, set[str]]:
        """The names of the pairs that are one network bridge away from a pair, by name of the source pair.

        A broker without a peer counts as a pair. Multicast bridges are omitted.
        """
        targets: dict[str, set[str]] = {pair: set() for pair in self._brokers_by_pair}
        for bridge in self.planned:
            targets[bridge.source_pair_name].add(bridge.target)
            if bridge.is_duplex:
                targets[bridge.target].add(bridge.source_pair_name)
        return targets

    @cached_property
    def pair_names_by_multicast_group(self) -> Mapping[str, frozenset[str]]:
        """The names of the pairs that discover each other by multicast, by name of the multicast group.

        A broker without a peer counts as a pair.
        """
        return {
            group: frozenset(bridge.source_pair_name for bridge in bridges) for group, bridges in self.multicast.items()
        }

    @cached_property
    def connected_components(self) -> Sequence[frozenset[str]]:
        """The connected components of a network of brokers: sets of pairs that bridges connect.

        A broker without a peer counts as a pair. A component has two or more pairs. The direction of the bridges does
        not matter.
        """
        neighbors = {pair: set(targets) for pair, targets in self.one_hop_targets_by_pair.items()}
        for members in self.pair_names_by_multicast_group.values():
            neighbors[min(members)] |= members
        return [frozenset(names) for names in network_components(neighbors) if len(names) > 1]

    def hops_between_pairs(self, component: frozenset[str]) -> Mapping[str, Mapping[str, int]]:
        """Return, by source pair and reached pair, how many network bridges a message crosses between the two.

        ``component``: pairs that bridges connect with each other. A broker without a peer counts as a pair. Multicast
        bridges are included.
        """
        neighbors = {pair: set(self.one_hop_targets_by_pair[pair]) for pair in component}
        for members in self.pair_names_by_multicast_group.values():
            for pair in members & component:
                neighbors[pair] |= members
        return {pair: hop_counts_from(pair, neighbors) for pair in component}


def _brokers_with_distinct_links(brokers_by_pair: Mapping[str, Sequence[Broker]]) -> Iterator[Broker]:
    """Yield every broker of the fleet, except a node whose links equal those of the other node of its pair."""
    for brokers in brokers_by_pair.values():
        first_node = brokers[0]
        yield first_node
        is_changed = has_network_connector_fragments(first_node)
        for peer in brokers[1:]:
            if is_changed or has_network_connector_fragments(peer) or peer.links != first_node.links:
                yield peer


def _links_of_broker(
    broker: Broker, document: Document | None, connector_peers: ConnectorPeerLookup
) -> list[LintedLink]:
    """Return the network links of one broker, one for each pair to which a connector leads.

    They are those of the inventory, or of the broker's activemq.xml if fragments change them.
    """
    if document is None:
        return [
            LintedLink(broker, network_connector_of(broker, link), "" if link.kind == "multicast" else link.target)
            for link in broker.links
        ]
    multicast_links = {link.name for link in broker.links if link.kind == "multicast"}
    client_tls = outgoing_tls_settings(broker)
    links = []
    for node in document.network_connectors:
        connector = node.parsed_network_connector
        targets = {"": None}
        if connector.name not in multicast_links:
            peers = connector_peers.peers_and_refusals(connector, client_tls)
            targets = dict.fromkeys(peer.name_in_links for peer, _ in peers)
        links += [LintedLink(broker, connector, target, node) for target in targets]
    return links
