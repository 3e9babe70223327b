"""The playbook ``drill`` on a pair of systemd hosts: clean, refused, with a frozen broker, and interrupted."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.hosts.brokers import UNIT, wait_until
from tests.hosts.machines import Machine
from tests.hosts.playbooks import Controller
from tests.situations import in_every_situation
from tests.support.host_drills import DRILL_VARIABLES, run_drill, start_drill
from tests.waiting import LateError

KILLS = int(os.environ.get("KILLS", "5"))
LONG = pytest.mark.skipif(KILLS <= 5, reason="the test takes a minute: set KILLS above 5, as `make test-full` does")


@pytest.fixture
def controller(installed_pair: Controller) -> Controller:
    return installed_pair


@pytest.fixture(autouse=True)
def running_pair(controller: Controller) -> None:
    """Wait until both nodes run and one of them is active."""
    machines = controller.rack.machines
    wait_until(lambda: all(process_state(machine) == "S" for machine in machines), "both brokers run", *machines)
    wait_until(lambda: len(active_nodes(machines)) == 1, "one of them is active", *machines)


def active_nodes(machines: Sequence[Machine]) -> list[Machine]:
    return [m for m in machines if m.attempt("bash", "-c", "ss -Hltn | grep -q :1883").returncode == 0]


def process_state(machine: Machine) -> str:
    """Return the state of the broker process in /proc: S, or T if it is frozen; empty without a process."""
    command = f"pid=$(systemctl show -p MainPID --value {UNIT}); awk '/^State/{{print $2}}' /proc/$pid/status"
    state = machine.attempt("bash", "-c", command).stdout.strip()
    return "S" if state in ("R", "D") else state


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("what", ["kill", pytest.param("crash", marks=LONG), pytest.param("stop", marks=LONG)])
def test_pair_survives_fault_and_drill_accounts_for_every_event(
    controller: Controller, tmp_path: Path, what: str
) -> None:
    active_before = active_nodes(controller.rack.machines)

    output, drill_result = run_drill(controller, tmp_path / "drill.html", activemq_drill_what=what)

    (fault,) = drill_result.faults_under_sufficient_load
    assert drill_result.verdict == "clean"
    assert "Nothing was lost: 1 fault" in output
    assert fault.host == active_before[0].name
    assert fault.successor != fault.host
    machines = controller.rack.machines
    wait_until(
        lambda: [m.name for m in active_nodes(machines)] == [fault.successor], "the successor is active", *machines
    )
    assert drill_result.conditions.where == "hosts"
    wait_until(lambda: not any(map(has_timer, machines)), "no timer remains", *machines)


def has_timer(machine: Machine) -> bool:
    """Return whether a timer exists that would restart the broker after a fault."""
    return "fleet-drill.timer" in machine.run("systemctl", "list-units", "--all", "*fleet-drill*")


@LONG
@pytest.mark.timeout(3600)
def test_broker_that_drill_froze_resumes_without_watchdog(controller: Controller, tmp_path: Path) -> None:
    active_before = active_nodes(controller.rack.machines)

    _, drill_result = run_drill(
        controller, tmp_path / "drill.html", activemq_drill_what="pause", __activemq_drill_hung_timeout=5
    )

    (fault,) = drill_result.faults_under_sufficient_load
    assert drill_result.verdict == "clean"
    assert fault.successor is None
    assert fault.silence is not None
    assert fault.silence >= 5
    machines = controller.rack.machines
    wait_until(lambda: active_nodes(machines) == active_before, "the broker that was frozen is active", *machines)


@in_every_situation
@pytest.mark.timeout(1800)
def test_drill_playbook_refuses_group_without_permission(controller: Controller) -> None:
    processes_before = [
        machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines
    ]

    output, _ = start_drill(controller).communicate(timeout=900)

    assert "the drill is not allowed for group orders" in output
    processes_after = [
        machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines
    ]
    assert processes_before == processes_after


@pytest.mark.timeout(1800)
def test_drill_reports_unreachable_mqtt_port_in_one_line(controller: Controller) -> None:
    processes_before = [
        machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines
    ]
    variables = DRILL_VARIABLES | {"activemq_drill_allowed": True}

    process = controller.start_playbook("drill", "-e", json.dumps(variables))  # outside of the network of the machines
    output, _ = process.communicate(timeout=900)

    assert process.returncode != 0
    (error_line,) = {line for line in output.splitlines() if line.startswith("fatal: ")}
    for address in controller.nodes.values():
        assert f"{address}:1883 (" in error_line
    assert "the playbook on another machine" in error_line
    processes_after = [
        machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines
    ]
    assert processes_before == processes_after


@pytest.mark.timeout(3600)
@in_every_situation
def test_broker_that_drill_froze_resumes_after_kill_of_controller(controller: Controller) -> None:
    machine = active_nodes(controller.rack.machines)[0]
    process = start_drill(
        controller, activemq_drill_allowed=True, activemq_drill_what="pause", __activemq_drill_recovery_delay=20
    )
    try:
        wait_until(
            lambda: process_state(machine) == "T" or process.poll() is not None,
            "the broker is frozen",
            machine,
            patience=900,
        )
        if process.poll() is not None:
            raise LateError(f"the drill has ended before a broker was frozen: {process.communicate()[0]}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    wait_until(lambda: process_state(machine) == "S", "the broker resumes", machine)
    wait_until(
        lambda: active_nodes(controller.rack.machines) == [machine], "the broker is active", *controller.rack.machines
    )
