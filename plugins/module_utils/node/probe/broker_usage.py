# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the statistics of a running broker from its MBeans: its limits, its waiting messages, and its bridges.

The names of MBeans are those of 5.3 to 5.7 (``Type=Queue,Destination=…``) and of 5.8 and later (``type=Broker,
destinationType=Queue,…``); measured on 5.5.1 and 6.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..process.proc import Process
from .management import query_mbeans

MAX_MBEANS = 2000
"""Maximum number of MBeans that are read: each takes about 0.1 ms, and a broker of a fleet has some dozens."""
_MAX_QUEUES = 10
_LIMIT_NAMES = ("store", "memory", "temp")
_BROKER_ATTRIBUTES = (
    *("BrokerName", "CurrentConnectionsCount"),
    *(f"{name.capitalize()}{suffix}" for name in _LIMIT_NAMES for suffix in ("PercentUsage", "Limit")),
)
_ATTRIBUTES_BY_KIND: dict[str, Sequence[str]] = {
    "broker": _BROKER_ATTRIBUTES,
    "queue": ("QueueSize", "ConsumerCount", "DLQ", "MaxMessageSize"),
    "durable": ("PendingQueueSize", "DispatchedQueueSize"),
    "bridge": ("RemoteBrokerName", "RemoteAddress", "CreatedByDuplex"),
}


def read_broker_jmx_statistics(process: Process, timeout: float) -> dict[str, Any]:
    """Return the statistics of a running broker, read over JMX, as a dict: its memory, stores, messages and bridges.

    The result is that of ``broker_statistics_from_mbeans``. Raises NodeError when the broker's JVM does not answer
    within ``timeout`` seconds.
    """
    return broker_statistics_from_mbeans(
        query_mbeans(process, "*", lambda mbean: _ATTRIBUTES_BY_KIND.get(_mbean_kind(mbean), ()), MAX_MBEANS, timeout)
    )


def broker_statistics_from_mbeans(mbeans: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the statistics of a broker, such as its memory, stores, messages and bridges, from its MBeans.

    Pure. ``store``, ``memory`` and ``temp``: ``percent`` and ``limit`` in bytes. ``connections``: None where the
    release does not count them. ``messages``: in all queues but dead-letter queues, ``durable``: that wait for durable
    subscriptions, ``dlq``: in dead-letter queues. ``queues``: the ten fullest, each with ``name``, ``messages``,
    ``consumers`` and ``dlq``, and where the release counts it ``largest``, the bytes of the largest message since the
    start. ``bridges``: ``link`` (of the broker that opens the bridge; empty at the other end), ``peer`` (the remote
    brokerName) and ``responder``. ``whole``: all MBeans were read. Empty while no MBean of the broker is registered, as
    on a standby.
    """
    mbean_list = list(mbeans)
    broker = next(
        (mbean for mbean in mbean_list if _mbean_kind(mbean) == "broker" and "StorePercentUsage" in mbean), None
    )
    if broker is None:
        return {}
    queues = sorted(
        map(_queue_usage, (mbean for mbean in mbean_list if _mbean_kind(mbean) == "queue")),
        key=lambda queue: -queue["messages"],
    )
    waiting = [
        _integer_attribute(mbean, "PendingQueueSize") + _integer_attribute(mbean, "DispatchedQueueSize")
        for mbean in mbean_list
    ]
    limits = {name: _limit_usage(broker, name.capitalize()) for name in _LIMIT_NAMES}
    return {
        **limits,
        "connections": broker.get("CurrentConnectionsCount"),
        "messages": sum(queue["messages"] for queue in queues if not queue["dlq"]),
        "durable": sum(waiting),
        "dlq": sum(queue["messages"] for queue in queues if queue["dlq"]),
        "queues": [queue for queue in queues[:_MAX_QUEUES] if queue["messages"]],
        "bridges": [
            _bridge_usage(mbean)
            for mbean in mbean_list
            if _mbean_kind(mbean) == "bridge" and mbean.get("RemoteBrokerName")
        ],
        "whole": len(mbean_list) < MAX_MBEANS,
    }


def _mbean_kind(mbean: Mapping[str, Any]) -> str:
    """Return the kind of an MBean (broker, queue, durable or bridge) by the properties of its name, or ""."""
    old_type, destination_type = mbean.get("Type"), mbean.get("destinationType")
    if old_type == "Broker" or (mbean.get("type") == "Broker" and _is_broker(mbean)):
        return "broker"
    if old_type == "Queue" or (
        destination_type == "Queue" and "endpoint" not in mbean and "networkBridge" not in mbean
    ):
        return "queue"
    if old_type == "Subscription" or mbean.get("endpoint") == "Consumer":
        is_durable = mbean.get("persistentMode") == "Durable" or mbean.get("active") == "false"
        return "durable" if is_durable or mbean.get("consumerId", "").startswith("Durable(") else ""
    is_bridge = old_type == "NetworkBridge" or ("networkBridge" in mbean and "direction" not in mbean)
    return "bridge" if is_bridge else ""


def _is_broker(mbean: Mapping[str, Any]) -> bool:
    return not {"connector", "destinationType", "endpoint", "service", "networkBridge", "view"} & mbean.keys()


def _limit_usage(broker: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"percent": broker.get(f"{name}PercentUsage"), "limit": broker.get(f"{name}Limit")}


def _queue_usage(mbean: Mapping[str, Any]) -> dict[str, Any]:
    name = str(mbean.get("Destination") or mbean.get("destinationName"))
    # Releases before 5.11 have no attribute for dead-letter queues.
    is_dlq = mbean.get("DLQ") is True or name == "ActiveMQ.DLQ" or name.startswith(("DLQ.", "ActiveMQ.DLQ."))
    consumers = _integer_attribute(mbean, "ConsumerCount")
    queue = {"name": name, "messages": _integer_attribute(mbean, "QueueSize"), "consumers": consumers, "dlq": is_dlq}
    largest = _integer_attribute(mbean, "MaxMessageSize")
    return {**queue, "largest": largest} if largest else queue


def _bridge_usage(mbean: Mapping[str, Any]) -> dict[str, Any]:
    link = mbean.get("NetworkConnectorName") or mbean.get("networkConnectorName") or ""
    is_responder = mbean.get("CreatedByDuplex") is True
    return {"link": "" if is_responder else link, "peer": str(mbean["RemoteBrokerName"]), "responder": is_responder}


def _integer_attribute(mbean: Mapping[str, Any], name: str) -> int:
    value = mbean.get(name)
    return value if isinstance(value, int) else 0
