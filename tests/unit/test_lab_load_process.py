"""The process that runs the load of a drill: its end, and what a drill does when the load ends before it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from activemq_fleet.drills.model import Fault
from activemq_fleet.errors import LabError
from activemq_fleet.lab import Lab, drill_run, load_process
from activemq_fleet.lab import drill as lab_drill
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.drill_run import DrillPlan, DrillRun, LoadEndedError
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.load_generator import LoadGenerator
from activemq_fleet.lab.load_process import is_load_running, specs_to_json
from tests.support.drilled_pair import A, B
from tests.unit.lab_fleets import fleet_of, variables
from tests.waiting import wait_until

PAIR = "orders-mq01"
UNREACHABLE = {"mb.urls": "127.0.0.1:1", "client.id": "load"}
SPEC = TwoAgentLoadSpec(
    name=PAIR, topic="a/E", filters=("a/#",), rate=10, publisher=UNREACHABLE, subscriber=UNREACHABLE
)


@pytest.fixture
def drill_directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "drill"
    directory.mkdir()
    yield directory
    for process in processes_of(directory):
        process.kill()


def processes_of(directory: Path) -> list[psutil.Process]:
    """Return the processes whose command line names a file of a drill: its load, and the agents of the load."""
    found_processes = []
    for process in psutil.process_iter(["cmdline", "status"]):
        is_drill_process = any(str(directory) in word for word in process.info["cmdline"] or ())
        if is_drill_process and process.info["status"] != psutil.STATUS_ZOMBIE:
            found_processes.append(process)
    return found_processes


def is_agent_running(directory: Path) -> bool:
    return any("activemq_agent" in process.cmdline() for process in processes_of(directory))


def test_interrupted_start_of_drill_load_leaves_no_process(
    drill_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        wait_until(lambda: is_agent_running(drill_directory), "the agent of the load runs")
        raise KeyboardInterrupt

    monkeypatch.setattr(drill_run, "make_load_spec", lambda *_: SPEC)
    monkeypatch.setattr(drill_run, "require_nodes_reachable_by_load", lambda _specs: None)
    monkeypatch.setattr(drill_run, "poll_for_true_result", interrupt)
    plan = DrillPlan(order=(PAIR,), what="kill", rate=10, seed=1, target="")
    with pytest.raises(KeyboardInterrupt):
        DrillRun.begin(plan, fleet_of(variables()), drill_directory, os.getpid())
    assert processes_of(drill_directory) == []


def test_drill_load_stops_if_drill_ends_while_load_starts(drill_directory: Path) -> None:
    (drill_directory / "load.json").write_text(specs_to_json([SPEC]))
    drill = subprocess.Popen(["sleep", "600"])
    try:
        command = [sys.executable, "-m", "activemq_fleet.lab.load_process", str(drill_directory), "600", str(drill.pid)]
        load = subprocess.Popen(command)
        wait_until(lambda: is_agent_running(drill_directory), "the agent of the load runs")
    finally:
        drill.kill()
        drill.wait()
    assert load.wait(60) == 130
    assert processes_of(drill_directory) == []
    assert not drill_directory.exists(), "files with passwords are left"


def test_second_drill_in_lab_is_refused_and_keeps_files_of_first(tmp_path: Path) -> None:
    lab = Lab.of_fleet(fleet_of(variables()), tmp_path / "lab")
    lab_paths = LabPaths(lab.directory)
    with lab_paths.hold_drill_lock():
        (lab.directory / "drill").mkdir()
        with pytest.raises(LabError, match=rf"another drill runs in the lab {lab.directory}: wait until"):
            run_drill(lab, DrillOptions())
        assert (lab.directory / "drill").is_dir()
        assert not lab_paths.state.exists()


def test_killed_process_of_drill_load_counts_as_ended(drill_directory: Path) -> None:
    (drill_directory / "load.json").write_text(specs_to_json([SPEC]))
    assert not is_load_running(drill_directory)
    command = [sys.executable, "-m", "activemq_fleet.lab.load_process", str(drill_directory), "600"]
    load = subprocess.Popen(command)
    try:
        wait_until(lambda: is_agent_running(drill_directory), "the agent of the load runs")
        assert is_load_running(drill_directory)
    finally:
        load.kill()
    wait_until(lambda: not is_load_running(drill_directory), "the lock of the load is released")
    load.wait()


class StubbedLoadGenerator(LoadGenerator):
    """A load generator that does nothing, except that its publishing thread runs ``work``."""

    def __init__(self, directory: Path, work: Any = lambda: None) -> None:
        super().__init__(PAIR, directory)
        self._work = work

    def start_load(self, timeout: float = 60.0) -> None:
        self._start_thread(self._work)

    def has_stable_connections(self) -> bool:
        return True

    def _kill(self) -> None: ...

    def _is_sent(self) -> bool:
        return True

    def _stop_publisher(self) -> None: ...

    def _stop_subscriber(self) -> None: ...


def test_drill_load_that_reaches_its_time_limit_reports_it_and_ends_in_order(
    drill_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_process, "make_load_generator", lambda *_: StubbedLoadGenerator(drill_directory))
    (drill_directory / "load.json").write_text(specs_to_json([SPEC]))

    assert load_process.main([str(drill_directory), "0.1"]) == 0

    assert (drill_directory / "failed").read_text() == "the load reached its time limit of 0.1 s\n"
    assert (drill_directory / "done").exists()
    assert not is_load_running(drill_directory)


def test_drill_load_fails_if_files_of_publisher_cannot_be_written(drill_directory: Path) -> None:
    def write_to_full_disk() -> None:
        raise OSError(28, "No space left on device")

    with StubbedLoadGenerator(drill_directory, write_to_full_disk) as generator:
        generator.start_load()
        with pytest.raises(LabError, match=f"test load {PAIR}: its files cannot be written: .*No space left on device"):
            wait_until(generator.raise_if_ended, "the publishing thread ends")


class StubbedLab:
    """A lab whose pair is always healthy, and whose brokers are killed and started by no action."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fleet = fleet_of(variables())

    def status(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(host=A, state="active"), SimpleNamespace(host=B, state="standby")]

    def describe_two_masters(self, _pair: str) -> str | None:
        return None

    def record_operation_begin_and_end(self, *_: str) -> nullcontext[None]:
        return nullcontext()

    def kill(self, _host: str) -> None: ...

    def wait_active(self, *_: object) -> str:
        return B

    def started_at(self, _host: str) -> float | None:
        return None

    def is_alive(self, _host: str) -> bool:
        return False

    def start(self, *_hosts: str, timeout: float) -> None: ...


PLAN = DrillPlan(order=(PAIR, PAIR), what="kill", rate=10, seed=1, target="")


def run_lab_drill_whose_load_ends(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *earlier_faults: Fault, end_in: str
) -> Any:
    """Run a drill in a lab whose load ends in the method ``end_in`` of the drill's run; return the result."""

    def begin(plan: DrillPlan, _fleet: object, drill_files: Path, _parent: int) -> DrillRun:
        run = DrillRun(drill_files)
        run._write_json("drill.json", asdict(plan))
        for fault in earlier_faults:
            run.record_fault_and_mark_if_void(fault)
        return run

    def end(run: DrillRun, *_: object) -> None:
        (run.directory / "failed").write_text("the publisher stopped\n")
        run._raise_if_ended()

    monkeypatch.setattr(DrillRun, "begin", begin)
    monkeypatch.setattr(DrillRun, "wait_for_steady_load_rates", lambda *_: (10.0, 10.0))
    monkeypatch.setattr(DrillRun, "start_publishing_burst", lambda *_: None)
    monkeypatch.setattr(DrillRun, end_in, end)
    monkeypatch.setattr(drill_run, "is_load_running", lambda path: not (path / "failed").exists())
    lab = cast("Lab", StubbedLab(directory))
    return lab_drill._LabDrill(lab, DrillOptions(patience=1), lambda _line: None).run(PLAN)


def test_lab_drill_fails_if_load_ends_before_first_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LoadEndedError, match=r"the test load of the drill stopped \(the publisher stopped\)"):
        run_lab_drill_whose_load_ends(tmp_path, monkeypatch, end_in="wait_for_steady_load_rates")
    assert not (tmp_path / "drill" / "faults.json").exists()


@pytest.mark.parametrize(
    ("end_in", "earlier_faults", "injected"),
    [
        ("next_fault_number_and_pair", 1, 1),
        ("wait_for_steady_load_rates", 1, 1),
        ("wait_until_subscriber_handles_any_event", 0, 1),
        ("wait_until_subscriber_handles_any_event", 1, 2),
    ],
)
def test_lab_drill_whose_load_ends_is_incomplete_and_no_fault_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_in: str, earlier_faults: int, injected: int
) -> None:
    fault = Fault(number=1, what="kill", pair=PAIR, host=A, at=time.time(), rate_accepted=10.0, rate_handled=10.0)

    result = run_lab_drill_whose_load_ends(tmp_path, monkeypatch, *[fault] * earlier_faults, end_in=end_in)

    assert result.verdict == "incomplete"
    assert result.reasons[0] == "incomplete: the test load did not end as planned (the publisher stopped)"
    assert [fault.problem for fault in result.faults] == [None] * injected
