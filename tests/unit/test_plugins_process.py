"""Detection of the broker process among processes of other accounts with the same command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.probe import management
from activemq_fleet.node.process import proc as process
from activemq_fleet.node.state import broker_state as state
from activemq_fleet.node.state import fault_injection
from activemq_fleet.node.watchdog.watchdog import Watchdog
from activemq_fleet.node.watchdog.watchdog_cli import parse_options

NOBODY = 65534
AGENT = 65533
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another account")
SLEEP = "prctl(4, 1); print(flush=True); time.sleep(300)"
HIDDEN = "prctl(4, 0); print(flush=True); time.sleep(300)"
"""A process that is not dumpable (prctl(2), PR_SET_DUMPABLE): root owns its files in /proc."""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return the directory of a broker; its data belongs to the account that runs the tests."""
    (tmp_path / "orders/data").mkdir(parents=True)
    return tmp_path / "orders"


@contextmanager
def process_like_broker(
    base: Path, account: int | None = None, *, log: bool = True, script: str = SLEEP
) -> Iterator[int]:
    """Start a process with the command line of a broker, with or without its log open, and yield its id."""
    change_account = f"os.setgroups([]) or os.setgid({account}) or os.setuid({account}); " if account else ""
    # The process changes its account itself, because other accounts often cannot run the Python of the tests.
    script = f"import ctypes, os, time; prctl = ctypes.CDLL(None).prctl; {change_account}{script}"
    with (base / "data/activemq.log").open("a") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", script, f"-Dactivemq.base={base}", "start"],
            stdout=file if log else subprocess.DEVNULL,
            cwd="/",
        )
    try:
        wait_for(lambda: process.read_process(child.pid) is not None)
        wait_for(lambda: account is None or process.uid_of_process(child.pid) == account)
        yield child.pid
    finally:
        child.kill()
        child.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@needs_root
@pytest.mark.parametrize("script", [SLEEP, HIDDEN])
def test_process_of_another_account_with_command_line_of_broker_is_not_broker(base: Path, script: str) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with process_like_broker(base, NOBODY, script=script):
        time.sleep(0.2)
        assert process.find_broker_process(str(base)) is None
        assert state.gather_broker_state(str(base), "orders.service")["state"] == "stopped"


@needs_root
def test_older_process_of_another_account_does_not_hide_broker(base: Path) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with (
        process_like_broker(base, NOBODY),
        process_like_broker(base, AGENT) as broker,
        process_like_broker(base, NOBODY),
    ):
        broker_process = process.find_broker_process(str(base))
        assert broker_process is not None
        assert broker_process.pid == broker


@needs_root
def test_hidden_process_of_another_account_is_not_broker_that_root_runs(base: Path) -> None:
    with process_like_broker(base, NOBODY, script=HIDDEN) as pid:
        wait_for(lambda: os.stat(f"/proc/{pid}/status").st_uid == 0)
        assert process.find_broker_process(str(base)) is None


@needs_root
def test_process_with_different_real_and_effective_uid_is_not_broker(base: Path) -> None:
    script = f"os.setresuid({NOBODY}, 0, 0); time.sleep(300)"
    with process_like_broker(base, script=script) as pid:
        wait_for(lambda: process.uid_of_process(pid) is None)
        assert process.find_broker_process(str(base)) is None


def test_wrapper_with_same_arguments_and_no_open_files_is_not_broker(base: Path) -> None:
    with process_like_broker(base, log=False):
        assert process.find_broker_process(str(base)) is None
        with process_like_broker(base) as broker:
            broker_process = process.find_broker_process(str(base))
            assert broker_process is not None
            assert broker_process.pid == broker


@needs_root
def test_watchdog_checks_broker_and_not_process_of_another_account(base: Path) -> None:
    (base / "versions/v/conf").mkdir(parents=True)
    (base / "versions/v/conf/activemq.xml").write_text("<beans><broker/></beans>")
    (base / "current").symlink_to("versions/v")
    os.chown(base / "data", AGENT, AGENT)
    options = parse_options(["--base", str(base), "--unit", "orders.service", "--ha", "none", "kill"])
    broker_watchdog = Watchdog(options, None)
    with process_like_broker(base, NOBODY), process_like_broker(base, AGENT) as broker:
        process = broker_watchdog._take_sample().evidence.process
        assert process is not None
        assert process.pid == broker


@needs_root
def test_drill_injects_no_fault_into_process_of_another_account(base: Path) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with process_like_broker(base, NOBODY) as other_pid:
        with pytest.raises(NodeError, match="no fault was injected"):
            fault_injection.inject_fault(str(base), None, "kill", 0)
        os.kill(other_pid, signal.SIGSTOP)
        wait_for(lambda: (current := process.read_process(other_pid)) is not None and current.state == "T")
        assert fault_injection.resume_frozen_broker(str(base), None)["changed"] is False


def test_logged_broker_start_has_milliseconds_of_its_record(base: Path) -> None:
    with process_like_broker(base):
        now = time.time() // 1
        timestamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        message = "Apache ActiveMQ 6.3.1 (x, ID:x-1) started | org.apache.activemq.broker.BrokerService | main"
        for milliseconds in ("250", "750"):
            (base / "data/activemq.log").write_text(f"{timestamp},{milliseconds} | INFO  | {message}\n")
            assert fault_injection.wait_for_logged_broker_start(str(base), 0) == now + int(milliseconds) / 1000


def test_signal_for_terminated_process_does_not_reach_process_with_same_pid(base: Path) -> None:
    with process_like_broker(base) as pid:
        current = process.read_process(pid)
        assert current is not None
        terminated = replace(current, started=current.started - 5)
        with process.open_process_handle(terminated) as handle:
            assert not process.send_signal(handle, terminated, signal.SIGKILL)
        fault_injection._send_signal(terminated, None, signal.SIGKILL)
        time.sleep(0.1)
        assert process.is_still_running(current)


@needs_root
def test_hidden_broker_is_queried_as_its_account_and_not_as_root(base: Path) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with process_like_broker(base, AGENT, script=HIDDEN) as pid:
        wait_for(lambda: os.stat(f"/proc/{pid}/status").st_uid == 0)
        broker_process = process.find_broker_process(str(base))
        assert broker_process is not None
        assert management._process_account(broker_process) == (AGENT, AGENT)


@pytest.mark.parametrize(
    ("cgroups", "is_broker"),
    [
        ("0::/system.slice/orders.service", True),
        ("9:name=systemd:/system.slice/orders.service", True),
        ("0::/custom.slice/custom-mq.slice/orders.service", True),
        ("0::/orders.service", True),
        ("0::/system.slice/orders.service/child", True),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/orders.service", False),
        ("0::/system.slice/other.service/orders.service", False),
        ("0::/user.slice/user-1000.slice/session-1.scope/orders.service", False),
        ("0::/system.slice/other.service", False),
        ("0::/system.slice/ordersXservice", False),
        ("0::/../system.slice/orders.service", False),
        ("2:cpu:/system.slice/orders.service", False),
        ("0::/", False),
    ],
)
def test_only_cgroup_of_system_unit_counts_as_unit_of_broker(
    monkeypatch: pytest.MonkeyPatch, cgroups: str, is_broker: bool
) -> None:
    files = {1: "0::/init.scope\n9:name=systemd:/init.scope", 42: cgroups}
    monkeypatch.setattr(process, "read_proc_file", lambda pid, _name: files[pid])
    assert process.is_in_systemd_unit(42, "orders.service") is is_broker
    files_in_container = {1: "0::/docker/0a/init.scope", 42: cgroups.replace(":/", ":/docker/0a/", 1)}
    monkeypatch.setattr(process, "read_proc_file", lambda pid, _name: files_in_container[pid])
    assert process.is_in_systemd_unit(42, "orders.service") is (is_broker and cgroups.startswith("0:"))


BROKER_COMMAND = "java -Dactivemq.base=/srv/orders start"


@pytest.mark.parametrize(
    ("cgroup", "main", "parent", "service"),
    [
        ("/system.slice/orders.service", "42", "systemd", "orders.service"),
        ("/system.slice/orders.service/child", "41", f"guard -- {BROKER_COMMAND}", "orders.service"),
        ("/system.slice/supervisor.service", "41", "supervisord -n", None),
        ("/system.slice/ssh.service", "7", "systemd", None),
        ("/system.slice/orders.service", "0", "systemd", None),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/orders.service", "41", "systemd --user", None),
        ("/user.slice/user-1000.slice/session-1.scope", "42", "systemd", None),
    ],
)
def test_service_of_broker_is_that_of_its_main_process_or_guard(
    monkeypatch: pytest.MonkeyPatch, cgroup: str, main: str, parent: str, service: str | None
) -> None:
    files = {
        (1, "cgroup"): "0::/init.scope",
        (41, "cmdline"): parent.replace(" ", "\0") + "\0",
        (41, "stat"): "41 (python3) S 1" + " 1" * 20,
        (42, "cgroup"): f"0::{cgroup}",
        (42, "cmdline"): BROKER_COMMAND.replace(" ", "\0") + "\0",
        (42, "stat"): "42 (java) S 41" + " 1" * 20,
    }
    monkeypatch.setattr(process, "read_proc_file", lambda pid, name: files[(pid, name)])
    monkeypatch.setattr(process, "properties_of_systemd_units", lambda _properties, _units: [{"MainPID": main}])
    assert process.service_of_main_process(42) == service
