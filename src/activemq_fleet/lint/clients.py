"""Rules C on connectors: what they send to clients, and what they accept."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.addresses import is_loopback
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.network.uri import Uri
from activemq_fleet.uris import is_openwire

# Schemes that speak OpenWire, or find out that a client does.
_WILDCARDS = frozenset({"", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"})  # noqa: S104 -- looked for, not bound to
_INACTIVITY = "wireFormat.maxInactivityDuration"


def is_wildcard(host: str) -> bool:
    """Return whether a host in a listener's URI binds all interfaces of the machine."""
    return host in _WILDCARDS


def listener_uri(connector: Element) -> Uri:
    """Return the URI that a transportConnector listens on; a URI without scheme where a placeholder decides it."""
    known = connector.known_value("uri")
    return Uri.read(known) if known is not None else Uri("", "")


@rule("C001", "warning", each="transportConnector", releases="5.4.0")
def rebalance_without_update(connector: Element) -> Iterator[Problem]:
    """A connector sets rebalanceClusterClients without updateClusterClients.

    Why: the broker then tells its clients to move and sends them an empty list of brokers, so nobody moves anywhere.
    Fix: set updateClusterClients="true" beside it, and updateClusterFilter where not every broker of the network
        should get clients.
    Source: TransportConnector.getConnectionControl, 5.5.1 and 5.18.3

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"
                            rebalanceClusterClients="true"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"
                            rebalanceClusterClients="true" updateClusterClients="true"
                            updateClusterClientsOnRemove="true"/>
    """
    if connector.flag("rebalanceClusterClients", False) and connector.flag("updateClusterClients", False) is False:
        message = f"connector {connector.get('name')} rebalances its clients and tells them of no broker to go to"
        yield connector.problem(message, "rebalanceClusterClients")


@rule("C002", "warning", each="transportConnector", releases="5.4.0")
def clients_told_unreachable_names(connector: Element) -> Iterator[Problem]:
    """A connector with updateClusterClients publishes a name that other machines cannot dial.

    Why: clients are sent the address that each broker publishes. One that is bound to a loopback address publishes
        localhost, and every client then dials itself. One that is bound to all interfaces publishes the machine's own
        host name, which clients of another network often cannot resolve (told as info).
    Fix: bind to a name that all clients resolve, set <publishedAddressPolicy> inside the connector (from 5.8), or
        leave updateClusterClients off.
    Cannot see: which names the clients resolve.
    Source: TransportConnector.getPublishableConnectString; failover reference

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://localhost:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true" updateClusterClientsOnRemove="true"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://mq01.example.com:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true" updateClusterClientsOnRemove="true"/>
    """
    if not connector.flag("updateClusterClients", False) or connector.children("publishedAddressPolicy"):
        return
    uri = listener_uri(connector)
    if not uri.scheme:
        return
    name = connector.get("name")
    if is_loopback(uri.host):
        yield connector.problem(f"connector {name} sends its clients to {uri.host}: themselves", "uri", uri.host)
    elif is_wildcard(uri.host) and not connector.has("publishedAddressPolicy"):
        message = f"connector {name} sends its clients to the machine's own host name, which they must resolve"
        yield connector.problem(message, "updateClusterClients", severity="info")


@rule("C003", "info", each="transportConnector", releases="5.4.0")
def dead_brokers_stay_with_clients(connector: Element) -> Iterator[Problem]:
    """A connector sets updateClusterClients without updateClusterClientsOnRemove.

    Why: clients are told of brokers that join and not of brokers that leave. They go on dialling the dead ones, which
        delays a reconnect; where brokers come and go it never ends. A network of fixed brokers can live with it.
    Fix: set updateClusterClientsOnRemove="true".
    Source: RegionBroker.removeBroker; failover reference

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://mq01.example.com:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://mq01.example.com:61617?wireFormat.maxFrameSize=10485760"
                            updateClusterClients="true" updateClusterClientsOnRemove="true"/>
    """
    if connector.flag("updateClusterClients", False) and connector.flag("updateClusterClientsOnRemove", False) is False:
        message = f"connector {connector.get('name')} does not tell its clients of brokers that are gone"
        yield connector.problem(message, "updateClusterClients")


@rule("C009", "warning", each="transportConnector")
def too_few_connections(connector: Element) -> Iterator[Problem]:
    """maximumConnections is lower than the number of connections that bridges and agents need.

    Why: bridges and consoles count as clients do. Whoever comes after the last one allowed is cut off without a word
        in the protocol, and a bridge then tries again for ever. With 0 that is everybody.
    Fix: raise maximumConnections above clients and bridges together, with room for a fail-over, when all come at once.
    Cannot see: how many clients there are. A limit below the number of this broker's own links is told as info: its
        peers usually link back.
    Source: TcpTransportServer.handleSocket, 5.5.1 to 5.18.3; measured on 5.17.2

    Fires on 5.18.3::

        <transportConnector name="clients"
            uri="nio://0.0.0.0:61617?maximumConnections=0&amp;wireFormat.maxFrameSize=10485760"/>

    Silent on 5.18.3::

        <transportConnector name="clients"
            uri="nio://0.0.0.0:61617?maximumConnections=1000&amp;wireFormat.maxFrameSize=10485760"/>
    """
    uri = listener_uri(connector)
    limit = uri.number("maximumConnections")
    if limit is None:
        return
    part = f"maximumConnections={uri.options['maximumConnections']}"
    if limit <= 0:
        yield connector.problem(f"connector {connector.get('name')} takes no connection at all", "uri", part)
    elif is_openwire(uri.scheme) and limit < (links := len(connector.document.links)):
        message = (
            f"connector {connector.get('name')} takes {limit} connections, and {links} links begin here: where the "
            "peers link back there is no place for clients"
        )
        yield connector.problem(message, "uri", part, severity="info")


@rule("C011", "warning")
def half_open_connections_stay(document: Document) -> Iterator[Problem]:
    """A bridge, or a connector that bridges dial, sets wireFormat.maxInactivityDuration=0.

    Why: with 0 on either side neither side sends or expects a sign of life. When the peer or a firewall vanishes
        without closing the connection, the bridge stays up in name and carries nothing, for hours.
    Fix: leave the default of 30000 ms.
    Source: OpenWireFormat.renegotiateWireFormat, AbstractInactivityMonitor

    Fires on 5.18.3::

        <networkConnector name="south" userName="net" password="${net.password}"
                          uri="static:(tcp://south:61616?wireFormat.maxInactivityDuration=0)"/>

    Silent on 5.18.3::

        <networkConnector name="south" userName="net" password="${net.password}"
                          uri="static:(tcp://south:61616?wireFormat.maxInactivityDuration=30000)"/>
    """
    for link in document.links:
        for transport in link.uri().transports:
            for option in _without_monitor(transport):
                message = f"link {link.get('name')} never notices that {transport.host} is gone: {option}"
                yield link.problem(message, "uri", option)
    for connector in document.connectors:
        uri = listener_uri(connector)
        if is_openwire(uri.scheme):
            for option in _without_monitor(uri):
                message = f"connector {connector.get('name')} never notices that a client or a bridge is gone: {option}"
                yield connector.problem(message, "uri", option, severity="warning" if document.links else "info")


def _without_monitor(uri: Uri) -> Iterator[str]:
    """Yield the options of a transport, as written, that switch its inactivity monitor off."""
    if uri.number(_INACTIVITY) == 0:
        yield f"{_INACTIVITY}={uri.options[_INACTIVITY]}"
    for option in ("useInactivityMonitor", "transport.useInactivityMonitor"):
        if uri.options.get(option, "").lower() == "false":
            yield f"{option}={uri.options[option]}"
