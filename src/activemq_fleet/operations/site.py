"""Decide the next step of ``site``: start a stopped broker, or restart a broker that has not read its new files yet.

Invariants: one node of a pair at a time. The active node is changed last, whatever its preferred role, and only while
its peer is standby. A pure pair is started only if neither of its stores was ever used, and is never restarted,
because a resync must first determine which of its two stores is newer. A store that cannot be read counts as used.
Pairs are changed one after the other, by name, so that a bad change affects one pair only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.node.probe.settling import READY_STATES
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    RefusalError,
    RunProgress,
    outcome_table_lines,
    read_evidence_by_host,
    register_operation,
    release_and_state_text,
)
from activemq_fleet.operations.pair_preconditions import ObservedNode, observe_node
from activemq_fleet.operations.restart_and_switchover import RollingProgress, RollingStep, step_for_node
from activemq_fleet.operations.running_stores import store_change_reason
from activemq_fleet.pair_state import nodes_by_pair

_STARTING_STATES = ("standby", "starting")


def pending_starts_and_restarts(
    pair: Sequence[ObservedNode], chosen: Collection[str], acted: Collection[str] = ()
) -> list[tuple[str, ObservedNode]]:
    """Return the pending starts and restarts of a pair's nodes in a run of the playbook site, in order.

    An action is ``start`` or ``restart``, and the node. ``chosen`` are the hosts that may be changed, ``acted`` those
    that were changed in the run.
    """
    pair = sorted(pair, key=lambda node: (node.role != "master", node.host))
    if pair[0].ha_profile.needs_resync:
        are_startable = [node.host in acted or (node.state == "stopped" and _has_unused_store(node)) for node in pair]
        is_complete = len(pair) == 2 and all(node.host in chosen for node in pair)
        return (
            [("start", node) for node in pair if node.host not in acted] if is_complete and all(are_startable) else []
        )
    nodes = [node for node in pair if node.host in chosen]
    # A stopped node becomes the standby that replaces the active node during its restart.
    starts = [("start", node) for node in nodes if node.state == "stopped"]
    nodes_to_restart = [node for node in nodes if node.restart_required and node.state != "stopped"]
    return starts + [("restart", node) for node in sorted(nodes_to_restart, key=lambda node: node.is_serving)]


def _has_unused_store(node: ObservedNode) -> bool:
    """Return whether no broker ever used a node's store; before the installation, a node has no store."""
    return node.store_used is False or (node.store_used is None and not node.store)


def notes_on_skipped_restarts(pair: Sequence[ObservedNode], chosen: Collection[str]) -> list[str]:
    """Return a note for each node of a pair whose required start or restart the playbook site skips.

    Each note names the node and the reason. ``chosen`` are the hosts that the run may change.
    """
    if not pair[0].ha_profile.needs_resync:
        return [
            f"{node.host}: the broker is hung ({node.how}). The playbook site does not restart it, because its "
            f"configuration did not change. Run systemctl kill -s KILL {node.unit_name} on the host, and systemd "
            "starts it"
            for node in pair
            if node.host in chosen and node.state == "hung" and not node.restart_required
        ]
    lines = []
    for node in pair:
        if pending_starts_and_restarts(pair, chosen) or node.host not in chosen:
            continue
        if node.state == "stopped" and node.store_used is None and node.store_access:
            lines.append(
                f"{node.host}: the broker is stopped, and the playbook site does not start it, because its pair is "
                f"pure, and its store, which may contain messages, cannot be read: {node.store_access}. Correct this "
                "error, and run the playbook resync"
            )
        elif node.state == "stopped":
            lines.append(
                f"{node.host}: the broker is stopped, and the playbook site does not start it, because its pair is "
                "pure. Run the playbook resync"
            )
        elif node.restart_required:
            lines.append(
                f"{node.host}: the broker requires a restart for its new configuration, but the playbook site does not "
                "restart pure brokers. Run the playbook resync"
            )
    return lines


def next_site_step(
    nodes: Sequence[ObservedNode], run: RollingProgress, unseen: Mapping[str, str] | None = None
) -> RollingStep:
    """Decide from observed nodes the next step of the playbook site, which restarts brokers, and return it.

    The playbook starts and restarts brokers with new configurations. ``unseen`` maps hosts to a peer from which there
    is no evidence.

    Raises RefusalError for a broker that does not become ready, and for an active broker that no peer would replace.
    """
    pairs = nodes_by_pair(nodes)
    for name in sorted(pairs):
        pair = pairs[name]
        acts = pending_starts_and_restarts(pair, run.chosen, run.acted)
        if waiting := _wait_for_changed_nodes(pair, acts, run):
            return waiting
        if not acts:
            continue
        act, node = acts[0]
        if node.host in run.acted:
            raise run.refusal_error(
                f"{node.host}: the {act} of this broker had no effect. Check {node.base}/data/activemq.log for the "
                "cause, and run the playbook site again"
            )
        interrupts_service = act == "restart" and node.is_serving
        if interrupts_service and (waiting := _wait_for_standby(node, pair, run, unseen or {})):
            return waiting
        return _start_or_restart_step(act, node, pair)
    return RollingStep("done", f"{', '.join(sorted(run.chosen))}: no broker needs a start or restart")


def _wait_for_changed_nodes(
    pair: Sequence[ObservedNode], acts: Sequence[tuple[str, ObservedNode]], run: RollingProgress
) -> RollingStep | None:
    """Return a step that waits for a changed node to become ready, and for a node to become active.

    A pure master is ready once its slave is attached. A pair of which only one node is observed may have an active
    node.
    """
    for node in pair:
        awaits_slave = node.ha_profile.replicates and node.state == "starting" and acts
        if node.host in run.acted and node.state not in READY_STATES and not awaits_slave:
            return _wait_or_refuse(
                f"{node.host}: the broker is not ready yet; it is {node.state} ({node.how})", node, run
            )
    changed_nodes = [node for node in pair if node.host in run.acted]
    profile = pair[0].ha_profile
    if not changed_nodes or profile.needs_resync or any(node.state not in _STARTING_STATES for node in pair):
        return None
    node = changed_nodes[0]
    if not profile.has_peer:
        return _wait_or_refuse(f"{node.host}: the broker is not active yet; it is {node.state} ({node.how})", node, run)
    if len(pair) > 1:
        return _wait_or_refuse(f"pair {node.pair}: no node is active yet", node, run)
    return None


def _wait_for_standby(
    node: ObservedNode, pair: Sequence[ObservedNode], run: RollingProgress, unseen: Mapping[str, str]
) -> RollingStep | None:
    for peer in (other for other in pair if other is not node):
        if peer.state == "standby":
            continue
        if not (peer.is_serving or peer.state == "stopped"):
            text = (
                f"{node.host}: the active broker is not restarted, because the other node of the pair, {peer.host}, is "
                f"{peer.state} ({peer.how})"
            )
            return _wait_or_refuse(text, peer, run)
        raise run.refusal_error(
            f"{node.host}: the active broker is not restarted, because the other node of the pair, {peer.host}, is "
            f"{peer.state} and cannot take over ({peer.how}). Check {peer.base}/data/activemq.log on {peer.host} for "
            "the reason, correct it, and run the playbook site again"
        )
    if node.host in unseen:
        raise run.refusal_error(
            f"{node.host}: the active broker is not restarted, because the other node of the pair, "
            f"{unseen[node.host]}, was not reached. Correct the connection to that host or omit --limit, and run the "
            "playbook site again"
        )
    return None


def _wait_or_refuse(problem: str, node: ObservedNode, run: RollingProgress) -> RollingStep:
    if run.waited >= run.settle or (node.state == "stopped" and not node.is_awaiting_systemd_start):
        ready_states = "active or standby" if node.ha_profile.has_peer else "active"
        raise run.refusal_error(
            f"{problem}. Check {node.base}/data/activemq.log on {node.host} for the cause, and correct it. When "
            f"activemq-fleet status shows {node.host} as {ready_states}, run the playbook site again"
        )
    return run.wait_step_for_problem(problem)


def _start_or_restart_step(act: str, node: ObservedNode, pair: Sequence[ObservedNode]) -> RollingStep:
    if act == "restart":
        return step_for_node(node, pair, act)
    peer = next((other.host for other in pair if other is not node), None)
    step = RollingStep("start", f"the playbook starts {node.host}", (node.host,), peer, node.state)
    if node.ha_profile.replicates and node.role == "master":
        return replace(step, accept=("active", "starting"))
    return step


@register_operation("roll")
def decide_brokers_to_start_or_restart(request: OperationDecisionRequest) -> Decision:
    """Return the brokers that a run of the playbook site must start or restart.

    They are returned with their pairs. ``configured``: of every broker whose files were installed. ``options``: the
    hosts of the play, ``all``, and those of them that are not lost, ``remaining``. Raises RefusalError for lost ones.
    """
    options, brokers, evidence = request.options, request.broker_facts_by_host, request.evidence
    lost_hosts = [
        host
        for host in request.fleet.expected
        if host in brokers
        and ("version" not in request.configured.get(host, {}) or host in {*options["all"]} - {*options["remaining"]})
    ]
    if lost_hosts:
        raise RefusalError(
            "no broker is started or restarted, because these hosts failed or were not reached: "
            f"{', '.join(lost_hosts)}. Correct the errors that Ansible printed for them above, and run the playbook "
            "site again",
            [],
        )
    nodes = [observe_node(brokers[host], observed) for host, observed in evidence.items()]
    # In check mode, the hosts cannot determine whether files that were not installed require a restart.
    hosts_to_restart = {host for host, result in request.configured.items() if result["restart_required"]}
    nodes = [replace(node, restart_required=node.restart_required or node.host in hosts_to_restart) for node in nodes]
    pairs = [pair for _, pair in sorted(nodes_by_pair(nodes).items())]
    acts = [pending_starts_and_restarts(pair, evidence) for pair in pairs]
    notes = [note for pair in pairs for note in notes_on_skipped_restarts(pair, evidence)]
    for note in notes:
        request.warn(note)
    batches = [sorted(node.host for node in pair) for pair, pair_acts in zip(pairs, acts, strict=True) if pair_acts]
    unverified = [
        node.host for node in nodes if batches or node.pid is None or brokers[node.host].release.text != node.release
    ]
    return {
        "acts": [f"{act} {node.host}" for pair_acts in acts for act, node in pair_acts],
        "hosts": [host for batch in batches for host in batch],
        "batches": {host: batch for batch in batches for host in batch},
        "sizes": [len(batch) for batch in batches],
        "verify": unverified,
        "notes": notes,
    }


@register_operation("site", has_table=False)
def decide_site_step(request: OperationDecisionRequest) -> Decision:
    """Return the step that ``next_site_step`` decides for the request of the playbook site, as JSON-ready data.

    It is to refuse, wait, restart a broker or finish, for the hosts of the request. ``options``: ``peers``, by host the
    result of ``broker_info`` on a peer that the run is not for, and ``settle``. Raises RefusalError also for such a
    peer that runs with another store than the inventory's.
    """
    options, brokers, evidence = request.options, request.broker_facts_by_host, request.evidence
    answers_by_host = {brokers[host].peer or "": peer for host, peer in options["peers"].items() if "state" in peer}
    peers = read_evidence_by_host(answers_by_host, BrokerEvidence.from_broker_info_result)
    nodes = [observe_node(brokers[host], observed) for host, observed in {**peers, **evidence}.items()]
    observed_hosts = {node.host for node in nodes}
    unseen = {host: peer for host in evidence if (peer := brokers[host].peer) and peer not in observed_hosts}
    run = RollingProgress(
        act="site",
        chosen=set(evidence),
        acted=request.progress.hosts_acted_on(),
        waited=request.progress.waited,
        settle=float(options["settle"]),
    )
    step = next_site_step(nodes, run, unseen)
    if step.hosts:
        # Each running broker within the limit was compared before the first change.
        for host, observed in peers.items():
            running_store = {**observed.persistence, "directory": observed.store} if observed.pid else None
            if running_store and (reason := store_change_reason(brokers[host], running_store, observed.release)):
                raise run.refusal_error(f"{host}: {reason}")
    return request.show_notes_and_serialize_step(step)


def _read_optional_evidence(returned: Mapping[str, Any]) -> BrokerEvidence | None:
    return BrokerEvidence.from_broker_info_result(returned) if returned.get("state") else None


@register_operation("outcome", read=_read_optional_evidence)
def site_run_summary_table(request: OperationDecisionRequest) -> Decision:
    """Return a table that summarizes a run of the playbook site, which deploys brokers.

    ``evidence`` is the latest of each broker, None where none is. ``options``: by host ``decisions``, the last decision
    of its batch, and ``verified``, the comparison of the release.
    """
    options, configured, evidence = request.options, request.configured, request.evidence
    compared = read_evidence_by_host(options["verified"], _read_optional_evidence)
    verified = {host: observed for host, observed in compared.items() if observed}
    runs = {
        host: RunProgress.progress_from_dict(decision.get("progress", {}))
        for host, decision in options["decisions"].items()
    }
    records = {host: run.progress_of_host(host) for host, run in runs.items()}
    before = {host: release_and_state_text(observed) for host, observed in evidence.items()}
    before |= {host: record.before for host, record in records.items() if record.before}
    acts = {
        host: [*(["files"] if result.get("changed") else []), *(records[host].acted if host in records else ())]
        for host, result in configured.items()
    }
    message = f"the playbook site is done on {count_with_noun(len(configured), 'broker')}"
    return {"say": message, "table": outcome_table_lines(configured, before, {**evidence, **verified}, acts, {})}
