from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab import processes
from activemq_fleet.lab.hosts import Hosts
from activemq_fleet.lab.layout import Layout
from activemq_fleet.lab.loopback_overlay import apply_overlay, overlay
from activemq_fleet.lab.state import LabState
from activemq_fleet.render.service import environment_path, files
from tests.unit.lab_fleets import PAIR, fleet_of, surroundings, variables

A, B = PAIR


def hosts_in(tmp_path: Path, *, whole: bool = False, **values: Any) -> Hosts:
    hosts = variables(**values)
    fleet = fleet_of(hosts)
    here = surroundings(fleet, tmp_path / "lab", whole=whole)
    state = LabState(
        here.block, here.seed, "/java/bin/java", dict(here.addresses), dict(here.software), {},
        apply_overlay(hosts, overlay(fleet, hosts, here)),
    )  # fmt: skip
    return Hosts(Layout(tmp_path / "lab"), state)


def command_of(hosts: Hosts, host: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line with which a broker would be started."""
    seen: list[list[str]] = []
    monkeypatch.setattr(processes, "launch", lambda _layout, _host, command, *_rest: seen.append(command))
    monkeypatch.setattr(Hosts, "installed", lambda _self, _broker: "v1")
    hosts.launch(hosts.fleet.broker(host))
    return seen[0]


def test_a_distribution_is_started_by_its_own_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = command_of(hosts_in(tmp_path, whole=True), A, monkeypatch)
    assert command[command.index("-cp") + 1] == "/software/bin/activemq.jar"
    assert "--noDefExt" not in command


@pytest.mark.parametrize("release", ["5.5.1", "6.3.1"])
def test_jars_are_all_on_the_class_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    command = command_of(hosts_in(tmp_path, release=release), A, monkeypatch)
    assert command[command.index("-cp") + 1] == "/software/lib/*"
    assert command[command.index("start") - 1] == "--noDefExt"


def test_a_broker_starts_with_the_variables_of_its_environment_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, seen = hosts_in(tmp_path), list[dict[str, str]]()
    monkeypatch.setattr(processes, "launch", lambda _layout, _host, _command, variables, *_: seen.append(variables))
    monkeypatch.setattr(Hosts, "installed", lambda _self, _broker: "v1")
    hosts.launch(broker := hosts.fleet.broker(A))
    written = files(broker)[environment_path(broker)].decode()
    assert seen[0]["ACTIVEMQ_DATA"]
    assert all(f"{name}=" in written and value.split()[0] in written for name, value in seen[0].items())


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = command_of(hosts_in(tmp_path, heap="64g"), A, monkeypatch)
    assert [word for word in command if word.startswith("-Xmx")] == ["-Xmx256m"]


def test_the_store_is_there_and_marked_before_its_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = hosts_in(tmp_path)
    command_of(hosts, A, monkeypatch)
    store = Path(hosts.fleet.broker(A).store_directory)
    assert [line.read_text() for line in store.iterdir()] == ["orders-mq01\n"]


def test_a_broker_without_files_is_not_started(tmp_path: Path) -> None:
    hosts = hosts_in(tmp_path)
    with pytest.raises(LabError, match="lab up"):
        hosts.launch(hosts.fleet.broker(A))


@pytest.mark.parametrize("act", ["kill", "freeze", "thaw"])
def test_what_does_not_run_cannot_be_signalled(tmp_path: Path, act: str) -> None:
    hosts = hosts_in(tmp_path)
    with pytest.raises(LabError, match=f"{A} does not run"):
        getattr(hosts, act)(hosts.fleet.broker(A))
