"""The controller's part of the playbook ``drill``: what it refuses, whose turn it is, and what it writes down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab import drill_hosts
from activemq_fleet.topology import Fleet
from tests.unit.fleets import fleet
from tests.unit.test_lab_drill import A, B

PAIR = "orders-mq01"


def begin(found: Fleet, directory: Path, allowed: object = True, **options: Any) -> dict[str, Any]:
    return drill_hosts.begin(found, list(found.pairs), {"orders": allowed}, {"parent": 1, **options}, directory)


def fleet_of(**variables: Any) -> Fleet:
    return fleet(PAIR, network_username="network", network_password="s3cret-n", **variables)


@pytest.fixture(autouse=True)
def no_load(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No process is started; what would have been written for it is kept."""
    written: list[str] = []
    monkeypatch.setattr(drill_hosts, "_launch", lambda _directory, seats, *_: written.append(seats))
    return written


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """These brokers are names alone; test_lab_drill_reach looks at real ports."""
    monkeypatch.setattr(drill_hosts, "refuse_unreachable", lambda _specs: None)


def test_a_group_that_nobody_has_opened_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="group orders may not be drilled"):
        begin(fleet_of(), tmp_path, allowed=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "options", "said"),
    [
        ({"service": "none"}, {}, "nobody could start it again"),
        ({"ha": "pure", "release": "5.5.1"}, {}, "are drilled in the lab only"),
        ({}, {"what": "burn"}, "must be kill, pause or stop, not 'burn'"),
        ({}, {"kills": "many"}, "must be numbers"),
        ({}, {"kills": 5000}, "must be 1 to 1000"),
        ({}, {"rate": "0.1"}, "1 to 2000 events a second"),
    ],
)
def test_what_cannot_be_drilled_is_refused_in_one_line(
    variables: dict[str, Any], options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        begin(fleet_of(**variables), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_pairs_get_a_seat_each_where_the_brokers_listen(tmp_path: Path, no_load: list[str]) -> None:
    found = begin(fleet_of(), tmp_path, kills="3", seed="7")

    (seat,) = json.loads(no_load[0])
    assert found["order"] == [PAIR] * 3
    assert found["where"] == "hosts"
    assert seat["publisher"]["mb.urls"] == f"{A}:1883,{B}:1883"


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    begin(fleet_of(), tmp_path, kills=2)
    return tmp_path


LOOKS = {A: {"state": "active"}, B: {"state": "standby"}}
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


def test_turns_go_on_until_enough_faults_count(begun: Path) -> None:
    assert drill_hosts.status(begun, LOOKS) == {"turn": PAIR, "number": 1, "struck": [], "what": "kill"}
    drill_hosts.note(begun, FAULT)
    assert drill_hosts.status(begun, LOOKS)["number"] == 2
    drill_hosts.note(begun, {**FAULT, "number": "2", "host": B})

    assert drill_hosts.status(begun, LOOKS)["turn"] is None
    assert drill_hosts.status(begun, LOOKS)["struck"] == [A, B]


def test_a_fault_under_too_little_load_is_void_and_struck_three_times_at_most(begun: Path) -> None:
    weak = {**FAULT, "rate_handled": "12"}

    assert drill_hosts.note(begun, weak) == {"void": "12 events a second before the fault, and 50 are needed"}
    assert drill_hosts.status(begun, LOOKS)["number"] == 1
    drill_hosts.note(begun, weak)
    drill_hosts.note(begun, weak)
    assert drill_hosts.status(begun, LOOKS)["number"] == 2


def test_the_fleet_is_remembered_as_it_was_found_first(begun: Path) -> None:
    drill_hosts.status(begun, LOOKS)
    drill_hosts.status(begun, {A: {"state": "stopped"}, B: {"state": "active"}})

    assert json.loads((begun / "drill.json").read_text())["first"] == {A: "active", B: "standby"}


def test_a_load_that_has_ended_ends_the_drill(begun: Path) -> None:
    (begun / "failed").write_text("the publisher of orders-mq01 ended by itself\n")

    with pytest.raises(LabError, match="the load has ended: the publisher of orders-mq01 ended by itself"):
        drill_hosts.status(begun, LOOKS)


def test_without_journals_the_end_is_never_clean(begun: Path) -> None:
    drill_hosts.status(begun, LOOKS)
    for number in ("1", "2"):
        drill_hosts.note(begun, {**FAULT, "number": number})
    (begun / "done").touch()

    result = drill_hosts.end(begun, fleet_of(), 5.0)
    drill_hosts.write(result, begun / "report" / "drill.html")

    assert result.verdict == "incomplete"
    assert [fault.takeover for fault in result.faults] == [3.5, 3.5]
    assert "incomplete" in (begun / "report" / "drill.html").read_text()
