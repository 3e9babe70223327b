from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet import artifacts
from activemq_fleet.errors import LabError
from activemq_fleet.inventory import InventoryData
from activemq_fleet.lab import Lab
from activemq_fleet.lab import lab as lab_module
from activemq_fleet.lab import monitoring as monitoring_module
from activemq_fleet.lab.address_reservation import AddressBlockReservations
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.monitoring import Monitoring
from tests.unit.lab_fleets import fleet_of, lab_paths_and_state, variables


@pytest.fixture
def used_port() -> Iterator[int]:
    """Return a port on which a program listens on all addresses, as the services of Debian do."""
    with socket.create_server(("", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the steps of a lab's start, which no program runs."""
    events: list[str] = []
    monkeypatch.setattr(lab_module, "check_monitoring_programs_installed", lambda: None)
    monkeypatch.setattr(
        lab_module, "stop_outdated_and_unknown_brokers", lambda *_: events.append("stop outdated brokers")
    )
    monkeypatch.setattr(lab_module, "start_fleet", lambda *_: events.append("start brokers"))
    monkeypatch.setattr(Lab, "_stop_all", lambda _: events.append("stop all brokers"))
    monkeypatch.setattr(Lab, "_stop_and_release_addresses", lambda _: events.append("stop lab"))
    return events


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    jars = tmp_path / "software"
    jars.mkdir()
    monkeypatch.setattr(artifacts, "java_executable", lambda _minimum: Path("/usr/lib/jvm/bin/java"))
    monkeypatch.setattr(artifacts, "fetch_and_unpack_distribution", lambda _release, progress: None)
    monkeypatch.setattr(artifacts, "fetch_jar_directory", lambda _release, progress: jars)
    monkeypatch.setattr(artifacts, "prometheus_jmx_exporter_jar", lambda progress: jars / "exporter.jar")
    claims = AddressBlockReservations(tmp_path / "claims")
    return Lab(LabPaths(tmp_path / "lab"), lambda: InventoryData(variables(), {}), claims=claims)


def test_error_about_used_monitoring_port_names_port_and_next_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used_port: int
) -> None:
    monkeypatch.setattr(monitoring_module, "PROGRAMS", {"alertmanager": ("prometheus-alertmanager", used_port)})
    monitoring = Monitoring(*lab_paths_and_state(fleet_of(variables()), tmp_path / "lab"))
    with pytest.raises(LabError, match=rf"port {used_port} on 127\.77\.0\.1, because") as error:
        monitoring.require_free_ports()
    assert "run `activemq-fleet lab down`" in str(error.value)
    assert "`systemctl disable --now prometheus-alertmanager`" in str(error.value)


@pytest.mark.parametrize("fresh", [False, True])
def test_lab_with_used_monitoring_port_stops_and_starts_no_broker(
    lab: Lab, events: list[str], monkeypatch: pytest.MonkeyPatch, used_port: int, fresh: bool
) -> None:
    monkeypatch.setattr(monitoring_module, "PROGRAMS", {"prometheus": ("prometheus", used_port)})
    with pytest.raises(LabError, match=str(used_port)):
        lab.up(prometheus=True, fresh=fresh)
    assert events == []


def test_lab_is_stopped_if_monitoring_program_does_not_start(
    lab: Lab, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_monitoring: Monitoring) -> None:
        raise LabError("the program prometheus of the lab does not answer")

    monkeypatch.setattr(Monitoring, "require_free_ports", lambda _: None)
    monkeypatch.setattr(Monitoring, "start_programs", fail)
    with pytest.raises(LabError, match="does not answer"):
        lab.up(prometheus=True)
    assert events == ["stop outdated brokers", "start brokers", "stop lab"]


def test_lab_is_stopped_if_outdated_broker_does_not_stop(
    lab: Lab, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LabError("process 42 of the lab does not stop")

    monkeypatch.setattr(lab_module, "stop_outdated_and_unknown_brokers", fail)
    with pytest.raises(LabError, match="does not stop"):
        lab.up()
    assert events == ["stop lab"]
