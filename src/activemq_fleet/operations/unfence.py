"""Decide which brokers the playbook unfence stops: those of pairs whose shared store has a fence.

Invariants: the playbook stops no broker of a pair that the operator did not select, and none whose store has no fence.
"""

from __future__ import annotations

from activemq_fleet.errors import InputError
from activemq_fleet.node.state.evidence import StoreMarkerEvidence
from activemq_fleet.operations.operation_decisions import Decision, OperationDecisionRequest, register_operation


@register_operation("unfence", read=StoreMarkerEvidence.from_store_marker_result)
def decide_brokers_to_stop_for_unfence(request: OperationDecisionRequest) -> Decision:
    """Return {"hosts": the brokers of the target's pairs whose shared store has a fence}.

    The playbook unfence stops them, and then removes the fences. ``evidence`` is by host with a shared store. Shows a
    note for each pair without a fence. Raises InputError for a target that is not set, or does not contain both nodes
    of a pair.
    """
    target = request.target
    if not target["name"]:
        raise InputError(
            "activemq_target is not set, but the playbook unfence stops only the brokers of pairs that this variable "
            "names. Set the pair or group with -e activemq_target=PAIR"
        )
    hosts = []
    for pair, nodes in target["pairs"].items():
        if not {*nodes} <= {*target["chosen"]}:
            raise InputError(
                f"activemq_target is {target['name']}, but the playbook unfence stops all brokers of a pair. To stop "
                f"{' and '.join(nodes)}, set -e activemq_target={pair}"
            )
        if any(request.evidence[node].fenced for node in nodes if node in request.evidence):
            hosts += nodes
        else:
            request.warn(
                f"pair {pair} has no fence, so this run of the playbook unfence does not stop its brokers. If an "
                "earlier run stopped them, set activemq_fence to none or command for this pair, and run the playbook "
                "site, which starts them"
            )
    return {"hosts": hosts}
