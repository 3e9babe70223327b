"""The playbook ``drill`` on a pair of systemd hosts: clean, refused, frozen, and cut short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from activemq_fleet.drills import DrillResult
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import Controller

UNIT = "activemq.service"
PATIENCE = 180
RATE = 40
KILLS = int(os.environ.get("KILLS", "5"))
LONG = pytest.mark.skipif(KILLS <= 5, reason="a minute more, which `make test-full` has: KILLS above 5")
# The machines' names are not known outside of them.
HERE = {"activemq_address": "{{ ansible_host }}", "activemq_drill_rate": RATE}


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """A pair, installed and started by the playbook ``site``."""
    controller = Controller(repository, rack)
    controller.start_pair(share="/srv/activemq")
    done = controller.play("site")
    assert done.returncode == 0, done.stdout
    return controller


@pytest.fixture(autouse=True)
def whole(controller: Controller) -> None:
    """Both nodes run and one of them serves, whatever the test before did."""
    wait_until(lambda: all(letter(machine) == "S" for machine in controller.rack.machines))
    wait_until(lambda: len(active(controller.rack.machines)) == 1)


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a drill that was cut short has not removed yet goes with the test; paths of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="drill-", ignore_cleanup_errors=True) as directory:
        monkeypatch.setenv("TMPDIR", directory)
        yield


def active(machines: Sequence[Machine]) -> list[Machine]:
    return [m for m in machines if m.attempt("bash", "-c", "ss -Hltn | grep -q :1883").returncode == 0]


def letter(machine: Machine) -> str:
    """The state of the broker's process as /proc has it: S, or T for one that is frozen; empty without one."""
    command = f"pid=$(systemctl show -p MainPID --value {UNIT}); awk '/^State/{{print $2}}' /proc/$pid/status"
    found = machine.attempt("bash", "-c", command).stdout.strip()
    return "S" if found in ("R", "D") else found


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.5)


def start(controller: Controller, **variables: object) -> subprocess.Popen[str]:
    """The playbook, from within the machines' network, as a controller that reaches the brokers."""
    return controller.start("drill", "-e", json.dumps(HERE | variables), inside=True)


def drill(controller: Controller, report: Path, **variables: object) -> tuple[str, DrillResult]:
    process = start(
        controller, activemq_drill_allowed=True, activemq_drill_report=str(report), activemq_drill_kills=1, **variables
    )
    said, _ = process.communicate(timeout=900)
    assert process.returncode == 0, said
    return said, DrillResult.from_dict(json.loads(report.with_suffix(".json").read_text()))


@pytest.mark.once
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("what", ["kill", pytest.param("stop", marks=LONG)])
def test_a_blow_is_survived_and_every_event_accounted_for(controller: Controller, tmp_path: Path, what: str) -> None:
    before = active(controller.rack.machines)

    said, result = drill(controller, tmp_path / "drill.html", activemq_drill_what=what)

    (blow,) = result.counted
    assert result.verdict == "clean"
    assert "Nothing was lost: 1 blow" in said
    assert blow.host == before[0].name
    assert active(controller.rack.machines)[0].name == blow.successor != blow.host
    assert result.conditions.where == "hosts"
    timers = [m.run("systemctl", "list-units", "--all", "*fleet-drill*") for m in controller.rack.machines]
    assert not any("fleet-drill.timer" in text for text in timers)


@LONG
@pytest.mark.timeout(1200)
def test_a_frozen_broker_goes_on_where_no_watchdog_kills_it(controller: Controller, tmp_path: Path) -> None:
    before = active(controller.rack.machines)

    _, result = drill(controller, tmp_path / "drill.html", activemq_drill_what="pause", __activemq_drill_hung=5)

    (blow,) = result.counted
    assert (result.verdict, blow.successor) == ("clean", None)
    assert blow.silence is not None
    assert blow.silence >= 5
    assert [machine.name for machine in active(controller.rack.machines)] == [before[0].name]


@pytest.mark.timeout(600)
def test_a_group_that_nobody_has_opened_is_refused(controller: Controller) -> None:
    before = [machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines]

    said, _ = start(controller).communicate(timeout=300)

    assert "group orders may not be drilled" in said
    after = [machine.run("systemctl", "show", UNIT, "--property=MainPID") for machine in controller.rack.machines]
    assert before == after


@pytest.mark.timeout(1200)
def test_a_frozen_broker_goes_on_though_the_controller_is_dead(controller: Controller) -> None:
    struck = active(controller.rack.machines)[0]
    process = start(controller, activemq_drill_allowed=True, activemq_drill_what="pause", __activemq_drill_again=20)
    try:
        wait_until(lambda: letter(struck) == "T")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    wait_until(lambda: letter(struck) == "S")
    assert active(controller.rack.machines) == [struck]
