"""One node of a pair at a time: order, invariants, and that every run ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.node.judge import BrokerState
from activemq_fleet.operations import RefusalError
from activemq_fleet.operations.health import ObservedNode
from activemq_fleet.operations.rolling import (
    RollingProgress,
    RollingStep,
    next_restart_step,
    next_switchover_step,
    was_started_since,
)

SINCE = 1_000_000.0


def node(name: str, state: BrokerState, **more: Any) -> ObservedNode:
    pair, _, letter = name.rpartition("-")
    values: dict[str, Any] = {
        "pid": 7,
        "age": 500.0,
        "store_marker": (pair,),
        "store": "/srv/x",
        "how": f"it is {state}",
    }
    role = "master" if letter == "a" else "slave"
    return ObservedNode(host=name, pair=pair, ha="shared-file", role=role, state=state, **values | more)


A, B = node("x-mq01-a", "active"), node("x-mq01-b", "standby")
C, D = node("x-mq02-a", "standby"), node("x-mq02-b", "active")


def run(*nodes: ObservedNode, **more: Any) -> RollingProgress:
    values: dict[str, Any] = {"act": "restart", "chosen": {each.host for each in nodes}, "done": set()}
    return RollingProgress(**values | more)


def order(*nodes: ObservedNode, chosen: set[str] | None = None) -> list[str]:
    """The hosts in the order in which they are restarted; whoever was active is the standby afterwards."""
    now = {each.host: each for each in nodes}
    done: set[str] = set()
    touched: list[str] = []
    while True:
        step = next_restart_step(list(now.values()), run(*nodes, done=done, chosen=chosen or set(now)))
        if step.act == "done":
            return touched
        (host,) = step.hosts
        touched.append(host)
        done.add(host)
        if now[host].state == "active":
            now[host] = replace(now[host], state="standby")
            now[step.peer or ""] = replace(now[step.peer or ""], state="active")


def test_standby_goes_first_whatever_its_preferred_role_pair_after_pair() -> None:
    assert order(D, C, B, A) == [B.host, A.host, C.host, D.host]


def test_of_one_chosen_host_the_peer_is_left_alone() -> None:
    assert order(A, B, chosen={A.host}) == [A.host]


def test_the_line_says_who_is_restarted_and_who_stands_in() -> None:
    step = next_restart_step([A, B], run(A, B, done={B.host}))
    assert step.say == "the playbook restarts the active broker x-mq01-a, and x-mq01-b takes over (it is standby)"
    assert (step.hosts, step.peer, step.was) == (("x-mq01-a",), "x-mq01-b", "active")


def test_nothing_is_touched_while_any_pair_of_the_target_is_ill() -> None:
    with pytest.raises(RefusalError, match=r"^nothing was changed: x-mq02-a: the broker is stopped"):
        next_restart_step([A, B, replace(C, state="stopped", pid=None), D], run(A, B, C, D))


def test_after_the_first_restart_a_refusal_says_that_nothing_further_is_touched() -> None:
    with pytest.raises(RefusalError, match=r"^no further host is changed: x-mq01-b: the broker is stopped"):
        next_restart_step([A, replace(B, state="stopped", pid=None)], run(A, B, acted={B.host}, done={B.host}))


def test_what_may_pass_is_waited_for_and_then_refused() -> None:
    nodes = [A, replace(B, state="starting")]
    waited = 0.0
    while True:
        try:
            step = next_restart_step(nodes, run(A, B, waited=waited, settle=60.0))
        except RefusalError as error:
            assert "x-mq01-b: the broker is starting, so it is neither active nor standby" in str(error)
            assert f"The playbook waited {waited:.0f} s for this to change" in str(error)
            break
        assert step.act == "wait"
        assert 1 <= step.seconds <= 10
        waited += step.seconds
    assert 60 <= waited < 71


def test_what_does_not_pass_is_not_waited_for() -> None:
    with pytest.raises(RefusalError, match=r"x-mq01-a: .* \(conf/x was changed by hand\)"):
        next_restart_step([replace(A, drift=("conf/x was changed by hand",)), replace(B, state="starting")], run(A, B))


def test_a_pure_pair_is_left_to_the_resync_that_follows() -> None:
    pure = [replace(A, ha="pure"), replace(B, ha="pure")]
    assert next_restart_step(pure, run(*pure)).act == "done"
    assert next_restart_step([*pure, C, D], run(A, B, C, D)).hosts == (C.host,)


def test_a_pure_pair_has_no_switchover() -> None:
    pure = [replace(A, ha="pure"), replace(B, ha="pure")]
    with pytest.raises(
        RefusalError, match=r"x-mq01 is pure .*, so this playbook does not change it\. Run the playbook resync"
    ):
        next_switchover_step(pure, {"x-mq01": B.host}, run(*pure))


def test_a_broker_on_its_own_is_restarted_and_said_to_have_no_peer() -> None:
    alone = replace(A, ha="none", store_marker=None, store=None)
    step = next_restart_step([alone], run(alone))
    assert (
        step.say
        == "the playbook restarts x-mq01-a. It is a single broker, so its clients wait until it is active again"
    )
    other = replace(alone, host="x-mq01-b")
    assert next_restart_step([alone, other], run(alone, other, done={alone.host})).hosts == (other.host,)


def test_an_act_that_does_not_show_ends_the_run() -> None:
    with pytest.raises(RefusalError, match="x-mq01-b: the restart of this broker had no effect"):
        next_restart_step([A, B], run(A, B, acted={B.host}))


def test_a_process_counts_as_new_by_its_age_whatever_the_hosts_clock_says() -> None:
    looked_at = SINCE + 100
    assert was_started_since(replace(A, age=99.0, clock=0.0), SINCE, looked_at)
    assert not was_started_since(replace(A, age=101.0, clock=SINCE * 2), SINCE, looked_at)
    assert not was_started_since(replace(A, age=None), SINCE, looked_at)


def switch(*nodes: ObservedNode, to: dict[str, str], **more: Any) -> RollingStep:
    return next_switchover_step(nodes, to, run(*nodes, act="switch", **more))


def test_a_switchover_touches_the_active_node_only() -> None:
    step = switch(A, B, to={A.pair: B.host})
    assert (step.hosts, step.peer) == ((A.host,), B.host)
    assert step.say == "x-mq01-b takes over from x-mq01-a, which stops and starts again as the standby"


def test_where_the_node_is_active_already_nothing_happens() -> None:
    step = switch(A, B, to={A.pair: A.host})
    assert (step.act, step.say) == ("done", "the switchover is done; active hosts: x-mq01-a")


def test_a_switchover_needs_a_healthy_pair_too() -> None:
    with pytest.raises(RefusalError, match="x-mq01-b: the broker is stopped"):
        switch(A, replace(B, state="stopped", pid=None), to={A.pair: B.host})


def test_of_a_group_only_the_pairs_that_have_another_active_node_change() -> None:
    to = {A.pair: A.host, C.pair: C.host}
    assert switch(A, B, C, D, to=to).hosts == (D.host,)


def test_a_lock_that_was_taken_back_ends_the_switchover() -> None:
    with pytest.raises(
        RefusalError, match="x-mq01-a: this broker acquired the lock again before the broker of x-mq01-b did"
    ):
        switch(A, B, to={A.pair: B.host}, acted={A.host})


@dataclass
class World:
    """Two pairs whose nodes do what the draw says; it breaks when a node is touched that must not be."""

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

    def touch(self, host: str, comes_back: BrokerState) -> None:
        before, peer = self.states[host], self.peer(host)
        assert before in ("active", "standby")
        assert self.states[peer] == ("standby" if before == "active" else "active"), "no one stands in"
        self.states[host], self.ages[host] = comes_back, 0.0
        if before == "active" and comes_back != "active":
            self.states[peer] = "active"


STATES = st.sampled_from(["active", "standby", "starting", "stopped", "hung"])
OUTCOMES = st.sampled_from(
    ["standby", "standby", "standby", "active", "starting", "stopped", "hung", "killed", "other"]
)
HOSTS = ("x-mq01-a", "x-mq01-b", "x-mq02-a", "x-mq02-b")
HEALTHY = st.sampled_from([("active", "standby"), ("standby", "active")])
PAIRS = st.one_of(HEALTHY, HEALTHY, st.tuples(STATES, STATES))


def roll(world: World, outcomes: list[str], to: dict[str, str] | None) -> str:
    """One run, from its beginning until it ends in some way; at most 60 rounds, which must be enough."""
    acted: set[str] = set()
    waited = 0.0
    for _ in range(60):
        nodes = world.nodes()
        done = acted | {each.host for each in nodes if (each.age or SINCE) < 100}
        state = run(*nodes, act="switch" if to else "restart", done=done, acted=acted, waited=waited)
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
        comes_back: Any = outcome if outcome not in ("killed", "other") else "standby"
        serves = world.states[host] == "active"
        world.touch(host, comes_back if serves or comes_back != "active" else "standby")
        if outcome == "other":  # somebody else's fault, between two looks
            other = next(name for name in HOSTS if name[:-1] != host[:-1])
            world.states[other] = "stopped"
        if outcome == "killed":
            return "killed"
        acted.add(host)
    raise AssertionError("the run does not end")


@given(first=PAIRS, second=PAIRS, outcomes=st.lists(OUTCOMES, max_size=6))
def test_whatever_happens_no_node_is_touched_that_nobody_stands_in_for(
    first: tuple[BrokerState, BrokerState], second: tuple[BrokerState, BrokerState], outcomes: list[str]
) -> None:
    world = World(dict(zip(HOSTS, (*first, *second), strict=True)), dict.fromkeys(HOSTS, 500.0))
    while (end := roll(world, outcomes, None)) == "killed":
        pass
    if end == "done":
        assert all(age == 0 for age in world.ages.values())
        assert sorted(world.states.values()) == ["active", "active", "standby", "standby"]


@given(
    first=PAIRS, second=PAIRS, outcomes=st.lists(OUTCOMES, max_size=6), wanted=st.tuples(st.booleans(), st.booleans())
)
def test_switchover_ends_with_wanted_node_active_or_with_refusal(
    first: tuple[BrokerState, BrokerState],
    second: tuple[BrokerState, BrokerState],
    outcomes: list[str],
    wanted: tuple[bool, bool],
) -> None:
    world = World(dict(zip(HOSTS, (*first, *second), strict=True)), dict.fromkeys(HOSTS, 500.0))
    to = {f"x-mq0{number}": f"x-mq0{number}-{'a' if a else 'b'}" for number, a in enumerate(wanted, 1)}
    while (end := roll(world, outcomes, to)) == "killed":
        pass
    if end == "done":
        assert all(world.states[host] == "active" for host in to.values())
