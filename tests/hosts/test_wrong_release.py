"""A real pair that is given the archive of another release: refused, and put right where that was installed before."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.brokers import BASE, SHARE, UNIT, wait_for_pair, wait_until, were_down_together
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import Controller, ended
from tests.situations import in_every_situation

OLD, NEW = "5.18.3", "5.18.4"
HOME = f"/opt/activemq-{NEW}"
RUNS = f"ls -l /proc/$(systemctl show {UNIT} -p MainPID --value)/fd | grep -oP 'activemq-broker-\\K[0-9.]+(?=\\.jar)'"
# What a playbook may not touch when it refuses.
TRACES = f"systemctl show {UNIT} -p MainPID; readlink {BASE}/current; ls {BASE}/versions /opt; getent passwd activemq"
HOLDS = f"cd {HOME}/lib && ls -d activemq-broker-*; ls -d {HOME}?*"


LATE_BEAN = """<bean xmlns="http://www.springframework.org/schema/beans" id="late" class="java.util.Date">
  <property name="noSuchProperty" value="50"/>
</bean>"""
"""Spring creates it after the broker, which has started by then and stops."""


def jars(release: str) -> str:
    return str(fetch_jar_directory(Release.of(release)))


def to(release: str, **variables: object) -> tuple[str, ...]:
    """What makes the inventory say this release, with an archive for each of both."""
    archives = {OLD: jars(OLD), NEW: jars(NEW)}
    return "--extra-vars", json.dumps({"activemq_release": release, "activemq_archive": archives, **variables})


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """Two machines on which nothing is installed."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    return controller


def play(controller: Controller, playbook: str, release: str, **variables: object) -> str:
    return ended(controller.play(playbook, *to(release, **variables)))


def refused(controller: Controller, playbook: str, release: str, **variables: object) -> str:
    """What the playbook said, which changed nothing."""
    before = traces(controller)
    said = ended(controller.play(playbook, *to(release, **variables)), 2)
    assert traces(controller) == before
    return said


def traces(controller: Controller) -> list[str]:
    return [machine.attempt("bash", "-c", TRACES).stdout for machine in controller.rack.machines]


def holdings(controller: Controller) -> list[list[str]]:
    """Of each node the brokers' jars in the directory of the new release, and what lies beside that."""
    return [machine.attempt("bash", "-c", HOLDS).stdout.split() for machine in controller.rack.machines]


def wait_to_run(controller: Controller, release: str) -> None:
    machines = controller.rack.machines
    wait_until(
        lambda: [machine.attempt("bash", "-c", RUNS).stdout.strip() for machine in machines] == [release, release],
        f"both run {release}",
        *machines,
    )


def exchange_jars(machine: Machine) -> None:
    """Leave what an archive of the old release left, which was taken for the new one; its broker runs from it."""
    script = (
        f"systemctl stop {UNIT}; rm -r {HOME}/lib; cp -a /opt/activemq-{OLD}/lib {HOME}/lib; systemctl start {UNIT}"
    )
    machine.run("bash", "-c", script)


@in_every_situation
def test_site_refuses_jars_of_another_release_before_anything_is_touched(controller: Controller) -> None:
    said = refused(controller, "site", NEW, activemq_archive=jars(OLD))
    assert f"activemq_archive: {jars(OLD)} contains ActiveMQ {OLD}, but activemq_release is {NEW}" in said
    assert "orders-mq01-a.example.com, orders-mq01-b.example.com: " in said
    assert all("activemq" not in trace for trace in traces(controller))


@in_every_situation
def test_a_release_without_an_archive_is_refused_by_name(controller: Controller) -> None:
    said = refused(controller, "site", NEW, activemq_archive={OLD: jars(OLD)})
    assert f"activemq_archive has no entry for activemq_release {NEW} (it has {OLD})" in said


@in_every_situation
def test_what_only_the_host_can_see_is_refused_when_it_is_unpacked(controller: Controller) -> None:
    archive = controller.rack.shared(SHARE) / "distribution.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(jars(OLD), arcname=f"apache-activemq-{NEW}/lib")
    location = f"file://{SHARE}/{archive.name}"
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    variables = {"activemq_install": "archive", "activemq_archive": location, "activemq_archive_sha512": digest}
    said = ended(controller.play("site", *to(NEW, **variables)), 2)
    archive.unlink()
    assert f"activemq_archive: {location} contains ActiveMQ {OLD} instead of ActiveMQ {NEW}" in said
    assert all(machine.run("ls", "/opt") == "" for machine in controller.rack.machines)


@in_every_situation
def test_site_fails_where_brokers_stop_after_their_start_crash_loop_late_bean(controller: Controller) -> None:
    fragments = [{"parent": "beans", "xml": LATE_BEAN}]
    output = ended(controller.play("site", *to(OLD, activemq_xml_fragments=fragments)), 2)
    assert "orders-mq01-a.example.com" in output
    assert "Invalid property 'noSuchProperty' of bean class [java.util.Date]" in output
    assert "failed=0" not in output


@in_every_situation
def test_upgrade_refuses_the_jars_of_another_release(controller: Controller) -> None:
    play(controller, "site", OLD)
    wait_for_pair(controller.rack.machines)
    wait_to_run(controller, OLD)
    said = refused(controller, "upgrade", NEW, activemq_archive=jars(OLD))
    assert f"activemq_archive: {jars(OLD)} contains ActiveMQ {OLD}, but activemq_release is {NEW}" in said


@in_every_situation
def test_site_replaces_a_directory_that_holds_another_release(controller: Controller) -> None:
    for machine in controller.rack.machines:
        machine.run("cp", "-a", f"/opt/activemq-{OLD}", HOME)
    said = play(controller, "site", NEW)
    assert set(re.findall(rf"({OLD} \w+) +({NEW} \w+) +(?:-|not measured) +(files, \w+)", said)) == {
        (f"{OLD} active", f"{NEW} standby", "files, restart"),
        (f"{OLD} standby", f"{NEW} active", "files, restart"),
    }
    wait_for_pair(controller.rack.machines)
    wait_to_run(controller, NEW)
    assert holdings(controller) == [[f"activemq-broker-{NEW}.jar"]] * 2
    again = play(controller, "site", NEW)
    assert again.count("changed=0") == again.count("changed=")


@in_every_situation
def test_site_leaves_such_a_directory_to_upgrade_while_brokers_run_from_it(controller: Controller) -> None:
    for machine in controller.rack.machines:
        exchange_jars(machine)
    wait_for_pair(controller.rack.machines)
    wait_to_run(controller, OLD)
    said = refused(controller, "site", NEW)
    refusal = f"{HOME} contains ActiveMQ {OLD}, but activemq_release is {NEW}. The broker runs from this directory"
    assert f"{refusal}. Run the playbook upgrade" in said
    assert holdings(controller) == [[f"activemq-broker-{OLD}.jar"]] * 2


@in_every_situation
def test_a_broker_that_does_not_come_up_gets_the_directory_back_that_it_ran_from(controller: Controller) -> None:
    wait_for_pair(controller.rack.machines)
    said = ended(controller.play("upgrade", *to(NEW, activemq_java_options=["-XX:+NoSuchFlag"])), 2)
    assert f"did not become ready with release {NEW}" in said
    wait_for_pair(controller.rack.machines)
    wait_to_run(controller, OLD)
    assert [[name for name in names if name.startswith("activemq-")] for names in holdings(controller)] == [
        [f"activemq-broker-{OLD}.jar"]
    ] * 2


@in_every_situation
def test_upgrade_replaces_it_node_by_node(controller: Controller) -> None:
    machines = controller.rack.machines
    wait_for_pair(machines)
    before = [were_down_together(*machines)]
    play(controller, "upgrade", NEW)
    wait_for_pair(machines)
    wait_to_run(controller, NEW)
    assert holdings(controller) == [[f"activemq-broker-{NEW}.jar"]] * 2
    assert [were_down_together(*machines)] == before
    again = play(controller, "site", NEW)
    assert again.count("changed=0") == again.count("changed=")


@in_every_situation
def test_upgrade_continues_a_run_that_was_killed_between_two_renames(controller: Controller) -> None:
    """One node was being exchanged, the other had been, and what it ran from was not removed yet."""
    active, standby = wait_for_pair(controller.rack.machines)
    exchange_jars(standby)
    standby.run("bash", "-c", f"systemctl stop {UNIT}; mv {HOME} {HOME}.old")
    active.run("cp", "-a", f"/opt/activemq-{OLD}", f"{HOME}.old")
    play(controller, "upgrade", NEW)
    wait_for_pair(controller.rack.machines)
    wait_to_run(controller, NEW)
    assert holdings(controller) == [[f"activemq-broker-{NEW}.jar"]] * 2


@in_every_situation
def test_site_ends_with_what_the_processes_run(controller: Controller) -> None:
    """Somebody has exchanged the directory under brokers that run the old release."""
    for machine in controller.rack.machines:
        machine.run("bash", "-c", f"mv {HOME} /opt/kept; cp -a /opt/activemq-{OLD} {HOME}; systemctl restart {UNIT}")
    wait_for_pair(controller.rack.machines)
    for machine in controller.rack.machines:
        machine.run("bash", "-c", f"mv {HOME} /opt/moved; mv /opt/kept {HOME}")
    said = refused(controller, "site", NEW)
    assert f"the broker runs release {OLD}, but activemq_release is {NEW}. Run the playbook upgrade" in said
    play(controller, "upgrade", NEW)
    wait_to_run(controller, NEW)
