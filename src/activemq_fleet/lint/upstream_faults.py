"""Rules about faults of some releases, with the releases that repair them."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.clients_connectors import link_options_that_disable_inactivity_monitor, listener_uri
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.locations import (
    path_relative_to_referring_file,
)

_WEB_SOCKETS = frozenset({"ws", "wss"})
_WRITE_TIMEOUT = "soWriteTimeout"
_BROKER_BEAN = "broker"

_BROKER_CLASSES = frozenset(
    {"org.apache.activemq.broker.BrokerService", "org.apache.activemq.xbean.XBeanBrokerService"}
)


@rule("V033", "warning", each="transportConnector", releases="6.3.0 !6.3.2")
def web_socket_connector_without_jetty_jar(connector: Element) -> Iterator[Problem]:
    """The broker has a WebSocket connector, but the archive of the release lacks a Jetty jar that it requires.

    Why: the archives of 6.3.0 and 6.3.1 do not contain jetty-websocket-jetty-server. The broker starts, and each client
        that connects to the ws or wss port fails with a NoClassDefFoundError.
    Fix: put jetty-websocket-jetty-server, of the version of the other Jetty jars, into lib/web, or install 6.3.2,
        6.4.0 or later.
    Cannot see: whether the jar was added, and whether the jars of the installation come from Maven, which provides this
        jar.
    Source: apache/activemq#2446; assembly/src/main/descriptors/common-bin.xml of 6.2.9 and 6.3.1. Not measured: Maven
        has neither the archives of 6.3.0 to 6.3.2 nor their activemq-http.

    Fires on 6.3.1::

        <transportConnector name="ws" uri="ws://0.0.0.0:61614?wireFormat.maxFrameSize=1048576"/>

    Silent on 6.3.2::

        <transportConnector name="ws" uri="ws://0.0.0.0:61614?wireFormat.maxFrameSize=1048576"/>
    """
    broker = connector.document.broker
    if broker is not None and broker.settings.install == "jars":
        return
    scheme = listener_uri(connector).scheme
    if scheme in _WEB_SOCKETS:
        release = connector.document.release.text
        text = (
            f"the archive of ActiveMQ {release} lacks the jar jetty-websocket-jetty-server: "
            f"no {scheme} client can connect"
        )
        yield connector.problem(text, "uri")


@rule("V034", "error", each="import", releases="5.19.6 !6.0.0 6.2.5 !6.3.0")
def jetty_xml_without_broker_bean(imported: Element) -> Iterator[Problem]:
    """The jetty.xml of the release requires a bean with the id broker, but the file has none.

    Why: jetty.xml of this release starts the web console after a bean with the id "broker". Without such a bean the
        start fails: "No bean named 'broker'". An activemq.xml of an older release has no id on <broker>.
    Fix: write <broker id="broker" …>, or remove broker from depends-on in jetty.xml.
    Cannot see: a jetty.xml that is not next to the file. The finding is a warning then, because the jetty.xml may be
        that of an older release.
    Source: assembly/src/release/conf/jetty.xml of 5.19.6 to 5.19.10 and 6.2.5 to 6.2.9; measured on 6.2.7 with a bean
        in place of the console

    Fires on 6.2.9::

        <import resource="jetty.xml"/>

    Silent on 6.2.9::

        <broker id="broker"/>
        <import resource="jetty.xml"/>

    Silent on 6.3.1::

        <import resource="jetty.xml"/>
    """
    document = imported.document
    name = path_relative_to_referring_file(imported.get("resource"))
    if name != "jetty.xml" or document.broker is not None:
        return  # the jetty.xml of a fleet is rendered
    others = [
        path_relative_to_referring_file(node.get("resource"))
        for node in document.elements_with_tag_name("import")
        if node is not imported
    ]
    documents = [document, *(document.parsed_sibling_file(other) for other in others)]
    if any(other is None or _defines_broker_bean(other) for other in documents):
        return  # an imported file that was not found may define the bean
    console = document.parsed_sibling_file(name)
    if console is None:
        text = 'jetty.xml of this release requires a bean with the id "broker", but this file defines none'
        yield imported.problem(text, "resource", severity="warning")
    for bean in console.elements_with_tag_name("bean") if console is not None else ():
        if _BROKER_BEAN in bean.get("depends-on").replace(",", " ").replace(";", " ").split():
            text = (
                f'a bean of {name} depends on the bean "broker", but this file defines none: the broker does not start'
            )
            yield imported.problem(text, "resource")
            return


def _defines_broker_bean(document: Document) -> bool:
    return any(_BROKER_BEAN in (node.get("id"), node.get("name")) for node in document.nodes)


@rule(
    "V035",
    "warning",
    each="networkConnector",
    releases="5.8.0 !5.19.10 6.0.0 !6.2.9 6.3.0 !6.3.1",
    texts="maxInactivityDuration useInactivityMonitor",
)
def unmonitored_link_waits_indefinitely(link: Element) -> Iterator[Problem]:
    """A link without an inactivity monitor waits indefinitely for a broker that sends nothing.

    Why: this release ignores the timeout of the handshake. If the peer accepts the connection and then sends nothing,
        only the inactivity monitor ends the attempt. Without the monitor (wireFormat.maxInactivityDuration=0 or
        useInactivityMonitor=false) the link never connects again, and the broker logs nothing. The link also does not
        detect a peer that vanished without closing the connection.
    Fix: remove the option that disables the inactivity monitor. If the option must stay, install 5.19.10, 6.2.9, 6.3.1
        or later, which end a handshake that gets no answer. The link still does not detect a peer that vanishes later:
        monitor the bridges, and restart the networkConnector (JMX: stop, start) when a bridge stays down.
    Cannot see: wireFormat.maxInactivityDuration=0 of the peer's connector, which also turns the monitor off.
    Source: apache/activemq#2398, DemandForwardingBridgeSupport.FutureBrokerInfo of the release tags; measured on 5.18.3
        and 6.3.1. A handshake that breaks (apache/activemq#1864) led to a new attempt on 5.8.0, 5.11.4, 5.15.16,
        5.18.3, 6.2.7 and 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxInactivityDuration=0)"/>

    Silent on 6.3.1::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxInactivityDuration=0)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxInactivityDuration=30000)"/>
    """
    for _, option in link_options_that_disable_inactivity_monitor(link):
        text = (
            f"{option} disables the inactivity monitor of this link, so the link waits indefinitely for a "
            "broker that accepts the connection and sends nothing"
        )
        yield link.problem(text, "uri", option)


@rule("V036", "info", releases="5.4.0 !5.19.6 6.0.0 !6.2.5", texts="soWriteTimeout")
def write_timeout_excludes_tls_handshake(document: Document) -> Iterator[Problem]:
    """soWriteTimeout of a TLS address does not limit the TLS handshake.

    Why: soWriteTimeout applies only to messages. If the peer of a link accepts the connection and then sends nothing,
        the thread of the link blocks in the TLS handshake, and the broker does not finish its start. If a client
        connects to a TLS listener and then sends nothing, it blocks a thread of the broker. soWriteTimeout prevents
        neither.
    Fix: install 5.19.6, 6.2.5, 6.3.0 or later.
    Source: AMQ-9569, apache/activemq#1882; WriteTimeoutFilter of the release tags; measured on 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <transportConnector name="tls" uri="ssl://0.0.0.0:61617?transport.soWriteTimeout=15000"/>

    Silent on 5.18.3::

        <transportConnector name="tls" uri="ssl://0.0.0.0:61617"/>

    Silent on 5.19.6::

        <transportConnector name="tls" uri="ssl://0.0.0.0:61617?transport.soWriteTimeout=15000"/>
    """
    for node in (*document.transport_connectors, *document.network_connectors):
        uri = node.get("uri")
        if _WRITE_TIMEOUT in uri and "ssl://" in uri:
            text = (
                f"{_WRITE_TIMEOUT} of ActiveMQ {document.release.text} does not limit the TLS handshake of this "
                "address: a client or broker that sends nothing blocks a thread of the broker"
            )
            yield node.problem(text, "uri", _WRITE_TIMEOUT)


@rule("C019", "error", each="plugins", releases="5.7.0 !5.9.0")
def redelivery_with_timestamp_plugin_before_5_9(plugins: Element) -> Iterator[Problem]:
    """A broker before 5.9 has both redeliveryPlugin and timeStampingBrokerPlugin.

    Why: before 5.9, timeStampingBrokerPlugin fails for each message that redeliveryPlugin sends again. The broker logs
        "Failed to schedule redelivery", and the message is not acknowledged.
    Fix: remove timeStampingBrokerPlugin, or upgrade ActiveMQ to 5.9 or later.
    Source: measured on 5.8.0; TimeStampingBrokerPlugin.isDestinationDLQ of the release tags

    Fires on 5.8.0::

        <plugins><timeStampingBrokerPlugin/><redeliveryPlugin fallbackToDeadLetter="true"/></plugins>

    Silent on 5.8.0::

        <plugins><redeliveryPlugin fallbackToDeadLetter="true"/></plugins>
    """
    if any(plugins.descendants("redeliveryPlugin")):
        for plugin in plugins.descendants("timeStampingBrokerPlugin"):
            yield plugin.problem(
                "redeliveryPlugin cannot redeliver messages while the broker also has timeStampingBrokerPlugin"
            )


@rule("L027", "warning", each="broker", releases="5.10.0 !5.12.0")
def durable_subscribers_get_nothing_after_kill(broker: Element) -> Iterator[Problem]:
    """The release delivers no messages to durable subscribers after a kill of the broker.

    Why: the broker that opens the store next reports no error. The messages of the durable subscribers stay in the
        store.
    Fix: upgrade to 5.12 or later. Until then, after each such failure restart the broker that took over.
    Source: measured on 5.10.2 and 5.11.4: docs/proofs.md

    Fires on 5.11.4::

        <broker/>

    Silent on 5.12.3::

        <broker/>

    Silent on 5.11.4::

        <broker persistent="false"/>
    """
    if broker.boolean_attribute("persistent", True) is not False:
        yield broker.problem(
            f"after the broker crashes or is killed, ActiveMQ {broker.document.release} delivers no messages to "
            "durable subscribers until the next orderly restart"
        )


@rule("V026", "warning", each="transportConnector")
def nio_ssl_hangs_with_tls_1_3(connector: Element) -> Iterator[Problem]:
    """Before ActiveMQ 5.14.1, a connector with a scheme that ends in nio+ssl may never answer over TLS 1.3.

    Why: over TLS 1.3 a client's first data arrives together with the end of its handshake, and this listener reads it
        only when more data arrives. A bridge hangs then, because both of its ends wait. The broker logs nothing.
    Fix: in the connector's URI, write the scheme ssl in place of nio+ssl, or stomp+ssl in place of stomp+nio+ssl.
        Clients need no change. Or upgrade to 5.14.1 or later.
    Cannot see: the Java version. TLS 1.3 was added in Java 11, and in update 261 of Java 8.
    Source: AMQ-6414; measured: of four links to 5.11.4 three did not come up in 45 s, nor did one of 5.8.0's two

    Fires on 5.11.4::

        <transportConnector name="openwire" uri="nio+ssl://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"/>

    Silent on 5.11.4::

        <transportConnector name="openwire" uri="ssl://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"/>

    Silent on 5.11.4::

        <transportConnector name="openwire" uri="nio+ssl://0.0.0.0:61617?transport.enabledProtocols=TLSv1.2"/>

    Silent on 5.14.5::

        <transportConnector name="openwire" uri="nio+ssl://0.0.0.0:61617?wireFormat.maxFrameSize=10485760"/>
    """
    release, uri = connector.document.release, connector.uri_attribute_or_empty()
    if release.reads_on_after_nio_handshake or not uri.scheme.endswith("nio+ssl") or uri.scheme not in release.schemes:
        return
    protocols = uri.options.get("transport.enabledProtocols")
    if protocols is None or "TLSv1.3" in protocols:
        text = (
            f"a {uri.scheme}: listener of ActiveMQ {release.text} may never answer clients and bridges that use TLS 1.3"
        )
        yield connector.problem(text, "uri", f"{uri.scheme}:")


@rule("V027", "error", releases="5.17.7 !5.18.0 5.18.4 !5.19.8 6.1.0 !6.2.7")
def uncommitted_limit_rejects_nontransactional_messages(document: Document) -> Iterator[Problem]:
    """A maxUncommittedCount above 0 makes the broker reject every message outside of a transaction.

    Why: with maxUncommittedCount, this release searches for the transaction of each message. It fails with a
        NullPointerException for a message without a transaction. Bridges, MQTT clients and most other clients send such
        messages. The broker accepts connections but delivers none of these messages.
    Fix: remove maxUncommittedCount, or install 5.19.8, 6.2.7, 6.3.0 or later.
    Cannot see: the value of a placeholder such as ${broker.uncommitted}. The finding is then a warning.
    Source: apache/activemq#2137, TransactionBroker of the release tags; measured on 6.1.8

    Fires on 6.1.8::

        <broker maxUncommittedCount="5000"/>

    Silent on 6.3.1::

        <broker maxUncommittedCount="5000"/>
    """
    for broker in document.brokers:
        if broker.has_placeholder_value("maxUncommittedCount"):
            yield broker.problem(
                f'the value of maxUncommittedCount="{broker.get("maxUncommittedCount")}" is not known, because '
                f"it is a placeholder. If it is above 0, ActiveMQ {document.release.text} rejects every message "
                "outside of a transaction",
                "maxUncommittedCount",
                severity="warning",
            )
        limit = broker.integer_attribute("maxUncommittedCount")
        if limit is not None and limit > 0:
            yield broker.problem(_rejection_message(document, limit), "maxUncommittedCount")
    for bean in document.elements_with_tag_name("bean"):
        if bean.get("class") in _BROKER_CLASSES:
            for node in bean.children("property"):
                value = node.first_child("value")
                text = node.get("value") or (value.leading_text if value else "")
                if node.get("name") == "maxUncommittedCount" and text.isdecimal() and int(text) > 0:
                    yield node.problem(_rejection_message(document, int(text)), "name")


def _rejection_message(document: Document, limit: int) -> str:
    release = document.release.text
    return f'maxUncommittedCount="{limit}" makes ActiveMQ {release} reject every message outside of a transaction'
