"""The process that runs the load of a drill: its end if the drill is interrupted while the load starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import Lab, drill_run
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.drill_run import DrillPlan, DrillRun
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.load_process import specs_to_json
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
    monkeypatch.setattr(drill_run, "poll_until_true", interrupt)
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
