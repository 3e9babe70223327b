"""The line that a lab prints when it restarts a broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.lab import processes
from activemq_fleet.lab.fleet_start_and_stop import stop_outdated_and_unknown_brokers
from activemq_fleet.lab.lab_brokers import LabBrokers
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.lab.preparation import install_broker_configuration
from tests.support.lab_hosts import make_lab_hosts
from tests.unit.lab_fleets import PAIR

A, B = PAIR


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.terminate_processes(processes.lab_processes(make_lab_hosts(tmp_path).lab_paths), grace=0)


def install_all(hosts: LabBrokers) -> dict[str, str]:
    return {
        broker.host: install_broker_configuration(broker, hosts.lab.software[broker.release.text])
        for broker in hosts.fleet.brokers
    }


def launch_all(hosts: LabBrokers) -> None:
    """Install the brokers' files, and start a process in the place of each broker."""
    for host, version in install_all(hosts).items():
        command = [sys.executable, "-c", "import time; time.sleep(600)", f"{MARK}{hosts.lab_paths.directory}"]
        release = hosts.fleet.broker(host).release.text
        processes.launch_broker(
            hosts.lab_paths, host, command, {}, hosts.lab_paths.activemq_base_directory(host), version, release
        )


def restart_lines(hosts: LabBrokers) -> list[str]:
    lines: list[str] = []
    stop_outdated_and_unknown_brokers(hosts, install_all(hosts), None, (), lines.append)
    return lines


def test_line_about_restart_of_lab_broker_names_both_releases(directory: Path) -> None:
    launch_all(make_lab_hosts(directory, release="5.18.3"))
    hosts = make_lab_hosts(directory, release="6.3.1")
    assert restart_lines(hosts) == [
        f"{host} is restarted: the release of {host} changes from 5.18.3 to 6.3.1" for host in (A, B)
    ]
    assert not any(map(hosts.is_alive, hosts.fleet.brokers))


def test_line_about_restart_of_lab_broker_names_changed_files(directory: Path) -> None:
    launch_all(make_lab_hosts(directory))
    lines = restart_lines(make_lab_hosts(directory, usage={"store": "3 gb"}))
    assert lines == [
        f"{host} is restarted: the configuration of {host} has changed (conf/activemq.xml)" for host in (A, B)
    ]


def test_line_about_restart_of_pure_peer_in_lab_names_restarted_node(directory: Path) -> None:
    hosts = make_lab_hosts(directory, release="5.5.1", ha="pure")
    launch_all(hosts)
    lines: list[str] = []
    stop_outdated_and_unknown_brokers(hosts, {**install_all(hosts), A: "removed"}, None, (), lines.append)
    assert lines == [
        f"{A} is restarted: the configuration of {A} has changed",
        f"{B} is restarted: its peer {A} is restarted, and both nodes of a pair with activemq_ha: pure must "
        "restart together",
    ]


def test_lab_does_not_restart_unchanged_brokers(directory: Path) -> None:
    hosts = make_lab_hosts(directory)
    launch_all(hosts)
    assert restart_lines(hosts) == []
    assert all(map(hosts.is_alive, hosts.fleet.brokers))
