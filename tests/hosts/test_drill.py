"""The playbook ``drill`` on a pair of systemd hosts: clean, refused, frozen, and cut short."""

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
LONG = pytest.mark.skipif(KILLS <= 5, reason="a minute more, which `make test-full` has: KILLS above 5")


@pytest.fixture
def controller(installed_pair: Controller) -> Controller:
    return installed_pair


@pytest.fixture(autouse=True)
def whole(controller: Controller) -> None:
    """Both nodes run and one of them serves, whatever the test before did."""
    machines = controller.rack.machines
    wait_until(lambda: all(letter(machine) == "S" for machine in machines), "both brokers run", *machines)
    wait_until(lambda: len(active(machines)) == 1, "one of them serves", *machines)


def active(machines: Sequence[Machine]) -> list[Machine]:
    return [m for m in machines if m.attempt("bash", "-c", "ss -Hltn | grep -q :1883").returncode == 0]


def letter(machine: Machine) -> str:
    """The state of the broker's process as /proc has it: S, or T for one that is frozen; empty without one."""
    command = f"pid=$(systemctl show -p MainPID --value {UNIT}); awk '/^State/{{print $2}}' /proc/$pid/status"
    found = machine.attempt("bash", "-c", command).stdout.strip()
    return "S" if found in ("R", "D") else found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("what", ["kill", pytest.param("crash", marks=LONG), pytest.param("stop", marks=LONG)])
def test_a_fault_is_survived_and_every_event_accounted_for(controller: Controller, tmp_path: Path, what: str) -> None:
    before = active(controller.rack.machines)

    output, result = run_drill(controller, tmp_path / "drill.html", activemq_drill_what=what)

    (fault,) = result.faults_under_sufficient_load
    assert result.verdict == "clean"
    assert "Nothing was lost: 1 fault" in output
    assert fault.host == before[0].name
    assert fault.successor != fault.host
    machines = controller.rack.machines
    wait_until(lambda: [m.name for m in active(machines)] == [fault.successor], "the successor serves", *machines)
    assert result.conditions.where == "hosts"
    wait_until(lambda: not any(map(timers, machines)), "no timer is left", *machines)


def timers(machine: Machine) -> bool:
    """Whether a timer is left that would bring a struck broker back."""
    return "fleet-drill.timer" in machine.run("systemctl", "list-units", "--all", "*fleet-drill*")


@LONG
@pytest.mark.timeout(3600)
def test_a_frozen_broker_goes_on_where_no_watchdog_kills_it(controller: Controller, tmp_path: Path) -> None:
    before = active(controller.rack.machines)

    _, result = run_drill(controller, tmp_path / "drill.html", activemq_drill_what="pause", __activemq_drill_hung=5)

    (fault,) = result.faults_under_sufficient_load
    assert (result.verdict, fault.successor) == ("clean", None)
    assert fault.silence is not None
    assert fault.silence >= 5
    machines = controller.rack.machines
    wait_until(lambda: active(machines) == before, "the one that was frozen serves", *machines)


@in_every_situation
@pytest.mark.timeout(1800)
def test_a_group_that_nobody_has_opened_is_refused(controller: Controller) -> None:
    before = [machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines]

    output, _ = start_drill(controller).communicate(timeout=900)

    assert "the drill is not allowed for group orders" in output
    after = [machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines]
    assert before == after


@pytest.mark.timeout(1800)
def test_a_controller_that_cannot_open_mqtt_is_told_so_in_one_line_within_seconds(controller: Controller) -> None:
    before = [machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines]
    variables = DRILL_VARIABLES | {"activemq_drill_allowed": True}

    process = controller.start_playbook("drill", "-e", json.dumps(variables))  # outside of the machines' network
    said, _ = process.communicate(timeout=900)

    assert process.returncode != 0
    (told,) = {line for line in said.splitlines() if line.startswith("fatal: ")}
    for address in controller.nodes.values():
        assert f"{address}:1883 (" in told
    assert "the playbook on another machine" in told
    after = [machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines]
    assert before == after


@pytest.mark.timeout(3600)
@in_every_situation
def test_a_frozen_broker_goes_on_though_the_controller_is_dead(controller: Controller) -> None:
    struck = active(controller.rack.machines)[0]
    process = start_drill(
        controller, activemq_drill_allowed=True, activemq_drill_what="pause", __activemq_drill_again=20
    )
    try:
        wait_until(lambda: letter(struck) == "T" or process.poll() is not None, "it is frozen", struck, patience=900)
        if process.poll() is not None:
            raise LateError(f"the drill has ended, and nobody was seen frozen: {process.communicate()[0]}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    wait_until(lambda: letter(struck) == "S", "it goes on", struck)
    wait_until(lambda: active(controller.rack.machines) == [struck], "it serves", *controller.rack.machines)
