"""What ``site`` starts and restarts: order, invariants, and that every run ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.node.judge import BrokerState
from activemq_fleet.operations import OperationDecisionRequest, RefusalError, decide_operation
from activemq_fleet.operations.health import ObservedNode
from activemq_fleet.operations.requests import HostProgress, RunProgress
from activemq_fleet.operations.rolling import RollingProgress, RollingStep
from activemq_fleet.operations.site import next_site_step, notes_on_skipped_restarts, pending_actions
from tests.support.facts_of_brokers import facts_of_broker


def node(name: str, state: BrokerState, **more: Any) -> ObservedNode:
    pair, _, letter = name.rpartition("-")
    role = "master" if letter == "a" else "slave"
    values: dict[str, Any] = {"ha": "shared-file", "role": role, "store_used": True, "how": "as found"} | more
    return ObservedNode(host=name, pair=pair, state=state, **values)


def pure(name: str, state: BrokerState, **more: Any) -> ObservedNode:
    return node(name, state, ha="pure", **{"store_used": False, **more})


def run(nodes: Iterable[ObservedNode], **more: Any) -> RollingProgress:
    values: dict[str, Any] = {"act": "site", "chosen": {each.host for each in nodes}, "done": (), "settle": 60.0}
    return RollingProgress(**values | more)


def acts(*nodes: ObservedNode, **more: Any) -> list[str]:
    return [f"{act} {each.host}" for act, each in pending_actions(nodes, {each.host for each in nodes}, **more)]


def notes(*nodes: ObservedNode) -> list[str]:
    return notes_on_skipped_restarts(nodes, {each.host for each in nodes})


def after(now: dict[str, ObservedNode], step: RollingStep) -> dict[str, ObservedNode]:
    """The nodes once a step has done what it should: who waits for a lock that comes free takes it."""
    (host,) = step.hosts
    mine, peers = now[host], [each for each in now.values() if each.pair == now[host].pair and each.host != host]
    now = dict(now)
    if mine.ha == "pure":
        now[host] = replace(mine, state="starting" if "starting" in step.accept else "standby", store_used=True)
        if mine.role == "slave":
            now |= {peer.host: replace(peer, state="active") for peer in peers}
        return now
    successor = next((peer for peer in peers if peer.state == "standby"), None)
    held = any(peer.state in ("active", "starting", "hung") for peer in peers)
    now[host] = replace(mine, state="standby" if successor or held else "active", restart_required=False)
    if successor and not held:
        now[successor.host] = replace(successor, state="active")
    return now


def follow(*nodes: ObservedNode, chosen: set[str] | None = None) -> tuple[list[RollingStep], dict[str, ObservedNode]]:
    """The acts of a run, step after step, each decided on what the one before has left; and the nodes at its end."""
    now, steps, acted = {each.host: each for each in nodes}, list[RollingStep](), set[str]()
    while True:
        step = next_site_step(list(now.values()), run(nodes, chosen=chosen or set(now), acted=acted))
        if step.act in ("done", "wait"):
            return steps, now
        steps.append(step)
        acted |= {*step.hosts}
        now = after(now, step)


def followed(*nodes: ObservedNode) -> list[str]:
    steps, _ = follow(*nodes)
    return [f"{step.act} {step.hosts[0]}" for step in steps]


def test_a_fleet_that_runs_and_owes_nothing_is_left_alone() -> None:
    pair = node("x-mq01-a", "active"), node("x-mq01-b", "standby")
    assert next_site_step(pair, run(pair)).act == "done"
    assert notes(*pair) == []


def test_a_new_pair_is_started_with_its_preferred_master_first() -> None:
    pair = node("x-mq01-b", "stopped"), node("x-mq01-a", "stopped")
    assert acts(*pair) == followed(*pair) == ["start x-mq01-a", "start x-mq01-b"]


@pytest.mark.parametrize(("active", "standby"), [("a", "b"), ("b", "a")])
def test_the_standby_is_restarted_first_whatever_its_preferred_role(active: str, standby: str) -> None:
    pair = (
        node(f"x-mq01-{active}", "active", restart_required=True),
        node(f"x-mq01-{standby}", "standby", restart_required=True),
    )
    assert acts(*pair) == followed(*pair) == [f"restart x-mq01-{standby}", f"restart x-mq01-{active}"]


def test_a_stopped_node_is_started_before_the_active_one_is_restarted() -> None:
    pair = node("x-mq01-a", "active", restart_required=True), node("x-mq01-b", "stopped")
    assert acts(*pair) == followed(*pair) == ["start x-mq01-b", "restart x-mq01-a"]


def test_a_node_that_hangs_is_restarted_only_when_that_is_owed() -> None:
    hung = node("x-mq01-a", "hung", restart_required=True)
    step = next_site_step([hung], run([hung]))
    assert (step.act, step.hosts, step.say) == (
        "restart",
        (hung.host,),
        "the playbook restarts x-mq01-a. It is a single broker, so its clients wait until it is active again",
    )
    other = node("x-mq01-a", "hung", how="it says nothing")
    assert next_site_step([other], run([other])).act == "done"
    (note,) = notes(other)
    assert note.startswith(
        "x-mq01-a: the broker is hung (it says nothing). The playbook site does not restart it, because its "
        "configuration"
    )


def test_the_line_says_what_a_node_is_that_is_neither_active_nor_standby() -> None:
    pair = node("x-mq01-a", "active"), node("x-mq01-b", "hung", restart_required=True)
    assert (
        next_site_step(pair, run(pair)).say
        == "the playbook restarts x-mq01-b, which is hung. x-mq01-a serves clients (as found)"
    )


def test_pairs_come_one_after_the_other() -> None:
    nodes = [node(f"{pair}-{letter}", "stopped") for letter in "ab" for pair in ("x-mq02", "x-mq01")]
    assert followed(*nodes) == ["start x-mq01-a", "start x-mq01-b", "start x-mq02-a", "start x-mq02-b"]


def test_a_new_pure_pair_is_started_with_the_master_s_replication_port_between() -> None:
    (master, slave), now = follow(pure("x-mq01-b", "stopped"), pure("x-mq01-a", "stopped"))
    assert (master.act, master.hosts, master.accept) == ("start", ("x-mq01-a",), ("active", "starting"))
    assert (slave.act, slave.hosts, slave.accept) == ("start", ("x-mq01-b",), ("active", "standby"))
    assert {host: each.state for host, each in now.items()} == {"x-mq01-a": "active", "x-mq01-b": "standby"}


def test_a_pure_slave_is_not_started_when_its_master_did_not_stay() -> None:
    pair = pure("x-mq01-a", "stopped", how="no process"), pure("x-mq01-b", "stopped")
    with pytest.raises(
        RefusalError, match=r"x-mq01-a: the broker is not ready yet; it is stopped \(no process\)\. Check "
    ):
        next_site_step(pair, run(pair, acted={"x-mq01-a"}))


def test_a_pure_pair_is_done_when_its_master_is_active_too() -> None:
    pair = pure("x-mq01-a", "starting", store_used=True), pure("x-mq01-b", "standby")
    acted = {each.host for each in pair}
    assert next_site_step(pair, run(pair, acted=acted)).act == "wait"
    with pytest.raises(RefusalError, match="no further host is changed: x-mq01-a: the broker is not ready yet"):
        next_site_step(pair, run(pair, acted=acted, waited=60.0))


def test_a_pure_broker_is_never_restarted() -> None:
    pair = pure("x-mq01-a", "active", restart_required=True), pure("x-mq01-b", "standby")
    assert next_site_step(pair, run(pair)).act == "done"
    assert "Run the playbook resync" in notes(*pair)[0]


STOPPED_PURE = (
    "x-mq01-a: the broker is stopped, and the playbook site does not start it, because its pair is pure. Run the "
    "playbook resync"
)


@pytest.mark.parametrize("other", [pure("x-mq01-b", "active"), pure("x-mq01-b", "stopped", store_used=True)])
def test_a_pure_node_with_a_store_somewhere_is_never_started(other: ObservedNode) -> None:
    pair = pure("x-mq01-a", "stopped"), other
    assert next_site_step(pair, run(pair)).act == "done"
    assert STOPPED_PURE in notes(*pair)


def test_one_node_of_a_new_pure_pair_is_never_started_alone() -> None:
    pair = pure("x-mq01-a", "stopped"), pure("x-mq01-b", "stopped")
    assert next_site_step(pair, run(pair, chosen={"x-mq01-a"})).act == "done"
    assert notes_on_skipped_restarts(pair, {"x-mq01-a"}) == [STOPPED_PURE]


OWING = node("x-mq01-a", "active", restart_required=True)


@pytest.mark.parametrize("state", ["stopped", "active"])
def test_an_active_broker_is_not_restarted_without_a_standby(state: BrokerState) -> None:
    pair = OWING, node("x-mq01-b", state)
    text = rf"^nothing was changed: x-mq01-a: the active broker is not restarted, .*, x-mq01-b, is {state}"
    with pytest.raises(RefusalError, match=text):
        next_site_step(pair, run(pair, chosen={OWING.host}))


@pytest.mark.parametrize("state", ["starting", "hung"])
def test_a_peer_that_may_come_to_stand_by_is_waited_for(state: BrokerState) -> None:
    pair = OWING, node("x-mq01-b", state)
    assert next_site_step(pair, run(pair)).act == "wait"
    with pytest.raises(RefusalError, match=f"the active broker is not restarted, .*, x-mq01-b, is {state}"):
        next_site_step(pair, run(pair, waited=60.0))


def test_an_active_broker_is_not_restarted_when_nobody_could_look_at_its_peer() -> None:
    with pytest.raises(RefusalError, match=r"the active broker is not restarted, .*, x-mq01-b, was not reached"):
        next_site_step([OWING], run([OWING]), {OWING.host: "x-mq01-b"})


def test_a_pair_that_was_touched_is_waited_for_until_somebody_serves() -> None:
    pair = node("x-mq01-a", "standby"), node("x-mq01-b", "starting")
    assert next_site_step(pair, run(pair)).act == "done"
    assert next_site_step(pair, run(pair, acted={"x-mq01-a"})).act == "wait"
    with pytest.raises(RefusalError, match="x-mq01: no node is active yet"):
        next_site_step(pair, run(pair, acted={"x-mq01-a"}, waited=60.0))


def test_an_act_that_does_not_show_ends_the_run() -> None:
    pair = node("x-mq01-a", "active"), node("x-mq01-b", "standby", restart_required=True)
    with pytest.raises(RefusalError, match="x-mq01-b: the restart of this broker had no effect"):
        next_site_step(pair, run(pair, acted={"x-mq01-b"}))


def test_a_broker_that_is_stopped_again_after_its_start_ends_the_run() -> None:
    pair = node("x-mq01-a", "stopped"), node("x-mq01-b", "standby")
    with pytest.raises(RefusalError, match="x-mq01-a: the broker is not ready yet; it is stopped"):
        next_site_step(pair, run(pair, acted={"x-mq01-a"}))


STATES = st.sampled_from(["active", "standby", "starting", "stopped", "hung"])
NODES = st.tuples(STATES, st.booleans(), st.booleans())


@given(st.dictionaries(st.integers(1, 9), st.tuples(st.sampled_from(["shared-file", "pure", "none"]), NODES, NODES)))
def test_every_act_makes_one_more_node_done_and_none_of_them_serves_alone(pairs: dict[int, Any]) -> None:
    nodes = {
        name: node(name, state, ha=ha, restart_required=owed and state != "stopped", store_used=used)
        for number, (ha, *both) in pairs.items()
        for letter, (state, owed, used) in zip("ab", both, strict=True)
        for name in [f"x-mq{number:02d}-{letter}"]
    }
    now, touched = nodes, list[str]()
    while True:
        try:
            step = next_site_step(list(now.values()), run(now.values(), acted={*touched}))
        except RefusalError:
            return
        if step.act in ("done", "wait"):
            break
        (host,) = step.hosts
        assert host not in touched
        assert step.act == ("start" if now[host].state == "stopped" else "restart")
        assert step.act == "start" or now[host].ha != "pure"
        if step.act == "restart" and now[host].state == "active" and now[host].ha == "shared-file":
            assert now[host[:-1] + ("b" if host.endswith("a") else "a")].state == "standby"
        if now[host].ha == "pure":
            mine = [each for name, each in nodes.items() if name[:-1] == host[:-1]]
            assert all(each.state == "stopped" and not each.store_used for each in mine)
        before, now = now, after(now, step)
        touched.append(host)
        if now[host].ha != "pure":
            assert len(owed(now)) == len(owed(before)) - 1
    assert [host[:-2] for host in touched] == sorted(host[:-2] for host in touched)
    if step.act == "done":
        assert [host for host in owed(now) if now[host].ha != "pure"] == []


def owed(nodes: dict[str, ObservedNode]) -> list[str]:
    return [host for host, each in nodes.items() if each.restart_required or each.state == "stopped"]


A, B = "x-mq01-a", "x-mq01-b"
BROKERS = {
    host: facts_of_broker(host, role=role, peer=peer, ha="shared-file", store="/srv/x")
    for host, role, peer in ((A, "master", B), (B, "slave", A))
}


def found(state: BrokerState, **more: Any) -> dict[str, Any]:
    return {"state": state, "how": "as found", "restart_required": False, "store_used": True} | more


def test_fleet_is_split_into_batches_of_pairs_and_lost_host_stops_the_run() -> None:
    evidence = {B: found("standby"), A: found("active")}
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
    for lost in (
        replace(request, options=options | {"remaining": [A]}),
        replace(request, configured={A: installed[A]}),
    ):
        with pytest.raises(RefusalError, match=f"^no broker is started or restarted, .* or were not reached: {B}"):
            decide_operation("roll", lost)


def test_a_peer_beyond_the_limit_counts_by_what_was_found_of_it() -> None:
    options = {"settle": 60, "peers": {A: found("standby")}}
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=BROKERS), evidence={A: found("active", restart_required=True)}, options=options
    )
    assert decide_operation("site", request)["step"]["hosts"] == [A]
    with pytest.raises(RefusalError, match=f"because the other node of the pair, {B}, was not reached"):
        decide_operation("site", replace(request, options=options | {"peers": {A: {"unreachable": True}}}))


@pytest.mark.parametrize(
    ("shown", "hosts"),
    [({"pid": 7, "release": "6.3.1"}, []), ({"pid": 7, "release": "6.3.0"}, [A]), ({"pid": None}, [A])],
)
def test_release_is_compared_again_only_where_evidence_lacks_it(shown: dict[str, Any], hosts: list[str]) -> None:
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=BROKERS),
        evidence={A: found("active", **shown)},
        options={"all": [A], "remaining": [A]},
    )
    assert decide_operation("roll", request)["verify"] == hosts


def test_final_table_shows_state_before_first_step_and_after_last() -> None:
    started = RunProgress(hosts={A: HostProgress(acted=("start",), before="stopped")})
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=BROKERS),
        evidence={A: found("active", release="6.3.1"), B: {"unreachable": True}},
        configured={A: {"changed": True}, B: {"changed": False}},
        options={"decisions": {A: {"progress": started.progress_as_dict()}}, "verified": {A: {"skipped": True}}},
    )
    decision = decide_operation("outcome", request)
    assert decision["say"] == "the playbook site is done on 2 brokers"
    assert [line.split() for line in decision["table"][1:]] == [
        [A, "stopped", "6.3.1", "active", "-", "files,", "start"],
        [B, "not", "known", "not", "known", "-", "no"],
    ]
