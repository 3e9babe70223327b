"""Rules S about authentication at the broker, as activemq.xml shows it."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.addresses import is_loopback
from activemq_fleet.findings import Severity
from activemq_fleet.lint.clients_connectors import listener_uri
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.node.protocols import PROTOCOLS

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
# The connectors of the default file in addition to openwire, with their releases; 5.8 has only the first.
_DEFAULT_CONNECTOR_RELEASES = {"amqp": "5.8.0 !5.19.7 6.0.0 !6.2.6"} | dict.fromkeys(
    ("stomp", "mqtt", "ws"), "5.9.0 !5.19.7 6.0.0 !6.2.6"
)


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
    return [plugin for container in broker.children("plugins") for plugin in container.children()]


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
        if connectors and all(_requires_certificate(uri) for _, uri in connectors):
            return
        is_local = connectors and all(is_loopback(uri.host) for _, uri in connectors)
        ports = ", ".join(dict.fromkeys(str(uri.port) for _, uri in connectors if uri.port))
        reachable = f"ports {ports}" if "," in ports else f"port {ports}" if ports else "this broker"
        message = f"authentication is not configured: any client that can reach {reachable} has full access"
        if broker.descendants("authorizationPlugin"):
            message = "authorizationPlugin rejects every client, because no plugin authenticates clients"
            why = "authorizationPlugin grants access only to groups, and a client without an account has no group"
            fix = "add a jaasAuthenticationPlugin or simpleAuthenticationPlugin with new passwords to <plugins>"
            severity = _severity_without_authentication(broker.document, bool(is_local))
            yield broker.problem(message, severity=severity, why=why, fix=fix)
            return
        yield broker.problem(message, severity=_severity_without_authentication(broker.document, bool(is_local)))
        return
    if not broker.descendants("authorizationPlugin"):
        for plugin in broker.descendants("simpleAuthenticationPlugin"):
            if plugin.boolean_attribute("anonymousAccessAllowed", False):
                message = (
                    "anonymous clients have full access: anonymousAccessAllowed is true without an authorizationPlugin"
                )
                yield plugin.problem(message, "anonymousAccessAllowed")


def _severity_without_authentication(document: Document, is_local: bool) -> Severity:
    """Return the severity of a finding about a broker without authentication.

    It is lower for a file that belongs to no fleet, because a firewall may protect the broker.
    """
    if document.broker is None:
        return "info" if is_local else "warning"
    return "warning" if is_local else "error"


def _requires_certificate(uri: Uri) -> bool:
    options = (uri.options.get("needClientAuth"), uri.options.get("transport.needClientAuth"))
    return "ssl" in uri.scheme and "true" in options


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
    default_names = [
        scheme for scheme, span in _DEFAULT_CONNECTOR_RELEASES.items() if broker.document.release.is_within_span(span)
    ]
    if not default_names or connectors_by_name.keys() != {"openwire", *default_names}:
        return
    if all(_has_default_address(name, connectors_by_name[name][1]) for name in default_names):
        connectors_text = ", ".join(f"{name} on {PROTOCOLS[name].port}" for name in default_names)
        message = (
            f"all connectors of the release's default file are open without authentication ({connectors_text}): any "
            "client that can reach them has full access"
        )
        yield connectors_by_name[default_names[0]][0].problem(message, "uri", f"{default_names[0]}:")


def _has_default_address(name: str, uri: Uri) -> bool:
    return (uri.scheme, uri.host, uri.port) == (name, "0.0.0.0", PROTOCOLS[name].port)  # noqa: S104 -- compared, not bound
