"""Upgrade of a real pair from 5.18.3 to 6.3.1: refused, interrupted, rolled back, and with its messages.

All releases are installed from jars. With ``SITUATIONS=all`` the pair starts with 5.17.6, whose archive is not
available everywhere. ``CUTS`` of 10 or more interrupts the upgrade at ten points, and also tests an upgrade to the
older release with messages.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.audit.operation_records import UNENDED, parse_planned_operations
from activemq_fleet.releases import Release
from tests.hosts.brokers import BASE, SHARE, UNIT, common_downtimes, wait_for_pair, wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import NODES, Controller, checked_output
from tests.hosts.unhealthy import Pair, assert_refused, foreign_marker
from tests.situations import EVERY_SITUATION, in_every_situation
from tests.waiting import PATIENCE, LateError

BETWEEN, NEW = "5.18.3", "6.3.1"
OLD = "5.17.6" if EVERY_SITUATION else BETWEEN
MESSAGE_COUNT = "20"
# Where the controller is killed with `CUTS` of 10 or more: a task, and the number of its start. Each takes a minute.
POINTS = (
    ("Inspect the broker", 1),
    ("Inspect the machine", 1),
    ("Install the files", 1),
    ("Start the release", 1),
    ("Wait until it is ready, and check its release", 1),
    ("Wait for the first completed round trip", 1),
    ("Stop the broker, and have it started again in any case", 1),
    ("Wait until the peer has taken over", 1),
    ("Remove the job that would start it", 1),
    ("Start the release", 3),  # the second start is in the switchover, which skips the task
)
ALL_CUTS = os.environ.get("CUTS", "3") in ("all", "10")
# The class does not exist: Java runs, and the broker stops with a stack trace.
BROKEN_OPTION = "-Djavax.xml.parsers.DocumentBuilderFactory=no.such.Factory"
# The open jar of the process identifies the release that it runs, independent of the installed files.
PRINT_RUNNING_RELEASE = (
    f"ls -l /proc/$(systemctl show {UNIT} -p MainPID --value)/fd | grep -oP 'activemq-broker-\\K[0-9.]+(?=\\.jar)'"
)


def release_arguments(release: str, **variables: object) -> tuple[str, ...]:
    """Return the arguments that set a release and its jars."""
    archive = str(fetch_jar_directory(Release.of(release)))
    return "--extra-vars", json.dumps({"activemq_release": release, "activemq_archive": archive, **variables})


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """Return a controller of a pair of the old release, with messages for a session that is not connected."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    play(controller, "site", OLD)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("leave", serving, MESSAGE_COUNT)
    return controller


def play(controller: Controller, playbook: str, release: str, **variables: object) -> str:
    return checked_output(controller.run_playbook(playbook, *release_arguments(release, **variables)))


def refusal(controller: Controller, release: str, **variables: object) -> str:
    return checked_output(controller.run_playbook("upgrade", *release_arguments(release, **variables)), 2)


def ensure_release(controller: Controller, release: str) -> None:
    """Bring both nodes to a release in a healthy pair: an earlier attempt may have ended at any step."""
    wait_for_pair(controller.rack.machines)
    if running_releases(controller) != [release, release]:
        for step in (BETWEEN, NEW) if release == NEW else (release,):
            play(controller, "upgrade", step)
        wait_for_pair(controller.rack.machines)


def wait_for_release(controller: Controller, release: str) -> None:
    wait_until(
        lambda: running_releases(controller) == [release, release], f"both run {release}", *controller.rack.machines
    )


def running_releases(controller: Controller) -> list[str]:
    """Return the release that the process of each node runs."""
    return [machine.attempt("bash", "-c", PRINT_RUNNING_RELEASE).stdout.strip() for machine in controller.rack.machines]


def traces(machine: Machine) -> str:
    """Return all that an upgrade would change: process, configuration, installed releases."""
    script = f"systemctl show {UNIT} -p MainPID; readlink {BASE}/current; ls {BASE}/versions /opt"
    return machine.run("bash", "-c", script)


def failures(output: str) -> list[str]:
    """Return the message of each failed task, in order; check that each is one readable line."""
    failed_tasks = [line.partition(" => ")[2] for line in output.splitlines() if line.startswith("fatal: ")]
    messages = [str(json.loads(text)["msg"]) for text in failed_tasks]
    assert all("\n" not in message and " more" not in message for message in messages)
    assert all(len(text) < 1200 for text in failed_tasks)
    assert "Unknown error" not in output
    return messages


def steps(output: str) -> list[str]:
    """Return the steps of a run, in their order; the step of an upgrade includes the letter of its node."""
    logged_steps = re.findall(
        r'"msg": "(?:the playbook (upgrade)s orders-mq01-([ab])\S* from|orders-mq01-[ab]\S* takes over from)', output
    )
    return [f"upgrade {node}" if act else "switch" for act, node in logged_steps]


@in_every_situation
def test_upgrade_refuses_release_that_cannot_read_store(controller: Controller) -> None:
    traces_before = [traces(machine) for machine in controller.rack.machines]
    output = refusal(controller, "5.11.4")
    assert f"the broker runs {OLD} and has changed the store, which 5.11.4 therefore cannot read" in output
    assert [traces(machine) for machine in controller.rack.machines] == traces_before


@in_every_situation
def test_site_refuses_other_release_line_and_names_upgrade(controller: Controller) -> None:
    traces_before = [traces(machine) for machine in controller.rack.machines]
    assert "upgrade" in checked_output(controller.run_playbook("site", *release_arguments(BETWEEN)), 2)
    assert [traces(machine) for machine in controller.rack.machines] == traces_before


@in_every_situation
def test_upgrade_refuses_store_with_marker_of_other_pair(controller: Controller) -> None:
    ensure_release(controller, OLD)
    pair = Pair(*wait_for_pair(controller.rack.machines), controller.rack.shared(SHARE))
    assert_refused(controller, foreign_marker, pair, [("upgrade", *release_arguments(NEW))])


@in_every_situation
def test_upgrade_changes_standby_then_switches_over_then_changes_other_node(controller: Controller) -> None:
    ensure_release(controller, OLD)
    active, standby = (machine.name.split(".")[0][-1] for machine in wait_for_pair(controller.rack.machines))
    output = play(controller, "upgrade", BETWEEN)
    assert steps(output) == [f"upgrade {standby}", "switch", f"upgrade {active}"]
    wait_for_release(controller, BETWEEN)
    assert f"rollback is possible, because {OLD} can read the store of {BETWEEN}" in output
    for machine in controller.rack.machines:
        assert machine.run("ls", "/opt").split() == ["activemq", f"activemq-{OLD}", f"activemq-{BETWEEN}"]


@pytest.fixture(scope="module")
def upgraded(controller: Controller) -> tuple[str, Machine, Machine]:
    """Upgrade to the newest release; return the output of ``brief``, the node that was active, and the standby."""
    ensure_release(controller, BETWEEN)
    active, standby = wait_for_pair(controller.rack.machines)
    brief = replace(controller, variables={**controller.variables, "ANSIBLE_STDOUT_CALLBACK": "activemq.fleet.brief"})
    return play(brief, "upgrade", NEW), active, standby


def test_brief_upgrade_output_has_less_than_100_lines_and_table(upgraded: tuple[str, Machine, Machine]) -> None:
    output, active, standby = upgraded
    lines = output.splitlines()
    assert len(lines) < 100
    table = lines[next(number for number, line in enumerate(lines) if line.split()[:2] == ["host", "before"]) :][:3]
    assert [line.split()[:5] for line in table[1:]] == [
        [name, BETWEEN, previous, NEW, current]
        for name, previous, current in sorted([(active.name, "active", "standby"), (standby.name, "standby", "active")])
    ]
    assert [" s " in line for line in table[1:]] == [line.split()[0] == active.name for line in table[1:]]


@pytest.mark.usefixtures("upgraded")
def test_messages_of_oldest_release_survive_upgrade_to_newest(controller: Controller) -> None:
    wait_for_release(controller, NEW)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("take", serving, MESSAGE_COUNT)


def test_upgrade_starts_standby_before_active_node(
    controller: Controller, upgraded: tuple[str, Machine, Machine]
) -> None:
    _, active, standby = upgraded
    wait_for_release(controller, NEW)
    assert unit_start_microseconds(standby) < unit_start_microseconds(active)


def unit_start_microseconds(machine: Machine) -> int:
    """Return when the unit started, by the clock that all machines share."""
    return int(machine.run("systemctl", "show", UNIT, "--property=ActiveEnterTimestampMonotonic", "--value"))


@pytest.mark.usefixtures("upgraded")
def test_upgrade_records_operation_on_both_hosts(controller: Controller, tmp_path: Path) -> None:
    checked_output(controller.run_playbook("collect", "-e", f"activemq_collect_to={tmp_path}/collected"))
    for machine in controller.rack.machines:
        operation_records = (tmp_path / "collected" / machine.name / "operations.jsonl").read_bytes()
        operations, problems = parse_planned_operations(machine.name, operation_records)
        assert problems == ()
        assert {operation.operation for operation in operations} == {"site", "upgrade"}
        assert all(operation.began < operation.ended and "@" in operation.by for operation in operations)
        assert max(operation.ended - operation.began for operation in operations) < UNENDED  # each record has an end


@in_every_situation
def test_upgrade_rolls_back_node_that_does_not_start(controller: Controller) -> None:
    ensure_release(controller, NEW)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    active = next(machine for machine in controller.rack.machines if machine.address == serving)
    traces_before = traces(active)
    for _ in range(
        1 + EVERY_SITUATION
    ):  # in a second attempt, the journal contains the stack traces of the first attempt
        output = refusal(controller, BETWEEN, activemq_java_options=[BROKEN_OPTION])
        first_failure, last_failure, *_ = failures(output)
        assert re.search(r"the broker is stopped: .*no[./]such[./]Factory", first_failure)
        assert f"(check {BASE}/data/activemq.log and journalctl -u {UNIT})" in first_failure
        assert f"did not become ready with release {BETWEEN}: the broker is stopped: " in last_failure
        assert re.search(r"no[./]such[./]Factory", last_failure)
        assert re.search(
            rf"Rollback: the host has configuration \w+ with release {NEW} again, and is standby", last_failure
        )
        assert re.search(r"Correct the cause on \S+, and run the same command again$", last_failure)
    wait_for_release(controller, NEW)
    # Both releases were installed before, so nothing on the active node has changed.
    assert traces(active) == traces_before


def kill_at(process: subprocess.Popen[str], task: str, time: int = 1) -> str:
    """Kill the controller and all processes that it started, as soon as a task begins for the ``time``-th time.

    Return the output, including the part that was not read before the kill.
    """
    assert process.stdout
    lines = []
    with process.stdout:
        for line in process.stdout:
            lines.append(line)
            time -= line.startswith("TASK ") and f"{task}]" in line
            if not time:
                os.killpg(process.pid, signal.SIGKILL)
                lines.append(process.stdout.read())
                break
    output = "".join(lines)
    print(output)
    if process.wait() != -signal.SIGKILL:
        raise LateError(f"the run had exited with status {process.returncode} before the kill at task: {task}")
    return output


@pytest.mark.skipif(not ALL_CUTS, reason="the test takes ten minutes: set CUTS=10")
@pytest.mark.parametrize(("number", "point"), list(enumerate(POINTS)))
def test_next_upgrade_completes_run_that_was_killed_at_any_task(
    controller: Controller, number: int, point: tuple[str, int]
) -> None:
    """Older and newer releases alternate, and the next run starts immediately after the kill."""
    machines = controller.rack.machines
    initial, target = ((NEW, BETWEEN), (BETWEEN, NEW))[number % 2]
    ensure_release(controller, initial)
    kill_at(controller.start_playbook("upgrade", *release_arguments(target)), *point)
    play(controller, "upgrade", target)
    wait_for_release(controller, target)
    wait_for_pair(machines)
    assert common_downtimes(*machines) == []


@pytest.mark.skipif(not ALL_CUTS, reason="the upgrade to the older release takes another minute: set CUTS=10")
def test_upgrade_to_older_release_keeps_messages(controller: Controller) -> None:
    ensure_release(controller, NEW)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("leave", serving, MESSAGE_COUNT)
    play(controller, "upgrade", BETWEEN)
    wait_for_release(controller, BETWEEN)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("take", serving, MESSAGE_COUNT)
    again = play(controller, "upgrade", BETWEEN)
    assert again.count("changed=0") == again.count("changed=")
