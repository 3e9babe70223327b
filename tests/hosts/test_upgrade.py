"""A real pair from 5.18.3 to 6.3.1: refused, cut short, put back, and with its messages.

All from jars. With ``SITUATIONS=all`` it begins with 5.17.6, whose archive is not to be had everywhere. ``CUTS`` of 10
or more cuts it short at ten points, and goes back with messages.
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
from tests.hosts.brokers import BASE, SHARE, UNIT, wait_for_pair, wait_until, were_down_together
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import NODES, Controller, ended
from tests.hosts.unhealthy import Pair, foreign_marker, refuse
from tests.situations import EVERY_SITUATION, in_every_situation
from tests.waiting import PATIENCE, LateError

BETWEEN, NEW = "5.18.3", "6.3.1"
OLD = "5.17.6" if EVERY_SITUATION else BETWEEN
LEFT = "20"
# Where the controller is killed with `CUTS` of 10 or more: a task, and which time it is begun. Each takes a minute.
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
    ("Start the release", 3),  # at the second place is the change of places, which skips it
)
WHOLE = os.environ.get("CUTS", "3") in ("all", "10")
# Of no class that there is: Java runs, and the broker ends with a stack trace.
BROKEN = "-Djavax.xml.parsers.DocumentBuilderFactory=no.such.Factory"
# The jar that the process has open says what it runs, whatever the files say.
RUNS = f"ls -l /proc/$(systemctl show {UNIT} -p MainPID --value)/fd | grep -oP 'activemq-broker-\\K[0-9.]+(?=\\.jar)'"


def to(release: str, **variables: object) -> tuple[str, ...]:
    """What makes the inventory say this release."""
    archive = str(fetch_jar_directory(Release.of(release)))
    return "--extra-vars", json.dumps({"activemq_release": release, "activemq_archive": archive, **variables})


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """A pair of the old release, with messages for a session that is not there."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    play(controller, "site", OLD)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("leave", serving, LEFT)
    return controller


def play(controller: Controller, playbook: str, release: str, **variables: object) -> str:
    return ended(controller.play(playbook, *to(release, **variables)))


def refused(controller: Controller, release: str, **variables: object) -> str:
    return ended(controller.play("upgrade", *to(release, **variables)), 2)


def be_at(controller: Controller, release: str) -> None:
    """Both run this release, and are whole: an earlier try may have ended anywhere."""
    wait_for_pair(controller.rack.machines)
    if running(controller) != [release, release]:
        for step in (BETWEEN, NEW) if release == NEW else (release,):
            play(controller, "upgrade", step)
        wait_for_pair(controller.rack.machines)


def wait_to_run(controller: Controller, release: str) -> None:
    wait_until(lambda: running(controller) == [release, release], f"both run {release}", *controller.rack.machines)


def running(controller: Controller) -> list[str]:
    """The release of each node's process."""
    return [machine.attempt("bash", "-c", RUNS).stdout.strip() for machine in controller.rack.machines]


def traces(machine: Machine) -> str:
    """All that an upgrade would change: process, configuration, installed releases."""
    script = f"systemctl show {UNIT} -p MainPID; readlink {BASE}/current; ls {BASE}/versions /opt"
    return machine.run("bash", "-c", script)


def failures(said: str) -> list[str]:
    """What each failed task says, in order; each is one line that a person can read."""
    told = [line.partition(" => ")[2] for line in said.splitlines() if line.startswith("fatal: ")]
    messages = [str(json.loads(text)["msg"]) for text in told]
    assert all("\n" not in message and " more" not in message for message in messages)
    assert all(len(text) < 1200 for text in told)
    assert "Unknown error" not in said
    return messages


def steps(said: str) -> list[str]:
    """The steps of a run, in their order; of an upgrade also the letter of its node."""
    logged_steps = re.findall(
        r'"msg": "(?:the playbook (upgrade)s orders-mq01-([ab])\S* from|orders-mq01-[ab]\S* takes over from)', said
    )
    return [f"upgrade {node}" if act else "switch" for act, node in logged_steps]


@in_every_situation
def test_a_release_that_cannot_read_the_store_is_refused_and_nothing_changes(controller: Controller) -> None:
    before = [traces(machine) for machine in controller.rack.machines]
    said = refused(controller, "5.11.4")
    assert f"the broker runs {OLD} and has changed the store, which 5.11.4 therefore cannot read" in said
    assert [traces(machine) for machine in controller.rack.machines] == before


@in_every_situation
def test_site_leaves_another_release_line_to_upgrade(controller: Controller) -> None:
    before = [traces(machine) for machine in controller.rack.machines]
    assert "upgrade" in ended(controller.play("site", *to(BETWEEN)), 2)
    assert [traces(machine) for machine in controller.rack.machines] == before


@in_every_situation
def test_a_pair_whose_store_has_the_mark_of_another_is_refused(controller: Controller) -> None:
    be_at(controller, OLD)
    pair = Pair(*wait_for_pair(controller.rack.machines), controller.rack.shared(SHARE))
    refuse(controller, foreign_marker, pair, [("upgrade", *to(NEW))])


@in_every_situation
def test_the_standby_comes_first_then_places_change_then_the_other(controller: Controller) -> None:
    be_at(controller, OLD)
    active, standby = (machine.name.split(".")[0][-1] for machine in wait_for_pair(controller.rack.machines))
    said = play(controller, "upgrade", BETWEEN)
    assert steps(said) == [f"upgrade {standby}", "switch", f"upgrade {active}"]
    wait_to_run(controller, BETWEEN)
    assert f"rollback is possible, because {OLD} can read the store of {BETWEEN}" in said
    for machine in controller.rack.machines:
        assert machine.run("ls", "/opt").split() == ["activemq", f"activemq-{OLD}", f"activemq-{BETWEEN}"]


@pytest.fixture(scope="module")
def upgraded(controller: Controller) -> tuple[str, Machine, Machine]:
    """What ``brief`` prints of an upgrade to the newest release; the node that served before, and the other one."""
    be_at(controller, BETWEEN)
    active, standby = wait_for_pair(controller.rack.machines)
    brief = replace(controller, variables={**controller.variables, "ANSIBLE_STDOUT_CALLBACK": "activemq.fleet.brief"})
    return play(brief, "upgrade", NEW), active, standby


def test_an_upgrade_has_less_than_a_hundred_lines_and_a_table(upgraded: tuple[str, Machine, Machine]) -> None:
    said, active, standby = upgraded
    lines = said.splitlines()
    assert len(lines) < 100
    table = lines[next(number for number, line in enumerate(lines) if line.split()[:2] == ["host", "before"]) :][:3]
    assert [line.split()[:5] for line in table[1:]] == [
        [name, BETWEEN, was, NEW, now]
        for name, was, now in sorted([(active.name, "active", "standby"), (standby.name, "standby", "active")])
    ]
    assert [" s " in line for line in table[1:]] == [line.split()[0] == active.name for line in table[1:]]


@pytest.mark.usefixtures("upgraded")
def test_what_waited_in_the_oldest_release_is_there_in_the_newest(controller: Controller) -> None:
    wait_to_run(controller, NEW)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("take", serving, LEFT)


def test_the_standby_is_upgraded_first(controller: Controller, upgraded: tuple[str, Machine, Machine]) -> None:
    _, active, standby = upgraded
    wait_to_run(controller, NEW)
    assert unit_start_microseconds(standby) < unit_start_microseconds(active)


def unit_start_microseconds(machine: Machine) -> int:
    """When the unit started, by the clock that all machines share."""
    return int(machine.run("systemctl", "show", UNIT, "--property=ActiveEnterTimestampMonotonic", "--value"))


@pytest.mark.usefixtures("upgraded")
def test_an_upgrade_leaves_a_record_on_both_hosts(controller: Controller, tmp_path: Path) -> None:
    ended(controller.play("collect", "-e", f"activemq_collect_to={tmp_path}/collected"))
    for machine in controller.rack.machines:
        content = (tmp_path / "collected" / machine.name / "operations.jsonl").read_bytes()
        operations, problems = parse_planned_operations(machine.name, content)
        assert problems == ()
        assert {one.operation for one in operations} == {"site", "upgrade"}
        assert all(one.began < one.ended and "@" in one.by for one in operations)
        assert max(one.ended - one.began for one in operations) < UNENDED  # each has its end


@in_every_situation
def test_a_node_that_does_not_come_up_gets_back_what_it_ran_with(controller: Controller) -> None:
    be_at(controller, NEW)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    active = next(machine for machine in controller.rack.machines if machine.address == serving)
    before = traces(active)
    for _ in range(1 + EVERY_SITUATION):  # a second attempt has the first one's stack traces in the journal
        said = refused(controller, BETWEEN, activemq_java_options=[BROKEN])
        first, last, *_ = failures(said)
        assert re.search(r"the broker is stopped: .*no[./]such[./]Factory", first)
        assert f"(check {BASE}/data/activemq.log and journalctl -u {UNIT})" in first
        assert f"did not become ready with release {BETWEEN}: the broker is stopped: " in last
        assert re.search(r"no[./]such[./]Factory", last)
        assert re.search(rf"Rollback: the host has configuration \w+ with release {NEW} again, and is standby", last)
        assert re.search(r"Correct the cause on \S+, and run the same command again$", last)
    wait_to_run(controller, NEW)
    # Both releases lie there already; nothing else of the node that serves was touched.
    assert traces(active) == before


def kill_at(process: subprocess.Popen[str], task: str, time: int = 1) -> str:
    """Kill the controller, with all that it started, as soon as this task begins for the so-manieth time.

    What it said, also after that: whoever reads is behind.
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
    said = "".join(lines)
    print(said)
    if process.wait() != -signal.SIGKILL:
        raise LateError(f"the run had ended with {process.returncode} before it could be killed at: {task}")
    return said


@pytest.mark.skipif(not WHOLE, reason="ten minutes: CUTS=10")
@pytest.mark.parametrize(("number", "point"), list(enumerate(POINTS)))
def test_a_run_that_was_killed_anywhere_is_finished_by_the_next(
    controller: Controller, number: int, point: tuple[str, int]
) -> None:
    """Down and up again in turn, and the next run follows at once."""
    machines = controller.rack.machines
    here, wanted = ((NEW, BETWEEN), (BETWEEN, NEW))[number % 2]
    be_at(controller, here)
    kill_at(controller.start("upgrade", *to(wanted)), *point)
    play(controller, "upgrade", wanted)
    wait_to_run(controller, wanted)
    wait_for_pair(machines)
    assert were_down_together(*machines) == []


@pytest.mark.skipif(not WHOLE, reason="the way back takes another minute: CUTS=10")
def test_the_way_back_is_the_same_with_the_older_release(controller: Controller) -> None:
    be_at(controller, NEW)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("leave", serving, LEFT)
    play(controller, "upgrade", BETWEEN)
    wait_to_run(controller, BETWEEN)
    serving = controller.exchange("watch", "--timeout", str(PATIENCE), *NODES.values())["address"]
    controller.exchange("take", serving, LEFT)
    again = play(controller, "upgrade", BETWEEN)
    assert again.count("changed=0") == again.count("changed=")
