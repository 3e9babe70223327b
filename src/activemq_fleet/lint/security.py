"""Rules S about permissions at the broker, as activemq.xml shows them."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.addresses import is_loopback
from activemq_fleet.findings import Severity
from activemq_fleet.lint.clients import listener_uri
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import XML_FRAGMENTS, rule, variable_to_change
from activemq_fleet.network.uri import Uri
from activemq_fleet.node.protocols import PROTOCOLS, protocol_name_of_scheme
from activemq_fleet.releases import Release
from activemq_fleet.uris import is_openwire

# Plugins of the schema that authenticate clients.
AUTHENTICATION = (
    "simpleAuthenticationPlugin",
    "jaasAuthenticationPlugin",
    "jaasCertificateAuthenticationPlugin",
    "jaasDualAuthenticationPlugin",
)
# Plugins of the schema that check no password. Anything else, such as a bean, may check passwords.
ADMITS_ANYONE = frozenset({
    "authorizationPlugin",
    "camelRoutesBrokerPlugin",
    "connectionDotFilePlugin",
    "destinationDotFilePlugin",
    "destinationPathSeparatorPlugin",
    "discardingDLQBrokerPlugin",
    "forcePersistencyModeBrokerPlugin",
    "loggingBrokerPlugin",
    "multicastTraceBrokerPlugin",
    "redeliveryPlugin",
    "runtimeConfigurationPlugin",
    "statisticsBrokerPlugin",
    "timeStampingBrokerPlugin",
    "traceBrokerPathPlugin",
    "udpTraceBrokerPlugin",
})  # fmt: skip
_MAX_FRAME_SIZE = "wireFormat.maxFrameSize"
# The default limit of a frame: no limit from 5.7 on (OpenWireFormat), 100 MB in 5.6.
_OPENWIRE_UNLIMITED = "5.7.0"
# The connectors of the shipped file in addition to openwire; 5.8 has the first only.
_SHIPPED = {"amqp": "5.8.0 !5.19.7 6.0.0 !6.2.6"} | dict.fromkeys(("stomp", "mqtt", "ws"), "5.9.0 !5.19.7 6.0.0 !6.2.6")


def non_vm_connectors_and_uris(broker: Element) -> list[tuple[Element, Uri]]:
    """Return the transportConnectors that clients outside the broker's process can reach, each with its URI."""
    connectors = [(connector, listener_uri(connector)) for connector in broker.descendants("transportConnector")]
    return [(connector, uri) for connector, uri in connectors if uri.scheme != "vm"]


def has_authentication(broker: Element) -> bool:
    """Return whether a broker in activemq.xml has a plugin that authenticates clients.

    A plugin that is not known counts as authenticating.
    """
    return broker.has_attribute("plugins") or any(
        plugin.name not in ADMITS_ANYONE for plugin in plugin_elements_of(broker)
    )


def plugin_elements_of(broker: Element) -> list[Element]:
    """Return the XML elements inside the ``<plugins>`` element of a broker."""
    return [plugin for holder in broker.children("plugins") for plugin in holder.children()]


@rule("S003", "error", each="broker")
def no_authentication_plugin(broker: Element) -> Iterator[Problem]:
    """The broker has no plugin that authenticates clients.

    Why: any client that can reach a port can read, write and remove every queue and topic, and can connect another
        broker to this one. The default activemq.xml of every release requires no authentication.
    Fix: add a jaasAuthenticationPlugin or simpleAuthenticationPlugin with new passwords to <plugins>, and an
        authorizationPlugin that restricts access to destinations.
    Cannot see: firewalls. For a file without an inventory the finding is therefore a warning, or an info if all
        connectors are bound to loopback addresses. TLS that requires a client certificate counts as authentication.
    Source: TransportConnection and AuthorizationBroker of the release tags; the shipped activemq.xml

    Fires on 5.18.3::

        <broker><plugins/></broker>

    Fires on 5.5.1::

        <broker><plugins><statisticsBrokerPlugin/></plugins></broker>

    Silent on 5.18.3::

        <jaasAuthenticationPlugin configuration="activemq"/>
    """
    connectors = non_vm_connectors_and_uris(broker)
    if not connectors and not broker.has_attribute("transportConnectorURIs"):
        return
    if not has_authentication(broker):
        if connectors and all(_demands_certificate(uri) for _, uri in connectors):
            return
        local = connectors and all(is_loopback(uri.host) for _, uri in connectors)
        ports = ", ".join(dict.fromkeys(str(uri.port) for _, uri in connectors if uri.port))
        reachable = f"ports {ports}" if "," in ports else f"port {ports}" if ports else "this broker"
        message = f"authentication is not configured: any client that can reach {reachable} has full access"
        if broker.descendants("authorizationPlugin"):
            message = "authorizationPlugin rejects every client, because no plugin authenticates clients"
            why = "authorizationPlugin grants access only to groups, and a client without an account has no group"
            fix = "add a jaasAuthenticationPlugin or simpleAuthenticationPlugin with new passwords to <plugins>"
            severity = _severity(broker.document, bool(local))
            yield broker.problem(message, severity=severity, why=why, fix=fix)
            return
        yield broker.problem(message, severity=_severity(broker.document, bool(local)))
        return
    if not broker.descendants("authorizationPlugin"):
        for plugin in broker.descendants("simpleAuthenticationPlugin"):
            if plugin.boolean_attribute("anonymousAccessAllowed", False):
                message = (
                    "anonymous clients have full access: anonymousAccessAllowed is true without an authorizationPlugin"
                )
                yield plugin.problem(message, "anonymousAccessAllowed")


def _severity(document: Document, local: bool) -> Severity:
    """Return the severity of a finding about a broker without authentication.

    It is lower for a file of no fleet, where a firewall may protect the broker.
    """
    if document.broker is None:
        return "info" if local else "warning"
    return "warning" if local else "error"


def _demands_certificate(uri: Uri) -> bool:
    wanted = (uri.options.get("needClientAuth"), uri.options.get("transport.needClientAuth"))
    return "ssl" in uri.scheme and "true" in wanted


@rule("S008", "warning", each="broker")
def all_default_connectors_without_authentication(broker: Element) -> Iterator[Problem]:
    """The broker has all connectors of the release's default file, and requires no authentication.

    Why: each protocol adds an attack surface, and most of the recent security advisories concern one of these
        protocols. From 5.19.7 and 6.2.6 on the releases open only OpenWire by default.
    Fix: remove the connectors of the protocols that no client uses, and require authentication.
    Cannot see: which protocols clients use. The rule reports only brokers that have all connectors of the shipped
        file, unchanged, and no authentication.
    Source: the shipped activemq.xml of the release tags; SECURITY.md of 6.3.1, item 4

    Fires on 5.18.3::

        <broker>
          <plugins/>
          <transportConnectors>
            <transportConnector name="openwire" uri="tcp://0.0.0.0:61616?wireFormat.maxFrameSize=104857600"/>
            <transportConnector name="amqp" uri="amqp://0.0.0.0:5672?wireFormat.maxFrameSize=104857600"/>
            <transportConnector name="stomp" uri="stomp://0.0.0.0:61613?wireFormat.maxFrameSize=104857600"/>
            <transportConnector name="mqtt" uri="mqtt://0.0.0.0:1883?wireFormat.maxFrameSize=104857600"/>
            <transportConnector name="ws" uri="ws://0.0.0.0:61614?wireFormat.maxFrameSize=104857600"/>
          </transportConnectors>
        </broker>

    Silent on 5.18.3::

        <transportConnector name="mqtt" uri="mqtt://0.0.0.0:1883?wireFormat.maxFrameSize=1048576"/>
    """
    if broker.document.broker is not None or has_authentication(broker):
        return  # the inventory defines the connectors
    connectors_by_name = {
        connector.get("name"): (connector, uri) for connector, uri in non_vm_connectors_and_uris(broker)
    }
    wanted = [scheme for scheme, span in _SHIPPED.items() if broker.document.release.is_within_span(span)]
    if not wanted or connectors_by_name.keys() != {"openwire", *wanted}:
        return
    if all(_as_shipped(name, connectors_by_name[name][1]) for name in wanted):
        opened = ", ".join(f"{name} on {PROTOCOLS[name].port}" for name in wanted)
        message = (
            f"all connectors of the release's default file are open without authentication ({opened}): any client that "
            "can reach them has full access"
        )
        yield connectors_by_name[wanted[0]][0].problem(message, "uri", f"{wanted[0]}:")


def _as_shipped(name: str, uri: Uri) -> bool:
    return (uri.scheme, uri.host, uri.port) == (name, "0.0.0.0", PROTOCOLS[name].port)  # noqa: S104 -- compared, not bound


@rule("S009", "warning", each="transportConnector")
def connector_without_max_frame_size(connector: Element) -> Iterator[Problem]:
    """A connector sets no wireFormat.maxFrameSize: it accepts frames of any size.

    Why: a frame begins with its length, and the broker allocates that much memory, so a few clients or one port
        scanner can exhaust the heap.
    Fix: add wireFormat.maxFrameSize=10485760 (10 MB), or the size of the largest message, to the connector's URI.
        Releases before 5.6 have no such option: in a firewall, permit connections to the port of the connector only
        from the addresses of its clients.
    Source: OpenWireFormat, AmqpWireFormat, MQTTWireFormat of the release tags; SECURITY.md of 6.3.1

    Fires on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617"/>

    Silent on 5.18.3::

        <transportConnector name="clients" uri="nio://0.0.0.0:61617?wireFormat.maxFrameSize=104857600"/>
    """
    uri = listener_uri(connector)
    if _MAX_FRAME_SIZE in uri.options or "${" in uri.text:
        return
    if uri.scheme.startswith("auto") and "wireFormat.default.maxFrameSize" in uri.options:
        return
    document, release = connector.document, connector.document.release
    size = _largest_frame(uri, release)
    if not size or (document.broker is not None and not release.has_max_frame_size):
        return
    name = connector.get("name") or uri.text
    if not release.has_max_frame_size:
        message = f"connector {name} accepts frames {size}: release {release} has no option that limits them"
        fix = (
            "in a firewall, permit connections to the port of the connector only from the addresses of its clients. Or "
            f"upgrade to 5.6 or later and set {_MAX_FRAME_SIZE} in the URI of the connector"
        )
        yield connector.problem(message, "uri", severity="info", fix=fix)
        return
    message = f"connector {name} accepts frames {size}"
    wrong = next((option for option in uri.options if option.lower() == _MAX_FRAME_SIZE.lower()), "")
    if wrong:
        message += f": the broker ignores {wrong}, because the option is {_MAX_FRAME_SIZE}"
    else:
        message += ": a few clients can exhaust the heap"
    size_option = f"{_MAX_FRAME_SIZE}=10485760 (10 MB), or the size of the largest message"
    variable = variable_to_change(connector, "uri")
    if wrong:
        fix = f"write {size_option}, instead of {wrong}" + (f" in {variable}" if variable else "")
    elif variable is None or variable == XML_FRAGMENTS:
        fix = f"add {size_option}, to the connector's URI" + (f" in {variable}" if variable else "")
    else:
        fix = (
            f"add {_MAX_FRAME_SIZE}: 10485760 (10 MB), or the size of the largest message, to the options of connector "
            f"{name} in {variable}"
        )
    # no variable adds options to a pure master's connector for replication
    replicates = document.ha_profile is not None and document.ha_profile.replicates and name == "replication"
    severity: Severity | None = "info" if is_loopback(uri.host) or replicates else None
    yield connector.problem(message, "uri", wrong, severity=severity, fix=fix)


def _largest_frame(uri: Uri, release: Release) -> str:
    """Return the size of the largest frame that a connector accepts without maxFrameSize, as text.

    The result is "" where the release limits frames.
    """
    if is_openwire(uri.scheme):
        unlimited = release.is_within_span(_OPENWIRE_UNLIMITED) or not release.has_max_frame_size
        return "of any size" if unlimited else ""
    protocol = PROTOCOLS.get(protocol_name_of_scheme(uri.scheme))
    if (
        protocol is None
        or not protocol.max_frame_size_since
        or not release.is_within_span(protocol.max_frame_size_since)
    ):
        return ""
    return protocol.default_frames
