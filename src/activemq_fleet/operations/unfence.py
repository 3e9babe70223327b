"""Decide which brokers the playbook unfence stops: those of pairs whose shared store has a fence.

Invariants: the playbook stops no broker of a pair that the operator did not select, and none whose store has no fence.
It stops no broker if a node does not see the store of its pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.errors import InputError
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.node.state.evidence import StoreMarkerEvidence
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    RefusalError,
    register_operation,
)


@register_operation("unfence", read=StoreMarkerEvidence.from_store_marker_result)
def decide_brokers_to_stop_for_unfence(request: OperationDecisionRequest) -> Decision:
    """Return ``{"hosts": names}``: the hosts of all brokers in the target's pairs whose shared store is fenced.

    The playbook unfence stops these brokers, and then removes the fences. ``evidence`` is by host with a shared store.
    Shows a note for each pair without a fence. Raises InputError for a target that is not set, does not contain both
    nodes of a pair, or has a fenced broker that systemd does not run. Raises RefusalError with one line for each node
    that does not see the store of its pair.
    """
    target = request.target
    if not target["name"]:
        raise InputError(
            "activemq_target is not set, but the playbook unfence stops only the brokers of pairs that this variable "
            "names. Set the pair or group with -e activemq_target=PAIR"
        )
    hosts, problems = list[str](), list[str]()
    for pair, nodes in target["pairs"].items():
        if not {*nodes} <= {*target["chosen"]}:
            raise InputError(
                f"activemq_target is {target['name']}, but the playbook unfence stops all brokers of a pair. To stop "
                f"{' and '.join(nodes)}, set -e activemq_target={pair}"
            )
        stores = {node: request.evidence[node] for node in nodes if node in request.evidence}
        problems += _lines_about_unseen_stores(stores, request.broker_facts_by_host)
        if any(store.fenced for store in stores.values()):
            _require_brokers_run_by_systemd(nodes, request.broker_facts_by_host)
            hosts += nodes
        elif not problems:
            request.warn(
                f"pair {pair} has no fence, so this run of the playbook unfence does not stop its brokers. If an "
                "earlier run stopped them, set activemq_fence to none or command for this pair, and run the playbook "
                "site, which starts them"
            )
    if problems:
        raise RefusalError(
            "no broker is stopped, because a node does not see the store of its pair. Correct these errors, and run "
            "the playbook unfence again:",
            problems,
        )
    return {"hosts": hosts}


def _require_brokers_run_by_systemd(nodes: Sequence[str], brokers: Mapping[str, BrokerFacts]) -> None:
    """Raise InputError for a broker that systemd does not run, as in a lab: its unit can be that of another broker."""
    for host in nodes:
        if (service := brokers[host].service) != "systemd":
            raise InputError(
                f"{host}: activemq_service is {service}, but the playbook unfence can stop only brokers that systemd "
                "runs. Set activemq_service to systemd, or set activemq_target to another pair"
            )


def _lines_about_unseen_stores(
    stores: Mapping[str, StoreMarkerEvidence], brokers: Mapping[str, BrokerFacts]
) -> list[str]:
    """Return a line for each node of a pair that sees another directory than the store of the pair."""
    fenced_host = next((host for host, store in stores.items() if store.fenced), None)
    marked_host = next((host for host, store in stores.items() if store.marked), None)
    lines = []
    for host, store in stores.items():
        directory, pair = brokers[host].store, brokers[host].pair
        if store.marked and pair not in store.marked:
            lines.append(
                f"{host}: directory {directory} contains the store of pair {store.marked[0]}, not of pair {pair}. "
                f"Mount the share of pair {pair}"
            )
        elif store.marked and marked_host and store.marked != stores[marked_host].marked:
            lines.append(
                f"{host}: directory {directory} is not the store of host {marked_host}, because their files "
                f"{STORE_MARKER} differ. Mount the same share on both nodes"
            )
        elif store.marked is None and not store.fenced:
            lines.append(
                f"{host}: directory {directory} is not the store of pair {pair}, because it contains no file "
                f"{STORE_MARKER}. Mount the share of this pair"
            )
        elif fenced_host and not store.fenced:
            lines.append(
                f"{host}: directory {directory} is not the store of host {fenced_host}, because only the store of "
                f"{fenced_host} has a fence. Mount the same share on both nodes"
            )
    return lines
