"""Rules N about pairs in a network: a missing standby, and settings that must be equal on both nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from activemq_fleet.lint.clients_connectors import prefix_of_transport_options
from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.releases import Release
from activemq_fleet.routes.bridges import has_network_connector_fragments
from activemq_fleet.topology import Broker

_INACTIVITY_OPTION = "wireFormat.maxInactivityDuration"
_DEFAULT_TIMEOUT_MS = 30_000
_LONG_TIMEOUT_MS = 60_000  # twice the default


@rule("N035", "warning", scope="fleet")
def networked_brokers_without_standby(view: FleetView) -> Iterator[Problem]:
    """A broker in a network of brokers has no standby: its messages are unavailable while it is down.

    Why: bridges move messages and do not copy them. No other broker of the network has the messages of a failed broker.
    Fix: add a second node for each broker without a standby and set activemq_ha: shared-file. If messages may be
        unavailable until a repair, add a waiver of N035 to activemq_waivers.
    Source: documentation of networks of brokers; NetworkBridgeFilter

    Fires on 5.18.3::

        all: {activemq_ha: none}
        hosts: {north-mq01-a: {}, north-mq02-a: {}}

    Silent on 5.18.3::

        hosts: {north-mq01-a: {}, north-mq01-b: {}, north-mq02-a: {}, north-mq02-b: {}}
    """
    for group in view.fleet.groups:
        brokers_without_peer = [
            broker for broker in group.brokers if broker.networked and not broker.ha_profile.has_peer
        ]
        if brokers_without_peer:
            subject = (
                f"the broker {brokers_without_peer[0].host}"
                if len(brokers_without_peer) == 1
                else f"{len(brokers_without_peer)} brokers"
            )
            verb = "has" if len(brokers_without_peer) == 1 else "have"
            message = (
                f"{subject} of group {group.name} {verb} no standby: the messages of a failed broker are unavailable "
                "until its host is repaired"
            )
            nodes = "this broker" if len(brokers_without_peer) == 1 else "each of these brokers"
            fix = (
                f"add a second node for {nodes} and set activemq_ha: shared-file. "
                "If messages may be unavailable until a repair, add a waiver of N035 to activemq_waivers"
            )
            yield Problem(message, fix=fix, host=brokers_without_peer[0].host)


@rule("N038", "warning", scope="fleet")
def duplex_connection_loss_detected_late(view: FleetView) -> Iterator[Problem]:
    """A duplex link of a pair, and the connector that it connects to, detect lost connections late.

    Why: after a failover, the other node of the pair opens the same link. The remote broker still has the old
        connection, and rejects the new connection until it detects that the old one is lost. The smaller
        wireFormat.maxInactivityDuration of both ends applies.
    Fix: remove wireFormat.maxInactivityDuration from the link's URI (activemq_xml_fragments), so that the default of
        30000 ms applies. Do not set it to 0, because 0 disables the detection.
    Source: TransportConnection.processBrokerInfo, InactivityMonitor.configuredOk of 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        all:
          activemq_connectors:
            - {name: openwire, scheme: nio, port: 61616, options: {wireFormat.maxInactivityDuration: "600000"}}
        hosts:
          north-mq01-a: &link
            activemq_xml_fragments:
              - parent: broker/networkConnectors
                xml: >-
                  <networkConnector name="south" duplex="true"
                  uri="static:(tcp://south-mq01-a:61616?wireFormat.maxInactivityDuration=600000)"/>
          north-mq01-b: *link
          south-mq01-a: {}
          south-mq01-b: {}

    Silent on 5.18.3::

        all:
          activemq_links: [{from: north, to: south, duplex: true}]
          activemq_connectors:
            - {name: openwire, scheme: nio, port: 61616, options: {wireFormat.maxInactivityDuration: "600000"}}
        hosts: {north-mq01-a: {}, north-mq01-b: {}, south-mq01-a: {}, south-mq01-b: {}}
    """
    reported: set[str] = set()
    for bridge in view.pair_bridge_graph.planned:
        if not bridge.is_duplex or len(view.brokers_by_pair[bridge.source_pair_name]) < 2:
            continue
        uri = Uri.parse(bridge.connector.uri)
        link_timeout = min(_inactivity_timeouts_of_link(uri, bridge.broker.release), default=_DEFAULT_TIMEOUT_MS)
        for broker in view.brokers_by_pair[bridge.target]:
            listener = broker.openwire
            if listener is None or broker.host in reported:
                continue
            listener_timeout = _inactivity_timeout(listener.options)
            timeout = min(link_timeout, _DEFAULT_TIMEOUT_MS if listener_timeout is None else listener_timeout)
            if timeout > _LONG_TIMEOUT_MS:
                reported.add(broker.host)
                message = (
                    f"connector {listener.name} and the duplex link {bridge.connector_name} of pair "
                    f"{bridge.source_pair_name} have a long timeout for lost connections ({timeout} ms, from "
                    f"{_INACTIVITY_OPTION}): after a failover of the pair, the connector rejects the link until this "
                    "timeout ends"
                )
                yield Problem(message, host=broker.host)


def _inactivity_timeouts_of_link(uri: Uri, release: Release, outer_timeout: int | None = None) -> Iterator[int]:
    """Yield the time in ms after which each transport of a link without traffic counts as lost.

    ``outer_timeout`` is the value that a URI around this one sets with a prefix: it replaces the transport's own value.
    """
    prefix = prefix_of_transport_options(uri, release)
    if outer_timeout is None and prefix is not None:
        outer_timeout = _inactivity_timeout(uri.options, prefix)
    for part in uri.parts:
        yield from _inactivity_timeouts_of_link(part, release, outer_timeout)
    if uri.scheme and not uri.parts:
        yield _DEFAULT_TIMEOUT_MS if outer_timeout is None else outer_timeout


def _inactivity_timeout(options: Mapping[str, str], prefix: str = "") -> int | None:
    """Return the option that limits the time without traffic, in ms, or None if the option is absent or no number."""
    value = options.get(prefix + _INACTIVITY_OPTION, "")
    return int(value) if value.isdecimal() else None


@rule("N040", "warning", scope="fleet")
def pair_nodes_with_different_links(view: FleetView) -> Iterator[Problem]:
    """The two nodes of a pair have network connectors to different brokers, or with different settings.

    Why: after a failover the network has a different topology: a bridge is missing, or forwards one direction only.
    Fix: set activemq_links, activemq_network_ttl, and activemq_xml_fragments with networkConnectors, in the variables
        of the pair or the group. Remove them from the variables of single hosts.
    Source: design: the network has the same topology whichever node is active

    Fires on 5.18.3::

        hosts:
          north-mq01-a: {activemq_network_ttl: 2}
          north-mq01-b: {activemq_network_ttl: 3}
          north-mq02-a: {}
          north-mq02-b: {}

    Silent on 5.18.3::

        all: {activemq_network_ttl: 2}
        hosts: {north-mq01-a: {}, north-mq01-b: {}, north-mq02-a: {}, north-mq02-b: {}}
    """
    for brokers in view.brokers_by_pair.values():
        if len(brokers) != 2 or any(broker.ha_profile.replicates for broker in brokers):
            continue  # in a pure pair, the master's links are duplex, and the slave's links only drain its store
        first, second = brokers
        if has_network_connector_fragments(first) or has_network_connector_fragments(second):
            yield from _xml_link_problems(view, first, second)
        elif first.links != second.links:
            yield from _inventory_link_problems(first, second)


def _inventory_link_problems(first: Broker, second: Broker) -> Iterator[Problem]:
    first_links = {link.name: link for link in first.links if link.target != second.identity.short_host_name}
    second_links = {link.name: link for link in second.links if link.target != first.identity.short_host_name}
    for name in dict.fromkeys((*first_links, *second_links)):
        first_link, second_link = first_links.get(name), second_links.get(name)
        if first_link is None or second_link is None:
            broker_with_link, broker_without_link = (second, first) if first_link is None else (first, second)
            yield Problem(
                _absent_link_message(name, broker_without_link),
                host=broker_with_link.host,
            )
        elif first_link != second_link:
            first_settings, second_settings = first_link.to_dict(), second_link.to_dict()
            differences = (
                ", ".join(key for key in first_settings if first_settings[key] != second_settings[key]) or "addresses"
            )
            yield Problem(_different_link_message(name, first, differences), host=second.host)


def _absent_link_message(name: str, broker: Broker) -> str:
    return (
        f"link {name} is not defined on {broker.host}, the other node of the pair: "
        f"the bridge is absent while {broker.host} is active"
    )


def _different_link_message(name: str, first: Broker, differences: str) -> str:
    return (
        f"link {name} is not the same on {first.host}, the other node of the pair: the two links differ in "
        f"{differences}"
    )


def _xml_link_problems(view: FleetView, first: Broker, second: Broker) -> Iterator[Problem]:
    first_links, second_links = _links_in_xml(view, first, second), _links_in_xml(view, second, first)
    if first_links is None or second_links is None:
        return
    for name in dict.fromkeys((*first_links, *second_links)):
        first_link, second_link = first_links.get(name), second_links.get(name)
        if first_link is None or second_link is None:
            broker_without_link, node = (first, second_link) if first_link is None else (second, first_link)
            yield Problem(_absent_link_message(name, broker_without_link), node=node)
        elif difference := _first_difference(first_link, second_link):
            yield second_link.problem(_different_link_message(name, first, difference), difference)


def _links_in_xml(view: FleetView, broker: Broker, peer: Broker) -> Mapping[str, Element] | None:
    """Return the networkConnectors in a broker's activemq.xml by name, without the link to its peer.

    The result is None if the file is not XML.
    """
    document = view.broker_document(broker)
    if document is None:
        return None
    names_to_peer = {link.name for link in broker.links if link.target == peer.identity.short_host_name}
    return {link.get("name"): link for link in document.network_connectors if link.get("name") not in names_to_peer}


def _first_difference(first_link: Element, second_link: Element) -> str:
    """Return the first attribute or kind of child in which two networkConnectors differ; "" if they are equal."""
    first_attributes, second_attributes = first_link.attributes, second_link.attributes
    for name in dict.fromkeys((*first_attributes, *second_attributes)):
        if first_attributes.get(name) != second_attributes.get(name):
            return name
    for name in ("dynamicallyIncludedDestinations", "excludedDestinations", "staticallyIncludedDestinations"):
        destination_lists = [
            [
                (child.name, child.get("physicalName"))
                for container in link.children(name)
                for child in container.children()
            ]
            for link in (first_link, second_link)
        ]
        if destination_lists[0] != destination_lists[1]:
            return name
    return ""
