"""Restart and switchover of a real pair: under load, refused, interrupted, and continued.

``test_unhealthy.py`` tests pairs that are unhealthy in other ways.
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
from tests.hosts.playbooks import NODES, Controller, checked_output
from tests.hosts.unhealthy import Pair, assert_refused, hung_active, port_in_use
from tests.situations import in_every_situation
from tests.waiting import LateError

A, B = NODES
_CUTS = os.environ.get("CUTS", "1")
CUTS = 10 if _CUTS == "all" else int(_CUTS)
"""How often the test kills the controller."""
_SINCE = re.compile(r"-e activemq_since=(\S+)")


@pytest.fixture
def controller(installed_pair: Controller) -> Controller:
    return installed_pair


@pytest.fixture
def pair(controller: Controller) -> tuple[Machine, Machine]:
    """Return the active node and the standby, as soon as the pair has recovered from the previous test."""
    return wait_for_pair(controller.rack.machines)


def since_arguments(output: str) -> tuple[str, str]:
    """Return the arguments with which a run continues, from the output of the interrupted run."""
    since = _SINCE.search(output)
    assert since, output
    return "-e", f"activemq_since={since[1]}"


def continue_restart(controller: Controller, output: str) -> str:
    """Continue an interrupted restart, as its output instructs."""
    return checked_output(controller.run_playbook("restart", *since_arguments(output)))


def test_restart_under_load_loses_nothing_and_restarts_each_node_once(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    processes_before = {machine.name: process(machine) for machine in pair}
    with controller.streaming(900) as load_result:
        output = checked_output(controller.run_playbook("restart", "-e", "activemq_target=orders-mq01"))
    print(load_result)
    assert [machine.name for machine in pair if process(machine) == processes_before[machine.name]] == []
    position_of_standby = output.index(f"restarts {standby.name}, which is standby")
    assert position_of_standby < output.index(f"restarts the active broker {active.name}")
    assert load_result["missing"] == []
    assert load_result["sent"] > 0
    restarts = re.findall(r"^changed: \[(\S+)\]", output, re.MULTILINE)
    assert restarts == [standby.name, active.name]


@in_every_situation
def test_switchover_in_both_directions_succeeds_and_reports_downtime(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    output = controller.switch_to(standby)
    wait_for_places(standby, active)
    # A machine that freezes for a moment may cause a separate interruption.
    downtime = re.search(r"interrupted [1-9]\d* times?\. The longest interruption lasted ([\d.]+) s", output)
    assert downtime
    assert float(downtime[1]) > 0
    wait_until(
        lambda: active.attempt("systemctl", "is-active", "activemq-fleet-return.service").stdout.strip() == "inactive",
        "the job that would start the broker has ended",
        active,
    )
    controller.switch_to(active)
    wait_for_places(active, standby)


@in_every_situation
def test_switchover_to_active_node_changes_nothing(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    processes_before = [process(machine) for machine in pair]
    output = controller.switch_to(pair[0])
    assert output.count("changed=0") == 2
    assert [process(machine) for machine in pair] == processes_before


def refusal(controller: Controller, playbook: str, pair: tuple[Machine, Machine], *arguments: str) -> str:
    """Return the output of a run; check that it fails and changes nothing."""
    processes_before = [process(machine) for machine in pair]
    completed = controller.run_playbook(playbook, *arguments)
    print(completed.stdout)
    assert completed.returncode == 2
    assert [process(machine) for machine in pair] == processes_before
    assert "changed=0" in completed.stdout
    assert not re.search(r"changed=[1-9]", completed.stdout)
    return completed.stdout


@in_every_situation
def test_restart_refuses_limit_that_excludes_node_of_pair(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    output = refusal(controller, "restart", pair, "--limit", A)
    assert f"nothing was changed, because --limit excludes these hosts of pair orders-mq01: {B}" in output


@in_every_situation
def test_restart_refuses_pair_whose_active_node_is_hung(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    assert_refused(controller, hung_active, Pair(*pair, controller.rack.shared(SHARE)), [("restart",)])


@in_every_situation
def test_switchover_refuses_standby_whose_port_is_in_use(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    """The failover would end on a node that cannot serve."""
    switchover = ("switchover", "-e", "activemq_target=orders-mq01", "-e", f"activemq_to={pair[1].name}")
    assert_refused(controller, port_in_use, Pair(*pair, controller.rack.shared(SHARE)), [switchover, ("restart",)])


@in_every_situation
def test_restart_refuses_release_that_requires_upgrade(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    output = refusal(controller, "restart", pair, "-e", "activemq_release=5.18.3")
    for machine in pair:
        assert (
            f"{machine.name}: the broker runs 6.3.1, but activemq_release is 5.18.3. Run the playbook upgrade" in output
        )


@in_every_situation
def test_restart_stops_if_first_node_does_not_start_and_next_run_continues(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    java = standby.run("readlink", "-f", "/usr/bin/java").strip()
    active_process = process(active)
    standby.run("chmod", "a-x", java)
    try:
        completed = controller.run_playbook("restart")
    finally:
        standby.run("chmod", "a+x", java)
    print(completed.stdout)
    assert completed.returncode == 2
    assert f"{standby.name} did not start again: " in completed.stdout
    assert f"This run did not change its peer {active.name}, which serves alone" in completed.stdout
    assert process(active) == active_process
    wait_until(lambda: state(standby) == "standby", f"{standby.name} is standby", standby)
    standby_process = process(standby)
    continue_restart(controller, completed.stdout)
    assert process(standby) == standby_process
    assert process(active) != active_process


@in_every_situation
def test_restart_stops_if_host_is_lost_after_first_step(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    active, standby = pair
    active_process = process(active)
    running = controller.start_playbook("restart")
    assert running.stdout
    lines, step = [], "TASK [activemq.fleet.broker : Restart the broker]"
    try:
        for line in running.stdout:
            lines.append(line)
            if step in line:
                active.isolate()
        exit_code = running.wait()
    finally:
        kill_run(running)
        active.reconnect()
    output = "".join(lines)
    print(output)
    if output.count(step) > 1:
        raise LateError("the host was lost only after the second step had begun: run the test again")
    assert exit_code != 0
    assert f"{active.name} failed or was not reached, so no further host is changed" in output
    assert process(active) == active_process
    wait_until(lambda: state(standby) == "standby", f"{standby.name} is standby", standby)
    standby_process = process(standby)
    continue_restart(controller, output)
    assert process(standby) == standby_process
    assert process(active) != active_process


def kill_run(running: subprocess.Popen[str]) -> str:
    """Kill the controller and all processes that it started; return the output that was not read before."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    if not running.stdout or running.stdout.closed:
        return ""
    with running.stdout as stdout:
        return stdout.read()


@in_every_situation
def test_next_switchover_succeeds_after_switchover_was_killed(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    target = ("-e", "activemq_target=orders-mq01", "-e", f"activemq_to={standby.name}")
    running = controller.start_playbook("switchover", *target, "-e", "__activemq_return_job_delay=15")
    assert running.stdout
    for line in running.stdout:
        if "TASK [activemq.fleet.broker : Wait until the peer has taken over]" in line:
            break
    kill_run(running)
    checked_output(controller.run_playbook("switchover", *target))
    wait_for_places(standby, active)


@in_every_situation
@pytest.mark.parametrize("cut", range(CUTS))
def test_next_restart_completes_run_that_was_killed_at_any_task(
    controller: Controller, pair: tuple[Machine, Machine], cut: int
) -> None:
    processes_before = {machine.name: process(machine) for machine in pair}
    # A run has about forty tasks: the kill is in the first inspection, between two, or during a restart.
    remaining_tasks = random.SystemRandom().randint(3, 45) if cut else 15
    running = controller.start_playbook("restart")
    assert running.stdout
    lines = []
    for line in running.stdout:
        lines.append(line)
        remaining_tasks -= line.startswith("TASK ")
        if not remaining_tasks:
            break
    # The output that was read is older than the run: the run may have started a restart in the meantime.
    lines += kill_run(running).splitlines(keepends=True)
    print(f"killed in {[line for line in lines if line.startswith('TASK ')][-1]}")
    wait_until(lambda: "active" in {state(machine) for machine in pair}, "one node of the pair is active", *pair)
    output = "".join(lines)
    if _SINCE.search(output):
        continue_restart(controller, output)
    else:
        assert {machine.name: process(machine) for machine in pair} == processes_before
        checked_output(controller.run_playbook("restart"))
    wait_for_pair(pair)
    assert not [machine.name for machine in pair if process(machine) == processes_before[machine.name]]
