"""Resolve a fleet's links to the bridges between pairs, with all brokers up or one down.

A unit is a node of the network of brokers: a pair, or with ``activemq_ha: none`` a single broker. While all brokers are
up, the preferred master of a pair is active. When it fails, the other node takes over with the store and its links; a
bridge follows if its URI also names that node. The promoted slave of a ``pure`` pair opens no port, so no bridge and no
client can connect to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from activemq_fleet import connection_refusals
from activemq_fleet.connection_refusals import ClientTlsSettings, ConnectionRefusal
from activemq_fleet.errors import InputError
from activemq_fleet.network.connectors import (
    DEFAULT_CONNECTOR_NAME,
    NetworkConnector,
    Way,
    multicast_endpoint_and_group,
)
from activemq_fleet.routes.reachability import BridgeGraph
from activemq_fleet.schema import UnreadableXmlError, XmlDocument
from activemq_fleet.spring_values import spring_boolean
from activemq_fleet.topology import Broker, Fleet, Link, PairOrSingleBroker
from activemq_fleet.topology.brokers_by_address import BrokerListener, BrokersByAddress
from activemq_fleet.topology.links import network_components, pairs_and_single_brokers_by_name


def network_connector_of(broker: Broker, link: Link) -> NetworkConnector:
    """Return the networkConnector that implements a link of a broker in the inventory."""
    consumer, message = link.consumer_ttl, link.message_ttl
    if link.network_ttl is not None:
        consumer = message = link.network_ttl
    decreases_priority = dict(link.attributes).get("decreaseNetworkConsumerPriority", "true")
    way: Way = "multicast" if link.kind == "multicast" else "each" if link.kind == "static" else "one"
    return NetworkConnector(
        name=link.name,
        way=way,
        addresses=link.addresses,
        multicast=multicast_endpoint_and_group(link.uri) if way == "multicast" else None,
        duplex=link.duplex,
        consumer_ttl=1 if consumer is None else consumer,
        message_ttl=1 if message is None else message,
        include=link.include,
        exclude=link.exclude,
        static=link.static_include,
        near=spring_boolean(decreases_priority) is True,
        subscribes=not link.is_static_bridge,
        secure=link.addresses if "ssl://" in link.uri else (),
        user=None if broker.link_user_name else "",
        uri=link.uri,
    )


def has_network_connector_fragments(broker: Broker) -> bool:
    """Return whether a broker's ``activemq_xml_fragments`` add or change networkConnectors."""
    fragments = broker.settings.xml_fragments
    return any("networkConnector" in fragment.xml or "networkConnector" in fragment.parent for fragment in fragments)


def network_connectors_of_brokers_with_fragments(
    fleet: Fleet, documents: Mapping[str, XmlDocument]
) -> dict[str, tuple[NetworkConnector, ...]]:
    """Return by host the networkConnectors of each broker whose user-written XML fragments add or change any.

    They are read from the broker's activemq.xml in ``documents``. Raises InputError for a document that is no XML,
    or of a host that is no broker.
    """
    brokers = {host: fleet.broker(host) for host in documents}
    return {
        broker.host: tuple(_parsed_connectors(broker, documents[host]))
        for host, broker in brokers.items()
        if has_network_connector_fragments(broker)
    }


def _parsed_connectors(broker: Broker, document: XmlDocument) -> Iterator[NetworkConnector]:
    """Yield the networkConnectors of a broker's activemq.xml, with the defaults that its release gives them."""
    try:
        connectors = document.network_connectors
    except UnreadableXmlError as error:
        raise InputError(
            f"{broker.host}: the rendered activemq.xml cannot be read ({error}): correct activemq_xml_fragments"
        ) from None
    for connector in connectors:
        near = broker.release.decreases_network_priority if connector.near is None else connector.near
        yield replace(connector, name=connector.name or DEFAULT_CONNECTOR_NAME, near=near)


class Bridge(NamedTuple):
    """A network bridge between two pairs of brokers, in one direction.

    Messages go from the pair ``source`` to the pair ``target``. ``host`` is the broker that carries the connector.
    ``back``: the way that a duplex connector opens for its peer, with the same limits.
    """

    source: str
    target: str
    connector: NetworkConnector
    host: str
    back: bool = False


@dataclass(frozen=True)
class NetworkWithAtMostOneBrokerDown:
    """The bridges of a network of brokers under the assumption that one given broker, or none, is down.

    Its bridges form a graph of numbered pairs. ``down`` is the broker that is down, None for none.
    """

    down: str | None
    names: tuple[str, ...]
    bridges: tuple[Bridge, ...]
    shape: BridgeGraph

    @cached_property
    def vertex_number_by_pair(self) -> dict[str, int]:
        """The numbers of the vertices in the graph of network bridges (``shape``), by the name of the pair.

        A broker without a peer counts as a pair.
        """
        return {name: number for number, name in enumerate(self.names)}


class NetworkConnectorRefusedByTarget(NamedTuple):
    """A networkConnector whose connection the target broker refuses.

    ``connector`` is one of ``host``, and ``peer`` refuses it.
    """

    host: str
    unit: str
    connector: NetworkConnector
    peer: Broker
    refusal: ConnectionRefusal

    @property
    def refusal_sentence(self) -> str:
        """A sentence that names the network link and the reason why the target broker rejects it."""
        reason = self.refusal.connection_refusal_sentence(self.host, self.peer.host)
        return f"link {self.connector.name} cannot connect: {reason}"


_PeersAndRefusals = tuple[tuple[Broker, ConnectionRefusal | None], ...]


class ConnectorPeerLookup:
    """A lookup of the brokers to which a networkConnector connects, by addresses or by multicast discovery."""

    def __init__(self, brokers: Sequence[Broker], brokers_by_address: BrokersByAddress) -> None:
        self._brokers_by_address = brokers_by_address
        self._listeners_by_multicast_group: dict[tuple[str, str], list[BrokerListener]] = {}
        self._peers_by_connector_key: dict[object, _PeersAndRefusals] = {}
        for broker in brokers:
            for connector in broker.connectors:
                if connector.discovery_uri and connector.name != "replication":
                    group = multicast_endpoint_and_group(connector.discovery_uri)
                    self._listeners_by_multicast_group.setdefault(group, []).append(BrokerListener(broker, connector))

    def peers_and_refusals(self, connector: NetworkConnector, client_tls: ClientTlsSettings) -> _PeersAndRefusals:
        """Return pairs of a broker to which a networkConnector leads, and of its reason to refuse (None if it accepts).

        ``client_tls`` are the settings of the broker that has the connector.
        """
        key = connector.addresses or connector.multicast, connector.secure, connector.user, client_tls
        if key not in self._peers_by_connector_key:
            self._peers_by_connector_key[key] = tuple(self._find_peers(connector, client_tls))
        return self._peers_by_connector_key[key]

    def _find_peers(
        self, connector: NetworkConnector, client_tls: ClientTlsSettings
    ) -> Iterator[tuple[Broker, ConnectionRefusal | None]]:
        if connector.multicast:
            for listener in self._listeners_by_multicast_group.get(connector.multicast, ()):
                # Multicast announces the URI of the peer's connector, which states whether the connector uses TLS.
                yield (
                    listener.broker,
                    connection_refusals.connection_refusal(
                        client_tls, listener, tls=listener.connector.uses_tls, user=connector.user
                    ),
                )
        for host, port in connector.addresses:
            if address_listener := self._brokers_by_address.listener_at(host, port):
                tls = (host, port) in connector.secure
                yield (
                    address_listener.broker,
                    connection_refusals.connection_refusal(client_tls, address_listener, tls=tls, user=connector.user),
                )
            elif broker_without_listener := self._brokers_by_address.broker_without_listener_at(host, port):
                yield broker_without_listener, ConnectionRefusal("closed", port)


class FleetNetworkConnectors:
    """The networkConnectors of all brokers of a fleet, and the brokers to which each connects.

    ``written`` are the connectors of a broker read from its document, in
    place of its links. A connector that its peer refuses (``connection_refusals``) has no connection and is in
    ``refused``; with ``as_planned`` it is connected in spite of that.
    """

    def __init__(
        self, fleet: Fleet, written: Mapping[str, tuple[NetworkConnector, ...]], *, as_planned: bool = False
    ) -> None:
        units = pairs_and_single_brokers_by_name(fleet.brokers)
        self.units = {name: units[name] for name in dict.fromkeys(broker.name_in_links for broker in fleet.brokers)}
        self.refused: list[NetworkConnectorRefusedByTarget] = []
        self._parsed_connectors_by_host = written
        self._as_planned = as_planned
        self._connector_peers = ConnectorPeerLookup(fleet.brokers, BrokersByAddress(fleet.brokers))
        self.steady: set[str] = set()
        """Pairs whose bridges are the same whichever node is active."""
        self._connectors_within_pairs: dict[str, list[NetworkConnector]] = {}
        self._connectors = {broker.host: self._resolve_connectors(broker) for broker in fleet.brokers}
        self._find_steady_pairs()

    def _resolve_connectors(self, broker: Broker) -> tuple[tuple[NetworkConnector, tuple[Broker, ...]], ...]:
        resolved = []
        parsed_connectors = self._parsed_connectors_by_host.get(broker.host)
        client_tls = connection_refusals.outgoing_tls_settings(broker)
        if parsed_connectors is None:
            parsed_connectors = tuple(self._connector_of_link(broker, link) for link in broker.links)
        for connector in parsed_connectors:
            peers = self._accepting_peers(broker, connector, client_tls)
            if (
                peers
                and connector.way != "multicast"
                and all(peer.name_in_links == broker.name_in_links for peer in peers)
            ):
                self._connectors_within_pairs.setdefault(broker.host, []).append(connector)
            else:
                resolved.append((connector, peers))
        return tuple(resolved)

    def _connector_of_link(self, broker: Broker, link: Link) -> NetworkConnector:
        connector = network_connector_of(broker, link)
        is_user_compared_elsewhere = link.kind == "multicast" or link.target in self.units  # T008 and T009
        return connector if is_user_compared_elsewhere else replace(connector, user=broker.link_user_name)

    def _accepting_peers(
        self, broker: Broker, connector: NetworkConnector, client_tls: ClientTlsSettings
    ) -> tuple[Broker, ...]:
        """Return the brokers that a connector finds and that accept it, and add those that refuse it to ``refused``."""
        peers_and_refusals = self._connector_peers.peers_and_refusals(connector, client_tls)
        refused = [
            NetworkConnectorRefusedByTarget(broker.host, broker.name_in_links, connector, peer, refusal)
            for peer, refusal in peers_and_refusals
            if refusal is not None and peer.name_in_links != broker.name_in_links
        ]
        self.refused += refused
        refusing_hosts = {
            refused_connector.peer.host
            for refused_connector in refused
            if refused_connector.refusal.is_certain_to_fail and not self._as_planned
        }
        return tuple(peer for peer, _ in peers_and_refusals if peer.host not in refusing_hosts)

    def connectors_to_other_pairs(self, host: str) -> tuple[tuple[NetworkConnector, tuple[Broker, ...]], ...]:
        """Return the networkConnectors of a broker that lead to other pairs.

        Each comes with its possible target brokers.
        """
        return self._connectors[host]

    def _find_steady_pairs(self) -> None:
        """Add the pairs whose two nodes have equal connectors, and of which each connector of a peer names both nodes.

        Both nodes of such a pair accept OpenWire connections, or neither does.
        """
        unsteady_units = set()
        for resolved_connectors in self._connectors.values():
            for _, brokers in resolved_connectors:
                if len(brokers) == 1:
                    unsteady_units.add(brokers[0].name_in_links)
                else:
                    hosts = {broker.host for broker in brokers}
                    unsteady_units |= {b.name_in_links for b in brokers if b.peer and b.peer not in hosts}
        for unit in self.units.values():
            if len(unit.brokers) == 2 and unit.name not in unsteady_units:
                first, second = unit.brokers
                have_equal_listeners = (first.openwire is None) == (second.openwire is None)
                if have_equal_listeners and [p[0] for p in self._connectors[first.host]] == [
                    p[0] for p in self._connectors[second.host]
                ]:
                    self.steady.add(unit.name)

    @cached_property
    def connected_pair_components(self) -> list[tuple[str, ...]]:
        """The connected components of the network: tuples of the names of pairs that bridges connect."""
        peers_by_unit = {
            unit.name: {
                peer.name_in_links
                for broker in unit.brokers
                for _, peers in self._connectors[broker.host]
                for peer in peers
            }
            for unit in self.units.values()
        }
        return network_components(peers_by_unit)

    def bridges_opened_by_pairs(self, names: Iterable[str], down: str | None = None) -> list[Bridge]:
        """Return all bridges that the active brokers of the given pairs open while the broker ``down`` is dead.

        None means that no broker is dead.
        """
        return [bridge for name in names for bridge in self._bridges_of(self.units[name], down)]

    def _bridges_of(self, unit: PairOrSingleBroker, down: str | None) -> Iterator[Bridge]:
        opener = unit.active_broker_without(down)
        if opener is None:
            return
        for connector, peers in self._connectors[opener.host]:
            reached_units: set[str] = set()
            for peer in peers:
                peer_unit = peer.name_in_links
                if (
                    peer_unit in reached_units
                    or peer_unit == unit.name
                    or not _is_active_broker(self.units[peer_unit], peer, down)
                ):
                    continue
                reached_units.add(peer_unit)
                yield Bridge(unit.name, peer_unit, connector, opener.host)
                if connector.duplex:
                    yield Bridge(peer_unit, unit.name, connector, opener.host, back=True)
                if connector.way == "one":
                    break

    def hosts_and_connectors_of_links_within_pairs(self) -> list[tuple[str, NetworkConnector]]:
        """Return the networkConnectors within pairs, which lead only to the broker's peer.

        Each is (host, connector).
        """
        return [
            (unit.preferred_broker.host, connector)
            for unit in self.units.values()
            for connector in self._connectors_within_pairs.get(unit.preferred_broker.host, ())
        ]


def _is_active_broker(unit: PairOrSingleBroker, broker: Broker, down: str | None) -> bool:
    """Return whether a broker is the active node of its pair while the broker ``down`` is dead.

    The active node accepts connections.
    """
    return broker.host != down and unit.active_broker_without(down) is broker


def accepts_clients(pair: PairOrSingleBroker, down: str | None) -> bool:
    """Return whether consumers and producers can connect to a pair while the broker ``down`` is dead."""
    active = pair.active_broker_without(down)
    return active is not None and bool(active.connectors)
