from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import processes
from activemq_fleet.lab.connector_and_port_checks import is_port_taken
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.lab.processes import ProcessRun
from tests.waiting import wait_until

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def lab_paths(tmp_path: Path) -> Iterator[LabPaths]:
    lab_paths = LabPaths(tmp_path / "lab")
    lab_paths.make_private_lab_directory()
    yield lab_paths
    processes.terminate_processes(processes.lab_processes(lab_paths), grace=0)


def launch_lab_process(
    lab_paths: LabPaths, script: str = SLEEP, host: str = "a", mark: str | None = None
) -> ProcessRun:
    command = [sys.executable, "-c", script, mark or f"{MARK}{lab_paths.directory}"]
    return processes.launch_broker(
        lab_paths, host, command, {"ACTIVEMQ_BASE": "/b"}, lab_paths.activemq_base_directory(host), "v1"
    )


def running_process(lab_paths: LabPaths, run: ProcessRun) -> psutil.Process:
    process = processes.find_process(lab_paths, run)
    assert process is not None
    return process


def test_started_lab_process_is_found_by_its_record_on_disk(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths)
    recorded_run = processes.last_broker_process_run(lab_paths, "a")
    assert recorded_run == broker_run
    assert running_process(lab_paths, recorded_run).pid == broker_run.pid


def test_lab_broker_is_leader_of_session_and_process_group(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths)
    assert os.getsid(broker_run.pid) == os.getpgid(broker_run.pid) == broker_run.pid


def test_lab_broker_has_environment_and_umask_of_its_unit(lab_paths: LabPaths) -> None:
    process = running_process(lab_paths, launch_lab_process(lab_paths))
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert process.environ()["ACTIVEMQ_BASE"] == "/b"
    assert next(line for line in status.splitlines() if line.startswith("Umask")).split()[1] == "0027"


def test_killed_lab_process_leaves_no_zombie(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths)
    processes.terminate_processes([running_process(lab_paths, broker_run)], grace=0)
    assert processes.find_process(lab_paths, broker_run) is None
    assert not psutil.pid_exists(broker_run.pid)


# The first thread of the process ends immediately. Another thread keeps the process and its port open for 1.5 s.
LINGERING = """
import ctypes, signal, socket, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=time.sleep, args=(1.5,)).start()
print(server.getsockname()[1], flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_termination_waits_for_last_thread_that_keeps_port_open(lab_paths: LabPaths) -> None:
    process = running_process(lab_paths, launch_lab_process(lab_paths, LINGERING))
    port = int(_wait_for_output(lab_paths))
    processes.terminate_processes([process], grace=60)
    assert not is_port_taken(("127.0.0.1", port))


def test_exit_status_of_broker_run_is_known_after_its_end(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths)
    assert processes.exit_status_of_run(broker_run) is None
    processes.terminate_processes([running_process(lab_paths, broker_run)], grace=0)
    assert processes.exit_status_of_run(broker_run) == -signal.SIGKILL


def test_zombie_process_has_ended(lab_paths: LabPaths) -> None:
    """The guard of a crashed broker stops, and remains a zombie until the lab waits for it."""
    process = running_process(lab_paths, launch_lab_process(lab_paths))
    process.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "the process is a zombie", pause=0.02)
    assert process.is_running()
    assert processes.ends_within(process, 0)


def test_running_process_has_not_ended(lab_paths: LabPaths) -> None:
    assert not processes.ends_within(running_process(lab_paths, launch_lab_process(lab_paths)), 0)


def test_children_of_broker_are_terminated_with_it(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(
        lab_paths, f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); {SLEEP}"
    )
    process = running_process(lab_paths, broker_run)
    wait_until(process.children, "the process has a child", pause=0.02)
    children = process.children()
    processes.terminate_processes([process], grace=0)
    assert not psutil.wait_procs(children, timeout=60)[1]


def test_ports_of_broker_are_free_after_termination_of_its_guard(lab_paths: LabPaths) -> None:
    """A broker with much memory takes longer to stop than its guard."""
    broker = (
        "import mmap, socket, time\n"
        "memory = mmap.mmap(-1, 1 << 29, mmap.MAP_SHARED | mmap.MAP_POPULATE)\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        f"print(server.getsockname()[1], flush=True); {SLEEP}"
    )
    broker_run = launch_lab_process(
        lab_paths, f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {broker!r}]); {SLEEP}"
    )
    port = int(_wait_for_output(lab_paths))
    processes.terminate_processes([running_process(lab_paths, broker_run)], grace=0)
    assert not is_port_taken(("127.0.0.1", port))


def test_process_with_different_start_time_is_not_found(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths)
    earlier_run = replace(broker_run, seconds_after_boot=broker_run.seconds_after_boot - 60)
    assert processes.find_process(lab_paths, earlier_run) is None


def test_process_of_earlier_boot_is_not_found(lab_paths: LabPaths) -> None:
    assert processes.find_process(lab_paths, replace(launch_lab_process(lab_paths), boot="earlier")) is None


def test_process_is_found_after_step_of_clock(lab_paths: LabPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    broker_run = launch_lab_process(lab_paths)
    boot_time = psutil.boot_time()
    # The kernel computes the boot time from the wall clock.
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot_time + 3)
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + 3)
    assert running_process(lab_paths, broker_run).pid == broker_run.pid


def test_recorded_start_time_of_process_is_in_seconds_since_epoch(lab_paths: LabPaths) -> None:
    began = time.time()
    assert began - 0.1 <= launch_lab_process(lab_paths).created <= time.time()


def test_process_without_mark_of_lab_is_not_found(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths, mark="-Dactivemq.fleet.lab=/another")
    assert processes.find_process(lab_paths, broker_run) is None
    os.killpg(broker_run.pid, signal.SIGKILL)
    os.waitpid(broker_run.pid, 0)


def test_lab_process_that_ignores_sigterm_is_killed(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths, STUBBORN)
    _wait_for_output(lab_paths)
    processes.terminate_processes([running_process(lab_paths, broker_run)], grace=0.2)
    assert processes.find_process(lab_paths, broker_run) is None


def test_frozen_process_is_distinguished_from_running_process(lab_paths: LabPaths) -> None:
    process = running_process(lab_paths, launch_lab_process(lab_paths))
    assert not processes.is_stopped_by_signal(process)
    processes.freeze_or_resume_process(process, True)
    assert processes.is_stopped_by_signal(process)
    processes.freeze_or_resume_process(process, False)
    assert not processes.is_stopped_by_signal(process)


def test_frozen_process_is_killed_without_grace_period(lab_paths: LabPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen process cannot handle SIGTERM, so that the first signal must be SIGKILL."""
    process = running_process(lab_paths, launch_lab_process(lab_paths))
    processes.freeze_or_resume_process(process, True)
    signals: list[tuple[int, signal.Signals]] = []
    send = processes.signal_process_group

    def record(target: psutil.Process, number: signal.Signals) -> None:
        signals.append((target.pid, number))
        send(target, number)

    monkeypatch.setattr(processes, "signal_process_group", record)
    processes.terminate_processes([process], grace=3600)
    assert signals[0] == (process.pid, signal.SIGKILL)


def test_lab_processes_without_record_are_found_by_their_mark(lab_paths: LabPaths) -> None:
    broker_run = launch_lab_process(lab_paths)
    processes.delete_broker_run_record(lab_paths, "a")
    assert [process.pid for process in processes.lab_processes(lab_paths)] == [broker_run.pid]


def test_broker_run_begins_at_end_of_existing_log(lab_paths: LabPaths) -> None:
    data_directory = lab_paths.activemq_base_directory("a")
    data_directory.mkdir(parents=True)
    (data_directory / "activemq.log").write_text("before\n")
    broker_run = launch_lab_process(lab_paths)
    assert (broker_run.log_inode, broker_run.log_offset) == ((data_directory / "activemq.log").stat().st_ino, 7)


def test_missing_program_of_lab_broker_is_error(lab_paths: LabPaths) -> None:
    with pytest.raises(LabError, match=r"a: the program /no/java cannot be started \(No such file"):
        processes.launch_broker(lab_paths, "a", ["/no/java"], {}, lab_paths.activemq_base_directory("a"), "v1")


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"host": "a"})])
def test_invalid_record_of_broker_run_is_ignored(lab_paths: LabPaths, content: str) -> None:
    lab_paths.runs.mkdir()
    (lab_paths.runs / "a.json").write_text(content)
    assert processes.last_broker_process_run(lab_paths, "a") is None


def test_java_options_of_environment_are_not_passed_to_broker(
    lab_paths: LabPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx8g")
    broker_run = launch_lab_process(lab_paths, "import os, time; print(sorted(os.environ), flush=True); time.sleep(60)")
    assert "JAVA_TOOL_OPTIONS" not in _wait_for_output(lab_paths)
    assert subprocess.run(["kill", "-0", str(broker_run.pid)], check=False).returncode == 0


def _wait_for_output(lab_paths: LabPaths) -> str:
    console = lab_paths.activemq_base_directory("a") / "console.log"
    wait_until(lambda: console.read_text() != "", "the process has printed a line", pause=0.02)
    return console.read_text()
