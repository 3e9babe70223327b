"""Render conf/metrics.yml: which MBeans of a broker the Prometheus JMX exporter reads, and as which metrics.

Names and units are those of Prometheus' conventions: seconds, bytes, ratios, ``_total`` for counters. The MBeans were
read from brokers of 5.5.1, 5.7.0, 5.8.0, 5.11.4, 5.18.3 and 6.3.1. Up to 5.7, their keys are ``BrokerName`` and
``Type``. From 5.8 on, they are ``brokerName`` and ``type``, and those of a bridge have a different order. There, the
accepting end of a duplex bridge is below ``connector=duplexNetworkConnectors``, and its ``link`` is a number such as
``#8``. Attributes that a release lacks (connections up to 5.8, ``Slave`` in 5.8) have no series there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from activemq_fleet.render.broker_paths import METRICS
from activemq_fleet.render.engine import render_template
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.topology import Broker

DEAD_LETTERS = "queue://ActiveMQ.DLQ"
"""The default dead letter queue of ActiveMQ, for which each broker has metrics even if no variable lists it."""
# The JVM's bean exists from the start, also on a standby, so the values of the inventory are attached to it.
_RUNTIME_BEAN = "java.lang:type=Runtime"
_FINGERPRINT_LENGTH = 12


class ExporterMetric(NamedTuple):
    """A metric of the Prometheus JMX exporter.

    It has the MBean attribute that it shows. It has its name, type and meaning, and the factor to its unit;
    ``releases`` is the span of releases whose MBeans have the attribute.
    """

    attribute: str
    name: str
    kind: str
    help: str
    factor: float = 1
    releases: str = "5.3.0"


# MBeans of the release tags: AMQ-9687 (#1829) and AMQ-8463 (#839).
_EXCEPTION_COUNTERS = "5.19.9 6.2.8 6.3.0"
_MESSAGE_TIMES = "5.19.0 6.2.0"


def _exception_counter(attribute: str, name: str, place: str) -> ExporterMetric:
    """Return the counter of exceptions that an attribute of a link's or bridge's MBean shows."""
    return ExporterMetric(attribute, name, "COUNTER", f"exceptions {place}", releases=_EXCEPTION_COUNTERS)


def _message_time_gauge(attribute: str, name: str, meaning: str) -> ExporterMetric:
    """Return the gauge of a time, in seconds since 1970, that an attribute of a destination's MBean shows."""
    name = f"activemq_destination_last_{name}_timestamp_seconds"
    return ExporterMetric(attribute, name, "GAUGE", f"{meaning}; 0 for none", 0.001, _MESSAGE_TIMES)


BROKER = (
    ExporterMetric(
        "Slave", "activemq_broker_standby", "GAUGE", "1 for a standby, which waits for the store or is a pure slave"
    ),
    ExporterMetric(
        "UptimeMillis", "activemq_broker_uptime_seconds", "GAUGE", "seconds since the broker started", 0.001
    ),
    ExporterMetric(
        "StorePercentUsage",
        "activemq_broker_store_used_ratio",
        "GAUGE",
        "used share of the size limit for the store, from 0 to 1",
        0.01,
    ),
    ExporterMetric("StoreLimit", "activemq_broker_store_limit_bytes", "GAUGE", "size limit for the store"),
    ExporterMetric(
        "MemoryPercentUsage",
        "activemq_broker_memory_used_ratio",
        "GAUGE",
        "used share of the memory limit for messages, from 0 to 1",
        0.01,
    ),
    ExporterMetric("MemoryLimit", "activemq_broker_memory_limit_bytes", "GAUGE", "memory limit for messages"),
    ExporterMetric(
        "TempPercentUsage",
        "activemq_broker_temp_used_ratio",
        "GAUGE",
        "used share of the size limit for temporary files, from 0 to 1",
        0.01,
    ),
    ExporterMetric("TempLimit", "activemq_broker_temp_limit_bytes", "GAUGE", "size limit for temporary files"),
    # A node that waits for the store has no such attribute in any release. A pure slave has it.
    ExporterMetric("TotalMessageCount", "activemq_broker_messages", "GAUGE", "messages that wait in all destinations"),
    ExporterMetric("TotalConsumerCount", "activemq_broker_consumers", "GAUGE", "consumers of all destinations"),
    ExporterMetric("TotalProducerCount", "activemq_broker_producers", "GAUGE", "producers of all destinations"),
    ExporterMetric("TotalEnqueueCount", "activemq_broker_enqueued_messages_total", "COUNTER", "messages accepted"),
    ExporterMetric("TotalDequeueCount", "activemq_broker_dequeued_messages_total", "COUNTER", "messages acknowledged"),
    ExporterMetric(
        "CurrentConnectionsCount", "activemq_broker_connections", "GAUGE", "connections of clients and bridges"
    ),
    ExporterMetric(
        "TotalConnectionsCount", "activemq_broker_accepted_connections_total", "COUNTER", "connections accepted"
    ),
)
DESTINATION = (
    ExporterMetric("QueueSize", "activemq_destination_messages", "GAUGE", "messages that wait or are not acknowledged"),
    ExporterMetric("ConsumerCount", "activemq_destination_consumers", "GAUGE", "consumers of the destination"),
    ExporterMetric("ProducerCount", "activemq_destination_producers", "GAUGE", "producers of the destination"),
    ExporterMetric(
        "InFlightCount", "activemq_destination_in_flight_messages", "GAUGE", "messages delivered and not acknowledged"
    ),
    ExporterMetric("EnqueueCount", "activemq_destination_enqueued_messages_total", "COUNTER", "messages accepted"),
    ExporterMetric("DequeueCount", "activemq_destination_dequeued_messages_total", "COUNTER", "messages acknowledged"),
    ExporterMetric("ExpiredCount", "activemq_destination_expired_messages_total", "COUNTER", "messages that expired"),
    ExporterMetric(
        "MemoryPercentUsage",
        "activemq_destination_memory_used_ratio",
        "GAUGE",
        "used share of the memory limit for the destination, from 0 to 1",
        0.01,
    ),
)
# Without a policy that has advanced_message_statistics_enabled, the value is zero and is therefore not shown.
MESSAGE_TIMES = (
    _message_time_gauge("EnqueuedMessageBrokerInTime", "enqueued_broker_in", "arrival of the last accepted message"),
    _message_time_gauge("EnqueuedMessageTimestamp", "enqueued_sent", "sending time of the last accepted message"),
    _message_time_gauge(
        "DequeuedMessageBrokerInTime", "dequeued_broker_in", "arrival of the last acknowledged message"
    ),
    _message_time_gauge(
        "DequeuedMessageBrokerOutTime", "dequeued_broker_out", "delivery of the last acknowledged message"
    ),
    _message_time_gauge("DequeuedMessageTimestamp", "dequeued_sent", "sending time of the last acknowledged message"),
)
LINK = (
    ExporterMetric("Duplex", "activemq_link_duplex", "GAUGE", "1 for a link that carries messages both ways, else 0"),
    _exception_counter(
        "BridgeExceptionCount", "activemq_link_start_exceptions_total", "while bridges of the link started"
    ),
    _exception_counter(
        "LocalExceptionCount",
        "activemq_link_local_exceptions_total",
        "that bridges of the link received from the local broker",
    ),
    _exception_counter(
        "RemoteExceptionCount",
        "activemq_link_remote_exceptions_total",
        "that bridges of the link received from the remote broker",
    ),
)
BRIDGE = (
    ExporterMetric(
        "CreatedByDuplex",
        "activemq_bridge_responder",
        "GAUGE",
        "exists for each running bridge: 1 if the remote broker opened the connection, else 0",
    ),
    ExporterMetric("EnqueueCounter", "activemq_bridge_enqueued_messages_total", "COUNTER", "messages to be forwarded"),
    ExporterMetric("DequeueCounter", "activemq_bridge_dequeued_messages_total", "COUNTER", "messages forwarded"),
    _exception_counter(
        "LocalExceptionCount",
        "activemq_bridge_local_exceptions_total",
        "that the bridge received from the local broker",
    ),
    _exception_counter(
        "RemoteExceptionCount",
        "activemq_bridge_remote_exceptions_total",
        "that the bridge received from the remote broker",
    ),
)


class _BeanNames(NamedTuple):
    """How one naming style of MBeans writes object names (for the allow-list) and what the exporter matches."""

    broker: str
    link: str
    bridges: tuple[str, ...]
    destination: str
    broker_pattern: str
    link_pattern: str
    bridge_pattern: str
    destination_pattern: str


_BEAN_NAMES = {
    "old": _BeanNames(
        broker="BrokerName=*,Type=Broker",
        link="BrokerName=*,Type=NetworkConnector,NetworkConnectorName=*",
        bridges=("BrokerName=*,Type=NetworkBridge,NetworkConnectorName=*,Name=*",),
        destination="BrokerName=*,Type={kind},Destination={name}",
        broker_pattern="BrokerName=[^,>]+, Type=Broker",
        link_pattern="BrokerName=[^,>]+, Type=NetworkConnector, NetworkConnectorName=([^,>]+)",
        bridge_pattern="BrokerName=[^,>]+, Type=NetworkBridge, NetworkConnectorName=([^,>]+), Name=([^,>]+)",
        destination_pattern="BrokerName=[^,>]+, Type=(Queue|Topic), Destination=([^,>]+)",
    ),
    "new": _BeanNames(
        broker="type=Broker,brokerName=*",
        link="type=Broker,brokerName=*,connector=networkConnectors,networkConnectorName=*",
        bridges=(
            "type=Broker,brokerName=*,connector=networkConnectors,networkConnectorName=*,networkBridge=*",
            "type=Broker,brokerName=*,connector=duplexNetworkConnectors,networkConnectorName=*,networkBridge=*",
        ),
        destination="type=Broker,brokerName=*,destinationType={kind},destinationName={name}",
        broker_pattern="type=Broker, brokerName=[^,>]+",
        link_pattern="type=Broker, brokerName=[^,>]+, connector=networkConnectors, networkConnectorName=([^,>]+)",
        bridge_pattern="brokerName=[^,>]+, connector=(?:duplexN|n)etworkConnectors, networkConnectorName=([^,>]+), "
        "networkBridge=([^,>]+)",
        destination_pattern="type=Broker, brokerName=[^,>]+, destinationType=(Queue|Topic), destinationName=([^,>]+)",
    ),
}


def exporter_configuration_files(
    broker: Broker, secrets: SecretRenderer, other_files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the configuration files of a broker's Prometheus JMX exporter, by path.

    There are none with ``activemq_metrics: false``. ``other_files`` are the broker's other files with secrets hidden:
    their fingerprint is a label of ``activemq_configuration_info``.
    """
    settings = broker.settings
    if not settings.metrics:
        return {}
    tls, login = settings.metrics_tls, settings.metrics_username
    content = render_template(
        "broker/metrics.yml.j2",
        username=login,
        password=secrets.secret_text("activemq_metrics_password", settings.metrics_password) if login else None,
        tls=tls,
        keystore_password=secrets.secret_text("activemq_metrics_tls.keystore_password", tls.keystore_password)
        if tls
        else "",
        beans=_allowed_bean_names(broker),
        rules=(*_configuration_rules(broker, broker_configuration_fingerprint(other_files)), *_metric_rules(broker)),
    )
    return {METRICS: content}


def broker_configuration_fingerprint(broker_files: Mapping[str, bytes]) -> str:
    """Return a fingerprint of a broker's configuration files, which differs if the files differ.

    It is 12 hexadecimal digits of the SHA-256, secrets hidden, the exporter's own files left out. A change of a secret
    alone does not change the fingerprint.
    """
    digest = hashlib.sha256()
    for path, content in sorted(broker_files.items()):
        if path != METRICS:
            digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:_FINGERPRINT_LENGTH]


class _Rule(NamedTuple):
    """One rule of the exporter; ``value`` is the name of a group or a number, None for the attribute's own value."""

    pattern: str
    name: str
    kind: str
    help: str
    labels: Mapping[str, str]
    factor: float = 1
    value: str | None = None


def _allowed_bean_names(broker: Broker) -> list[str]:
    beans = _BEAN_NAMES[broker.release.jmx_names]
    names = [*broker.settings.metrics_destinations]
    if DEAD_LETTERS not in names:
        names.append(DEAD_LETTERS)
    # A broker that discovers others by multicast, but is the only broker, has a link and never a bridge.
    has_no_bridge = not broker.networked and any(link.kind == "multicast" for link in broker.links)
    allowed = [beans.broker, *([] if has_no_bridge else [beans.link]), *beans.bridges]
    for text in names:
        kind, _, name = text.partition("://")
        allowed.append(beans.destination.format(kind=kind.capitalize(), name=_bean_name(name)))
    return [_RUNTIME_BEAN, *(f"org.apache.activemq:{bean}" for bean in allowed)]


def _bean_name(destination: str) -> str:
    """Return a destination as the value of an MBean's key, wildcards of ActiveMQ as those of JMX.

    Source: JMXSupport.encodeObjectNamePart of the release tags, which replaces characters that JMX keeps for itself.
    """
    return re.sub("[:,'\"]", "_", destination).replace(">", "*")


def _configuration_rules(broker: Broker, fingerprint: str) -> Iterator[_Rule]:
    runtime = "java.lang<type=Runtime><>"
    labels = {"release": broker.release.text, "ha": broker.settings.ha, "fingerprint": fingerprint}
    description = "always 1; the labels describe the configuration that is active on the host"
    yield _Rule(f"{runtime}StartTime: ", "activemq_configuration_info", "GAUGE", description, labels, value="1")
    limits = [connector.options.get("maximumConnections", "") for connector in broker.connectors]
    if numbers := [int(limit) for limit in limits if limit.isdigit()]:
        description = "the smallest maximumConnections of the connectors of the broker"
        yield _Rule(
            f"{runtime}Uptime: ", "activemq_broker_connections_limit", "GAUGE", description, {}, value=str(min(numbers))
        )


def _metric_rules(broker: Broker) -> Iterator[_Rule]:
    beans = _BEAN_NAMES[broker.release.jmx_names]
    policies = broker.settings.destination_policies
    message_times = MESSAGE_TIMES if any(policy.advanced_message_statistics_enabled for policy in policies) else ()
    tables: tuple[tuple[str, tuple[ExporterMetric, ...], dict[str, str]], ...] = (
        (beans.broker_pattern, BROKER, {}),
        (beans.destination_pattern, DESTINATION, {"kind": "$1", "destination": "$2"}),
        (beans.destination_pattern, message_times, {"kind": "$1", "destination": "$2"}),
        (beans.bridge_pattern, BRIDGE, {"link": "$1", "remote": "$2"}),
        (beans.link_pattern, LINK, {"link": "$1"}),
    )
    for pattern, table, labels in tables:
        for metric in table:
            if not broker.release.is_within_span(metric.releases):
                continue
            attribute_pattern = rf"org\.apache\.activemq<{pattern}(?:, type=Broker)?><>{metric.attribute}: "
            yield _Rule(attribute_pattern, metric.name, metric.kind, metric.help, labels, metric.factor)
