"""Two pairs, rolled through as one fleet: while one is worked on, a host of the other is lost, at every step.

Each run must end with nothing further touched, and the same command must go on from there. It takes some ten minutes,
so it runs with ``CUTS`` of 10 or more, as in ``make test-full``. With one pair it is in ``test_restart.py``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.brokers import SHARE, process, wait_for_pair, wait_until, were_down_together
from tests.hosts.machines import Machine, MachinesError, Rack
from tests.hosts.playbooks import Controller

WHOLE = os.environ.get("CUTS", "3") in ("all", "10")
NODES = {
    "orders-mq01-a.example.com": "10.77.0.41",
    "orders-mq01-b.example.com": "10.77.0.42",
    "orders-mq02-a.example.com": "10.77.0.43",
    "orders-mq02-b.example.com": "10.77.0.44",
}
OLD, NEW = "5.18.3", "6.3.1"
ACT = "Act"
_TASK = re.compile(r"TASK \[(?:activemq\.fleet\.broker : )?(.*?)\]")
_SAYS = re.compile(r'"msg": "(?:(?:restart|upgrade) (\S+?),? (?:which|the standby|from)|\S+ takes over from (\S+) )')

pytestmark = [pytest.mark.timeout(3600), pytest.mark.skipif(not WHOLE, reason="ten minutes: CUTS=10")]


def to(release: str) -> tuple[str, ...]:
    """What makes the inventory say this release, from jars."""
    said = {
        "activemq_release": release,
        "activemq_install": "jars",
        "activemq_archive": str(fetch_jar_directory(Release.of(release))),
        "activemq_archive_sha512": None,
    }
    return "--extra-vars", json.dumps(said)


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """Two pairs of the old release, installed and started by the playbook ``site``."""
    controller = Controller(repository, rack, "network", {})
    rack.up(NODES, shares=[SHARE], owner=os.getpid())
    done = controller.play("site", *to(OLD))
    print(done.stdout)
    assert done.returncode == 0
    return controller


def pairs_of(controller: Controller) -> tuple[tuple[Machine, ...], tuple[Machine, ...]]:
    machines = controller.rack.machines
    return machines[:2], machines[2:]


def wait_for_pairs(controller: Controller) -> None:
    for pair in pairs_of(controller):
        wait_for_pair(pair)


def processes(machines: Sequence[Machine]) -> dict[str, str]:
    return {machine.name: process(machine) for machine in machines}


@dataclass(slots=True)
class Told:
    """What a run has said so far: its lines, the tasks that began, and the hosts that it said it would act on."""

    lines: list[str] = field(default_factory=list)
    task: str = ""
    acts: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        self.lines.append(line)
        if task := _TASK.match(line):
            self.task = task[1]
        elif self.task == "Show the next step" and (said := _SAYS.search(line)):
            self.acts.append(said[1] or said[2])


def lose(controller: Controller, task: str, *command: str) -> tuple[Told, Machine]:
    """Play until a task begins, cut a host off that is not of the pair in work, and see the run end."""
    one, two = pairs_of(controller)
    lost: Machine | None = None
    told = Told()
    running = controller.start(*command)
    assert running.stdout
    try:
        for line in running.stdout:
            told.hear(line)
            if lost is None and told.task == task and (told.acts or task != ACT):
                others = one if told.acts[-1:] and told.acts[-1].startswith("orders-mq02") else two
                lost = others[len(told.acts) % 2]
                lost.isolate()
        code = running.wait(60)
    finally:
        running.kill()
        running.stdout.close()
        if lost:
            lost.reconnect()
            wait_until(lambda: is_reached(lost))
    print("".join(told.lines))
    assert code
    assert lost
    return told, lost


def is_reached(machine: Machine) -> bool:
    with suppress(MachinesError, subprocess.SubprocessError):
        return machine.attempt("true").returncode == 0
    return False


def check(controller: Controller, before: dict[str, str], told: Told, lost: Machine) -> None:
    """Nothing further was touched, and no pair was ever down as a whole."""
    said = "".join(told.lines)
    assert f"{lost.name} failed or was not reached, so no further host is changed" in said
    # Lost amid a look it may be missed there, and is found by the next.
    assert len(told.acts) <= 1
    wait_for_pairs(controller)
    now = processes(controller.rack.machines)
    assert {name for name in now if now[name] != before[name]} == set(told.acts)
    for one, other in pairs_of(controller):
        assert were_down_together(one, other) == []


@pytest.mark.parametrize(
    ("playbook", "release", "tasks", "acts"),
    [
        ("restart", OLD, ("Inspect the broker",), 4),
        ("upgrade", NEW, ("Inspect the broker", "Inspect the machine"), 6),
    ],
)
def test_nothing_further_is_touched_when_a_host_of_another_pair_is_lost(
    controller: Controller, playbook: str, release: str, tasks: Sequence[str], acts: int
) -> None:
    """Lost before the first act, and then at every one: each run does one more than that before it."""
    wait_for_pairs(controller)
    command = (playbook, *to(release))
    points, done = [*tasks, *[ACT] * acts], list[str]()
    while len(done) < acts:
        before = processes(controller.rack.machines)
        told, lost = lose(controller, points.pop(0), *command)
        check(controller, before, told, lost)
        done += told.acts
        if playbook == "restart" and len(command) == len(to(release)) + 1:
            found = re.search(r"-e activemq_since=(\S+)", "".join(told.lines))
            assert found
            command = (*command, "-e", f"activemq_since={found[1]}")
    assert set(done) == set(NODES)
    end = controller.play(*command)
    print(end.stdout)
    assert end.returncode == 0
    assert end.stdout.count("changed=0 ") == len(NODES)
