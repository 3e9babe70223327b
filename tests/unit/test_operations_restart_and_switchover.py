"""Rolling operations on a single node of a pair at a time: order, invariants, and termination."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.node.judge import BrokerState
from activemq_fleet.operations import RefusalError
from activemq_fleet.operations.pair_preconditions import ObservedNode
from activemq_fleet.operations.restart_and_switchover import (
    RollingProgress,
    RollingStep,
    next_restart_step,
    next_switchover_step,
    was_started_since,
)

SINCE = 1_000_000.0


def node(name: str, state: BrokerState, **more: Any) -> ObservedNode:
    pair, _, letter = name.rpartition("-")
    evidence_values: dict[str, Any] = {
        "pid": 7,
        "age": 500.0,
        "store_marker": (pair,),
        "store": "/srv/x",
        "how": f"it is {state}",
    }
    role = "master" if letter == "a" else "slave"
    return ObservedNode(host=name, pair=pair, ha="shared-file", role=role, state=state, **evidence_values | more)


A, B = node("x-mq01-a", "active"), node("x-mq01-b", "standby")
C, D = node("x-mq02-a", "standby"), node("x-mq02-b", "active")


def progress_of(*nodes: ObservedNode, **more: Any) -> RollingProgress:
    progress_values: dict[str, Any] = {"act": "restart", "chosen": {broker.host for broker in nodes}, "done": set()}
    return RollingProgress(**progress_values | more)


def restart_order(*nodes: ObservedNode, chosen: set[str] | None = None) -> list[str]:
    """Return the hosts in the order of their restarts; a restart of the active node makes its peer active."""
    brokers_by_host = {broker.host: broker for broker in nodes}
    done_hosts: set[str] = set()
    restarted: list[str] = []
    while True:
        step = next_restart_step(
            list(brokers_by_host.values()), progress_of(*nodes, done=done_hosts, chosen=chosen or set(brokers_by_host))
        )
        if step.act == "done":
            return restarted
        (host,) = step.hosts
        restarted.append(host)
        done_hosts.add(host)
        if brokers_by_host[host].state == "active":
            brokers_by_host[host] = replace(brokers_by_host[host], state="standby")
            brokers_by_host[step.peer or ""] = replace(brokers_by_host[step.peer or ""], state="active")


def test_rolling_restart_restarts_standby_first_pair_by_pair() -> None:
    assert restart_order(D, C, B, A) == [B.host, A.host, C.host, D.host]


def test_rolling_restart_does_not_restart_peer_of_chosen_host() -> None:
    assert restart_order(A, B, chosen={A.host}) == [A.host]


def test_stopped_single_broker_does_not_prevent_restart_of_other_with_name_in_pair() -> None:
    single, stopped = replace(A, ha="none"), replace(B, ha="none", state="stopped", pid=None)

    step = next_restart_step([single, stopped], progress_of(single))

    assert (step.act, step.hosts, step.peer) == ("restart", (A.host,), None)


def test_switchover_waits_for_single_broker_that_waits_for_its_lock() -> None:
    waiting = replace(A, ha="none", state="standby", store=None)

    step = next_switchover_step([waiting], {A.pair: A.host}, progress_of(waiting, act="switch"))

    assert step.act == "wait"
    assert f"no node is active, because {A.host} waits for a lock that another process holds" in step.say
    assert f"with fuser on the file named lock in the store directory of {A.host}" in step.say


def test_step_of_rolling_restart_names_broker_and_peer_that_takes_over() -> None:
    step = next_restart_step([A, B], progress_of(A, B, done={B.host}))
    assert step.say == "the playbook restarts the active broker x-mq01-a, and x-mq01-b takes over (it is standby)"
    assert (step.hosts, step.peer, step.was) == (("x-mq01-a",), "x-mq01-b", "active")


def test_no_host_is_changed_while_any_pair_of_target_is_unhealthy() -> None:
    with pytest.raises(RefusalError, match=r"^nothing was changed: x-mq02-a: the broker is stopped"):
        next_restart_step([A, B, replace(C, state="stopped", pid=None), D], progress_of(A, B, C, D))


def test_refusal_after_first_restart_reports_that_no_further_host_is_changed() -> None:
    with pytest.raises(RefusalError, match=r"^no further host is changed: x-mq01-b: the broker is stopped"):
        next_restart_step([A, replace(B, state="stopped", pid=None)], progress_of(A, B, acted={B.host}, done={B.host}))


def test_restart_waits_for_starting_standby_and_then_refuses() -> None:
    nodes = [A, replace(B, state="starting")]
    waited = 0.0
    while True:
        try:
            step = next_restart_step(nodes, progress_of(A, B, waited=waited, settle=60.0))
        except RefusalError as error:
            assert "x-mq01-b: the broker is starting, so it is neither active nor standby" in str(error)
            assert f"The playbook waited {waited:.0f} s for this to change" in str(error)
            break
        assert step.act == "wait"
        assert 1 <= step.seconds <= 10
        waited += step.seconds
    assert 60 <= waited < 71


def test_restart_refuses_permanent_problem_without_waiting() -> None:
    with pytest.raises(RefusalError, match=r"x-mq01-a: .* \(conf/x was changed by hand\)"):
        next_restart_step(
            [replace(A, drift=("conf/x was changed by hand",)), replace(B, state="starting")], progress_of(A, B)
        )


def test_rolling_restart_omits_pure_pair() -> None:
    pure = [replace(A, ha="pure"), replace(B, ha="pure")]
    assert next_restart_step(pure, progress_of(*pure)).act == "done"
    assert next_restart_step([*pure, C, D], progress_of(A, B, C, D)).hosts == (C.host,)


def test_switchover_refuses_pure_pair() -> None:
    pure = [replace(A, ha="pure"), replace(B, ha="pure")]
    with pytest.raises(
        RefusalError, match=r"x-mq01 is pure .*, so this playbook does not change it\. Run the playbook resync"
    ):
        next_switchover_step(pure, {"x-mq01": B.host}, progress_of(*pure))


def test_single_broker_is_restarted_and_step_reports_downtime() -> None:
    single_broker = replace(A, ha="none", store_marker=None, store=None)
    step = next_restart_step([single_broker], progress_of(single_broker))
    assert (
        step.say
        == "the playbook restarts x-mq01-a. It is a single broker, so its clients wait until it is active again"
    )
    second_broker = replace(single_broker, host="x-mq01-b")
    assert next_restart_step(
        [single_broker, second_broker], progress_of(single_broker, second_broker, done={single_broker.host})
    ).hosts == (second_broker.host,)


def test_restart_without_effect_ends_rolling_restart() -> None:
    with pytest.raises(RefusalError, match="x-mq01-b: the restart of this broker had no effect"):
        next_restart_step([A, B], progress_of(A, B, acted={B.host}))


def test_start_since_run_is_derived_from_age_and_not_from_clock_of_host() -> None:
    observed_at = SINCE + 100
    assert was_started_since(replace(A, age=99.0, clock=0.0), SINCE, observed_at)
    assert not was_started_since(replace(A, age=101.0, clock=SINCE * 2), SINCE, observed_at)
    assert not was_started_since(replace(A, age=None), SINCE, observed_at)


def switchover_step(*nodes: ObservedNode, to: dict[str, str], **more: Any) -> RollingStep:
    return next_switchover_step(nodes, to, progress_of(*nodes, act="switch", **more))


def test_switchover_restarts_only_active_node() -> None:
    step = switchover_step(A, B, to={A.pair: B.host})
    assert (step.hosts, step.peer) == ((A.host,), B.host)
    assert step.say == "x-mq01-b takes over from x-mq01-a, which stops and starts again as the standby"


def test_switchover_to_active_node_is_done() -> None:
    step = switchover_step(A, B, to={A.pair: A.host})
    assert (step.act, step.say) == ("done", "the switchover is done; active hosts: x-mq01-a")


def test_switchover_refuses_unhealthy_pair() -> None:
    with pytest.raises(RefusalError, match="x-mq01-b: the broker is stopped"):
        switchover_step(A, replace(B, state="stopped", pid=None), to={A.pair: B.host})


def test_switchover_of_group_changes_only_pairs_with_other_active_node() -> None:
    to = {A.pair: A.host, C.pair: C.host}
    assert switchover_step(A, B, C, D, to=to).hosts == (D.host,)


def test_lock_reacquired_by_same_broker_ends_switchover() -> None:
    with pytest.raises(
        RefusalError, match="x-mq01-a: this broker acquired the lock again before the broker of x-mq01-b did"
    ):
        switchover_step(A, B, to={A.pair: B.host}, acted={A.host})


@dataclass
class SimulatedPairs:
    """Two pairs whose restarts have generated outcomes; a restart of a node without healthy peer fails the test."""

    states: dict[str, BrokerState]
    ages: dict[str, float]
    killed: bool = False

    def nodes(self) -> list[ObservedNode]:
        return [
            node(
                host, state, age=None if state == "stopped" else self.ages[host], pid=None if state == "stopped" else 7
            )
            for host, state in sorted(self.states.items())
        ]

    def peer(self, host: str) -> str:
        return host[:-1] + ("b" if host.endswith("a") else "a")

    def restart(self, host: str, state_after_restart: BrokerState) -> None:
        state_before, peer = self.states[host], self.peer(host)
        assert state_before in ("active", "standby")
        assert self.states[peer] == ("standby" if state_before == "active" else "active"), (
            "the peer cannot serve clients during this restart: choose another step"
        )
        self.states[host], self.ages[host] = state_after_restart, 0.0
        if state_before == "active" and state_after_restart != "active":
            self.states[peer] = "active"


STATES = st.sampled_from(["active", "standby", "starting", "stopped", "hung"])
OUTCOMES = st.sampled_from(
    ["standby", "standby", "standby", "active", "starting", "stopped", "hung", "killed", "other"]
)
HOSTS = ("x-mq01-a", "x-mq01-b", "x-mq02-a", "x-mq02-b")
HEALTHY = st.sampled_from([("active", "standby"), ("standby", "active")])
PAIRS = st.one_of(HEALTHY, HEALTHY, st.tuples(STATES, STATES))


def end_of_run(pairs: SimulatedPairs, outcomes: list[str], to: dict[str, str] | None) -> str:
    """Run at most 60 steps, until the run is done, refused or killed, and return which of them it is."""
    acted: set[str] = set()
    waited = 0.0
    for _ in range(60):
        nodes = pairs.nodes()
        done_hosts = acted | {broker.host for broker in nodes if (broker.age or SINCE) < 100}
        state = progress_of(*nodes, act="switch" if to else "restart", done=done_hosts, acted=acted, waited=waited)
        try:
            step = next_switchover_step(nodes, to, state) if to else next_restart_step(nodes, state)
        except RefusalError:
            return "refused"
        if step.act in ("done", "wait"):
            waited += step.seconds
            if step.act == "done":
                return "done"
            continue
        waited = 0.0
        outcome = outcomes.pop() if outcomes else "standby"
        (host,) = step.hosts
        state_after_restart: Any = outcome if outcome not in ("killed", "other") else "standby"
        is_active = pairs.states[host] == "active"
        pairs.restart(host, state_after_restart if is_active or state_after_restart != "active" else "standby")
        if outcome == "other":  # a fault of another cause, between two observations
            host_of_other_pair = next(name for name in HOSTS if name[:-1] != host[:-1])
            pairs.states[host_of_other_pair] = "stopped"
        if outcome == "killed":
            return "killed"
        acted.add(host)
    raise AssertionError("the run did not end within 60 rounds: check which step it repeats")


@given(first=PAIRS, second=PAIRS, outcomes=st.lists(OUTCOMES, max_size=6))
def test_random_outcomes_never_restart_node_without_healthy_peer(
    first: tuple[BrokerState, BrokerState], second: tuple[BrokerState, BrokerState], outcomes: list[str]
) -> None:
    pairs = SimulatedPairs(dict(zip(HOSTS, (*first, *second), strict=True)), dict.fromkeys(HOSTS, 500.0))
    while (end_result := end_of_run(pairs, outcomes, None)) == "killed":
        pass
    if end_result == "done":
        assert all(age == 0 for age in pairs.ages.values())
        assert sorted(pairs.states.values()) == ["active", "active", "standby", "standby"]


@given(
    first=PAIRS,
    second=PAIRS,
    outcomes=st.lists(OUTCOMES, max_size=6),
    activate_node_a=st.tuples(st.booleans(), st.booleans()),
)
def test_switchover_ends_with_chosen_node_active_or_with_refusal(
    first: tuple[BrokerState, BrokerState],
    second: tuple[BrokerState, BrokerState],
    outcomes: list[str],
    activate_node_a: tuple[bool, bool],
) -> None:
    pairs = SimulatedPairs(dict(zip(HOSTS, (*first, *second), strict=True)), dict.fromkeys(HOSTS, 500.0))
    to = {
        f"x-mq0{pair_number}": f"x-mq0{pair_number}-{'a' if activates_a else 'b'}"
        for pair_number, activates_a in enumerate(activate_node_a, 1)
    }
    while (end_result := end_of_run(pairs, outcomes, to)) == "killed":
        pass
    if end_result == "done":
        assert all(pairs.states[host] == "active" for host in to.values())
