"""Refuse to give a running broker another store than the one it runs with, and a store whose lock it cannot acquire.

A restart with another store starts without the messages of the first store. In a pair, the restarted standby becomes
active on the other store, while its peer still serves with the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activemq_fleet.deployment import BrokerFacts, StoreFacts
from activemq_fleet.errors import ReleaseError, names_to_text
from activemq_fleet.node.state.evidence import MachineFacts
from activemq_fleet.operations.operation_decisions import dataclass_instance_from_mapping
from activemq_fleet.operations.release_changes import store_change_reasons
from activemq_fleet.releases import Release


def store_change_line_by_pair(
    brokers: Mapping[str, BrokerFacts], machines: Mapping[str, MachineFacts]
) -> dict[str, str]:
    """Return, by pair, a line about the running brokers that a restart would start with another store.

    The line names the hosts, the reason and the remedy. Both arguments are by host; brokers without a process and
    brokers whose configuration is not known are not compared.
    """
    hosts_by_pair: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for host, machine in sorted(machines.items()):
        broker = brokers[host]
        if machine.running_store is None:
            continue
        if reason := store_change_reason(broker, machine.running_store, machine.release):
            hosts_by_pair.setdefault(broker.pair, []).append(host)
            reasons.setdefault(broker.pair, reason)
    return {pair: f"{names_to_text(hosts)}: {reasons[pair]}" for pair, hosts in hosts_by_pair.items()}


def store_change_reason(broker: BrokerFacts, running_store: Mapping[str, Any], release: str | None) -> str:
    """Return why a restarted broker would not have the messages of its store; empty if it would, or nothing is known.

    ``running_store`` are the facts about the store with which the broker runs, and ``release`` is the release that
    runs, None if it is not known.
    """
    if broker.persistence is None:
        return ""
    try:
        holder = Release.of(release) if release else broker.release
    except ReleaseError:
        holder = broker.release
    old_store = dataclass_instance_from_mapping(StoreFacts, {"kind": None, **running_store})
    return next(store_change_reasons(holder, broker.release, old_store, broker.persistence), "")


def fenced_store_lines(brokers: Mapping[str, BrokerFacts], machines: Mapping[str, MachineFacts]) -> list[str]:
    """Return a line for each broker without a shared store whose store only brokers with a guard can use.

    Both arguments are by host. Shared stores are checked with their markers.
    """
    return [
        f"{host}: the store in {brokers[host].directory} was made with activemq_fence: guard, so a broker without a "
        "guard waits indefinitely for its lock. Restore the previous activemq_ha and activemq_fence of the pair and "
        "both nodes in the inventory, and run the playbook unfence for the pair. Then change the inventory again"
        for host, machine in sorted(machines.items())
        if machine.store_fenced and brokers[host].store is None
    ]
