"""Starts and restarts of the playbook site: order, invariants, and termination."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.deployment import FleetFacts, StoreFacts
from activemq_fleet.node.judge import BrokerState
from activemq_fleet.operations import OperationDecisionRequest, RefusalError, decide_operation
from activemq_fleet.operations.operation_decisions import HostProgress, RunProgress
from activemq_fleet.operations.pair_preconditions import ObservedNode
from activemq_fleet.operations.restart_and_switchover import RollingProgress, RollingStep
from activemq_fleet.operations.site import next_site_step, notes_on_skipped_restarts, pending_starts_and_restarts
from tests.support.facts_of_brokers import facts_of_broker


def node(name: str, state: BrokerState, **more: Any) -> ObservedNode:
    pair, _, letter = name.rpartition("-")
    role = "master" if letter == "a" else "slave"
    evidence_values: dict[str, Any] = {"ha": "shared-file", "role": role, "store_used": True, "how": "as found"} | more
    return ObservedNode(host=name, pair=pair, state=state, **evidence_values)


def pure_node(name: str, state: BrokerState, **more: Any) -> ObservedNode:
    return node(name, state, ha="pure", **{"store_used": False, **more})


def progress_of(nodes: Iterable[ObservedNode], **more: Any) -> RollingProgress:
    progress_values: dict[str, Any] = {
        "act": "site",
        "chosen": {broker.host for broker in nodes},
        "done": (),
        "settle": 60.0,
    }
    return RollingProgress(**progress_values | more)


def pending_acts(*nodes: ObservedNode, **more: Any) -> list[str]:
    return [
        f"{act} {broker.host}"
        for act, broker in pending_starts_and_restarts(nodes, {broker.host for broker in nodes}, **more)
    ]


def notes_of(*nodes: ObservedNode) -> list[str]:
    return notes_on_skipped_restarts(nodes, {broker.host for broker in nodes})


def nodes_after_step(brokers: dict[str, ObservedNode], step: RollingStep) -> dict[str, ObservedNode]:
    """Return the nodes after a successful step: a standby whose lock becomes free acquires it."""
    (host,) = step.hosts
    restarted = brokers[host]
    peers = [peer for peer in brokers.values() if peer.pair == restarted.pair and peer.host != host]
    brokers = dict(brokers)
    if restarted.ha == "pure":
        brokers[host] = replace(
            restarted, state="starting" if "starting" in step.accept else "standby", store_used=True
        )
        if restarted.role == "slave":
            brokers |= {peer.host: replace(peer, state="active") for peer in peers}
        return brokers
    successor = next((peer for peer in peers if peer.state == "standby"), None)
    is_lock_held = any(peer.state in ("active", "starting", "hung") for peer in peers)
    brokers[host] = replace(
        restarted, state="standby" if successor or is_lock_held else "active", restart_required=False
    )
    if successor and not is_lock_held:
        brokers[successor.host] = replace(successor, state="active")
    return brokers


def run_to_end(
    *nodes: ObservedNode, chosen: set[str] | None = None
) -> tuple[list[RollingStep], dict[str, ObservedNode]]:
    """Return the steps of a run, each decided from the nodes after the previous step, and the nodes at its end."""
    brokers, steps, acted = {broker.host: broker for broker in nodes}, list[RollingStep](), set[str]()
    while True:
        step = next_site_step(list(brokers.values()), progress_of(nodes, chosen=chosen or set(brokers), acted=acted))
        if step.act in ("done", "wait"):
            return steps, brokers
        steps.append(step)
        acted |= {*step.hosts}
        brokers = nodes_after_step(brokers, step)


def acts_of_run(*nodes: ObservedNode) -> list[str]:
    steps, _ = run_to_end(*nodes)
    return [f"{step.act} {step.hosts[0]}" for step in steps]


def test_running_pair_without_pending_restart_requires_no_step_of_site() -> None:
    pair = node("x-mq01-a", "active"), node("x-mq01-b", "standby")
    assert next_site_step(pair, progress_of(pair)).act == "done"
    assert notes_of(*pair) == []


def test_site_starts_new_pair_with_preferred_master_first() -> None:
    pair = node("x-mq01-b", "stopped"), node("x-mq01-a", "stopped")
    assert pending_acts(*pair) == acts_of_run(*pair) == ["start x-mq01-a", "start x-mq01-b"]


@pytest.mark.parametrize(("active", "standby"), [("a", "b"), ("b", "a")])
def test_site_restarts_standby_first_regardless_of_preferred_role(active: str, standby: str) -> None:
    pair = (
        node(f"x-mq01-{active}", "active", restart_required=True),
        node(f"x-mq01-{standby}", "standby", restart_required=True),
    )
    assert pending_acts(*pair) == acts_of_run(*pair) == [f"restart x-mq01-{standby}", f"restart x-mq01-{active}"]


def test_stopped_node_is_started_before_active_node_is_restarted() -> None:
    pair = node("x-mq01-a", "active", restart_required=True), node("x-mq01-b", "stopped")
    assert pending_acts(*pair) == acts_of_run(*pair) == ["start x-mq01-b", "restart x-mq01-a"]


def test_hung_node_is_restarted_only_if_restart_is_pending() -> None:
    hung = node("x-mq01-a", "hung", restart_required=True)
    step = next_site_step([hung], progress_of([hung]))
    assert (step.act, step.hosts, step.say) == (
        "restart",
        (hung.host,),
        "the playbook restarts x-mq01-a. It is a single broker, so its clients wait until it is active again",
    )
    hung_without_pending_restart = node("x-mq01-a", "hung", how="it says nothing")
    assert next_site_step([hung_without_pending_restart], progress_of([hung_without_pending_restart])).act == "done"
    (note,) = notes_of(hung_without_pending_restart)
    assert note.startswith(
        "x-mq01-a: the broker is hung (it says nothing). The playbook site does not restart it, because its "
        "configuration"
    )


def test_step_of_site_names_state_of_node_that_is_neither_active_nor_standby() -> None:
    pair = node("x-mq01-a", "active"), node("x-mq01-b", "hung", restart_required=True)
    assert (
        next_site_step(pair, progress_of(pair)).say
        == "the playbook restarts x-mq01-b, which is hung. x-mq01-a serves clients (as found)"
    )


def test_site_starts_pairs_in_sequence() -> None:
    nodes = [node(f"{pair}-{letter}", "stopped") for letter in "ab" for pair in ("x-mq02", "x-mq01")]
    assert acts_of_run(*nodes) == ["start x-mq01-a", "start x-mq01-b", "start x-mq02-a", "start x-mq02-b"]


def test_slave_of_new_pure_pair_is_started_after_its_starting_master() -> None:
    (master, slave), brokers = run_to_end(pure_node("x-mq01-b", "stopped"), pure_node("x-mq01-a", "stopped"))
    assert (master.act, master.hosts, master.accept) == ("start", ("x-mq01-a",), ("active", "starting"))
    assert (slave.act, slave.hosts, slave.accept) == ("start", ("x-mq01-b",), ("active", "standby"))
    assert {host: broker.state for host, broker in brokers.items()} == {"x-mq01-a": "active", "x-mq01-b": "standby"}


def test_pure_slave_is_not_started_if_its_master_stopped_again() -> None:
    pair = pure_node("x-mq01-a", "stopped", how="no process"), pure_node("x-mq01-b", "stopped")
    with pytest.raises(
        RefusalError, match=r"x-mq01-a: the broker is not ready yet; it is stopped \(no process\)\. Check "
    ):
        next_site_step(pair, progress_of(pair, acted={"x-mq01-a"}))


def test_site_waits_until_master_of_pure_pair_is_active() -> None:
    pair = pure_node("x-mq01-a", "starting", store_used=True), pure_node("x-mq01-b", "standby")
    acted = {broker.host for broker in pair}
    assert next_site_step(pair, progress_of(pair, acted=acted)).act == "wait"
    with pytest.raises(RefusalError, match="no further host is changed: x-mq01-a: the broker is not ready yet"):
        next_site_step(pair, progress_of(pair, acted=acted, waited=60.0))


def test_site_never_restarts_pure_broker() -> None:
    pair = pure_node("x-mq01-a", "active", restart_required=True), pure_node("x-mq01-b", "standby")
    assert next_site_step(pair, progress_of(pair)).act == "done"
    assert "Run the playbook resync" in notes_of(*pair)[0]


STOPPED_PURE = (
    "x-mq01-a: the broker is stopped, and the playbook site does not start it, because its pair is pure. Run the "
    "playbook resync"
)


@pytest.mark.parametrize("peer", [pure_node("x-mq01-b", "active"), pure_node("x-mq01-b", "stopped", store_used=True)])
def test_stopped_node_of_used_pure_pair_is_never_started(peer: ObservedNode) -> None:
    pair = pure_node("x-mq01-a", "stopped"), peer
    assert next_site_step(pair, progress_of(pair)).act == "done"
    assert STOPPED_PURE in notes_of(*pair)


def test_pure_pair_with_unreadable_store_is_never_started() -> None:
    unreadable = pure_node("x-mq01-b", "stopped", store_used=None, store="/srv/x", store_access="input/output error")
    pair = pure_node("x-mq01-a", "stopped"), unreadable
    assert pending_acts(*pair) == []
    assert notes_of(*pair) == [
        STOPPED_PURE,
        "x-mq01-b: the broker is stopped, and the playbook site does not start it, because its pair is pure, and "
        "its store, which may contain messages, cannot be read: input/output error. Correct this error, and run the "
        "playbook resync",
    ]


def test_site_starts_pure_pair_that_is_not_installed_or_has_no_kahadb_store() -> None:
    pair = [pure_node(name, "stopped", store_used=None, store=None) for name in ("x-mq01-a", "x-mq01-b")]
    assert pending_acts(*pair) == ["start x-mq01-a", "start x-mq01-b"]


def test_single_node_of_new_pure_pair_is_never_started() -> None:
    pair = pure_node("x-mq01-a", "stopped"), pure_node("x-mq01-b", "stopped")
    assert next_site_step(pair, progress_of(pair, chosen={"x-mq01-a"})).act == "done"
    assert notes_on_skipped_restarts(pair, {"x-mq01-a"}) == [STOPPED_PURE]


NODE_WITH_PENDING_RESTART = node("x-mq01-a", "active", restart_required=True)


@pytest.mark.parametrize("state", ["stopped", "active"])
def test_active_broker_is_not_restarted_without_standby(state: BrokerState) -> None:
    pair = NODE_WITH_PENDING_RESTART, node("x-mq01-b", state)
    refusal_text = rf"^nothing was changed: x-mq01-a: the active broker is not restarted, .*, x-mq01-b, is {state}"
    with pytest.raises(RefusalError, match=refusal_text):
        next_site_step(pair, progress_of(pair, chosen={NODE_WITH_PENDING_RESTART.host}))


@pytest.mark.parametrize("state", ["starting", "hung"])
def test_site_waits_for_starting_or_hung_peer_before_restart(state: BrokerState) -> None:
    pair = NODE_WITH_PENDING_RESTART, node("x-mq01-b", state)
    assert next_site_step(pair, progress_of(pair)).act == "wait"
    with pytest.raises(RefusalError, match=f"the active broker is not restarted, .*, x-mq01-b, is {state}"):
        next_site_step(pair, progress_of(pair, waited=60.0))


def test_active_broker_is_not_restarted_if_peer_was_not_reached() -> None:
    with pytest.raises(RefusalError, match=r"the active broker is not restarted, .*, x-mq01-b, was not reached"):
        next_site_step(
            [NODE_WITH_PENDING_RESTART],
            progress_of([NODE_WITH_PENDING_RESTART]),
            {NODE_WITH_PENDING_RESTART.host: "x-mq01-b"},
        )


def test_site_waits_until_changed_pair_has_active_node() -> None:
    pair = node("x-mq01-a", "standby"), node("x-mq01-b", "starting")
    assert next_site_step(pair, progress_of(pair)).act == "done"
    assert next_site_step(pair, progress_of(pair, acted={"x-mq01-a"})).act == "wait"
    with pytest.raises(RefusalError, match="x-mq01: no node is active yet"):
        next_site_step(pair, progress_of(pair, acted={"x-mq01-a"}, waited=60.0))


@pytest.mark.parametrize("state", ["standby", "starting"])
def test_site_waits_until_changed_single_broker_is_active(state: BrokerState) -> None:
    broker = node("x-mq01-a", state, ha="none", how="the lock is held")
    assert next_site_step([broker], progress_of([broker])).act == "done"
    assert next_site_step([broker], progress_of([broker], acted={broker.host})).act == "wait"
    with pytest.raises(RefusalError, match=rf"x-mq01-a: the broker is .* {state} \(the lock is held\).* as active"):
        next_site_step([broker], progress_of([broker], acted={broker.host}, waited=60.0))


def test_changed_node_of_pair_may_be_standby_if_its_peer_was_not_reached() -> None:
    standby = node("x-mq01-a", "standby")
    assert next_site_step([standby], progress_of([standby], acted={standby.host})).act == "done"


def test_restart_without_effect_ends_run_of_site() -> None:
    pair = node("x-mq01-a", "active"), node("x-mq01-b", "standby", restart_required=True)
    with pytest.raises(RefusalError, match="x-mq01-b: the restart of this broker had no effect"):
        next_site_step(pair, progress_of(pair, acted={"x-mq01-b"}))


def test_broker_that_stopped_again_after_start_ends_run_of_site() -> None:
    pair = node("x-mq01-a", "stopped"), node("x-mq01-b", "standby")
    with pytest.raises(RefusalError, match="x-mq01-a: the broker is not ready yet; it is stopped"):
        next_site_step(pair, progress_of(pair, acted={"x-mq01-a"}))


STATES = st.sampled_from(["active", "standby", "starting", "stopped", "hung"])
NODES = st.tuples(STATES, st.booleans(), st.booleans())


@given(st.dictionaries(st.integers(1, 9), st.tuples(st.sampled_from(["shared-file", "pure", "none"]), NODES, NODES)))
def test_each_site_step_completes_node_and_never_restarts_last_serving_node(pairs: dict[int, Any]) -> None:
    nodes = {
        name: node(name, state, ha=ha, restart_required=pending and state != "stopped", store_used=used)
        for number, (ha, *node_states) in pairs.items()
        for letter, (state, pending, used) in zip("ab", node_states, strict=True)
        for name in [f"x-mq{number:02d}-{letter}"]
    }
    brokers, acted_hosts = nodes, list[str]()
    while True:
        try:
            step = next_site_step(list(brokers.values()), progress_of(brokers.values(), acted={*acted_hosts}))
        except RefusalError:
            return
        if step.act in ("done", "wait"):
            break
        (host,) = step.hosts
        assert host not in acted_hosts
        assert step.act == ("start" if brokers[host].state == "stopped" else "restart")
        assert step.act == "start" or brokers[host].ha != "pure"
        if step.act == "restart" and brokers[host].state == "active" and brokers[host].ha == "shared-file":
            assert brokers[host[:-1] + ("b" if host.endswith("a") else "a")].state == "standby"
        if brokers[host].ha == "pure":
            pair_nodes = [broker for name, broker in nodes.items() if name[:-1] == host[:-1]]
            assert all(broker.state == "stopped" and not broker.store_used for broker in pair_nodes)
        brokers_before, brokers = brokers, nodes_after_step(brokers, step)
        acted_hosts.append(host)
        if brokers[host].ha != "pure":
            assert len(hosts_with_pending_work(brokers)) == len(hosts_with_pending_work(brokers_before)) - 1
    assert [host[:-2] for host in acted_hosts] == sorted(host[:-2] for host in acted_hosts)
    if step.act == "done":
        assert [host for host in hosts_with_pending_work(brokers) if brokers[host].ha != "pure"] == []


def hosts_with_pending_work(nodes: dict[str, ObservedNode]) -> list[str]:
    return [host for host, broker in nodes.items() if broker.restart_required or broker.state == "stopped"]


A, B = "x-mq01-a", "x-mq01-b"
BROKERS = {
    host: facts_of_broker(host, role=role, peer=peer, ha="shared-file", store="/srv/x")
    for host, role, peer in ((A, "master", B), (B, "slave", A))
}


def evidence_of(state: BrokerState, **more: Any) -> dict[str, Any]:
    return {"state": state, "how": "as found", "restart_required": False, "store_used": True} | more


def test_fleet_is_split_into_batches_of_pairs_and_lost_host_stops_run() -> None:
    evidence = {B: evidence_of("standby"), A: evidence_of("active")}
    installed = {host: {"version": "1", "restart_required": host == A} for host in BROKERS}
    options = {"all": [A, B], "remaining": [A, B]}
    fleet = FleetFacts(brokers=BROKERS, expected=(A, B, "web01"))
    request = OperationDecisionRequest(fleet=fleet, evidence=evidence, configured=installed, options=options)
    assert decide_operation("roll", request) == {
        "acts": [f"restart {A}"],
        "hosts": [A, B],
        "batches": {A: [A, B], B: [A, B]},
        "sizes": [2],
        "verify": [B, A],
        "notes": [],
    }
    for incomplete_request in (
        replace(request, options=options | {"remaining": [A]}),
        replace(request, configured={A: installed[A]}),
    ):
        with pytest.raises(RefusalError, match=f"^no broker is started or restarted, .* or were not reached: {B}"):
            decide_operation("roll", incomplete_request)


def test_site_considers_evidence_of_peer_outside_limit() -> None:
    options = {"settle": 60, "peers": {A: evidence_of("standby")}}
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=BROKERS), evidence={A: evidence_of("active", restart_required=True)}, options=options
    )
    assert decide_operation("site", request)["step"]["hosts"] == [A]
    with pytest.raises(RefusalError, match=f"because the other node of the pair, {B}, was not reached"):
        decide_operation("site", replace(request, options=options | {"peers": {A: {"unreachable": True}}}))


@pytest.mark.parametrize(
    ("process", "hosts"),
    [({"pid": 7, "release": "6.3.1"}, []), ({"pid": 7, "release": "6.3.0"}, [A]), ({"pid": None}, [A])],
)
def test_site_verifies_running_release_only_if_evidence_lacks_it(process: dict[str, Any], hosts: list[str]) -> None:
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=BROKERS),
        evidence={A: evidence_of("active", **process)},
        options={"all": [A], "remaining": [A]},
    )
    assert decide_operation("roll", request)["verify"] == hosts


def test_final_table_of_site_shows_state_before_first_step_and_after_last() -> None:
    progress = RunProgress(hosts={A: HostProgress(acted=("start",), before="stopped")})
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=BROKERS),
        evidence={A: evidence_of("active", release="6.3.1"), B: {"unreachable": True}},
        configured={A: {"changed": True}, B: {"changed": False}},
        options={"decisions": {A: {"progress": progress.progress_as_dict()}}, "verified": {A: {"skipped": True}}},
    )
    decision = decide_operation("outcome", request)
    assert decision["say"] == "the playbook site is done on 2 brokers"
    assert [line.split() for line in decision["table"][1:]] == [
        [A, "stopped", "6.3.1", "active", "-", "files,", "start"],
        [B, "not", "known", "not", "known", "-", "no"],
    ]


def test_site_starts_no_node_if_peer_outside_limit_runs_with_another_store() -> None:
    peer = evidence_of("active") | {"pid": 7, "persistence": {"kind": "kahaDB"}}
    brokers = {host: replace(broker, persistence=StoreFacts(directory="/srv/x")) for host, broker in BROKERS.items()}
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers),
        evidence={A: evidence_of("stopped")},
        options={"settle": 60, "peers": {A: peer | {"store": "/srv/x"}}},
    )
    assert decide_operation("site", request)["step"]["act"] == "start"
    for store in ({"store": "/srv/old"}, {"store": None, "persistence": {"kind": "jdbcPersistenceAdapter"}}):
        with pytest.raises(RefusalError, match=f"{B}: the broker stores its messages in"):
            decide_operation("site", replace(request, options={"settle": 60, "peers": {A: peer | store}}))
