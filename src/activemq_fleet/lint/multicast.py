"""Rules M about multicast discovery, in one activemq.xml and in a whole fleet."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.addresses import is_loopback
from activemq_fleet.lint.document import Document, Element, Problem, other_lines_suffix
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.security_authentication import AUTHENTICATION
from activemq_fleet.lint.uri_options import uri_text_starting_at_option
from activemq_fleet.network.connectors import DEFAULT_MULTICAST_ENDPOINT, UNLIMITED, multicast_endpoint_and_group
from activemq_fleet.network.uri_parser import Uri, has_placeholder

_DEFAULT_NAME = "default"
# Top-level names that no other machine resolves (RFC 6761), and one that installers use.
_UNRESOLVABLE_DOMAINS = frozenset({"localhost", "localdomain", "invalid"})


def _multicast_uris(document: Document) -> Iterator[tuple[Element, str, Uri]]:
    """Yield (element, attribute, URI) for each multicast: URI in an activemq.xml, links first."""
    for node, attribute in document.attributes_with_discovery_uri:
        for uri in node.uri_attribute_or_empty(attribute).find_uris_with_given_schemes("multicast"):
            yield node, attribute, uri


def _endpoint_and_group_text(endpoint: str, group: str) -> str:
    is_default = endpoint == DEFAULT_MULTICAST_ENDPOINT
    return f"multicast group {group} at {'the default address' if is_default else endpoint}"


@rule("M002", "warning", texts="multicast:")
def multicast_uri_without_group(document: Document) -> Iterator[Problem]:
    """A multicast: URI sets no group.

    Why: the group is then "default", which ActiveMQ's example configurations also use. Such brokers in the local
        network discover each other, and messages may move to them unnoticed.
    Fix: add ?group=NAME to the multicast: URI. Use the same NAME on the networkConnector and on the discoveryUri, and a
        different NAME in each environment.
    Source: MulticastDiscoveryAgent; measured: another group stays apart

    Fires on 5.18.3::

        <networkConnector name="found" uri="multicast://default"/>

    Silent on 5.18.3::

        <networkConnector name="found" uri="multicast://224.1.2.3:6255?group=live-orders"/>
    """
    default_group_uris = [
        (node, attribute, uri)
        for node, attribute, uri in _multicast_uris(document)
        if not has_placeholder(uri.text) and uri.options.get("group", _DEFAULT_NAME) == _DEFAULT_NAME
    ]
    if default_group_uris:
        node, attribute, uri = default_group_uris[0]
        message = (
            'this multicast: URI uses the group "default": the broker discovers every broker of the local network '
            "whose URI sets no group"
        )
        message += other_lines_suffix(other for other, *_ in default_group_uris)
        part = uri_text_starting_at_option(node, attribute, uri, "group") if "group" in uri.options else uri.text
        yield node.problem(message, attribute, part)


@rule("M003", "warning", texts="multicast:")
def multicast_link_without_announcement(document: Document) -> Iterator[Problem]:
    """A broker has a multicast: link but does not announce itself by multicast.

    Why: other brokers discover a broker only by the discoveryUri of one of its transportConnectors. If no broker sets a
        discoveryUri, none discovers another.
    Fix: set discoveryUri on the OpenWire transportConnector to the URI of the networkConnector.
    Cannot see: whether the broker is intended to discover others without being discovered, such as a promoted slave
        that only forwards its remaining messages.
    Source: documentation of discovery; MulticastDiscoveryAgent, TransportConnector

    Fires on 5.18.3::

        <networkConnector name="found" uri="multicast://224.1.2.3:6255?group=orders"/>
        <transportConnector name="found-at" uri="tcp://0.0.0.0:61626"
            discoveryUri="multicast://224.1.2.3:6255?group=order"/>

    Fires on 5.18.3::

        <networkConnector name="found" uri="multicast://224.1.2.3:6255?group=orders"/>

    Silent on 5.18.3::

        <networkConnector name="found" uri="multicast://224.1.2.3:6255?group=orders"/>
        <transportConnector name="found-at" uri="tcp://0.0.0.0:61626"
            discoveryUri="multicast://224.1.2.3:6255?group=orders"/>
    """
    if not document.transport_connectors or document.elements_with_tag_name("masterConnector"):
        return
    multicast_uris = [
        (node, attribute, uri) for node, attribute, uri in _multicast_uris(document) if not has_placeholder(uri.text)
    ]
    announced = {
        multicast_endpoint_and_group(uri.text) for _, attribute, uri in multicast_uris if attribute == "discoveryUri"
    }
    if not announced and any(
        has_placeholder(connector.get("discoveryUri")) for connector in document.transport_connectors
    ):
        return
    for node, attribute, uri in multicast_uris:
        if attribute != "uri" or multicast_endpoint_and_group(uri.text) in announced:
            continue
        link_group_text = _endpoint_and_group_text(*multicast_endpoint_and_group(uri.text))
        announced_groups_text = ", ".join(
            _endpoint_and_group_text(*endpoint_and_group) for endpoint_and_group in sorted(announced)
        )
        message = (
            f"the link discovers brokers of {link_group_text}, but this broker announces itself "
            f"{'only in ' + announced_groups_text if announced_groups_text else 'in no multicast group'}: brokers of "
            "that group do not discover this broker"
        )
        yield node.problem(
            message, attribute, uri_text_starting_at_option(node, attribute, uri, "group") if announced else uri.text
        )


@rule("M004", "warning", each="transportConnector", needs="@discoveryUri")
def multicast_announces_a_loopback_address(connector: Element) -> Iterator[Problem]:
    """A connector announced by multicast is bound to a loopback address.

    Why: a broker announces the host in the uri of this connector. Brokers on other machines cannot connect to a
        loopback address. With 0.0.0.0 the broker announces the machine's host name.
    Fix: change the host in the connector's uri to 0.0.0.0, or to a name that all other brokers can resolve. From 5.8 on
        publishedAddressPolicy can set another name.
    Cannot see: which names peers can resolve.
    Source: measured on 5.5.1 and 5.17.2; TcpTransportServer, PublishedAddressPolicy

    Fires on 5.18.3::

        <transportConnector name="found-at" uri="tcp://localhost:61626"
            discoveryUri="multicast://224.1.2.3:6255?group=orders"/>

    Silent on 5.18.3::

        <transportConnector name="found-at" uri="tcp://0.0.0.0:61626"
            discoveryUri="multicast://224.1.2.3:6255?group=orders"/>
    """
    if connector.uri_attribute_or_empty("discoveryUri").scheme != "multicast" or connector.first_child(
        "publishedAddressPolicy"
    ):
        return
    host = connector.uri_attribute_or_empty().host
    if host and not has_placeholder(host) and (is_loopback(host) or _is_unresolvable(host)):
        message = f"connector {connector.get('name')} announces {host} by multicast: " + (
            "each broker that discovers this loopback address connects to itself"
            if is_loopback(host)
            else "no other broker can resolve this name"
        )
        yield connector.problem(message, "uri", host)


def _is_unresolvable(host: str) -> bool:
    return host.lower().rstrip(".").rpartition(".")[2] in _UNRESOLVABLE_DOMAINS


@rule("M007", "warning", texts="multicast:")
def multicast_without_authentication(document: Document) -> Iterator[Problem]:
    """A broker discovers other brokers over multicast, but requires no authentication.

    Why: any process in the network can open a bridge to the broker and consume the messages of all queues.
    Fix: add an authentication plugin to <broker>, and set userName and password of one of its accounts on the
        networkConnector. Use TLS where untrusted machines share the network.
    Source: the project's SECURITY.md

    Fires on 5.18.3::

        <broker>
          <networkConnectors>
            <networkConnector name="found" uri="multicast://224.1.2.3:6255?group=orders"/>
          </networkConnectors>
          <plugins/>
        </broker>

    Silent on 5.18.3::

        <networkConnector name="found" uri="multicast://224.1.2.3:6255?group=orders"/>
    """
    if document.elements_with_tag_name(*AUTHENTICATION) or _has_other_plugins(document):
        return
    for node, attribute, uri in _multicast_uris(document):
        yield node.problem(
            "authentication is not configured: any process that receives the multicast announcement can open a bridge",
            attribute,
            uri.text,
        )
        return


def _has_other_plugins(document: Document) -> bool:
    """Return whether the broker has plugins unknown to the rules, which may require authentication."""
    children = (
        child for container in document.elements_with_tag_name("plugins") for child in container.children("bean", "ref")
    )
    return any(children) or any(broker.has_attribute("plugins") for broker in document.brokers)


@rule("M006", "warning", scope="fleet")
def multicast_network_with_ttl_above_one(view: FleetView) -> Iterator[Problem]:
    """A multicast network of three or more pairs has a network TTL above 1.

    Why: with multicast every broker connects to every other broker. With a TTL above 1 each broker also forwards
        the subscriptions that it received from others. A message then has as many routes as there are other brokers.
    Fix: set activemq_network_ttl: 1. If messages must follow a consumer that moves to another broker, set 2 instead. In
        this case also set suppressDuplicateQueueSubscriptions="true" on the link in activemq_xml_fragments.
    Cannot see: whether consumers move. If the TTL is the default of 3, the severity is only info.
    Source: documentation of networks of brokers; MulticastDiscoveryAgent

    Fires on 5.18.3::

        all: {activemq_discovery: multicast, activemq_network_ttl: 4, activemq_ha: none}
        hosts: {north-mq01-a: {}, north-mq02-a: {}, north-mq03-a: {}}

    Silent on 5.18.3::

        all: {activemq_discovery: multicast, activemq_network_ttl: 1, activemq_ha: none}
        hosts: {north-mq01-a: {}, north-mq02-a: {}, north-mq03-a: {}}
    """
    bridges = view.pair_bridge_graph
    for group, links in bridges.multicast.items():
        links_with_long_ttl = [
            link for link in links if link.connector.demand_hop_limit > 1 and not _suppresses_duplicates(link.node)
        ]
        if links_with_long_ttl and len(bridges.pair_names_by_multicast_group[group]) > 2:
            link = links_with_long_ttl[0]
            pairs = len(bridges.pair_names_by_multicast_group[group])

            limit = link.connector.demand_hop_limit
            hops = "any number of bridges" if limit == UNLIMITED else f"up to {limit} bridges"
            is_default_ttl = link.node is None and link.broker.settings.network_ttl is None
            yield link.problem(
                f"in multicast group {group}, bridges connect each of the {pairs} pairs or brokers to all others, but "
                f"the network TTL lets subscriptions cross {hops}: messages can take several routes",
                "networkTTL",
                severity="info" if is_default_ttl else None,
            )


def _suppresses_duplicates(node: Element | None) -> bool:
    return node is not None and node.boolean_attribute("suppressDuplicateQueueSubscriptions", default=False) is True
