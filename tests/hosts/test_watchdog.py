"""The watchdog of a real pair under a real systemd: which brokers it kills, and which it does not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.hosts.brokers import UNIT, is_waiting, journal_of, wait_for_pair, wait_until
from tests.hosts.machines import Machine
from tests.hosts.playbooks import NODES, Controller, checked_output
from tests.situations import EVERY_SITUATION, in_every_situation
from tests.support.unit_properties import unit_properties
from tests.waiting import LateError

WATCHDOG = "activemq-watchdog.service"
DROP_IN_DIRECTORY = f"/etc/systemd/system/{WATCHDOG}.d"
PROGRAM = "/usr/local/sbin/activemq-watchdog"
EXPOSURE = 2.0
# The class does not exist: the broker stops with a stack trace.
BROKEN_OPTION = "-Djavax.xml.parsers.DocumentBuilderFactory=no.such.Factory"
PATIENCE = 240
"""Seconds that a machine under load may take for a step that takes half a minute on an idle machine."""


@pytest.fixture(scope="module")
def controller(installed_pair: Controller) -> Iterator[Controller]:
    """Provide the controller of the shared pair, whose watchdogs warn by default."""
    yield installed_pair
    if EVERY_SITUATION:  # some of these tests change settings
        checked_output(installed_pair.run_playbook("site"))


@pytest.fixture
def pair(controller: Controller) -> Iterator[tuple[Machine, Machine]]:
    """Provide the active node and the standby; afterwards, their watchdogs have the action of the inventory again."""
    active, standby = controller.active_and_other_node()
    wait_until(lambda: is_waiting(standby), f"{standby.name} is standby", active, standby)
    yield active, standby
    for machine in (active, standby):
        machine.run("rm", "--recursive", "--force", DROP_IN_DIRECTORY)
        machine.run("systemctl", "daemon-reload")
        machine.attempt("systemctl", "try-restart", WATCHDOG)  # one of the tests removes the unit


def set_watchdog(machine: Machine, action: str, every: float) -> None:
    """Set the action of the watchdog of a machine, and the seconds between its checks (by default six)."""
    command = machine.run("systemctl", "show", WATCHDOG, "--property=ExecStart", "--value")
    words = command.split("argv[]=", 1)[1].split(" ;", 1)[0].split()
    line = " ".join([*words[:7], "--every", str(every), action])
    unit_text = f"[Service]\nExecStart=\nExecStart={line}\n"
    machine.run("mkdir", "-p", DROP_IN_DIRECTORY)
    machine.run("tee", f"{DROP_IN_DIRECTORY}/test.conf", stdin=unit_text)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", WATCHDOG)


def watchdog_journal(machine: Machine) -> str:
    return journal_of(machine, WATCHDOG)


def wait_for_message(machine: Machine, text: str, before: str) -> str:
    """Return what the watchdog printed after ``before``, as soon as it contains a text."""
    wait_until(lambda: text in watchdog_journal(machine)[len(before) :], f"the watchdog prints: {text}", machine)
    return watchdog_journal(machine)[len(before) :]


def wait_for_state(machine: Machine, state: str) -> None:
    wait_until(
        lambda: machine.attempt("systemctl", "is-active", WATCHDOG).stdout == f"{state}\n",
        f"the watchdog is {state}",
        machine,
    )


@in_every_situation
def test_watchdog_runs_on_both_hosts_with_low_exposure(pair: tuple[Machine, Machine]) -> None:
    for machine in pair:
        wait_for_state(machine, "active")
        assert machine.run("systemctl", "is-enabled", WATCHDOG) == "enabled\n"
        verified = machine.attempt("systemd-analyze", "verify", f"/etc/systemd/system/{WATCHDOG}")
        assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    security = pair[0].attempt("systemd-analyze", "security", threshold, "--no-pager", WATCHDOG)
    print(security.stdout[-300:])
    assert security.returncode == 0
    wait_for_response(pair[0])
    wait_until(
        lambda: "no connector answers, so the broker is a standby" in status_text(pair[1]),
        "the standby's watchdog idles",
        pair[1],
    )


def wait_for_response(machine: Machine) -> None:
    wait_until(lambda: "answers: " in status_text(machine), "the watchdog gets a response", machine)


def status_text(machine: Machine) -> str:
    return machine.run("systemctl", "show", WATCHDOG, "--property=StatusText", "--value")


@in_every_situation
def test_checks_of_watchdog_cause_no_warning_in_log_of_broker(pair: tuple[Machine, Machine]) -> None:
    set_watchdog(pair[0], "warn", 0.2)
    warnings: list[str] = []
    for _ in range(40):
        wait_for_response(pair[0])
        log_length_before = len(broker_log(pair[0]))
        # The time is longer than a check may take, so that a check that timed out on a busy machine is noticed.
        until = time.monotonic() + 8
        statuses = []
        while time.monotonic() < until:
            statuses.append(status_text(pair[0]))
            time.sleep(0.1)
        if not all("answers: " in status for status in statuses):
            continue
        warnings = [
            line
            for line in broker_log(pair[0])[log_length_before:].splitlines()
            if "| WARN" in line and "Transport" in line
        ]
        if not warnings:  # the broker may log a check that timed out before only now
            return
    assert warnings == []
    raise LateError("the watchdog never got responses for 8 s without a break: run the test on a less busy machine")


def read_process_of_broker(machine: Machine) -> str:
    """Return the number of the broker's Java process."""
    (process,) = machine.run("pgrep", "--full", "java.*activemq.base").split()
    return process


def broker_log(machine: Machine) -> str:
    return machine.run("cat", "/var/lib/activemq/activemq/data/activemq.log")


@in_every_situation
def test_watchdog_with_action_warn_reports_frozen_broker_and_does_not_kill_it(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, _ = pair
    set_watchdog(active, "warn", 0.5)
    process_before, log_text = unit_properties(active, "MainPID"), watchdog_journal(active)
    active.run("systemctl", "kill", "--signal=STOP", UNIT)
    try:
        wait_for_message(active, "the broker is hung: 3 checks", log_text)
        wait_for_message(active, f"systemctl kill --signal=KILL {UNIT}", log_text)
    finally:
        active.run("systemctl", "kill", "--signal=CONT", UNIT)
    wait_for_message(active, "the broker is healthy again", log_text)
    assert unit_properties(active, "MainPID") == process_before
    assert controller.exchange("watch", active.address)["address"] == active.address


def test_watchdog_kills_frozen_broker_and_pair_recovers(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    active, standby = pair
    # The times are those of the rendered unit.
    set_watchdog(active, "kill", 6)
    restarts, log_text = int(unit_properties(active, "NRestarts")["NRestarts"]), watchdog_journal(active)
    active.run("systemctl", "kill", "--signal=STOP", UNIT)
    began = time.monotonic()
    # The standby serves, unless it gets no processor for the five seconds after which systemd starts the other broker.
    service = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())
    print(f"{service['address']} serves {time.monotonic() - began:.1f} s after the freeze; standby: {standby.address}")
    wait_for_message(active, "The watchdog kills it; systemd starts it again", log_text)
    wait_until(
        lambda: int(unit_properties(active, "NRestarts")["NRestarts"]) > restarts, "systemd starts it again", active
    )
    wait_for_pair(pair)
    wait_for_state(active, "active")


@in_every_situation
def test_audit_explains_kill_by_watchdog_and_bounds_downtime(
    controller: Controller, pair: tuple[Machine, Machine], tmp_path: Path
) -> None:
    active, standby = pair
    set_watchdog(active, "kill", 2)
    process = read_process_of_broker(active)
    frozen = time.time()
    active.run("kill", "-STOP", process)
    controller.exchange("watch", "--timeout", str(PATIENCE), standby.address)
    served = time.time()
    wait_for_pair(pair)
    checked_output(controller.run_playbook("collect", "-e", f"activemq_collect_to={tmp_path}/collected"))
    command = [
        sys.executable,
        "-m",
        "activemq_fleet",
        "audit",
        "--logs",
        f"{tmp_path}/collected",
        "-o",
        f"{tmp_path}/out",
    ]
    audit = subprocess.run(command, capture_output=True, text=True, check=False)
    assert audit.returncode == 1, audit.stderr

    incident_rows = pq.read_table(tmp_path / "out" / "incidents").to_pylist()
    takeover = max((row for row in incident_rows if row["kind"] == "takeover"), key=lambda row: row["ended"])
    print(takeover)
    assert takeover["began_from"] == "watchdog"
    assert f"hung (process {process} was stopped by a signal), and its watchdog killed it at" in takeover["cause"]
    active_at = takeover["ended"].timestamp()
    earliest, latest = (active_at - takeover[bound] for bound in ("downtime_max", "downtime_min"))
    assert earliest <= frozen <= latest <= active_at <= served
    assert any(row["kind"] == "hung_broker" and row["ended"].timestamp() > frozen for row in incident_rows)


@in_every_situation
def test_watchdog_does_not_kill_frozen_standby(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    set_watchdog(standby, "kill", 0.5)
    process_before, log_text = unit_properties(standby, "MainPID"), watchdog_journal(standby)
    standby.run("systemctl", "kill", "--signal=STOP", UNIT)
    try:
        wait_for_message(standby, "This broker cannot take over", log_text)
        time.sleep(2)
    finally:
        standby.run("systemctl", "kill", "--signal=CONT", UNIT)
    assert unit_properties(standby, "MainPID") == process_before
    assert "The watchdog kills it" not in watchdog_journal(standby)[len(log_text) :]


def test_watchdog_stops_and_starts_with_its_broker(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    standby.run("systemctl", "stop", UNIT)
    wait_for_state(standby, "inactive")
    standby.run("systemctl", "start", UNIT)
    wait_for_state(standby, "active")


def installed_units(machine: Machine) -> dict[str, str]:
    """Return what would differ after an incomplete rollback: the unit files, and what systemd has read of them."""
    return {
        unit: machine.run("cat", f"/etc/systemd/system/{unit}")
        + str(unit_properties(machine, "MemoryMax", "NeedDaemonReload", unit=unit))
        for unit in (UNIT, WATCHDOG)
    }


def test_failed_site_restores_units_of_broker_and_watchdog_on_both_hosts(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    units_before = [installed_units(machine) for machine in pair]
    process_before = unit_properties(active, "MainPID")
    variables = {
        "activemq_java_options": [BROKEN_OPTION],
        "activemq_unit_memory_max": "7g",
        "activemq_watchdog": "kill",
    }
    output = checked_output(controller.run_playbook("site", "--extra-vars", json.dumps(variables)), 2)
    assert "All other brokers of this run have their earlier configuration. Correct the cause on" in output
    assert [installed_units(machine) for machine in pair] == units_before
    assert unit_properties(active, "MainPID") == process_before
    wait_until(lambda: is_waiting(standby), f"{standby.name} is standby", active, standby)
    for machine in pair:
        wait_for_state(machine, "active")


@in_every_situation
def test_site_with_watchdog_off_removes_it_and_restarts_no_broker(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    pids = [unit_properties(machine, "MainPID") for machine in pair]
    checked_output(controller.run_playbook("site", "--extra-vars", '{"activemq_watchdog": "off"}'))
    for machine in pair:
        files = machine.attempt("ls", PROGRAM, f"/etc/systemd/system/{WATCHDOG}")
        assert files.stdout == ""
        wait_for_state(machine, "inactive")
    assert [unit_properties(machine, "MainPID") for machine in pair] == pids


def wait_for_check(machine: Machine) -> None:
    wait_until(lambda: "process" in status_text(machine), "the watchdog has checked its broker", machine)


@in_every_situation
def test_watchdog_checks_changed_broker_and_status_reports_unreadable_record(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    limit = ("--extra-vars", '{"activemq_store_limit": "2 gb"}')
    checked_output(controller.run_playbook("site", *limit))
    for machine in pair:
        wait_for_check(machine)
        assert "is not watched" not in watchdog_journal(machine)
    active, _ = controller.active_and_other_node()
    record = "/var/lib/activemq/activemq/.fleet-pending.json"
    active.run("chmod", "0600", record)
    wait_until(lambda: "is not watched" in status_text(active), "the watchdog cannot read the record", active)
    assert "not-watched" in controller.run_playbook("status", *limit).stdout
    checked_output(controller.run_playbook("site", *limit))
    assert active.attempt("ls", record).stdout == ""
    wait_for_check(active)
