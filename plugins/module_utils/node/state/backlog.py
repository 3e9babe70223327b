# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the messages that a broker of 5.3 to 5.7 still holds: by queue, and by durable subscription.

A running broker has two sources. Its management view (JMX) lists all subscriptions and the messages that are in no
store. The journal of its store has the messages of subscriptions whose client is disconnected. The higher number
counts. For a stopped broker only the journal is available.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ..config.broker_configuration import read_deployed_broker_settings
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..fence.shared_store import FenceError, current_store_directory
from ..kahadb import remaining_messages
from ..probe import management
from ..process.proc import Process, find_broker_process
from ..process.system_accounts import SystemAccount, account_to_access_path_as, run_as

_ATTRIBUTES = (
    *("Type", "Destination", "QueueSize", "Connection", "RemoteAddress", "ConnectorName", "RemoteBrokerName"),
    *("DestinationName", "ClientId", "SubscriptionName", "PendingQueueSize", "DispatchedQueueSize"),
)


@dataclass(frozen=True)
class MessagesClientsAndBridgesFromJmx:
    """The messages, clients and bridges of a running broker, as its management interface (JMX) shows them.

    ``queues``: messages by queue. ``subscriptions``: messages by (topic, client, name).
    """

    queues: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str, str], int] = field(default_factory=dict)
    clients: tuple[dict[str, str], ...] = ()
    bridges: tuple[str, ...] = ()


def count_backlog(base: str, user: str | None = None) -> dict[str, Any]:
    """Count the backlog of a broker, and return a dictionary with the messages by queue and by durable subscription.

    It is the result of the module store_backlog, and also has the total, the clients and the bridges. ``base`` is the
    directory of the broker. The store is read as ``user``, the
    broker's account, or as the account that owns it. Raises NodeError for what cannot be counted.
    """
    layout = ConfigurationPaths(os.path.abspath(base))
    version = layout.current_version_name()
    if version is None:
        raise NodeError(
            f"the waiting messages cannot be counted, because activemq.fleet has deployed no configuration to "
            f"{layout.base}. If the broker was not deployed by activemq.fleet, adopt its pair first, and start it with "
            "the playbooks site and resync: see "
            "`activemq-fleet help migrate Old pairs without a deployed configuration`"
        )
    deployed = read_deployed_broker_settings(layout, version)
    store = deployed.store
    if not store or deployed.persistence["kind"] != "kahaDB":
        raise NodeError(
            f"the waiting messages cannot be counted, because the configuration {layout.current} has no kahaDB store, "
            "or more than one: count the messages in the broker's web console"
        )
    # The broker's account controls the target of a guard's link, so the account is determined first.
    account = account_to_access_path_as(os.path.dirname(store) if os.path.islink(store) else store, user)
    store = _directory_in_force(store, account)
    process = find_broker_process(layout.base)
    return higher_message_counts_of_jmx_and_store(_read_management_view(process) if process else None, store, account)


def _directory_in_force(store: str, account: SystemAccount) -> str:
    """Return the directory of the store's files, read as the account. Raises NodeError."""

    def find_directory() -> str:
        try:
            return current_store_directory(store)
        except FenceError as error:
            raise NodeError(str(error)) from None

    try:
        directory: str = run_as(account, find_directory)
    except (OSError, NodeError) as error:
        raise NodeError(
            f"the messages in the store {store} cannot be counted, because the directory of its current files cannot "
            f"be determined ({error}). Correct this error, and run the command again"
        ) from None
    return directory


def higher_message_counts_of_jmx_and_store(
    view: MessagesClientsAndBridgesFromJmx | None, store: str, account: SystemAccount
) -> dict[str, Any]:
    """Return a dictionary of a broker's message counts: the higher of those from JMX and from its store's journal.

    It is the result of an Ansible module, by queue and by subscription. ``view`` is None for a stopped broker. The
    journal is read as ``account``. ``certain`` is False if a subscription could be missing.
    """
    keys = None if view is None else {(topic, f"{client}:{name}") for topic, client, name in view.subscriptions}
    counts = _count_store_messages(store, keys, account)
    queues = dict(counts.queues)
    for queue, number in (view.queues if view else {}).items():
        queues[queue] = max(number, queues.get(queue, 0))
    waiting = {} if view is None else dict(view.subscriptions)
    subscription_by_key = {
        (topic, f"{client}:{name}"): (topic, client, name) for topic, client, name in reversed(list(waiting))
    }
    for (topic, key), number in counts.subscriptions.items():
        client, _separator, name = key.partition(":")
        subscription = subscription_by_key.get((topic, key), (topic, client, name))
        waiting[subscription] = max(number, waiting.get(subscription, 0))
    # An old subscription may be in the index only; then only the management view of a running broker lists it.
    certain = view is not None or counts.whole or not counts.topics
    return {
        "changed": False,
        "running": view is not None,
        "store": store,
        "queues": {queue: number for queue, number in sorted(queues.items()) if number},
        "subscriptions": [
            {"topic": topic, "client": client, "name": name, "messages": number}
            for (topic, client, name), number in sorted(waiting.items())
        ],
        "prepared": counts.prepared,
        "clients": list(view.clients) if view else [],
        "bridges": list(view.bridges) if view else [],
        "certain": certain,
        "messages": sum(queues.values()) + sum(waiting.values()),
    }


def _count_store_messages(
    store: str, keys: set[tuple[str, str]] | None, account: SystemAccount
) -> remaining_messages.MessageCounts:
    """Return the message counts of a store's journal, which is read as an account."""
    counts = run_as(account, _count_as_json, store, keys)
    subscriptions = {(topic, key): number for topic, key, number in counts.pop("subscriptions")}
    return remaining_messages.MessageCounts(subscriptions=subscriptions, **counts)


def _count_as_json(store: str, keys: set[tuple[str, str]] | None) -> dict[str, Any]:
    counts = remaining_messages.count_remaining_messages(store, keys)
    subscriptions = [[topic, key, number] for (topic, key), number in counts.subscriptions.items()]
    return {**vars(counts), "subscriptions": subscriptions}


def _read_management_view(process: Process) -> MessagesClientsAndBridgesFromJmx:
    if process.state == "T":
        raise NodeError(
            f"the broker cannot be queried, because its process {process.pid} is suspended (SIGSTOP): continue it "
            f"with kill -CONT {process.pid}"
        )
    mbeans_by_type: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for mbean in management.query_mbeans(process, "Type=*,*", lambda _unused: _ATTRIBUTES):
        mbeans_by_type[mbean["Type"]].append(mbean)
    if not mbeans_by_type["Broker"]:
        raise NodeError(
            "the broker's messages cannot be counted, because its JMX server has no MBean of ActiveMQ 5.3 to 5.7. "
            'Check that the broker runs one of these releases with useJmx="true"'
        )
    return MessagesClientsAndBridgesFromJmx(
        # A queue or subscription that was removed after the list of MBeans was read has no attributes.
        queues={
            queue["Destination"]: int(queue["QueueSize"]) for queue in mbeans_by_type["Queue"] if "QueueSize" in queue
        },
        subscriptions={
            (subscription["DestinationName"], subscription["ClientId"], subscription["SubscriptionName"]): int(
                subscription["PendingQueueSize"]
            )
            + int(subscription["DispatchedQueueSize"])
            for subscription in mbeans_by_type["Subscription"]
            if {"ClientId", "PendingQueueSize"} <= subscription.keys() and subscription.get("SubscriptionName")
        },
        clients=tuple(
            {
                "client": connection["Connection"],
                "address": connection.get("RemoteAddress", "").lstrip("/"),
                "connector": connection.get("ConnectorName", ""),
            }
            for connection in mbeans_by_type["Connection"]
            if "Connection" in connection  # each connection is listed a second time by its address
        ),
        bridges=tuple(
            sorted(
                bridge["RemoteBrokerName"] for bridge in mbeans_by_type["NetworkBridge"] if "RemoteBrokerName" in bridge
            )
        ),
    )
