"""Restart and switchover of a real pair: under load, refused, cut short, and continued.

Pairs that are ill otherwise are in ``test_unhealthy.py``.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from contextlib import suppress

import pytest

from tests.hosts.brokers import SHARE, process, state, wait_for_pair, wait_for_places, wait_until
from tests.hosts.machines import Machine
from tests.hosts.playbooks import NODES, Controller, ended
from tests.hosts.unhealthy import Pair, hung_active, port_in_use, refuse
from tests.situations import in_every_situation
from tests.waiting import LateError

A, B = NODES
# How often the controller is killed: a number, or `all` for ten.
CUTS = int({"all": "10"}.get(said := os.environ.get("CUTS", "1"), said))
_SINCE = re.compile(r"-e activemq_since=(\S+)")


@pytest.fixture
def controller(installed_pair: Controller) -> Controller:
    return installed_pair


@pytest.fixture
def pair(controller: Controller) -> tuple[Machine, Machine]:
    """The node that serves and the one that stands by, whatever the test before did to them."""
    return wait_for_pair(controller.rack.machines)


def since(said: str) -> tuple[str, str]:
    found = _SINCE.search(said)
    assert found, said
    return "-e", f"activemq_since={found[1]}"


def go_on(controller: Controller, said: str) -> str:
    """Run it again as it said."""
    return ended(controller.play("restart", *since(said)))


def test_a_restart_under_load_loses_nothing_and_touches_each_node_once(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    before = {machine.name: process(machine) for machine in pair}
    with controller.streaming(900) as load_found:
        said = ended(controller.play("restart", "-e", "activemq_target=orders-mq01"))
    print(load_found)
    assert [machine.name for machine in pair if process(machine) == before[machine.name]] == []
    first = said.index(f"restarts {standby.name}, which is standby")
    assert first < said.index(f"restarts the active broker {active.name}")
    assert load_found["missing"] == []
    assert load_found["sent"] > 0
    restarts = re.findall(r"^changed: \[(\S+)\]", said, re.MULTILINE)
    assert restarts == [standby.name, active.name]


@in_every_situation
def test_a_switchover_goes_there_and_back_and_measures_its_gap(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    there = controller.switch_to(standby)
    wait_for_places(standby, active)
    # A machine that stands still for a moment may be a gap of its own.
    gap = re.search(r"interrupted [1-9]\d* times?\. The longest interruption lasted ([\d.]+) s", there)
    assert gap
    assert float(gap[1]) > 0
    wait_until(
        lambda: active.attempt("systemctl", "is-active", "activemq-fleet-return.service").stdout.strip() == "inactive",
        "the job that would start the broker has ended",
        active,
    )
    controller.switch_to(active)
    wait_for_places(active, standby)


@in_every_situation
def test_a_switchover_to_the_node_that_is_active_changes_nothing(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    before = [process(machine) for machine in pair]
    said = controller.switch_to(pair[0])
    assert said.count("changed=0") == 2
    assert [process(machine) for machine in pair] == before


def refused(controller: Controller, playbook: str, pair: tuple[Machine, Machine], *arguments: str) -> str:
    """What a run says that must not touch anything."""
    before = [process(machine) for machine in pair]
    done = controller.play(playbook, *arguments)
    print(done.stdout)
    assert done.returncode == 2
    assert [process(machine) for machine in pair] == before
    assert "changed=0" in done.stdout
    assert not re.search(r"changed=[1-9]", done.stdout)
    return done.stdout


@in_every_situation
def test_a_limit_that_cuts_the_pair_is_refused(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    said = refused(controller, "restart", pair, "--limit", A)
    assert f"nothing was changed, because --limit excludes these hosts of pair orders-mq01: {B}" in said


@in_every_situation
def test_a_pair_whose_active_node_is_hung_is_refused(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    refuse(controller, hung_active, Pair(*pair, controller.rack.shared(SHARE)), [("restart",)])


@in_every_situation
def test_switchover_refuses_standby_whose_port_is_in_use(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    """The failover would end on a node that cannot serve."""
    switchover = ("switchover", "-e", "activemq_target=orders-mq01", "-e", f"activemq_to={pair[1].name}")
    refuse(controller, port_in_use, Pair(*pair, controller.rack.shared(SHARE)), [switchover, ("restart",)])


@in_every_situation
def test_another_release_is_no_restart(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    said = refused(controller, "restart", pair, "-e", "activemq_release=5.18.3")
    for machine in pair:
        assert (
            f"{machine.name}: the broker runs 6.3.1, but activemq_release is 5.18.3, which requires an upgrade" in said
        )


@in_every_situation
def test_a_first_node_that_does_not_come_back_ends_the_run_and_the_next_one_goes_on(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    java = standby.run("readlink", "-f", "/usr/bin/java").strip()
    serving = process(active)
    standby.run("chmod", "a-x", java)
    try:
        done = controller.play("restart")
    finally:
        standby.run("chmod", "a+x", java)
    print(done.stdout)
    assert done.returncode == 2
    assert f"{standby.name} did not start again: " in done.stdout
    assert f"Its peer {active.name} was not changed and serves alone" in done.stdout
    assert process(active) == serving
    wait_until(lambda: state(standby) == "standby", f"{standby.name} stands by", standby)
    back = process(standby)
    go_on(controller, done.stdout)
    assert process(standby) == back
    assert process(active) != serving


@in_every_situation
def test_a_host_that_is_lost_after_the_first_step_ends_the_run(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    serving = process(active)
    running = controller.start("restart")
    assert running.stdout
    lines, step = [], "TASK [activemq.fleet.broker : Restart the broker]"
    try:
        for line in running.stdout:
            lines.append(line)
            if step in line:
                active.isolate()
        code = running.wait()
    finally:
        end(running)
        active.reconnect()
    said = "".join(lines)
    print(said)
    if said.count(step) > 1:
        raise LateError("the host was lost only after the second step had begun")
    assert code != 0
    assert f"{active.name} failed or was not reached, so no further host is changed" in said
    assert process(active) == serving
    wait_until(lambda: state(standby) == "standby", f"{standby.name} stands by", standby)
    back = process(standby)
    go_on(controller, said)
    assert process(standby) == back
    assert process(active) != serving


def end(running: subprocess.Popen[str]) -> str:
    """The controller and all that it started die at once; what it had said and nobody had read yet."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    if not running.stdout or running.stdout.closed:
        return ""
    with running.stdout as stdout:
        return stdout.read()


@in_every_situation
def test_a_switchover_that_was_killed_leaves_no_node_stopped_for_long(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    wanted = ("-e", "activemq_target=orders-mq01", "-e", f"activemq_to={standby.name}")
    running = controller.start("switchover", *wanted, "-e", "__activemq_return_after=15")
    assert running.stdout
    for line in running.stdout:
        if "TASK [activemq.fleet.broker : Wait until the peer has taken over]" in line:
            break
    end(running)
    ended(controller.play("switchover", *wanted))
    wait_for_places(standby, active)


@in_every_situation
@pytest.mark.parametrize("cut", range(CUTS))
def test_a_run_that_was_killed_anywhere_is_finished_by_the_next(
    controller: Controller, pair: tuple[Machine, Machine], cut: int
) -> None:
    before = {machine.name: process(machine) for machine in pair}
    # Of about forty tasks: in the first look, between two, or while a broker is restarted.
    tasks = random.SystemRandom().randint(3, 45) if cut else 15
    running = controller.start("restart")
    assert running.stdout
    lines = []
    for line in running.stdout:
        lines.append(line)
        tasks -= line.startswith("TASK ")
        if not tasks:
            break
    # Whoever reads is behind: it may have begun to restart in the meantime.
    lines += end(running).splitlines(keepends=True)
    print(f"killed in {[line for line in lines if line.startswith('TASK ')][-1]}")
    wait_until(lambda: "active" in {state(machine) for machine in pair}, "one of them serves", *pair)
    said = "".join(lines)
    if _SINCE.search(said):
        go_on(controller, said)
    else:
        assert {machine.name: process(machine) for machine in pair} == before
        ended(controller.play("restart"))
    wait_for_pair(pair)
    assert not [machine.name for machine in pair if process(machine) == before[machine.name]]
