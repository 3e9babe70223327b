"""Hosts that are not ready: ``site`` and ``site --check`` report each fault before the first change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.brokers import SHARE, STORE, wait_for_pair, wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import Controller, checked_output
from tests.situations import in_every_situation

RELEASE = "5.18.3"
WITHOUT_IDS = {"activemq_uid": None, "activemq_gid": None}
TRACES = "systemctl show activemq.service -p MainPID; ls /opt /var/lib/activemq /etc/systemd/system; getent passwd; id"


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """Return a controller of two machines without installed software."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    return controller


def site_arguments(**variables: object) -> tuple[str, ...]:
    archive = str(fetch_jar_directory(Release.of(RELEASE)))
    return "--extra-vars", json.dumps({"activemq_release": RELEASE, "activemq_archive": archive, **variables})


def traces(controller: Controller) -> list[str]:
    return [machine.attempt("bash", "-c", TRACES).stdout for machine in controller.rack.machines]


def refusal(controller: Controller, **variables: object) -> str:
    """Return the output of ``site``; check that it refuses, also with ``--check``, and changes nothing."""
    traces_before = traces(controller)
    checked_output(controller.run_playbook("site", "--check", *site_arguments(**variables)), 2)
    output = checked_output(controller.run_playbook("site", *site_arguments(**variables)), 2)
    assert traces(controller) == traces_before
    assert "nothing was changed, because hosts do not meet the requirements" in output
    return output


@contextmanager
def listening(machine: Machine, port: int) -> Iterator[str]:
    """Run a process that listens on a port of a machine; yield its pid."""
    program = f"import socket, time; listener = socket.create_server(('0.0.0.0', {port})); time.sleep(1e6)"
    machine.run("systemd-run", "--unit=foreign", "python3", "-c", program)
    try:
        wait_until(lambda: machine.run("ss", "-Hltn", f"sport = :{port}"), "the process listens", machine)
        yield machine.run("systemctl", "show", "foreign", "--property=MainPID", "--value").strip()
    finally:
        machine.run("systemctl", "stop", "foreign")


def test_site_refuses_unready_hosts_before_first_change(controller: Controller) -> None:
    active, standby = controller.rack.machines
    with listening(active, 61616) as first_listener, listening(standby, 61613) as second_listener:
        active.run("mv", "/usr/bin/java", "/usr/bin/java.away")
        try:
            output = refusal(controller)
        finally:
            active.run("mv", "/usr/bin/java.away", "/usr/bin/java")
    assert f"port 61616 of the broker's listener openwire is in use by python3, pid {first_listener}" in output
    in_use = f"port 61613 of the broker's listener stomp is in use by python3, pid {second_listener}"
    assert f"{in_use}. Stop the process that uses port 61613" in output
    assert "ActiveMQ 5.18.3 requires Java 11 or later, but the program /usr/bin/java does not exist" in output


@in_every_situation
def test_site_refuses_accounts_with_different_ids_before_first_change(controller: Controller) -> None:
    active, standby = controller.rack.machines
    assert "activemq_uid is not set" in refusal(controller, **WITHOUT_IDS)
    active.run("useradd", "--system", "--uid=899", "--user-group", "activemq")
    assert "Set activemq_uid: 899 and activemq_gid: " in refusal(controller, **WITHOUT_IDS)
    standby.run("useradd", "--system", "--uid=897", "--user-group", "activemq")
    output = refusal(controller, **WITHOUT_IDS)
    assert "the account activemq has uid 899 on " in output
    assert " and 897 on " in output
    for machine in (active, standby):
        machine.run("userdel", "activemq")


@in_every_situation
def test_site_accepts_ports_of_running_brokers_and_refuses_other_uid(controller: Controller) -> None:
    checked_output(controller.run_playbook("site", *site_arguments()))
    wait_for_pair(controller.rack.machines)
    output = checked_output(controller.run_playbook("site", *site_arguments()))
    assert output.count("changed=0 ") == 2
    output = refusal(controller, activemq_uid=976)
    assert "the account activemq has uid 977 instead of 976 (activemq_uid): the playbook cannot change the id" in output
    assert "usermod -u 976 activemq" in output


@in_every_situation
def test_site_refuses_copy_of_store_and_other_stores_while_pair_runs(controller: Controller) -> None:
    active, _standby = controller.rack.machines
    checked_output(controller.run_playbook("site", *site_arguments()))
    wait_for_pair(controller.rack.machines)
    copy = f"{STORE}-copy"
    active.run("cp", "--archive", STORE, copy)
    try:
        output = refusal(controller, activemq_store_directory=copy)
    finally:
        active.run("rm", "--recursive", copy)
    assert f"the broker stores its messages in {STORE}, but with the settings of the inventory it would read them" in (
        output
    )
    assert f"stop every broker that uses it, move the directory to {copy}, and run the playbook site" in output
    output = refusal(controller, activemq_fence="none", activemq_kahadb={"by_destination": [{"per_destination": True}]})
    assert "stores its messages in kahaDB, but with the settings of the inventory it would use mKahaDB" in output


@in_every_situation
def test_site_reports_owner_mode_and_commands_for_store_of_other_owner(controller: Controller) -> None:
    active, _standby = controller.rack.machines
    active.run("sh", "-c", f"chown root:root {STORE} && chmod 700 {STORE}")
    try:
        output = checked_output(controller.run_playbook("site", *site_arguments()), 2)
    finally:
        active.run("sh", "-c", f"chown activemq:activemq {STORE} && chmod 750 {STORE}")
    assert f"cannot use {STORE}, which belongs to root:root (mode 0700): run chown" in output
    assert f"run chown activemq:activemq {STORE} and chmod 750 {STORE}" in output
