"""What site starts and restarts, and which shared stores it may mark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.host.judge import BrokerState
from activemq_fleet.operations import Look, StoreLook, plan_roll, plan_stores


def look(name: str, state: BrokerState, **more: Any) -> Look:
    pair, _, node = name.rpartition("-")
    values = {"ha": "shared-file", "role": "master" if node == "a" else "slave", "store_used": True} | more
    return Look(host=name, pair=pair, state=state, **values)


def acts(*looks: Look) -> list[str]:
    return [f"{step.act} {step.host}" for step in plan_roll(looks).steps]


def test_a_fleet_that_runs_and_owes_nothing_is_left_alone() -> None:
    plan = plan_roll([look("x-mq01-a", "active"), look("x-mq01-b", "standby")])
    assert (plan.steps, plan.notes) == ((), ())


def test_a_new_pair_is_started_with_its_preferred_master_first() -> None:
    assert acts(look("x-mq01-b", "stopped"), look("x-mq01-a", "stopped")) == ["start x-mq01-a", "start x-mq01-b"]


@pytest.mark.parametrize(("active", "standby"), [("a", "b"), ("b", "a")])
def test_the_standby_is_restarted_first_whatever_its_preferred_role(active: str, standby: str) -> None:
    looks = (
        look(f"x-mq01-{active}", "active", restart_required=True),
        look(f"x-mq01-{standby}", "standby", restart_required=True),
    )
    assert acts(*looks) == [f"restart x-mq01-{standby}", f"restart x-mq01-{active}"]


def test_a_stopped_node_is_started_before_the_active_one_is_restarted() -> None:
    looks = look("x-mq01-a", "active", restart_required=True), look("x-mq01-b", "stopped")
    assert acts(*looks) == ["start x-mq01-b", "restart x-mq01-a"]


def test_a_node_that_hangs_is_restarted_only_when_that_is_owed() -> None:
    assert acts(look("x-mq01-a", "hung", restart_required=True)) == ["restart x-mq01-a"]
    plan = plan_roll([look("x-mq01-a", "hung", how="it says nothing")])
    assert plan.steps == ()
    assert plan.notes == ("x-mq01-a is hung (it says nothing) and is left alone: nothing of its configuration changed",)


def test_pairs_come_one_after_the_other() -> None:
    looks = [look(f"{pair}-{node}", "stopped") for node in "ab" for pair in ("x-mq02", "x-mq01")]
    assert acts(*looks) == ["start x-mq01-a", "start x-mq01-b", "start x-mq02-a", "start x-mq02-b"]


def pure(name: str, state: BrokerState, **more: Any) -> Look:
    return look(name, state, ha="pure", **{"store_used": False, **more})


def test_a_new_pure_pair_is_started_with_the_master_s_replication_port_between() -> None:
    master, slave = plan_roll([pure("x-mq01-b", "stopped"), pure("x-mq01-a", "stopped")]).steps
    assert (master.host, master.port_only, master.accept) == ("x-mq01-a", True, ("active", "starting"))
    assert (slave.host, slave.port_only, slave.accept) == ("x-mq01-b", False, ("active", "standby"))


def test_a_pure_broker_is_never_restarted() -> None:
    plan = plan_roll([pure("x-mq01-a", "active", restart_required=True), pure("x-mq01-b", "standby")])
    assert plan.steps == ()
    assert "the playbook resync does it" in plan.notes[0]


@pytest.mark.parametrize("other", [pure("x-mq01-b", "active"), pure("x-mq01-b", "stopped", store_used=True)])
def test_a_pure_node_with_a_store_somewhere_is_never_started(other: Look) -> None:
    plan = plan_roll([pure("x-mq01-a", "stopped"), other])
    assert plan.steps == ()
    assert "x-mq01-a is stopped: a pure pair comes back by the playbook resync only" in plan.notes


STATES = st.sampled_from(["active", "standby", "starting", "stopped", "hung"])
NODES = st.tuples(STATES, st.booleans())


@given(st.dictionaries(st.integers(1, 99), st.tuples(NODES, NODES)))
def test_no_plan_touches_a_serving_node_before_its_peer(pairs: dict[int, tuple[Any, Any]]) -> None:
    looks = {
        name: look(name, state, restart_required=owed)
        for number, nodes in pairs.items()
        for node, (state, owed) in zip("ab", nodes, strict=True)
        for name in [f"x-mq{number:02d}-{node}"]
    }
    order = [step.host for step in plan_roll(looks.values()).steps]
    assert len(order) == len(set(order))
    for position, host in enumerate(order):
        if looks[host].state == "active":
            peer = host[:-1] + ("b" if host.endswith("a") else "a")
            assert peer not in order[position:] or looks[peer].state == "active"


def seen(host: str, **more: Any) -> StoreLook:
    values = {"exists": True, "mounted": True, "used": False} | more
    return StoreLook(host=host, pair="x-mq01", directory="/srv/x", **values)


def stores(*looks: StoreLook) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    plan = plan_stores(looks, {"x-mq01": 2})
    return plan.claims, plan.problems


def test_a_new_store_is_claimed_by_one_node_and_found_by_the_other() -> None:
    assert stores(seen("b"), seen("a")) == ({"x-mq01": ("a", "b")}, ())


def test_a_store_that_both_see_marked_is_fine() -> None:
    assert stores(seen("a", marked=("x-mq01",), used=True), seen("b", marked=("x-mq01", "w"), used=True)) == ({}, ())


@pytest.mark.parametrize(
    ("looks", "problem"),
    [
        ((seen("a", marked=("y-mq09",)), seen("b")), "a: /srv/x is the store of y-mq09, not of x-mq01"),
        (
            (seen("a", marked=("x-mq01",)), seen("b")),
            "b: /srv/x is not what a has there: mount the share",
        ),
        ((seen("a", used=True), seen("b")), "a: /srv/x holds messages and no marker"),
        ((seen("a"), seen("b", exists=False, mounted=False)), "b: /srv/x is not there and nothing is mounted above it"),
        ((seen("a"),), "a: the store of x-mq01 is new, and only a run with both nodes can tell"),
        ((seen("a", marked=()), seen("b", marked=())), "a: /srv/x is the store of nobody"),
    ],
)
def test_a_store_in_doubt_is_not_touched(looks: tuple[StoreLook, ...], problem: str) -> None:
    claims, problems = stores(*looks)
    assert claims == {}
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_one_node_of_a_marked_store_may_be_looked_at_alone() -> None:
    assert stores(seen("a", marked=("x-mq01",), used=True)) == ({}, ())
