"""A real pair with the archive of another release: a playbook refuses it, or replaces what was installed from it."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.brokers import BASE, SHARE, UNIT, common_downtimes, wait_for_pair, wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import Controller, checked_output
from tests.situations import in_every_situation

OLD, NEW = "5.18.3", "5.18.4"
HOME = f"/opt/activemq-{NEW}"
PRINT_RUNNING_RELEASE = (
    f"ls -l /proc/$(systemctl show {UNIT} -p MainPID --value)/fd | grep -oP 'activemq-broker-\\K[0-9.]+(?=\\.jar)'"
)
# The command prints all that a playbook may not change when it refuses.
TRACES = f"systemctl show {UNIT} -p MainPID; readlink {BASE}/current; ls {BASE}/versions /opt; getent passwd activemq"
LIST_JARS = f"cd {HOME}/lib && ls -d activemq-broker-*; ls -d {HOME}?*"


LATE_BEAN = """<bean xmlns="http://www.springframework.org/schema/beans" id="late" class="java.util.Date">
  <property name="noSuchProperty" value="50"/>
</bean>"""
"""Spring creates the bean after the broker, which has started before and then stops."""


def jars(release: str) -> str:
    return str(fetch_jar_directory(Release.of(release)))


def release_arguments(release: str, **variables: object) -> tuple[str, ...]:
    """Return the arguments that set a release, with an archive for each of the two releases."""
    archives = {OLD: jars(OLD), NEW: jars(NEW)}
    return "--extra-vars", json.dumps({"activemq_release": release, "activemq_archive": archives, **variables})


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """Return a controller of two machines without installed software."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    return controller


def play(controller: Controller, playbook: str, release: str, **variables: object) -> str:
    return checked_output(controller.run_playbook(playbook, *release_arguments(release, **variables)))


def refusal(controller: Controller, playbook: str, release: str, **variables: object) -> str:
    """Return the output of a playbook; check that it fails and changes nothing."""
    traces_before = traces(controller)
    output = checked_output(controller.run_playbook(playbook, *release_arguments(release, **variables)), 2)
    assert traces(controller) == traces_before
    return output


def traces(controller: Controller) -> list[str]:
    return [machine.attempt("bash", "-c", TRACES).stdout for machine in controller.rack.machines]


def installed_jars(controller: Controller) -> list[list[str]]:
    """Return, for each node, the jars of brokers in the directory of the new release, and copies of this directory."""
    return [machine.attempt("bash", "-c", LIST_JARS).stdout.split() for machine in controller.rack.machines]


def wait_for_release(controller: Controller, release: str) -> None:
    machines = controller.rack.machines
    wait_until(
        lambda: (
            [machine.attempt("bash", "-c", PRINT_RUNNING_RELEASE).stdout.strip() for machine in machines]
            == [release, release]
        ),
        f"both run {release}",
        *machines,
    )


def replace_jars_by_old_release(machine: Machine) -> None:
    """Put the jars of the old release into the directory of the new release, and start the broker from it."""
    script = (
        f"systemctl stop {UNIT}; rm -r {HOME}/lib; cp -a /opt/activemq-{OLD}/lib {HOME}/lib; systemctl start {UNIT}"
    )
    machine.run("bash", "-c", script)


@in_every_situation
def test_site_refuses_jars_of_other_release_before_first_change(controller: Controller) -> None:
    output = refusal(controller, "site", NEW, activemq_archive=jars(OLD))
    assert f"activemq_archive: {jars(OLD)} contains ActiveMQ {OLD}, but activemq_release is {NEW}" in output
    assert "orders-mq01-a.example.com, orders-mq01-b.example.com: " in output
    assert all("activemq" not in trace for trace in traces(controller))


@in_every_situation
def test_site_refuses_release_without_archive(controller: Controller) -> None:
    output = refusal(controller, "site", NEW, activemq_archive={OLD: jars(OLD)})
    assert f"activemq_archive has no entry for activemq_release {NEW} (it has {OLD})" in output


@in_every_situation
def test_site_refuses_archive_that_contains_other_release(controller: Controller) -> None:
    archive = controller.rack.shared(SHARE) / "distribution.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(jars(OLD), arcname=f"apache-activemq-{NEW}/lib")
    location = f"file://{SHARE}/{archive.name}"
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    variables = {"activemq_install": "archive", "activemq_archive": location, "activemq_archive_sha512": digest}
    output = checked_output(controller.run_playbook("site", *release_arguments(NEW, **variables)), 2)
    archive.unlink()
    assert f"activemq_archive: {location} contains ActiveMQ {OLD} instead of ActiveMQ {NEW}" in output
    assert all(machine.run("ls", "/opt") == "" for machine in controller.rack.machines)


@in_every_situation
def test_site_fails_if_brokers_stop_after_start_crash_loop_late_bean(controller: Controller) -> None:
    fragments = [{"parent": "beans", "xml": LATE_BEAN}]
    output = checked_output(
        controller.run_playbook("site", *release_arguments(OLD, activemq_xml_fragments=fragments)), 2
    )
    assert "orders-mq01-a.example.com" in output
    assert "Invalid property 'noSuchProperty' of bean class [java.util.Date]" in output
    assert "failed=0" not in output


@in_every_situation
def test_upgrade_refuses_jars_of_other_release(controller: Controller) -> None:
    play(controller, "site", OLD)
    wait_for_pair(controller.rack.machines)
    wait_for_release(controller, OLD)
    output = refusal(controller, "upgrade", NEW, activemq_archive=jars(OLD))
    assert f"activemq_archive: {jars(OLD)} contains ActiveMQ {OLD}, but activemq_release is {NEW}" in output


@in_every_situation
def test_site_replaces_directory_that_contains_other_release(controller: Controller) -> None:
    for machine in controller.rack.machines:
        machine.run("cp", "-a", f"/opt/activemq-{OLD}", HOME)
    output = play(controller, "site", NEW)
    assert set(re.findall(rf"({OLD} \w+) +({NEW} \w+) +(?:-|not measured) +(files, \w+)", output)) == {
        (f"{OLD} active", f"{NEW} standby", "files, restart"),
        (f"{OLD} standby", f"{NEW} active", "files, restart"),
    }
    wait_for_pair(controller.rack.machines)
    wait_for_release(controller, NEW)
    assert installed_jars(controller) == [[f"activemq-broker-{NEW}.jar"]] * 2
    again = play(controller, "site", NEW)
    assert again.count("changed=0") == again.count("changed=")


@in_every_situation
def test_site_refuses_directory_of_other_release_while_brokers_run_from_it(controller: Controller) -> None:
    for machine in controller.rack.machines:
        replace_jars_by_old_release(machine)
    wait_for_pair(controller.rack.machines)
    wait_for_release(controller, OLD)
    output = refusal(controller, "site", NEW)
    reason = f"{HOME} contains ActiveMQ {OLD}, but activemq_release is {NEW}. The broker runs from this directory"
    assert f"{reason}. Run the playbook upgrade" in output
    assert installed_jars(controller) == [[f"activemq-broker-{OLD}.jar"]] * 2


@in_every_situation
def test_failed_upgrade_restores_directory_from_which_broker_ran(controller: Controller) -> None:
    wait_for_pair(controller.rack.machines)
    output = checked_output(
        controller.run_playbook("upgrade", *release_arguments(NEW, activemq_java_options=["-XX:+NoSuchFlag"])), 2
    )
    assert f"did not become ready with release {NEW}" in output
    wait_for_pair(controller.rack.machines)
    wait_for_release(controller, OLD)
    assert [[name for name in names if name.startswith("activemq-")] for names in installed_jars(controller)] == [
        [f"activemq-broker-{OLD}.jar"]
    ] * 2


@in_every_situation
def test_upgrade_replaces_directory_of_other_release_node_by_node(controller: Controller) -> None:
    machines = controller.rack.machines
    wait_for_pair(machines)
    downtimes_before = [common_downtimes(*machines)]
    play(controller, "upgrade", NEW)
    wait_for_pair(machines)
    wait_for_release(controller, NEW)
    assert installed_jars(controller) == [[f"activemq-broker-{NEW}.jar"]] * 2
    assert [common_downtimes(*machines)] == downtimes_before
    again = play(controller, "site", NEW)
    assert again.count("changed=0") == again.count("changed=")


@in_every_situation
def test_upgrade_continues_run_that_was_killed_between_two_renames(controller: Controller) -> None:
    """One directory is being replaced. The other is replaced already, but its old directory still exists."""
    active, standby = wait_for_pair(controller.rack.machines)
    replace_jars_by_old_release(standby)
    standby.run("bash", "-c", f"systemctl stop {UNIT}; mv {HOME} {HOME}.old")
    active.run("cp", "-a", f"/opt/activemq-{OLD}", f"{HOME}.old")
    play(controller, "upgrade", NEW)
    wait_for_pair(controller.rack.machines)
    wait_for_release(controller, NEW)
    assert installed_jars(controller) == [[f"activemq-broker-{NEW}.jar"]] * 2


@in_every_situation
def test_site_refuses_release_that_differs_from_running_processes(controller: Controller) -> None:
    """The operator has replaced the directory of brokers that run the old release."""
    for machine in controller.rack.machines:
        machine.run("bash", "-c", f"mv {HOME} /opt/kept; cp -a /opt/activemq-{OLD} {HOME}; systemctl restart {UNIT}")
    wait_for_pair(controller.rack.machines)
    for machine in controller.rack.machines:
        machine.run("bash", "-c", f"mv {HOME} /opt/moved; mv /opt/kept {HOME}")
    output = refusal(controller, "site", NEW)
    assert f"the broker runs release {OLD}, but activemq_release is {NEW}. Run the playbook upgrade" in output
    play(controller, "upgrade", NEW)
    wait_for_release(controller, NEW)
