"""Drill on hosts as the playbook runs it: its refusals, the pair of the next fault, and its records."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.activemq.fleet.plugins.action.drill import ActionModule

from activemq_fleet.drills.model import DrillResult
from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab import drill_run, playbook_drill
from activemq_fleet.lab.drill_run import DrillPlan, DrillRun, LoadEndedError, NextFaultNumberAndPair, fault_from_mapping
from activemq_fleet.lab.load_process import hold_load_lock, specs_to_json
from activemq_fleet.topology import Fleet
from tests.support.drilled_pair import A, B
from tests.support.played_sites import make_local_site
from tests.unit.drilled import ACCOUNT, result_of
from tests.unit.drilled import FAULT as DRILL_FAULT
from tests.unit.fleets import fleet, hosts

PAIR = "orders-mq01"


def begin_drill(planned_fleet: Fleet, directory: Path, allowed: object = True, **options: Any) -> dict[str, Any]:
    return playbook_drill.begin_drill_and_return_fault_sequence(
        planned_fleet, list(planned_fleet.pairs_by_name), {"orders": allowed}, options, directory
    )


def fleet_of(**variables: Any) -> Fleet:
    return fleet(PAIR, network_username="network", network_password="s3cret-n", **variables)


@pytest.fixture(autouse=True)
def load_specs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the specifications of the load in place of starting its process."""
    load_specs: list[str] = []
    monkeypatch.setattr(DrillRun, "_launch_load", lambda _run, specs, *_: load_specs.append(specs_to_json(specs)))
    return load_specs


@pytest.fixture(autouse=True)
def skip_reachability_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the check of the ports, because these brokers do not run; test_lab_drill_reach checks real ports."""
    monkeypatch.setattr(drill_run, "require_nodes_reachable_by_load", lambda _specs: None)


def test_drill_refuses_group_without_permission_before_it_writes_anything(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the drill is not allowed for group orders"):
        begin_drill(fleet_of(), tmp_path, allowed=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "options", "reason"),
    [
        ({"service": "none"}, {}, "the playbook drill cannot start the broker after a fault"),
        ({"ha": "pure", "release": "5.5.1"}, {}, "Test them in the lab"),
        ({}, {"what": "burn"}, "activemq_drill_what is 'burn': set it to one of kill, crash, pause, stop"),
        ({}, {"kills": "many"}, "activemq_drill_kills is 'many': set it to a whole number such as 5"),
        ({}, {"kills": 5000}, "activemq_drill_kills is 5000: set it to a number from 1 to 1000"),
        ({}, {"rate": "0.1"}, "1 to 2000 events per second"),
    ],
)
def test_drill_refuses_unsuitable_fleet_or_option(
    variables: dict[str, Any], options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=reason):
        begin_drill(fleet_of(**variables), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_drill_load_generator_of_pair_connects_to_addresses_of_brokers(tmp_path: Path, load_specs: list[str]) -> None:
    sequence = begin_drill(fleet_of(), tmp_path, kills="3", seed="7")

    (spec,) = json.loads(load_specs[0])
    assert sequence["order"] == [PAIR] * 3
    assert sequence["where"] == "hosts"
    assert spec["publisher"]["mb.urls"] == f"{A}:1883,{B}:1883"


@pytest.fixture
def drill_without_load(tmp_path: Path) -> DrillRun:
    begin_drill(fleet_of(), tmp_path, kills=2)
    return DrillRun(tmp_path)


@pytest.fixture
def drill(drill_without_load: DrillRun) -> Iterator[DrillRun]:
    with hold_load_lock(drill_without_load.directory):
        yield drill_without_load


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


def record_fault_and_reason(run: DrillRun, **fields: str) -> str | None:
    return run.record_fault_and_mark_if_void(fault_from_mapping(FAULT | fields)).void


def test_drill_faults_are_due_until_requested_number_is_recorded(drill: DrillRun) -> None:
    assert drill.next_fault_number_and_pair(STATES) == NextFaultNumberAndPair(PAIR, 1, ())
    record_fault_and_reason(drill)
    assert drill.next_fault_number_and_pair(STATES).number == 2
    record_fault_and_reason(drill, number="2", host=B)

    assert drill.next_fault_number_and_pair(STATES) == NextFaultNumberAndPair(None, 2, (A, B))


def test_fault_under_insufficient_load_is_void_and_repeated_at_most_twice(drill: DrillRun) -> None:
    assert record_fault_and_reason(drill, rate_handled="12") == (
        "the test load was 12 events per second before the fault, but the drill requires 50"
    )
    assert drill.next_fault_number_and_pair(STATES).number == 1
    record_fault_and_reason(drill, rate_handled="12")
    record_fault_and_reason(drill, rate_handled="12")
    assert drill.next_fault_number_and_pair(STATES).number == 2


def test_void_fault_of_pair_that_allows_single_fault_is_not_repeated(tmp_path: Path) -> None:
    plan = DrillPlan(order=(PAIR,), what="kill", rate=100.0, seed=1, target="", single_fault_pairs=(PAIR,))
    run = DrillRun.begin(plan, fleet_of(), tmp_path, 1)
    record_fault_and_reason(run, rate_handled="12")

    with hold_load_lock(tmp_path):
        assert run.next_fault_number_and_pair(STATES).pair is None
    assert run.plan == plan


def test_fault_with_problem_is_last_fault_of_drill(drill: DrillRun) -> None:
    record_fault_and_reason(drill)
    drill.record_problem_of_last_fault("orders-mq01 is not healthy")

    assert drill.next_fault_number_and_pair(STATES).pair is None
    assert [fault.problem for fault in drill.injected_faults] == ["orders-mq01 is not healthy"]


def test_drill_records_first_states_of_fleet(drill: DrillRun) -> None:
    drill.next_fault_number_and_pair(STATES)
    drill.next_fault_number_and_pair({A: "stopped", B: "active"})

    assert json.loads((drill.directory / "drill.json").read_text())["first"] == {A: "active", B: "standby"}


def test_drill_fails_if_load_has_stopped(drill: DrillRun) -> None:
    (drill.directory / "failed").write_text("the publisher of orders-mq01 stopped unexpectedly\n")

    with pytest.raises(
        LabError, match=r"stopped \(the publisher of orders-mq01 stopped unexpectedly\)\. Correct the cause"
    ):
        drill.next_fault_number_and_pair(STATES)


def write_load_status(run: DrillRun, at: float, **fields: object) -> None:
    (run.directory / "status.json").write_text(json.dumps({PAIR: {"at": at, **fields}}))


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Traceback:\nOSError: [Errno 28] No space left on device\n", r"OSError: \[Errno 28\] No space left on device"),
        ("", "its process ended without a message: the kernel log of this machine shows whether memory was exhausted"),
    ],
)
def test_drill_fails_if_process_of_load_ended_without_report(
    drill_without_load: DrillRun, output: str, reason: str
) -> None:
    run = drill_without_load
    (run.directory / "load.log").write_text(output)
    write_load_status(run, time.time(), steady=True, accepted=100.0, handled=100.0, last=98.0)

    message = rf"the test load of the drill stopped \({reason}.*\)\. Correct the cause"
    with pytest.raises(LoadEndedError, match=message):
        run.next_fault_number_and_pair(STATES)
    with pytest.raises(LoadEndedError, match=message):
        run.wait_for_steady_load_rates(PAIR, 0)
    with pytest.raises(LoadEndedError, match=message):
        run.wait_until_subscriber_handles_any_event(PAIR, 99.0, 0)


@pytest.mark.parametrize(("age", "rates"), [(1, (100.0, 90.0)), (60, (0.0, 0.0))])
def test_old_status_of_drill_load_is_no_proof_of_events(
    drill: DrillRun, age: float, rates: tuple[float, float]
) -> None:
    write_load_status(drill, time.time() - age, steady=True, accepted=100.0, handled=90.0)

    assert drill.wait_for_steady_load_rates(PAIR, 0) == rates


def test_drill_load_without_event_after_fault_is_error(drill: DrillRun) -> None:
    write_load_status(drill, time.time(), last=99.0)

    drill.wait_until_subscriber_handles_any_event(PAIR, 98.0, 0)
    with pytest.raises(LabError, match="the test load handled no event in the 0 s after the fault"):
        drill.wait_until_subscriber_handles_any_event(PAIR, 99.0, 0)


def test_drill_without_event_journals_is_incomplete(drill_without_load: DrillRun) -> None:
    run = drill_without_load
    with hold_load_lock(run.directory):
        run.next_fault_number_and_pair(STATES)
    for number in ("1", "2"):
        record_fault_and_reason(run, number=number)
    (run.directory / "done").touch()

    report = run.finish_and_judge(fleet_of(), skew=5.0)
    playbook_drill.write_drill_html_page_and_json(report, run.directory / "report" / "drill.html")

    assert report.verdict == "incomplete"
    assert not any("the test load did not end" in reason for reason in report.reasons)
    assert [fault.takeover for fault in report.faults] == [3.5, 3.5]
    assert "incomplete" in (run.directory / "report" / "drill.html").read_text()


@pytest.mark.parametrize("error", [LabError("no answer"), OSError(errno.ENOSPC, "No space left on device"), None])
def test_drill_without_usable_scrapes_has_verdict_and_note(
    drill_without_load: DrillRun, error: Exception | None
) -> None:
    def scrapes(_began: float, _ended: float) -> bytes:
        if error:
            raise error
        return b"no JSON"

    (drill_without_load.directory / "done").touch()
    result = drill_without_load.finish_and_judge(fleet_of(), notes=("first",), scrapes=scrapes)

    assert result.verdict == "incomplete"
    assert result.scraped is None
    first, note = result.conditions.notes
    assert first == "first"
    assert note.startswith("the result does not contain the downtimes according to Prometheus: ")
    assert str(error or "is not the JSON answer of Prometheus") in note


@pytest.mark.parametrize("progress_files", [(), ("failed",), ("failed", "done")])
def test_drill_whose_load_ended_early_is_incomplete_for_that_reason(
    drill_without_load: DrillRun, progress_files: tuple[str, ...]
) -> None:
    run = drill_without_load
    for name in ("load.log", *progress_files):
        (run.directory / name).write_text("the load reached its time limit of 1200 s\n")

    report = run.finish_and_judge(fleet_of())

    assert report.verdict == "incomplete"
    assert report.reasons[0] == (
        "incomplete: the test load did not end as planned (the load reached its time limit of 1200 s)"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "/proc/none/drill.html",
            r"cannot be written to /proc/none \(No such file or directory\): set activemq_drill_rep",
        ),
        ("file/drill.html", "cannot be written to .*/file.*: set activemq_drill_report"),
        ("directory.html", r"cannot be written to .*/directory\.html \(it is a directory\): set activemq_drill_report"),
        ("data.html", r"cannot be written to .*/data\.json \(it is a directory\): set activemq_drill_report"),
        ("/", "activemq_drill_report is /, which is a directory: set it to a file that ends in .html"),
        ("drill.json", "drill writes its data as JSON to this file: set it to a file that ends in .html"),
    ],
)
def test_drill_refuses_path_to_which_report_cannot_be_written(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in ("directory.html", "data.json"):
        (tmp_path / directory).mkdir()
    with pytest.raises(InputError, match=reason):
        playbook_drill.require_writable_report_path(tmp_path / name)


def test_drill_refuses_working_directory_as_path_of_report() -> None:
    with pytest.raises(InputError, match=r"activemq_drill_report is \., which is a directory: set it to a file"):
        playbook_drill.require_writable_report_path(Path("."))


def end_drill_without_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[DrillResult, str]:
    """End a drill whose report cannot be written; return its result and the error."""
    run_directory, parent = tmp_path / "run", tmp_path / "file"
    run_directory.mkdir()
    parent.touch()
    result = result_of([DRILL_FAULT], [replace(ACCOUNT, lost=3, handled=997)])
    run = SimpleNamespace(directory=run_directory, finish_and_judge=lambda _fleet, **_options: result)
    monkeypatch.setattr(ActionModule, "_inventory_data", lambda *_: SimpleNamespace(hosts=hosts(PAIR), groups={}))
    with pytest.raises(
        AnsibleActionFail, match=rf"^3 events lost: .*cannot write the file .*{parent} is not a"
    ) as caught:
        object.__new__(ActionModule)._end_drill(run, {"report": parent / "drill.html", "options": {}}, {})
    assert not run_directory.exists()
    return result, str(caught.value)


def test_failure_to_write_report_of_playbook_names_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result, _error = end_drill_without_report(tmp_path, monkeypatch)
    (result_file,) = tmp_path.glob("activemq-drill-*.json")
    assert json.loads(result_file.read_text()) == json.loads(json.dumps(result.to_dict()))
    assert result_file.stat().st_mode & 0o077 == 0


def test_failure_to_write_report_names_verdict_if_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", fail)
    _result, error = end_drill_without_report(tmp_path, monkeypatch)
    assert error.endswith("cannot be written to a temporary file either (No space left on device)")


def test_drill_creates_directory_of_its_report(tmp_path: Path) -> None:
    playbook_drill.require_writable_report_path(tmp_path / "reports" / "drill.html")
    assert list((tmp_path / "reports").iterdir()) == []


def test_playbook_drill_refuses_check_mode(tmp_path: Path) -> None:
    site = make_local_site(tmp_path)
    site.write_inventory(A, B, drill_allowed=True)
    code, output = site.play("drill", "--check")
    assert code == 2, output
    message = "the playbook drill stops brokers, so it does not support check mode. Run it without --check"
    assert message in " ".join(output.split())
    assert "run the same command to start a new drill" in " ".join(output.split())
