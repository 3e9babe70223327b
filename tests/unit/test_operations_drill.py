"""Whom a drill may strike, in which order, and what comes next."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.errors import InputError
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from activemq_fleet.operations.drill_steps import (
    DrillStep,
    choose_pair_for_each_fault,
    is_drill_allowed,
    next_drill_step,
    raise_for_groups_that_forbid_drills,
)
from activemq_fleet.topology import Fleet
from tests.support.facts_of_brokers import facts_of_broker
from tests.unit.fleets import fleet


def fleet_of(*names: str, ha: str = "shared-file", nodes: str = "ab") -> Fleet:
    return fleet(*names, ha=ha, nodes=nodes, release="5.5.1" if ha == "pure" else "5.18.3")


def schedule(found: Fleet, faults: int, seed: int, what: str = "kill") -> tuple[str, ...]:
    return choose_pair_for_each_fault(found, list(found.pairs_by_name.values()), faults, seed, what)


NAMES = ("o-mq01", "o-mq02", "b-mq01")
FLEET = fleet_of(*NAMES)


def test_every_pair_has_its_turn_before_one_has_its_second() -> None:
    order = schedule(FLEET, 20, 1)

    assert len(order) == 20
    assert all(set(order[at : at + 3]) == set(NAMES) for at in range(0, 18, 3))


def test_no_pair_gets_two_faults_running_where_there_is_another() -> None:
    for seed in range(50):
        assert all(one != other for one, other in pairwise(schedule(FLEET, 20, seed)))


def test_a_seed_gives_the_same_order_and_another_one_another() -> None:
    assert schedule(FLEET, 20, 1) == schedule(FLEET, 20, 1)
    assert len({schedule(FLEET, 20, seed) for seed in range(10)}) > 5


def test_a_single_pair_gets_every_fault() -> None:
    assert schedule(fleet_of("o-mq01"), 3, 1) == ("o-mq01",) * 3


def test_a_broker_on_its_own_is_left_out_and_refused_when_there_is_nobody_else() -> None:
    alone = fleet_of("o-mq09", nodes="a")

    assert "o-mq09" not in choose_pair_for_each_fault(
        FLEET, [*FLEET.pairs_by_name.values(), *alone.pairs_by_name.values()], 20, 1
    )
    with pytest.raises(InputError, match="o-mq09 has no second node that could take over"):
        schedule(alone, 1, 1)


def test_a_pure_pair_gets_one_fault_and_one_of_its_group_none() -> None:
    pure = fleet_of("o-mq01", "o-mq02", "o-mq03", ha="pure")

    assert max(Counter(schedule(pure, 2, 1)).values()) == 1
    with pytest.raises(InputError, match=r"--kills 3: the selected pairs allow at most 2 faults\. The drill"):
        schedule(pure, 3, 1)


def test_pure_pairs_that_are_resynced_get_fault_after_fault() -> None:
    pairs = list(fleet_of("o-mq01", "o-mq02", ha="pure").pairs_by_name.values())
    order = choose_pair_for_each_fault(fleet_of("o-mq01", "o-mq02", ha="pure"), pairs, 6, 1, resync=True)

    assert Counter(order) == {"o-mq01": 3, "o-mq02": 3}


def test_a_pure_pair_is_never_frozen_or_stopped() -> None:
    with pytest.raises(InputError, match="is pure"):
        schedule(fleet_of("o-mq01", "o-mq02", ha="pure"), 1, 1, "stop")


def test_the_only_pure_pair_of_a_group_is_refused() -> None:
    with pytest.raises(InputError, match="slave of a pure pair opens no port for clients"):
        schedule(fleet_of("o-mq01", ha="pure"), 1, 1)


@pytest.mark.parametrize("value", [True, "true", "True", "yes", "1"])
def test_a_group_is_drilled_where_the_variable_says_so(value: object) -> None:
    assert is_drill_allowed(value)
    raise_for_groups_that_forbid_drills({"orders": value})


@pytest.mark.parametrize("value", [None, False, "false", "no", "", 0, "production"])
def test_every_other_group_is_refused_by_name_with_the_way_out(value: object) -> None:
    with pytest.raises(InputError, match=r"the drill is not allowed for group orders.*-e activemq_drill_allowed=true"):
        raise_for_groups_that_forbid_drills({"orders": value, "test": True})


def seen(*states: str, pair: str = "o1") -> dict[str, dict[str, str]]:
    return {pair: {f"{pair}-{node}": state for node, state in zip("ab", states, strict=True)}}


def next_of(
    states: dict[str, dict[str, str]], due: str | None = "o1", faulted: tuple[str, ...] = (), **more: float
) -> DrillStep:
    return next_drill_step(states, due, faulted, **more)


@pytest.mark.parametrize(("states", "host"), [(("active", "standby"), "o1-a"), (("standby", "active"), "o1-b")])
def test_whoever_is_active_now_gets_the_fault_whatever_its_preferred_role(states: tuple[str, str], host: str) -> None:
    step = next_of(seen(*states))

    assert (step.act, step.hosts) == ("inject", (host,))
    assert step.peer != host


def test_no_fault_is_injected_while_another_pair_is_not_whole() -> None:
    step = next_of(seen("active", "standby") | seen("active", "starting", pair="o2"))

    assert step.act == "wait"
    assert "o2-b is starting" in step.say


def test_a_node_that_had_a_fault_is_brought_back_first() -> None:
    nodes = seen("active", "standby") | seen("active", "stopped", pair="o2")

    assert next_of(nodes, faulted=("o2-b",)).act == "start"
    assert next_of(nodes, faulted=("o2-b",)).hosts == ("o2-b",)


def test_a_frozen_one_goes_on_first() -> None:
    assert next_of(seen("hung", "standby"), faulted=("o1-a",)).act == "resume"


def test_a_node_that_somebody_else_stopped_is_left_alone_and_ends_the_drill() -> None:
    nodes = seen("active", "stopped")

    assert next_of(nodes, waited=10, settle=120).act == "wait"
    with pytest.raises(InputError, match="pair o1 is not healthy: host o1-a is active, host o1-b is stopped"):
        next_of(nodes, waited=120, settle=120)


def test_two_active_nodes_never_get_a_fault() -> None:
    assert next_of(seen("active", "active")).act == "wait"


def test_it_is_done_when_no_fault_is_left_and_every_pair_is_whole() -> None:
    assert next_of(seen("active", "standby"), due=None).act == "done"
    assert next_of(seen("active", "starting"), due=None).act == "wait"


@pytest.mark.parametrize("generation", [1, 2])
def test_drill_stops_when_two_nodes_can_write_to_one_store(generation: int) -> None:
    access = {"guard": 7, "generation_in_force": 2}
    states = {"o1-a": ("active", 2), "o1-b": ("standby", generation)}
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers={host: facts_of_broker(host, pair="o1") for host in states}),
        evidence={host: {"state": state, "generation": number, **access} for host, (state, number) in states.items()},
        options={"due": "o1", "faulted": (), "settle": 120},
    )
    if generation == 2:
        with pytest.raises(
            InputError,
            match=r"pair o1 has two masters \(the brokers o1-a and o1-b can both write to the "
            r"current files of their shared store\)",
        ):
            decide_operation("drill", request)
    else:
        assert decide_operation("drill", request)["step"]["act"] == "inject"
