"""The watchdog of a real pair under a real systemd: what it ends, and what it leaves alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.hosts.brokers import UNIT, is_waiting, wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import Controller
from tests.hosts.test_broker_unit import shown

WATCHDOG = "activemq-watchdog.service"
PROGRAM = "/usr/local/sbin/activemq-watchdog"
EXPOSURE = 2.0
PATIENCE = 240
"""Seconds that a loaded machine may take for what takes half a minute by itself."""


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """A pair, installed and started by the playbook ``site``; its watchdogs warn, as by default."""
    controller = Controller(repository, rack)
    controller.install_pair(share="/srv/activemq")
    return controller


@pytest.fixture
def pair(controller: Controller) -> tuple[Machine, Machine]:
    """The node that serves, and the one that stands by."""
    serving, other = controller.sides()
    wait_until(lambda: is_waiting(other), "it does not stand by")
    return serving, other


def set_to(machine: Machine, action: str, every: float) -> None:
    """Let the watchdog of this machine look more often than every six seconds, and act so."""
    command = machine.run("systemctl", "show", WATCHDOG, "--property=ExecStart", "--value")
    words = command.split("argv[]=", 1)[1].split(" ;", 1)[0].split()
    line = " ".join([*words[:7], "--every", str(every), action])
    text = f"[Service]\nExecStart=\nExecStart={line}\n"
    directory = f"/etc/systemd/system/{WATCHDOG}.d"
    machine.run("mkdir", "-p", directory)
    machine.run("tee", f"{directory}/test.conf", stdin=text)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", WATCHDOG)


def said(machine: Machine) -> str:
    return machine.run("journalctl", "--unit", WATCHDOG, "--output=cat")


def test_it_runs_beside_both_brokers_and_is_hardly_exposed(pair: tuple[Machine, Machine]) -> None:
    for machine in pair:
        assert machine.run("systemctl", "is-active", WATCHDOG) == "active\n"
        assert machine.run("systemctl", "is-enabled", WATCHDOG) == "enabled\n"
        verified = machine.attempt("systemd-analyze", "verify", f"/etc/systemd/system/{WATCHDOG}")
        assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    done = pair[0].attempt("systemd-analyze", "security", threshold, "--no-pager", WATCHDOG)
    print(done.stdout[-300:])
    assert done.returncode == 0
    wait_until(lambda: "answers: " in machine_status(pair[0]), "it has no answer")
    wait_until(lambda: "no connector answers: it stands by" in machine_status(pair[1]), "the standby is not idle")


def machine_status(machine: Machine) -> str:
    return machine.run("systemctl", "show", WATCHDOG, "--property=StatusText", "--value")


def test_its_questions_leave_nothing_in_the_brokers_log(pair: tuple[Machine, Machine]) -> None:
    set_to(pair[0], "warn", 0.2)
    for _ in range(10):
        wait_until(lambda: "answers: " in machine_status(pair[0]), "it has no answer")
        before = len(broker_log(pair[0]))
        # Longer than a question may take, so that one that timed out on a busy machine is seen.
        until = time.monotonic() + 8
        statuses = []
        while time.monotonic() < until:
            statuses.append(machine_status(pair[0]))
            time.sleep(0.1)
        if all("answers: " in status for status in statuses):
            break
    else:
        pytest.fail("the watchdog never had 8 s of answers in a row")
    told = broker_log(pair[0])[before:].splitlines()
    assert [line for line in told if "| WARN" in line and "Transport" in line] == []


def broker_log(machine: Machine) -> str:
    return machine.run("cat", "/var/lib/activemq/activemq/data/activemq.log")


def test_a_frozen_broker_is_only_warned_of_and_goes_on_when_it_is_let(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, _ = pair
    set_to(active, "warn", 0.5)
    before = shown(active, "MainPID")
    active.run("systemctl", "kill", "--signal=STOP", UNIT)
    wait_until(lambda: "the broker is hung: 3 looks" in said(active), "no warning")
    assert f"systemctl kill --signal=KILL {UNIT}" in said(active)
    active.run("systemctl", "kill", "--signal=CONT", UNIT)
    wait_until(lambda: "the broker is well again" in said(active), "it is not well again")
    assert shown(active, "MainPID") == before
    assert controller.exchange("watch", active.address)["address"] == active.address


def test_a_frozen_broker_is_killed_and_its_standby_takes_over(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    # As it is rendered, with its own times.
    set_to(active, "kill", 6)
    restarts = int(shown(active, "NRestarts")["NRestarts"])
    active.run("systemctl", "kill", "--signal=STOP", UNIT)
    began = time.monotonic()
    found = controller.exchange("watch", "--timeout", str(PATIENCE), standby.address)
    print(f"taken over {time.monotonic() - began:.1f} s after it froze")
    assert found["address"] == standby.address
    assert "It is killed; systemd starts it again" in said(active)
    wait_until(lambda: is_waiting(active), "it does not stand by")
    assert int(shown(active, "NRestarts")["NRestarts"]) > restarts
    wait_until(lambda: active.attempt("systemctl", "is-active", WATCHDOG).stdout == "active\n", "it is not started")


def test_a_frozen_standby_is_left_alone(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    set_to(standby, "kill", 0.5)
    before = shown(standby, "MainPID")
    standby.run("systemctl", "kill", "--signal=STOP", UNIT)
    try:
        wait_until(lambda: "it cannot take over" in said(standby), "no warning")
        time.sleep(2)
    finally:
        standby.run("systemctl", "kill", "--signal=CONT", UNIT)
    assert shown(standby, "MainPID") == before
    assert "It is killed" not in said(standby).rpartition("it cannot take over")[2]


def test_it_stops_and_starts_with_its_broker(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    standby.run("systemctl", "stop", UNIT)
    assert standby.attempt("systemctl", "is-active", WATCHDOG).stdout == "inactive\n"
    standby.run("systemctl", "start", UNIT)
    wait_until(lambda: standby.attempt("systemctl", "is-active", WATCHDOG).stdout == "active\n", "it is not started")


def test_off_removes_it_and_restarts_no_broker(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    pids = [shown(machine, "MainPID") for machine in pair]
    done = controller.play("site", "--extra-vars", '{"activemq_watchdog": "off"}')
    print(done.stdout)
    assert done.returncode == 0
    for machine in pair:
        left = machine.attempt("ls", PROGRAM, f"/etc/systemd/system/{WATCHDOG}")
        assert left.stdout == ""
        assert machine.attempt("systemctl", "is-active", WATCHDOG).stdout == "inactive\n"
    assert [shown(machine, "MainPID") for machine in pair] == pids
