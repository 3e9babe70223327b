"""Drills: the pairs that may get a fault, their order, and the next step."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.errors import InputError
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from activemq_fleet.operations.drill_steps import (
    DrillStep,
    choose_pair_names_for_faults,
    is_drill_allowed,
    next_drill_step,
    raise_for_groups_that_forbid_drills,
)
from activemq_fleet.topology import Fleet
from tests.support.facts_of_brokers import facts_of_broker
from tests.unit.fleets import fleet


def fleet_with_pairs(*names: str, ha: str = "shared-file", nodes: str = "ab") -> Fleet:
    return fleet(*names, ha=ha, nodes=nodes, release="5.5.1" if ha == "pure" else "5.18.3")


def fault_schedule(planned_fleet: Fleet, faults: int, seed: int, fault: str = "kill") -> tuple[str, ...]:
    return choose_pair_names_for_faults(planned_fleet, list(planned_fleet.pairs_by_name.values()), faults, seed, fault)


NAMES = ("o-mq01", "o-mq02", "b-mq01")
FLEET = fleet_with_pairs(*NAMES)


def test_each_pair_of_drill_gets_fault_before_any_pair_gets_second() -> None:
    order = fault_schedule(FLEET, 20, 1)

    assert len(order) == 20
    assert all(set(order[start : start + 3]) == set(NAMES) for start in range(0, 18, 3))


def test_no_pair_gets_two_consecutive_faults_if_fleet_has_more_pairs() -> None:
    for seed in range(50):
        assert all(pair != next_pair for pair, next_pair in pairwise(fault_schedule(FLEET, 20, seed)))


def test_seed_determines_order_of_drill_faults() -> None:
    assert fault_schedule(FLEET, 20, 1) == fault_schedule(FLEET, 20, 1)
    assert len({fault_schedule(FLEET, 20, seed) for seed in range(10)}) > 5


def test_single_pair_gets_every_fault_of_drill() -> None:
    assert fault_schedule(fleet_with_pairs("o-mq01"), 3, 1) == ("o-mq01",) * 3


def test_single_broker_gets_no_fault_and_drill_refuses_fleet_without_pair() -> None:
    single_broker_fleet = fleet_with_pairs("o-mq09", nodes="a")

    assert "o-mq09" not in choose_pair_names_for_faults(
        FLEET, [*FLEET.pairs_by_name.values(), *single_broker_fleet.pairs_by_name.values()], 20, 1
    )
    with pytest.raises(InputError, match="o-mq09 has no second node that could take over"):
        fault_schedule(single_broker_fleet, 1, 1)


def test_pure_pair_gets_at_most_one_drill_fault_and_last_pair_of_group_none() -> None:
    pure = fleet_with_pairs("o-mq01", "o-mq02", "o-mq03", ha="pure")

    assert max(Counter(fault_schedule(pure, 2, 1)).values()) == 1
    with pytest.raises(InputError, match=r"--kills 3: the selected pairs allow at most 2 faults\. The drill"):
        fault_schedule(pure, 3, 1)


def test_pure_pairs_with_resync_get_repeated_faults() -> None:
    pairs = list(fleet_with_pairs("o-mq01", "o-mq02", ha="pure").pairs_by_name.values())
    order = choose_pair_names_for_faults(fleet_with_pairs("o-mq01", "o-mq02", ha="pure"), pairs, 6, 1, resync=True)

    assert Counter(order) == {"o-mq01": 3, "o-mq02": 3}


def test_drill_refuses_to_stop_broker_of_pure_pair() -> None:
    with pytest.raises(InputError, match="is pure"):
        fault_schedule(fleet_with_pairs("o-mq01", "o-mq02", ha="pure"), 1, 1, "stop")


def test_drill_refuses_only_pure_pair_of_group() -> None:
    with pytest.raises(InputError, match="slave of a pure pair opens no port for clients"):
        fault_schedule(fleet_with_pairs("o-mq01", ha="pure"), 1, 1)


@pytest.mark.parametrize("value", [True, "true", "True", "yes", "1"])
def test_drill_is_allowed_for_group_with_true_variable(value: object) -> None:
    assert is_drill_allowed(value)
    raise_for_groups_that_forbid_drills({"orders": value})


@pytest.mark.parametrize("value", [None, False, "false", "no", "", 0, "production"])
def test_drill_refuses_group_without_true_variable_and_names_variable(value: object) -> None:
    with pytest.raises(InputError, match=r"the drill is not allowed for group orders.*-e activemq_drill_allowed=true"):
        raise_for_groups_that_forbid_drills({"orders": value, "test": True})


def states_of_pair(*states: str, pair: str = "o1") -> dict[str, dict[str, str]]:
    return {pair: {f"{pair}-{node}": state for node, state in zip("ab", states, strict=True)}}


def next_fault_step(
    states: dict[str, dict[str, str]], due: str | None = "o1", faulted: tuple[str, ...] = (), **more: float
) -> DrillStep:
    return next_drill_step(states, due, faulted, **more)


@pytest.mark.parametrize(("states", "host"), [(("active", "standby"), "o1-a"), (("standby", "active"), "o1-b")])
def test_active_node_gets_fault_regardless_of_preferred_role(states: tuple[str, str], host: str) -> None:
    step = next_fault_step(states_of_pair(*states))

    assert (step.act, step.hosts) == ("inject", (host,))
    assert step.peer != host


def test_drill_waits_while_another_pair_has_no_standby() -> None:
    step = next_fault_step(states_of_pair("active", "standby") | states_of_pair("active", "starting", pair="o2"))

    assert step.act == "wait"
    assert "o2-b is starting" in step.say


def test_node_that_drill_stopped_is_started_before_next_fault() -> None:
    nodes = states_of_pair("active", "standby") | states_of_pair("active", "stopped", pair="o2")

    assert next_fault_step(nodes, faulted=("o2-b",)).act == "start"
    assert next_fault_step(nodes, faulted=("o2-b",)).hosts == ("o2-b",)


def test_node_that_drill_froze_is_resumed_before_next_fault() -> None:
    assert next_fault_step(states_of_pair("hung", "standby"), faulted=("o1-a",)).act == "resume"


def test_node_stopped_by_other_cause_ends_drill_after_settle_time() -> None:
    nodes = states_of_pair("active", "stopped")

    assert next_fault_step(nodes, waited=10, settle=120).act == "wait"
    with pytest.raises(InputError, match="pair o1 is not healthy: host o1-a is active, host o1-b is stopped"):
        next_fault_step(nodes, waited=120, settle=120)


def test_pair_with_two_active_nodes_gets_no_drill_fault() -> None:
    assert next_fault_step(states_of_pair("active", "active")).act == "wait"


def test_drill_is_done_without_due_fault_and_with_complete_pairs() -> None:
    assert next_fault_step(states_of_pair("active", "standby"), due=None).act == "done"
    assert next_fault_step(states_of_pair("active", "starting"), due=None).act == "wait"


@pytest.mark.parametrize(
    ("generation", "guard", "marker", "stops"),
    [
        (1, 7, "run1", False),
        (2, 7, "run1", True),
        (2, None, "run1", True),
        (2, 7, "run2", False),
    ],
)
def test_drill_stops_when_two_nodes_can_write_to_one_store(
    generation: int, guard: int | None, marker: str, *, stops: bool
) -> None:
    states = {"o1-a": ("active", 2, 7), "o1-b": ("standby", generation, guard)}
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers={host: facts_of_broker(host, pair="o1") for host in states}),
        evidence={
            host: {"state": state, "generation": number, "guard": guard, "generation_in_force": 2}
            | {"store_marker": ["o1", "run1" if host == "o1-a" else marker]}
            for host, (state, number, guard) in states.items()
        },
        options={"due": "o1", "faulted": (), "settle": 120},
    )
    if stops:
        with pytest.raises(
            InputError,
            match=r"pair o1 has two masters \(the brokers o1-a and o1-b can both write to the "
            r"current files of their shared store\)",
        ):
            decide_operation("drill", request)
    else:
        assert decide_operation("drill", request)["step"]["act"] == "inject"
