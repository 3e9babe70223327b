"""Rules C about connectors: the information that they send to clients, and the connections that they accept."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.addresses import is_loopback, is_wildcard_bind_address
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.known_uri_options import discovery_agent_options
from activemq_fleet.network.uri_parser import COMPOSITE, Uri
from activemq_fleet.releases import Release
from activemq_fleet.uris import is_openwire

_INACTIVITY_OPTION = "wireFormat.maxInactivityDuration"


def listener_uri(connector: Element) -> Uri:
    """Return the URI on which a transportConnector of a broker listens.

    The URI has no scheme if a placeholder determines the value.
    """
    uri_text = connector.literal_value("uri")
    return Uri.parse(uri_text) if uri_text is not None else Uri("", "")


@rule("C001", "warning", each="transportConnector", releases="5.4.0", needs="@rebalanceClusterClients")
def rebalance_without_update_cluster_clients(connector: Element) -> Iterator[Problem]:
    """A connector sets rebalanceClusterClients without updateClusterClients.

    Why: the broker sends its clients the list of brokers only if updateClusterClients is set. Without the list, clients
        cannot move to another broker, so rebalanceClusterClients has no effect.
    Fix: set updateClusterClients="true" on the connector too. If only some brokers of the network accept clients, also
        set updateClusterFilter to a list of their names, separated by commas.
    Source: TransportConnector.getConnectionControl, 5.5.1 and 5.18.3

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"
                            rebalanceClusterClients="true"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"
                            rebalanceClusterClients="true" updateClusterClients="true"
                            updateClusterClientsOnRemove="true"/>
    """
    if (
        connector.boolean_attribute("rebalanceClusterClients", False)
        and connector.boolean_attribute("updateClusterClients", False) is False
    ):
        message = (
            f"connector {connector.get('name')} has rebalanceClusterClients without updateClusterClients: it sends its "
            "clients an empty list of brokers"
        )
        yield connector.problem(message, "rebalanceClusterClients")


@rule("C002", "warning", each="transportConnector", releases="5.4.0", needs="@updateClusterClients")
def unreachable_address_published_to_clients(connector: Element) -> Iterator[Problem]:
    """A connector with updateClusterClients publishes an address to which other machines cannot connect.

    Why: each broker sends the address of this connector to clients, which then connect to it. A connector on a loopback
        address publishes localhost. A connector on 0.0.0.0 publishes the machine's host name.
    Fix: bind the connector to a name that all clients can resolve, set <publishedAddressPolicy> inside the connector
        (from 5.8), or remove updateClusterClients.
    Cannot see: which names clients can resolve. For a connector on 0.0.0.0, the finding is therefore an info.
    Source: TransportConnector.getPublishableConnectString; failover reference

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://localhost:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true" updateClusterClientsOnRemove="true"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://mq01.example.com:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true" updateClusterClientsOnRemove="true"/>
    """
    if not connector.boolean_attribute("updateClusterClients", False) or connector.children("publishedAddressPolicy"):
        return
    uri = listener_uri(connector)
    if not uri.scheme:
        return
    name = connector.get("name")
    if is_loopback(uri.host):
        yield connector.problem(
            f"connector {name} publishes the loopback address {uri.host} to its clients: a client on another "
            "machine then connects to itself",
            "uri",
            uri.host,
            fix=f"replace {uri.host} in the uri of the connector with a host name that all clients can resolve, or "
            "remove updateClusterClients",
            why="the broker sends this address to its clients. Each client then tries to connect to its own machine",
        )
    elif is_wildcard_bind_address(uri.host) and not connector.has_attribute("publishedAddressPolicy"):
        message = (
            f"connector {name} publishes the machine's host name to its clients: each client must be able to resolve it"
        )
        why = "the broker sends this name to its clients. Clients of another network often cannot resolve it"
        yield connector.problem(message, "updateClusterClients", severity="info", why=why)


@rule("C003", "info", each="transportConnector", releases="5.4.0", needs="@updateClusterClients")
def clients_not_updated_on_broker_removal(connector: Element) -> Iterator[Problem]:
    """A connector sets updateClusterClients without updateClusterClientsOnRemove.

    Why: the broker notifies clients of brokers that join, but not of brokers that leave. Clients still try to connect
        to stopped brokers, and therefore reconnect slowly. A network with fixed brokers is hardly affected.
    Fix: set updateClusterClientsOnRemove="true".
    Source: RegionBroker.removeBroker; failover reference

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://mq01.example.com:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://mq01.example.com:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true" updateClusterClientsOnRemove="true"/>
    """
    if (
        connector.boolean_attribute("updateClusterClients", False)
        and connector.boolean_attribute("updateClusterClientsOnRemove", False) is False
    ):
        message = (
            f"connector {connector.get('name')} does not notify its clients of brokers that stopped: "
            "clients still try to connect to them"
        )
        yield connector.problem(message, "updateClusterClients")


@rule("C009", "warning", each="transportConnector")
def maximum_connections_zero_or_below_links(connector: Element) -> Iterator[Problem]:
    """maximumConnections of a connector is 0 or less, or lower than the number of links of the broker.

    Why: the limit counts the connections of clients, bridges and consoles. With a limit of 0 or less, the broker
        accepts no connection. If the limit is above 0, the broker closes each connection that exceeds it without a
        protocol error, and a bridge then retries indefinitely.
    Fix: raise maximumConnections above the number of clients and bridges. Add a reserve for a failover, after which all
        of them reconnect at once.
    Cannot see: the number of clients, and of the links that other brokers open to this broker. The rule assumes that
        each linked broker also opens a link to this broker, which can be wrong. If the limit is above 0, the finding is
        therefore an info.
    Source: TcpTransportServer.handleSocket, 5.5.1 to 5.18.3; measured on 5.17.2

    Fires on 5.18.3::

        <transportConnector name="clients"
            uri="nio://0.0.0.0:61617?maximumConnections=0&amp;wireFormat.maxFrameSize=10485760"/>

    Silent on 5.18.3::

        <transportConnector name="clients"
            uri="nio://0.0.0.0:61617?maximumConnections=1000&amp;wireFormat.maxFrameSize=10485760"/>
    """
    uri = listener_uri(connector)
    limit = uri.integer_option("maximumConnections")
    if limit is None:
        return
    part = f"maximumConnections={uri.options['maximumConnections']}"
    if limit <= 0:
        message = f"connector {connector.get('name')} accepts no connections: maximumConnections is {limit}"
        fix = "remove maximumConnections, or set it above the number of clients and bridges"
        why = "with maximumConnections=0 the broker closes each connection, and clients and bridges retry indefinitely"
        yield connector.problem(message, "uri", part, fix=fix, why=why)
    elif is_openwire(uri.scheme) and limit < (links := len(connector.document.network_connectors)):
        message = (
            f"connector {connector.get('name')} accepts {limit} connections, but this broker has {links} links: if "
            "each linked broker also opens a link to this broker, no connection remains for clients"
        )
        yield connector.problem(message, "uri", part, severity="info")


@rule("C011", "warning", texts="maxInactivityDuration useInactivityMonitor")
def inactivity_monitor_disabled_for_bridges(document: Document) -> Iterator[Problem]:
    """A bridge, or a connector that bridges connect to, sets wireFormat.maxInactivityDuration=0.

    Why: neither side sends or expects keep-alive messages. When the peer or a firewall vanishes without closing the
        connection, the bridge stays up and transfers nothing for hours.
    Fix: remove the option from the URI, so that the default applies (keep-alive, with a limit of 30000 ms).
    Cannot see: a value that a placeholder such as ${…} supplies. If V035 already reports the option on a link, this
        rule does not report it again.
    Source: OpenWireFormat.renegotiateWireFormat, AbstractInactivityMonitor

    Fires on 6.3.1::

        <networkConnector name="south" userName="net" password="${net.password}"
                          uri="static:(tcp://south:61616?wireFormat.maxInactivityDuration=0)"/>

    Silent on 6.3.1::

        <networkConnector name="south" userName="net" password="${net.password}"
                          uri="static:(tcp://south:61616?wireFormat.maxInactivityDuration=30000)"/>
    """
    for link in document.network_connectors:
        for uri, option in link_options_that_disable_inactivity_monitor(link):
            hosts = [transport.host for transport in uri.transport_uris if transport.scheme != "multicast"]
            peers = " or ".join(dict.fromkeys(hosts))
            message = (
                f"{option} disables keep-alive: link {link.get('name')} does not detect a lost connection to "
                f"{peers or 'a broker that it discovers'}"
            )
            yield link.problem(message, "uri", option, fix=_remedy_without_monitor(option))
    for connector in document.transport_connectors:
        uri = listener_uri(connector)
        if is_openwire(uri.scheme):
            for option in _options_that_disable_inactivity_monitor(uri):
                message = (
                    f"{option} disables keep-alive: connector {connector.get('name')} does not detect lost "
                    "connections of clients and bridges"
                )
                yield connector.problem(
                    message,
                    "uri",
                    option,
                    severity="warning" if document.network_connectors else "info",
                    fix=_remedy_without_monitor(option),
                )


def _remedy_without_monitor(option: str) -> str:
    return f"remove {option} from the URI, so that the default applies (keep-alive, with a limit of 30000 ms)"


def link_options_that_disable_inactivity_monitor(link: Element) -> Iterator[tuple[Uri, str]]:
    """Yield the options of a link that disable its inactivity monitor, each with its URI, as written in the file.

    A URI with brackets sets options of its transports with a prefix, such as ``nested.``.
    """
    for uri in link.uri_attribute_or_empty().uri_and_nested_uris():
        prefix = prefix_of_transport_options(uri, link.document.release)
        if prefix is not None:
            for option in _options_that_disable_inactivity_monitor(uri, prefix):
                yield uri, option


def prefix_of_transport_options(uri: Uri, release: Release) -> str | None:
    """Return the prefix, such as ``nested.``, of the options in a link's URI that apply to its transports, else None.

    Source: FailoverTransportFactory, MasterSlaveDiscoveryAgent and DiscoveryNetworkConnector.onServiceAdd.
    """
    has_nested_options = release.is_within_span("5.9.0")
    if uri.scheme == "failover":
        return "nested." if has_nested_options else None
    if discovery_agent_options(uri.scheme, release) is None:
        return None if uri.scheme in COMPOSITE else ""
    if not connects_through_failover_transport(uri):
        return "discovered."
    return "discovered.nested." if has_nested_options else None


def connects_through_failover_transport(uri: Uri) -> bool:
    """Return whether a network link with a discovery URI connects through a failover: transport, as masterslave: does.

    The options ``discovered.NAME`` of the URI are then options of failover:, and ``discovered.nested.NAME`` those of
    its transports (measured on 5.18.3 and 6.3.1).
    """
    return uri.scheme == "masterslave" or any(part.scheme == "failover" for part in uri.parts)


def _options_that_disable_inactivity_monitor(uri: Uri, prefix: str = "") -> Iterator[str]:
    option = prefix + _INACTIVITY_OPTION
    if uri.integer_option(option) == 0:
        yield f"{option}={uri.options[option]}"
    for name in ("useInactivityMonitor", "transport.useInactivityMonitor"):
        option = prefix + name
        if uri.options.get(option, "").lower() == "false":
            yield f"{option}={uri.options[option]}"
