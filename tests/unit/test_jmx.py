"""Serialized Java objects and RMI, as far as MBeans are read with them."""

from __future__ import annotations

import io
import struct

import pytest

from activemq_fleet.node.probe import java_objects, jmx
from activemq_fleet.node.probe.broker_usage import usage_from_mbeans
from activemq_fleet.node.probe.java_objects import (
    HEADER,
    JavaObject,
    ObjectReader,
    serialize_java_strings,
    serialize_object_name,
)


def read(data: bytes) -> object:
    source = io.BytesIO(HEADER + data)

    def take(count: int) -> bytes:
        found = source.read(count)
        if len(found) < count:
            raise EOFError
        return found

    return ObjectReader(take).read_value()


def test_what_is_written_is_read_back() -> None:
    name = read(serialize_object_name("org.apache.activemq:*"))
    assert isinstance(name, JavaObject)
    assert (name.name, list(name.values_outside_fields())) == ("javax.management.ObjectName", ["org.apache.activemq:*"])
    assert read(serialize_java_strings(["QueueSize", "ÿ"])) == ["QueueSize", "ÿ"]
    assert read(java_objects.NULL) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00", r"cannot be decoded \(type code 0x0\): report this message"),
        (b"\x73\x70", r"cannot be decoded \(object without class\)"),
        (b"\x7a\x7f\xff\xff\xff", "more than 16 MiB: remove unused destinations"),
        (b"\x7a\xff\xff\xff\xff", r"cannot be decoded \(length -1\)"),
        (b"\x71\x00\x7e\x00\x09", "list index"),
        (b"\x73" * 100, r"cannot be decoded \(its Java objects are nested too deeply\)"),
    ],
)
def test_a_hostile_stream_ends_in_an_error_and_not_in_memory(data: bytes, why: str) -> None:
    with pytest.raises((ValueError, IndexError), match=why):
        read(data)


def test_a_method_is_numbered_as_rmi_does() -> None:
    # The number stands in RMIServerImpl_Stub of every JDK.
    assert struct.unpack(">q", jmx._hash_of(jmx._NEW_CLIENT))[0] == -1089742558549201240


def test_quoted_properties_of_a_name_are_read_whole() -> None:
    name = 'org.apache.activemq:type=Broker,brokerName="a,b=c",destinationName=x'
    assert jmx.object_name_properties(name) == {"type": "Broker", "brokerName": "a,b=c", "destinationName": "x"}


LIMITS: dict[str, object] = {
    f"{name}{what}": 1 for name in ("Store", "Memory", "Temp") for what in ("PercentUsage", "Limit")
}
OLD: list[dict[str, object]] = [
    {"BrokerName": "b", "Type": "Broker", **LIMITS},
    {"BrokerName": "b", "Type": "Queue", "Destination": "q", "QueueSize": 4, "ConsumerCount": 1},
    {"BrokerName": "b", "Type": "Queue", "Destination": "ActiveMQ.DLQ", "QueueSize": 2, "ConsumerCount": 0},
    {"Type": "Subscription", "persistentMode": "Durable", "PendingQueueSize": 3, "DispatchedQueueSize": 1},
    {"Type": "Subscription", "persistentMode": "Non-Durable"},
    {"Type": "NetworkBridge", "NetworkConnectorName": "l", "RemoteBrokerName": "p", "CreatedByDuplex": False},
]
BASE: dict[str, object] = {"type": "Broker", "brokerName": "b"}
NEW: list[dict[str, object]] = [
    {**BASE, **LIMITS, "CurrentConnectionsCount": 5},
    {**BASE, "destinationType": "Queue", "destinationName": "q", "QueueSize": 4, "ConsumerCount": 1, "DLQ": False},
    {**BASE, "destinationType": "Queue", "destinationName": "gone", "QueueSize": 2, "DLQ": True},
    {**BASE, "destinationType": "Queue", "destinationName": "q", "endpoint": "Consumer", "consumerId": "ID_1"},
    {
        **{**BASE, "destinationType": "Topic", "destinationName": "t", "endpoint": "Consumer"},
        **{"consumerId": "Durable(c_s)", "PendingQueueSize": 4, "DispatchedQueueSize": 0},
    },
    {
        **{**BASE, "connector": "networkConnectors", "networkConnectorName": "l", "networkBridge": "tcp_//x"},
        **{"RemoteBrokerName": "p", "CreatedByDuplex": False},
    },
    {**BASE, "connector": "clientConnectors", "connectorName": "mqtt"},
    {**BASE, "service": "Health"},
]


@pytest.mark.parametrize(("mbeans", "connections"), [(OLD, None), (NEW, 5)])
def test_usage_is_read_from_the_names_of_both_generations(mbeans: list[dict[str, object]], connections: object) -> None:
    usage = usage_from_mbeans(mbeans)
    assert (usage["messages"], usage["dlq"], usage["durable"], usage["connections"]) == (4, 2, 4, connections)
    assert usage["bridges"] == [{"link": "l", "peer": "p", "responder": False}]
    assert usage["queues"][0]["name"] == "q"
    assert usage["store"] == {"percent": 1, "limit": 1}


def test_a_broker_without_an_mbean_of_its_own_has_no_usage() -> None:
    assert usage_from_mbeans(NEW[1:]) == {}
