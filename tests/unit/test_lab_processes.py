from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import processes
from activemq_fleet.lab.connector_and_port_checks import is_port_taken
from activemq_fleet.lab.layout import LabLayout
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.lab.processes import ProcessRun
from tests.waiting import wait_until

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[LabLayout]:
    made = LabLayout(tmp_path / "lab")
    made.make_directory()
    yield made
    processes.terminate_processes(processes.lab_processes(made), grace=0)


def launch(layout: LabLayout, script: str = SLEEP, host: str = "a", mark: str | None = None) -> ProcessRun:
    command = [sys.executable, "-c", script, mark or f"{MARK}{layout.directory}"]
    return processes.launch_broker(
        layout, host, command, {"ACTIVEMQ_BASE": "/b"}, layout.activemq_base_directory(host), "v1"
    )


def living(layout: LabLayout, run: ProcessRun) -> psutil.Process:
    process = processes.find_process(layout, run)
    assert process is not None
    return process


def test_what_was_started_is_found_again_from_the_disk(layout: LabLayout) -> None:
    run = launch(layout)
    again = processes.last_broker_process_run(layout, "a")
    assert again == run
    assert living(layout, again).pid == run.pid


def test_a_broker_leads_a_session_of_its_own(layout: LabLayout) -> None:
    run = launch(layout)
    assert os.getsid(run.pid) == os.getpgid(run.pid) == run.pid


def test_a_broker_has_the_environment_and_the_umask_of_its_unit(layout: LabLayout) -> None:
    process = living(layout, launch(layout))
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert process.environ()["ACTIVEMQ_BASE"] == "/b"
    assert next(line for line in status.splitlines() if line.startswith("Umask")).split()[1] == "0027"


def test_a_killed_process_is_gone_and_leaves_no_zombie(layout: LabLayout) -> None:
    run = launch(layout)
    processes.terminate_processes([living(layout, run)], grace=0)
    assert processes.find_process(layout, run) is None
    assert not psutil.pid_exists(run.pid)


# Its first thread ends at once; another one holds a port a while longer.
LINGERING = """
import ctypes, signal, socket, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=time.sleep, args=(1.5,)).start()
print(held.getsockname()[1], flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_ends_with_its_last_thread_and_so_do_its_ports(layout: LabLayout) -> None:
    process = living(layout, launch(layout, LINGERING))
    port = int(_wait_for_output(layout))
    processes.terminate_processes([process], grace=60)
    assert not is_port_taken(("127.0.0.1", port))


def test_process_that_ended_without_wait_of_this_program_has_ended(layout: LabLayout) -> None:
    """The guard of a crashed broker stops on its own, and stays a zombie until the lab waits for it."""
    process = living(layout, launch(layout))
    process.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "the process is a zombie", pause=0.02)
    assert process.is_running()
    assert processes.ends_within(process, 0)


def test_process_that_goes_on_has_not_ended(layout: LabLayout) -> None:
    assert not processes.ends_within(living(layout, launch(layout)), 0)


def test_children_of_a_broker_die_with_it(layout: LabLayout) -> None:
    run = launch(layout, f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); {SLEEP}")
    process = living(layout, run)
    wait_until(process.children, "the process has a child", pause=0.02)
    children = process.children()
    processes.terminate_processes([process], grace=0)
    assert not psutil.wait_procs(children, timeout=60)[1]


def test_the_ports_of_a_killed_guards_broker_are_free_afterwards(layout: LabLayout) -> None:
    """A broker with much memory takes longer to end than its guard."""
    broker = (
        "import mmap, socket, time\n"
        "memory = mmap.mmap(-1, 1 << 29, mmap.MAP_SHARED | mmap.MAP_POPULATE)\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        f"print(server.getsockname()[1], flush=True); {SLEEP}"
    )
    run = launch(layout, f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {broker!r}]); {SLEEP}")
    port = int(_wait_for_output(layout))
    processes.terminate_processes([living(layout, run)], grace=0)
    assert not is_port_taken(("127.0.0.1", port))


def test_a_process_of_another_start_time_is_not_ours(layout: LabLayout) -> None:
    run = launch(layout)
    assert processes.find_process(layout, replace(run, created=run.created - 60)) is None


def test_a_process_without_the_labs_mark_is_not_ours(layout: LabLayout) -> None:
    run = launch(layout, mark="-Dactivemq.fleet.lab=/another")
    assert processes.find_process(layout, run) is None
    os.killpg(run.pid, signal.SIGKILL)
    os.waitpid(run.pid, 0)


def test_a_process_that_ignores_sigterm_is_killed(layout: LabLayout) -> None:
    run = launch(layout, STUBBORN)
    _wait_for_output(layout)
    processes.terminate_processes([living(layout, run)], grace=0.2)
    assert processes.find_process(layout, run) is None


def test_a_frozen_process_is_told_from_one_that_works(layout: LabLayout) -> None:
    process = living(layout, launch(layout))
    assert not processes.is_stopped_by_signal(process)
    processes.freeze_or_resume_process(process, True)
    assert processes.is_stopped_by_signal(process)
    processes.freeze_or_resume_process(process, False)
    assert not processes.is_stopped_by_signal(process)


def test_a_frozen_process_is_killed_without_waiting_for_the_grace_period(
    layout: LabLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot heed SIGTERM: the first signal that it gets is SIGKILL."""
    process = living(layout, launch(layout))
    processes.freeze_or_resume_process(process, True)
    signals: list[tuple[int, signal.Signals]] = []
    send = processes.signal_process_group

    def record(target: psutil.Process, number: signal.Signals) -> None:
        signals.append((target.pid, number))
        send(target, number)

    monkeypatch.setattr(processes, "signal_process_group", record)
    processes.terminate_processes([process], grace=3600)
    assert signals[0] == (process.pid, signal.SIGKILL)


def test_strays_are_found_by_their_mark_alone(layout: LabLayout) -> None:
    run = launch(layout)
    processes.delete_broker_run_record(layout, "a")
    assert [process.pid for process in processes.lab_processes(layout)] == [run.pid]


def test_a_run_begins_where_the_log_ended(layout: LabLayout) -> None:
    data = layout.activemq_base_directory("a")
    data.mkdir(parents=True)
    (data / "activemq.log").write_text("before\n")
    run = launch(layout)
    assert (run.log_inode, run.log_offset) == ((data / "activemq.log").stat().st_ino, 7)


def test_a_program_that_is_not_there_is_one_line(layout: LabLayout) -> None:
    with pytest.raises(LabError, match=r"a: the program /no/java cannot be started \(No such file"):
        processes.launch_broker(layout, "a", ["/no/java"], {}, layout.activemq_base_directory("a"), "v1")


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"host": "a"})])
def test_a_record_that_cannot_be_read_is_none(layout: LabLayout, content: str) -> None:
    layout.runs.mkdir()
    (layout.runs / "a.json").write_text(content)
    assert processes.last_broker_process_run(layout, "a") is None


def test_options_of_the_users_environment_do_not_reach_a_broker(
    layout: LabLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx8g")
    run = launch(layout, "import os, time; print(sorted(os.environ), flush=True); time.sleep(60)")
    assert "JAVA_TOOL_OPTIONS" not in _wait_for_output(layout)
    assert subprocess.run(["kill", "-0", str(run.pid)], check=False).returncode == 0


def _wait_for_output(layout: LabLayout) -> str:
    console = layout.activemq_base_directory("a") / "console.log"
    wait_until(lambda: console.read_text() != "", "the process has printed a line", pause=0.02)
    return console.read_text()
