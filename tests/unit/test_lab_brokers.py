from __future__ import annotations

import os
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import lab_brokers, processes
from activemq_fleet.lab.lab_brokers import LabBrokers, make_shared_store_directory
from activemq_fleet.lab.preparation import install_broker_configuration
from activemq_fleet.node.config.broker_configuration import DeployedBrokerSettings
from activemq_fleet.node.probe.connector_probe import ProbeAnswer
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from activemq_fleet.render.environment_file import environment_file_relative_path
from activemq_fleet.render.systemd_units import systemd_unit_relative_path, unit_environment_and_log_configuration
from tests.support.lab_hosts import make_lab_hosts
from tests.unit.lab_fleets import PAIR

A, B = PAIR


NO_PROCESS = 1 << 22
"""A process id that the kernel assigns to no process."""


def start_command_of(hosts: LabBrokers, host: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the command line that starts a broker."""
    commands: list[list[str]] = []

    def launch(_lab_paths: object, _host: str, command: list[str], *_rest: object) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(pid=NO_PROCESS)

    monkeypatch.setattr(processes, "launch_broker", launch)
    monkeypatch.setattr(LabBrokers, "installed_configuration_version", lambda _self, _broker: "v1")
    make_shared_store_directory(hosts.fleet.broker(host))
    hosts.launch_process(hosts.fleet.broker(host))
    return commands[0]


def test_lab_broker_of_complete_distribution_starts_with_activemq_jar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = start_command_of(make_lab_hosts(tmp_path, is_full_distribution=True), A, monkeypatch)
    assert command[command.index("-cp") + 1] == "/software/bin/activemq.jar"
    assert "--noDefExt" not in command


@pytest.mark.parametrize("release", ["5.5.1", "6.3.1"])
def test_lab_broker_of_jars_alone_starts_with_all_jars_on_class_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    command = start_command_of(make_lab_hosts(tmp_path, release=release), A, monkeypatch)
    assert command[command.index("-cp") + 1] == "/software/lib/*"
    assert command[command.index("start") - 1] == "--noDefExt"


def test_broker_starts_with_variables_of_its_environment_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, environments = make_lab_hosts(tmp_path), list[dict[str, str]]()
    monkeypatch.setattr(
        processes, "launch_broker", lambda _lab_paths, _host, _command, variables, *_: environments.append(variables)
    )
    monkeypatch.setattr(LabBrokers, "installed_configuration_version", lambda _self, _broker: "v1")
    broker = hosts.fleet.broker(A)
    make_shared_store_directory(broker)
    hosts.launch_process(broker)
    environment_file = unit_environment_and_log_configuration(broker)[environment_file_relative_path(broker)].decode()
    assert environments[0]["ACTIVEMQ_DATA"]
    assert all(
        f"{name}=" in environment_file and value.split()[0] in environment_file
        for name, value in environments[0].items()
    )


def test_heap_size_of_lab_broker_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = start_command_of(make_lab_hosts(tmp_path, heap="64g"), A, monkeypatch)
    assert [word for word in command if word.startswith("-Xmx")] == ["-Xmx256m"]


@pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.3.1"])
def test_command_line_of_lab_broker_is_that_of_service_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    hosts = make_lab_hosts(tmp_path, release=release, is_full_distribution=True)
    broker = hosts.fleet.broker(A)
    unit = unit_environment_and_log_configuration(broker)[systemd_unit_relative_path(broker)].decode()
    (line,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    _java, _options, *arguments = shlex.split(line.partition("=")[2])
    assert start_command_of(hosts, A, monkeypatch)[-len(arguments) :] == arguments


def test_store_has_marker_of_pair_and_store_of_other_pair_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = make_lab_hosts(tmp_path)
    broker = hosts.fleet.broker(A)
    make_shared_store_directory(broker)
    (marker,) = Path(broker.store_directory).iterdir()
    assert marker.read_text() == "orders-mq01\n"
    assert start_command_of(hosts, A, monkeypatch)
    marker.write_text("billing-mq01\n")
    reason = "activemq: .* is not the store of pair orders-mq01"
    with pytest.raises(LabError, match=f"{A}: the broker is not started, .* Correct this error: {reason}"):
        hosts.launch_process(broker)


def test_broker_starts_after_deletion_of_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = make_lab_hosts(tmp_path)
    hosts.delete_data_of_stopped_brokers(hosts.fleet.brokers)
    monkeypatch.setattr(processes, "launch_broker", lambda *_: None)
    monkeypatch.setattr(LabBrokers, "installed_configuration_version", lambda _self, _broker: "v1")
    hosts.launch_process(hosts.fleet.broker(A))


@pytest.mark.parametrize("ha", ["shared-file", "none"])
def test_deletion_of_data_includes_delayed_messages(tmp_path: Path, ha: str) -> None:
    hosts = make_lab_hosts(tmp_path, ha=ha, scheduler={"directory": "/srv/activemq/scheduler"})
    scheduler = hosts.fleet.broker(A).settings.scheduler
    assert scheduler is not None
    assert scheduler.directory is not None
    delayed_message = Path(scheduler.directory, "db-1.log")
    assert delayed_message.is_relative_to(tmp_path / "lab")
    delayed_message.parent.mkdir(parents=True)
    delayed_message.touch()
    hosts.delete_data_of_stopped_brokers(hosts.fleet.brokers)
    assert not delayed_message.exists()


def test_broker_without_installed_files_is_not_started(tmp_path: Path) -> None:
    hosts = make_lab_hosts(tmp_path)
    with pytest.raises(LabError, match="lab up"):
        hosts.launch_process(hosts.fleet.broker(A))


def test_stopped_broker_has_no_process_for_signals(tmp_path: Path) -> None:
    hosts = make_lab_hosts(tmp_path)
    with pytest.raises(LabError, match=f"{A} does not run"):
        hosts.require_running_process(hosts.fleet.broker(A))


@pytest.mark.parametrize(("release", "ha"), [("5.5.1", "pure"), ("6.3.1", "shared-file")])
def test_lab_observes_broker_by_its_installed_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, ha: str
) -> None:
    hosts = make_lab_hosts(tmp_path, release=release, ha=ha)
    broker = hosts.fleet.broker(A)
    version = install_broker_configuration(broker, hosts.lab.software[broker.release.text])
    probed: list[DeployedBrokerSettings] = []

    def probe(deployed: DeployedBrokerSettings, _expected: object) -> dict[str, ProbeAnswer]:
        probed.append(deployed)
        return {}

    monkeypatch.setattr(
        processes, "last_broker_process_run", lambda *_: processes.ProcessRun(A, os.getpid(), 1.0, 1.0, version)
    )
    monkeypatch.setattr(processes, "find_process", lambda *_: SimpleNamespace(pid=os.getpid()))
    monkeypatch.setattr(lab_brokers, "make_connector_probe", lambda *_: probe)
    assert hosts.observe_broker(broker).state == "starting"
    addresses = {connector.name: (hosts.loopback_address(A), connector.port) for connector in broker.connectors}
    assert {listener.name: listener.address for listener in probed[0].listeners} == addresses
    assert probed[0].store == kahadb_directory_in_xml(broker)
    assert probed[0].pure == broker.ha_profile.replicates


def test_lab_shows_stopped_broker_whose_configuration_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = make_lab_hosts(tmp_path)
    monkeypatch.setattr(
        processes, "last_broker_process_run", lambda *_: processes.ProcessRun(A, NO_PROCESS, 1.0, 1.0, "removed")
    )
    assert hosts.observe_broker(hosts.fleet.broker(A)).state == "stopped"
