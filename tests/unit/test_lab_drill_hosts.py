"""A drill under way, as the playbook runs it: what it refuses, where the next fault is due, what it writes down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab import drill_hosts, drill_run
from activemq_fleet.lab.drill_run import DrillPlan, DrillRun, NextDrillFault, fault_from_mapping
from activemq_fleet.lab.load_process import specs_to_json
from activemq_fleet.topology import Fleet
from tests.support.drilled_pair import A, B
from tests.unit.fleets import fleet

PAIR = "orders-mq01"


def begin(found: Fleet, directory: Path, allowed: object = True, **options: Any) -> dict[str, Any]:
    return drill_hosts.begin_drill_and_return_fault_sequence(
        found, list(found.pairs_by_name), {"orders": allowed}, options, directory
    )


def fleet_of(**variables: Any) -> Fleet:
    return fleet(PAIR, network_username="network", network_password="s3cret-n", **variables)


@pytest.fixture(autouse=True)
def no_load(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No process is started; what would have been written for it is kept."""
    written: list[str] = []
    monkeypatch.setattr(DrillRun, "_launch", lambda _run, specs, *_: written.append(specs_to_json(specs)))
    return written


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """These brokers are names alone; test_lab_drill_reach looks at real ports."""
    monkeypatch.setattr(drill_run, "require_nodes_reachable_by_load", lambda _specs: None)


def test_a_group_that_nobody_has_opened_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the drill is not allowed for group orders"):
        begin(fleet_of(), tmp_path, allowed=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "options", "said"),
    [
        ({"service": "none"}, {}, "the playbook drill cannot start the broker after a fault"),
        ({"ha": "pure", "release": "5.5.1"}, {}, "Test them in the lab"),
        ({}, {"what": "burn"}, "activemq_drill_what is 'burn': set it to one of kill, crash, pause, stop"),
        ({}, {"kills": "many"}, "activemq_drill_kills is 'many': set it to a whole number such as 5"),
        ({}, {"kills": 5000}, "activemq_drill_kills is 5000: set it to a number from 1 to 1000"),
        ({}, {"rate": "0.1"}, "1 to 2000 events per second"),
    ],
)
def test_what_cannot_be_drilled_is_refused_in_one_line(
    variables: dict[str, Any], options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        begin(fleet_of(**variables), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_pairs_get_a_load_generator_each_where_the_brokers_listen(tmp_path: Path, no_load: list[str]) -> None:
    found = begin(fleet_of(), tmp_path, kills="3", seed="7")

    (spec,) = json.loads(no_load[0])
    assert found["order"] == [PAIR] * 3
    assert found["where"] == "hosts"
    assert spec["publisher"]["mb.urls"] == f"{A}:1883,{B}:1883"


@pytest.fixture
def begun(tmp_path: Path) -> DrillRun:
    begin(fleet_of(), tmp_path, kills=2)
    return DrillRun(tmp_path)


STATES = {A: "active", B: "standby"}
FAULT = {
    "number": "1",
    "what": "kill",
    "pair": PAIR,
    "host": A,
    "at": "1795266000.5",
    "successor": B,
    "takeover": "3.5",
    "back": "9.5",
    "rate_accepted": "99.0",
    "rate_handled": "98.0",
}


def record(run: DrillRun, **fields: str) -> str | None:
    return run.record_fault(fault_from_mapping(FAULT | fields)).void


def test_faults_are_due_until_enough_of_them_count(begun: DrillRun) -> None:
    assert begun.next_drill_fault(STATES) == NextDrillFault(PAIR, 1, ())
    record(begun)
    assert begun.next_drill_fault(STATES).number == 2
    record(begun, number="2", host=B)

    assert begun.next_drill_fault(STATES) == NextDrillFault(None, 2, (A, B))


def test_a_fault_under_too_little_load_is_void_and_repeated_twice_at_most(begun: DrillRun) -> None:
    assert record(begun, rate_handled="12") == (
        "the test load was 12 events per second before the fault, but the drill requires 50"
    )
    assert begun.next_drill_fault(STATES).number == 1
    record(begun, rate_handled="12")
    record(begun, rate_handled="12")
    assert begun.next_drill_fault(STATES).number == 2


def test_a_void_fault_of_a_pair_whose_node_does_not_come_back_is_not_repeated(tmp_path: Path) -> None:
    plan = DrillPlan(order=(PAIR,), what="kill", rate=100.0, seed=1, target="", single_fault_pairs=(PAIR,))
    run = DrillRun.begin(plan, fleet_of(), tmp_path, 1)
    record(run, rate_handled="12")

    assert run.next_drill_fault(STATES).pair is None
    assert run.plan == plan


def test_a_fault_that_went_wrong_is_the_last(begun: DrillRun) -> None:
    record(begun)
    begun.record_problem_of_last_fault("orders-mq01 is not whole")

    assert begun.next_drill_fault(STATES).pair is None
    assert [fault.problem for fault in begun.injected_faults] == ["orders-mq01 is not whole"]


def test_the_fleet_is_remembered_as_it_was_found_first(begun: DrillRun) -> None:
    begun.next_drill_fault(STATES)
    begun.next_drill_fault({A: "stopped", B: "active"})

    assert json.loads((begun.directory / "drill.json").read_text())["first"] == {A: "active", B: "standby"}


def test_a_load_that_has_ended_ends_the_drill(begun: DrillRun) -> None:
    (begun.directory / "failed").write_text("the publisher of orders-mq01 stopped unexpectedly\n")

    with pytest.raises(
        LabError, match=r"stopped \(the publisher of orders-mq01 stopped unexpectedly\)\. Correct this error"
    ):
        begun.next_drill_fault(STATES)


def test_without_an_event_after_the_fault_the_load_has_not_gone_on(begun: DrillRun) -> None:
    (begun.directory / "status.json").write_text(json.dumps({PAIR: {"last": 99.0}}))

    begun.wait_until_event_handled_after(PAIR, 98.0, 0)
    with pytest.raises(LabError, match="the test load handled no event in the 0 s after the fault"):
        begun.wait_until_event_handled_after(PAIR, 99.0, 0)


def test_without_journals_the_end_is_never_clean(begun: DrillRun) -> None:
    begun.next_drill_fault(STATES)
    for number in ("1", "2"):
        record(begun, number=number)
    (begun.directory / "done").touch()

    result = begun.finish_and_judge(fleet_of(), skew=5.0)
    drill_hosts.write_drill_html_page(result, begun.directory / "report" / "drill.html")

    assert result.verdict == "incomplete"
    assert [fault.takeover for fault in result.faults] == [3.5, 3.5]
    assert "incomplete" in (begun.directory / "report" / "drill.html").read_text()
