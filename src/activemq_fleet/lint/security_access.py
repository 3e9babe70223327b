"""Rules S about what clients may do and send: authorization, JMX without authentication, and large frames."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import XML_FRAGMENTS, rule, variable_to_change
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.security import (
    AUTHENTICATION,
    has_authentication,
    non_vm_connectors_and_uris,
    plugin_elements_of,
)
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.settings.size_in_bytes import size_in_bytes

_LIMITS = ("wireFormat.maxFrameSize", "maximumConnections")
_FEW = 5
_DIGITS = 15


@rule("S015", "warning", each="broker")
def authentication_without_authorization(broker: Element) -> Iterator[Problem]:
    """The broker requires authentication but has no authorization plugin: every account has full access.

    Why: every account, also that of the least important client, can read, write and remove every queue and topic, so
        one leaked password exposes all of them.
    Fix: add an authorizationPlugin with the rights of each group to <plugins>. In a fleet, set activemq_acl.
    Cannot see: a custom plugin, configured as a bean, that may authorize clients. In a fleet the severity is only info
        for this reason.
    Source: AuthorizationBroker of the release tags

    Fires on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="app" password="${app.password}" groups="apps"/></users>
        </simpleAuthenticationPlugin>

    Silent on 5.18.3::

        <broker>
          <plugins>
            <jaasAuthenticationPlugin configuration="activemq"/>
            <authorizationPlugin>
              <map>
                <authorizationMap>
                  <authorizationEntries>
                    <authorizationEntry queue="&gt;" read="apps" write="apps" admin="admins"/>
                  </authorizationEntries>
                </authorizationMap>
              </map>
            </authorizationPlugin>
          </plugins>
        </broker>
    """
    if broker.has_attribute("plugins") or not non_vm_connectors_and_uris(broker) or not has_authentication(broker):
        return
    plugins = plugin_elements_of(broker)
    if any(plugin.name in ("authorizationPlugin", "bean", "ref") for plugin in plugins):
        return
    for plugin in plugins:
        if plugin.name in AUTHENTICATION:
            message = "every account has full access: the broker has no authorizationPlugin"
            yield plugin.problem(message, severity="info" if broker.document.broker else None)


@rule("S017", "warning", each="managementContext")
def create_connector_opens_jmx(context: Element) -> Iterator[Problem]:
    """createConnector="true" opens JMX on all interfaces.

    Why: the RMI registry of <managementContext> ignores connectorHost and listens on all interfaces. JMX requires no
        authentication unless the property environment of <managementContext> has an entry jmx.remote.x.password.file.
        Any client that reaches the port can manage the broker, and can run code by loading an MLet (an MBean from a
        remote address).
    Fix: set createConnector="false", and use Jolokia or the JVM's own JMX agent with a password file and TLS.
    Cannot see: a firewall, and a <managementContext> without createConnector, whose default is true up to 5.14.
    Source: ManagementContext of the release tags; jmx.remote.x.password.file of JMX

    Fires on 5.18.3::

        <broker>
          <managementContext><managementContext createConnector="true" connectorPort="1099"/></managementContext>
        </broker>

    Silent on 5.18.3::

        <broker>
          <managementContext><managementContext createConnector="false"/></managementContext>
        </broker>
    """
    if context.boolean_attribute("createConnector", False) and not _asks_for_login(context):
        message = (
            f"JMX listens on port {context.get('connectorPort') or '1099'} of all interfaces and requires no "
            "authentication"
        )
        fix = ""
        if context.document.broker is not None and variable_to_change(context, "createConnector") != XML_FRAGMENTS:
            fix = "add users to activemq_jmx, so that JMX requires a password. Or remove activemq_jmx, and use Jolokia"
        yield context.problem(message, "createConnector", fix=fix)


def _asks_for_login(context: Element) -> bool:
    names = (node.get("key") or node.get("name") for node in context.descendants("entry", "prop"))
    return context.has_attribute("environment") or any(
        name.endswith(("password.file", "login.config")) for name in names
    )


@rule("S018", "warning", scope="fleet")
def frames_of_one_connector_exceed_heap(view: FleetView) -> Iterator[Problem]:
    """The frames that the clients of one connector can send at the same time do not fit in the heap.

    Why: a frame (one message or command on a connection) begins with its length. The broker reserves this memory
        before the client authenticates. Any client that can connect can therefore stop the broker: it opens connections
        and sends only the first bytes of a large frame on each, until the broker has an OutOfMemoryError.
    Fix: in the options of activemq_connectors, lower wireFormat.maxFrameSize to the size of the largest message, or
        maximumConnections to the number of clients. Or raise activemq_heap.
    Cannot see: connectors in activemq_xml_fragments. The rule does not report a connector whose options in
        activemq_connectors set neither wireFormat.maxFrameSize nor maximumConnections. The finding is a warning if the
        heap has room for fewer than five frames of this size, and otherwise an info.
    Source: measured on 5.18.3 and 6.3.1 with a heap of 512 MB

    Fires on 5.18.3::

        all:
          activemq_heap: 1g
          activemq_connectors:
            - {name: openwire, scheme: nio, port: 61616, options: {wireFormat.maxFrameSize: 536870912}}
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        all:
          activemq_heap: 8g
          activemq_connectors:
            - name: openwire
              scheme: nio
              port: 61616
              options: {wireFormat.maxFrameSize: 1048576, maximumConnections: 1000}
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
    """
    for broker in view.brokers:
        heap = size_in_bytes(broker.settings.heap) or 0
        listed = [c for c in broker.settings.connectors or () if "options" in c.model_fields_set]
        limited = {connector.name for connector in listed if not connector.options.keys().isdisjoint(_LIMITS)}
        too_large = []
        for connector in (connector for connector in broker.connectors if connector.name in limited):
            frame, most = (_number(connector.options.get(name)) for name in _LIMITS)
            if heap and frame and (most is None or most * frame > heap):
                too_large.append((frame, connector.name, "any number of" if most is None else most))
        if too_large:
            frame, name, accepted = max(too_large, key=lambda largest: largest[0])
            yield Problem(
                f"connector {name} accepts {accepted} connections and frames of up to {frame >> 20} MiB, but the heap "
                f"of {heap >> 20} MiB has room for {count_with_noun(heap // frame, 'frame')} of this size",
                host=broker.host,
                severity="warning" if heap // frame < _FEW else "info",
            )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < _DIGITS else None
