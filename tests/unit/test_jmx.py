"""Serialized Java objects and RMI, in the subset that reads MBeans."""

from __future__ import annotations

import io
import struct

import pytest

from activemq_fleet.node.probe import java_objects, jmx
from activemq_fleet.node.probe.broker_usage import broker_statistics_from_mbeans
from activemq_fleet.node.probe.java_objects import (
    HEADER,
    JavaObject,
    ObjectReader,
    serialize_java_strings,
    serialize_object_name,
)


def deserialize(data: bytes) -> object:
    source = io.BytesIO(HEADER + data)

    def take(count: int) -> bytes:
        read_bytes = source.read(count)
        if len(read_bytes) < count:
            raise EOFError
        return read_bytes

    return ObjectReader(take).read_value()


def test_serialized_java_values_are_deserialized_unchanged() -> None:
    name = deserialize(serialize_object_name("org.apache.activemq:*"))
    assert isinstance(name, JavaObject)
    assert (name.name, list(name.values_outside_fields())) == ("javax.management.ObjectName", ["org.apache.activemq:*"])
    assert deserialize(serialize_java_strings(["QueueSize", "ÿ"])) == ["QueueSize", "ÿ"]
    assert deserialize(java_objects.NULL) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00", r"cannot be decoded \(type code 0x0\): report this message"),
        (b"\x73\x70", r"cannot be decoded \(object without class\)"),
        (b"\x7a\x7f\xff\xff\xff", "more than 16 MiB: remove unused destinations"),
        (b"\x7a\xff\xff\xff\xff", r"cannot be decoded \(length -1\)"),
        (b"\x71\x00\x7e\x00\x09", "list index"),
        (b"\x73" * 100, r"cannot be decoded \(its Java objects are nested too deeply\)"),
    ],
)
def test_invalid_or_hostile_stream_of_java_objects_is_error(data: bytes, reason: str) -> None:
    with pytest.raises((ValueError, IndexError), match=reason):
        deserialize(data)


def test_method_hash_of_jmx_client_is_that_of_rmi() -> None:
    # The class RMIServerImpl_Stub of every JDK contains this number.
    assert struct.unpack(">q", jmx._method_hash(jmx._NEW_CLIENT))[0] == -1089742558549201240


def test_quoted_properties_of_jmx_object_name_are_read_completely() -> None:
    name = 'org.apache.activemq:type=Broker,brokerName="a,b=c",destinationName=x'
    assert jmx.object_name_properties(name) == {"type": "Broker", "brokerName": "a,b=c", "destinationName": "x"}


LIMITS: dict[str, object] = {
    f"{resource}{figure}": 1 for resource in ("Store", "Memory", "Temp") for figure in ("PercentUsage", "Limit")
}
OLD_MBEANS: list[dict[str, object]] = [
    {"BrokerName": "b", "Type": "Broker", **LIMITS},
    {"BrokerName": "b", "Type": "Queue", "Destination": "q", "QueueSize": 4, "ConsumerCount": 1},
    {"BrokerName": "b", "Type": "Queue", "Destination": "ActiveMQ.DLQ", "QueueSize": 2, "ConsumerCount": 0},
    {"Type": "Subscription", "persistentMode": "Durable", "PendingQueueSize": 3, "DispatchedQueueSize": 1},
    {"Type": "Subscription", "persistentMode": "Non-Durable"},
    {"Type": "NetworkBridge", "NetworkConnectorName": "l", "RemoteBrokerName": "p", "CreatedByDuplex": False},
]
BROKER_NAME: dict[str, object] = {"type": "Broker", "brokerName": "b"}
NEW_MBEANS: list[dict[str, object]] = [
    {**BROKER_NAME, **LIMITS, "CurrentConnectionsCount": 5},
    {
        **BROKER_NAME,
        "destinationType": "Queue",
        "destinationName": "q",
        "QueueSize": 4,
        "ConsumerCount": 1,
        "DLQ": False,
    },
    {**BROKER_NAME, "destinationType": "Queue", "destinationName": "gone", "QueueSize": 2, "DLQ": True},
    {**BROKER_NAME, "destinationType": "Queue", "destinationName": "q", "endpoint": "Consumer", "consumerId": "ID_1"},
    {
        **{**BROKER_NAME, "destinationType": "Topic", "destinationName": "t", "endpoint": "Consumer"},
        **{"consumerId": "Durable(c_s)", "PendingQueueSize": 4, "DispatchedQueueSize": 0},
    },
    {
        **{**BROKER_NAME, "connector": "networkConnectors", "networkConnectorName": "l", "networkBridge": "tcp_//x"},
        **{"RemoteBrokerName": "p", "CreatedByDuplex": False},
    },
    {**BROKER_NAME, "connector": "clientConnectors", "connectorName": "mqtt"},
    {**BROKER_NAME, "service": "Health"},
]


@pytest.mark.parametrize(("mbeans", "connections"), [(OLD_MBEANS, None), (NEW_MBEANS, 5)])
def test_broker_usage_is_read_from_old_and_new_jmx_object_names(
    mbeans: list[dict[str, object]], connections: object
) -> None:
    usage = broker_statistics_from_mbeans(mbeans)
    assert (usage["messages"], usage["dlq"], usage["durable"], usage["connections"]) == (4, 2, 4, connections)
    assert usage["bridges"] == [{"link": "l", "peer": "p", "responder": False}]
    assert usage["queues"][0]["name"] == "q"
    assert usage["store"] == {"percent": 1, "limit": 1}


def test_broker_usage_without_mbean_of_broker_is_empty() -> None:
    assert broker_statistics_from_mbeans(NEW_MBEANS[1:]) == {}
