"""The watchdog of a real pair under a real systemd: what it ends, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.hosts.brokers import UNIT, is_waiting, journal_of, wait_for_pair, wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import NODES, Controller, ended
from tests.situations import in_every_situation
from tests.support.unit_properties import unit_properties
from tests.waiting import LateError

WATCHDOG = "activemq-watchdog.service"
PROGRAM = "/usr/local/sbin/activemq-watchdog"
EXPOSURE = 2.0
PATIENCE = 240
"""Seconds that a loaded machine may take for what takes half a minute by itself."""


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """A pair, installed from the vendor's archive and started by ``site``; its watchdogs warn, as by default."""
    controller = Controller.from_archive(repository, rack)
    controller.install_pair(share="/srv/activemq")
    return controller


@pytest.fixture
def pair(controller: Controller) -> tuple[Machine, Machine]:
    """The node that serves, and the one that stands by."""
    serving, other = controller.sides()
    wait_until(lambda: is_waiting(other), f"{other.name} stands by", serving, other)
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
    return journal_of(machine, WATCHDOG)


def wait_to_say(machine: Machine, text: str, before: str) -> str:
    """What the watchdog says after ``before``, as soon as this text is there."""
    wait_until(lambda: text in said(machine)[len(before) :], f"the watchdog says: {text}", machine)
    return said(machine)[len(before) :]


def wait_to_be(machine: Machine, state: str) -> None:
    wait_until(
        lambda: machine.attempt("systemctl", "is-active", WATCHDOG).stdout == f"{state}\n",
        f"the watchdog is {state}",
        machine,
    )


@in_every_situation
def test_it_runs_beside_both_brokers_and_is_hardly_exposed(pair: tuple[Machine, Machine]) -> None:
    for machine in pair:
        wait_to_be(machine, "active")
        assert machine.run("systemctl", "is-enabled", WATCHDOG) == "enabled\n"
        verified = machine.attempt("systemd-analyze", "verify", f"/etc/systemd/system/{WATCHDOG}")
        assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    done = pair[0].attempt("systemd-analyze", "security", threshold, "--no-pager", WATCHDOG)
    print(done.stdout[-300:])
    assert done.returncode == 0
    wait_for_answers(pair[0])
    wait_until(
        lambda: "no connector answers, so the broker is a standby" in machine_status(pair[1]),
        "the standby's watchdog idles",
        pair[1],
    )


def wait_for_answers(machine: Machine) -> None:
    wait_until(lambda: "answers: " in machine_status(machine), "the watchdog has an answer", machine)


def machine_status(machine: Machine) -> str:
    return machine.run("systemctl", "show", WATCHDOG, "--property=StatusText", "--value")


@in_every_situation
def test_its_questions_leave_nothing_in_the_brokers_log(pair: tuple[Machine, Machine]) -> None:
    set_to(pair[0], "warn", 0.2)
    told: list[str] = []
    for _ in range(40):
        wait_for_answers(pair[0])
        before = len(broker_log(pair[0]))
        # Longer than a question may take, so that one that timed out on a busy machine is seen.
        until = time.monotonic() + 8
        statuses = []
        while time.monotonic() < until:
            statuses.append(machine_status(pair[0]))
            time.sleep(0.1)
        if not all("answers: " in status for status in statuses):
            continue
        told = [line for line in broker_log(pair[0])[before:].splitlines() if "| WARN" in line and "Transport" in line]
        if not told:  # one that timed out before may have been told of only now
            return
    assert told == []
    raise LateError("the watchdog never had 8 s of answers in a row")


def read_process_of_broker(machine: Machine) -> str:
    """Return the number of the broker's Java process."""
    (process,) = machine.run("pgrep", "--full", "java.*activemq.base").split()
    return process


def broker_log(machine: Machine) -> str:
    return machine.run("cat", "/var/lib/activemq/activemq/data/activemq.log")


@in_every_situation
def test_a_frozen_broker_is_only_warned_of_and_goes_on_when_it_is_let(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, _ = pair
    set_to(active, "warn", 0.5)
    before, log_text = unit_properties(active, "MainPID"), said(active)
    active.run("systemctl", "kill", "--signal=STOP", UNIT)
    try:
        wait_to_say(active, "the broker is hung: 3 checks", log_text)
        wait_to_say(active, f"systemctl kill --signal=KILL {UNIT}", log_text)
    finally:
        active.run("systemctl", "kill", "--signal=CONT", UNIT)
    wait_to_say(active, "the broker is healthy again", log_text)
    assert unit_properties(active, "MainPID") == before
    assert controller.exchange("watch", active.address)["address"] == active.address


def test_a_frozen_broker_is_killed_and_its_standby_takes_over(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    # As it is rendered, with its own times.
    set_to(active, "kill", 6)
    restarts, log_text = int(unit_properties(active, "NRestarts")["NRestarts"]), said(active)
    active.run("systemctl", "kill", "--signal=STOP", UNIT)
    began = time.monotonic()
    # The standby, but where it has no processor for the five seconds after which systemd starts the other one.
    found = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())
    print(
        f"{found['address']}, where {standby.address} stood by, serves {time.monotonic() - began:.1f} s after it froze"
    )
    wait_to_say(active, "The watchdog kills it; systemd starts it again", log_text)
    wait_until(
        lambda: int(unit_properties(active, "NRestarts")["NRestarts"]) > restarts, "systemd starts it again", active
    )
    wait_for_pair(pair)
    wait_to_be(active, "active")


@in_every_situation
def test_audit_of_a_collection_explains_the_kill_and_bounds_the_downtime(
    controller: Controller, pair: tuple[Machine, Machine], tmp_path: Path
) -> None:
    active, standby = pair
    set_to(active, "kill", 2)
    process = read_process_of_broker(active)
    frozen = time.time()
    active.run("kill", "-STOP", process)
    controller.exchange("watch", "--timeout", str(PATIENCE), standby.address)
    served = time.time()
    wait_for_pair(pair)
    ended(controller.play("collect", "-e", f"activemq_collect_to={tmp_path}/found"))
    command = [sys.executable, "-m", "activemq_fleet", "audit", "--logs", f"{tmp_path}/found", "-o", f"{tmp_path}/out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr

    rows = pq.read_table(tmp_path / "out" / "incidents").to_pylist()
    takeover = max((row for row in rows if row["kind"] == "takeover"), key=lambda row: row["ended"])
    print(takeover)
    assert takeover["began_from"] == "watchdog"
    assert f"hung (process {process} was stopped by a signal), and its watchdog killed it at" in takeover["cause"]
    active_at = takeover["ended"].timestamp()
    earliest, latest = (active_at - takeover[bound] for bound in ("downtime_max", "downtime_min"))
    assert earliest <= frozen <= latest <= active_at <= served
    assert any(row["kind"] == "hung_broker" and row["ended"].timestamp() > frozen for row in rows)


@in_every_situation
def test_a_frozen_standby_is_left_alone(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    set_to(standby, "kill", 0.5)
    before, log_text = unit_properties(standby, "MainPID"), said(standby)
    standby.run("systemctl", "kill", "--signal=STOP", UNIT)
    try:
        wait_to_say(standby, "This broker cannot take over", log_text)
        time.sleep(2)
    finally:
        standby.run("systemctl", "kill", "--signal=CONT", UNIT)
    assert unit_properties(standby, "MainPID") == before
    assert "The watchdog kills it" not in said(standby)[len(log_text) :]


def test_it_stops_and_starts_with_its_broker(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    standby.run("systemctl", "stop", UNIT)
    wait_to_be(standby, "inactive")
    standby.run("systemctl", "start", UNIT)
    wait_to_be(standby, "active")


@in_every_situation
def test_off_removes_it_and_restarts_no_broker(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    pids = [unit_properties(machine, "MainPID") for machine in pair]
    ended(controller.play("site", "--extra-vars", '{"activemq_watchdog": "off"}'))
    for machine in pair:
        left = machine.attempt("ls", PROGRAM, f"/etc/systemd/system/{WATCHDOG}")
        assert left.stdout == ""
        wait_to_be(machine, "inactive")
    assert [unit_properties(machine, "MainPID") for machine in pair] == pids


def status_text(machine: Machine) -> str:
    return machine.run("systemctl", "show", WATCHDOG, "--property=StatusText", "--value")


def wait_for_a_check(machine: Machine) -> None:
    wait_until(lambda: "process" in status_text(machine), "the watchdog has checked its broker", machine)


@in_every_situation
def test_it_watches_after_a_change_and_status_reports_a_file_that_it_cannot_read(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    limit = ("--extra-vars", '{"activemq_store_limit": "2 gb"}')
    ended(controller.play("site", *limit))
    for machine in pair:
        wait_for_a_check(machine)
        assert "is not watched" not in said(machine)
    serving, _ = controller.sides()
    record = "/var/lib/activemq/activemq/.fleet-pending.json"
    serving.run("chmod", "0600", record)
    wait_until(lambda: "is not watched" in status_text(serving), "the watchdog cannot read the record", serving)
    assert "not-watched" in controller.play("status", *limit).stdout
    ended(controller.play("site", *limit))
    assert serving.attempt("ls", record).stdout == ""
    wait_for_a_check(serving)
