"""Which process is the broker, while other accounts run processes that look like it."""

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
from activemq_fleet.node.watchdog import watchdog

NOBODY = 65534
AGENT = 65533
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another account")
SLEEP = "prctl(4, 1); print(flush=True); time.sleep(300)"
HIDDEN = "prctl(4, 0); print(flush=True); time.sleep(300)"
"""It is not dumpable (prctl(2), PR_SET_DUMPABLE), so that root owns its files in /proc."""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The directory of a broker; its data belongs to whoever runs the tests."""
    (tmp_path / "orders/data").mkdir(parents=True)
    return tmp_path / "orders"


@contextmanager
def java(base: Path, account: int | None = None, *, log: bool = True, script: str = SLEEP) -> Iterator[int]:
    """A process with a broker's command line, and with its log open or not; returns its id."""
    become = f"os.setgroups([]) or os.setgid({account}) or os.setuid({account}); " if account else ""
    # It changes its account itself: the Python of the tests is often not for everybody.
    script = f"import ctypes, os, time; prctl = ctypes.CDLL(None).prctl; {become}{script}"
    with (base / "data/activemq.log").open("a") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", script, f"-Dactivemq.base={base}", "start"],
            stdout=file if log else subprocess.DEVNULL,
            cwd="/",
        )
    try:
        until(lambda: process.read_process(child.pid) is not None)
        until(lambda: account is None or process.uid_of_process(child.pid) == account)
        yield child.pid
    finally:
        child.kill()
        child.wait()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


@needs_root
@pytest.mark.parametrize("script", [SLEEP, HIDDEN])
def test_process_of_another_account_with_command_line_of_broker_is_not_broker(base: Path, script: str) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with java(base, NOBODY, script=script):
        time.sleep(0.2)
        assert process.find_broker_process(str(base)) is None
        assert state.gather_broker_state(str(base), "orders.service")["state"] == "stopped"


@needs_root
def test_an_older_process_of_another_account_does_not_hide_the_broker(base: Path) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with java(base, NOBODY), java(base, AGENT) as broker, java(base, NOBODY):
        broker_process = process.find_broker_process(str(base))
        assert broker_process is not None
        assert broker_process.pid == broker


@needs_root
def test_hidden_process_of_another_account_is_not_broker_that_root_runs(base: Path) -> None:
    with java(base, NOBODY, script=HIDDEN) as pid:
        until(lambda: os.stat(f"/proc/{pid}/status").st_uid == 0)
        assert process.find_broker_process(str(base)) is None


@needs_root
def test_a_program_that_keeps_two_accounts_is_not_the_broker(base: Path) -> None:
    script = f"os.setresuid({NOBODY}, 0, 0); time.sleep(300)"
    with java(base, script=script) as pid:
        until(lambda: process.uid_of_process(pid) is None)
        assert process.find_broker_process(str(base)) is None


def test_wrapper_with_same_arguments_and_no_open_files_is_not_broker(base: Path) -> None:
    with java(base, log=False):
        assert process.find_broker_process(str(base)) is None
        with java(base) as broker:
            broker_process = process.find_broker_process(str(base))
            assert broker_process is not None
            assert broker_process.pid == broker


@needs_root
def test_the_watchdog_is_not_lured_to_a_process_of_another_account(base: Path) -> None:
    (base / "versions/v/conf").mkdir(parents=True)
    (base / "versions/v/conf/activemq.xml").write_text("<beans><broker/></beans>")
    (base / "current").symlink_to("versions/v")
    os.chown(base / "data", AGENT, AGENT)
    options = watchdog._options(["--base", str(base), "--unit", "orders.service", "--ha", "none", "kill"])
    dog = watchdog.Watchdog(options, None)
    with java(base, NOBODY), java(base, AGENT) as broker:
        process = dog._sample().evidence.process
        assert process is not None
        assert process.pid == broker


@needs_root
def test_a_drill_strikes_no_process_of_another_account(base: Path) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with java(base, NOBODY) as other:
        with pytest.raises(NodeError, match="no fault was injected"):
            fault_injection.inject_fault(str(base), None, "kill", 0)
        os.kill(other, signal.SIGSTOP)
        until(lambda: (now := process.read_process(other)) is not None and now.state == "T")
        assert fault_injection.resume_frozen_broker(str(base), None)["changed"] is False


def test_a_start_is_told_to_the_millisecond_of_its_own_record(base: Path) -> None:
    with java(base):
        now = time.time() // 1
        written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        told = "Apache ActiveMQ 6.3.1 (x, ID:x-1) started | org.apache.activemq.broker.BrokerService | main"
        for milliseconds in ("250", "750"):
            (base / "data/activemq.log").write_text(f"{written},{milliseconds} | INFO  | {told}\n")
            assert fault_injection.wait_for_logged_broker_start(str(base), 0) == now + int(milliseconds) / 1000


def test_a_signal_for_a_process_that_is_gone_does_not_reach_who_has_its_number(base: Path) -> None:
    with java(base) as pid:
        now = process.read_process(pid)
        assert now is not None
        before = replace(now, started=now.started - 5)
        with process.open_process_handle(before) as handle:
            assert not process.send_signal(handle, before, signal.SIGKILL)
        fault_injection._send_signal(before, None, signal.SIGKILL)
        time.sleep(0.1)
        assert process.is_still_running(now)


@needs_root
def test_a_hidden_broker_is_asked_as_its_own_account_and_not_as_root(base: Path) -> None:
    os.chown(base / "data", AGENT, AGENT)
    with java(base, AGENT, script=HIDDEN) as pid:
        until(lambda: os.stat(f"/proc/{pid}/status").st_uid == 0)
        broker_process = process.find_broker_process(str(base))
        assert broker_process is not None
        assert management._account(broker_process) == (AGENT, AGENT)


@pytest.mark.parametrize(
    ("own", "is_broker"),
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
def test_a_unit_of_an_account_that_is_named_like_the_brokers_is_not_the_brokers(
    monkeypatch: pytest.MonkeyPatch, own: str, is_broker: bool
) -> None:
    texts = {1: "0::/init.scope\n9:name=systemd:/init.scope", 42: own}
    monkeypatch.setattr(process, "read_proc_file", lambda pid, _name: texts[pid])
    assert process.is_in_systemd_unit(42, "orders.service") is is_broker
    nested = {1: "0::/docker/0a/init.scope", 42: own.replace(":/", ":/docker/0a/", 1)}
    monkeypatch.setattr(process, "read_proc_file", lambda pid, _name: nested[pid])
    assert process.is_in_systemd_unit(42, "orders.service") is (is_broker and own.startswith("0:"))
