from __future__ import annotations

import socket

import pytest

from activemq_fleet.lab import connector_and_port_checks
from activemq_fleet.lab.connector_and_port_checks import credentials_for_lab_connection, is_port_taken
from activemq_fleet.node.config.broker_configuration import DeployedBrokerSettings, Listener
from activemq_fleet.node.probe.broker_connection import ExpectedBroker
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from tests.unit.lab_fleets import PAIR, fleet_of, variables


def test_lab_connects_as_network_user_if_fleet_has_no_acls() -> None:
    credentials = credentials_for_lab_connection(fleet_of(variables()).broker(PAIR[0]))
    assert credentials is not None
    assert (credentials.username, credentials.password) == ("net", "s3cret-net")


def test_lab_connects_as_lab_user_if_it_exists() -> None:
    users = [{"name": "fleet-lab", "password": "s3cret-lab", "groups": ["fleet-lab"]}]
    credentials = credentials_for_lab_connection(fleet_of(variables(users=users)).broker(PAIR[0]))
    assert credentials is not None
    assert credentials.username == "fleet-lab"


def test_lab_has_no_credentials_without_authentication() -> None:
    hosts = variables(network_username=None, network_password=None)
    assert credentials_for_lab_connection(fleet_of(hosts).broker(PAIR[0])) is None


def test_lab_has_no_credentials_if_password_is_encrypted() -> None:
    assert (
        credentials_for_lab_connection(fleet_of(variables(network_password=UndecryptedVaultValue("x"))).broker(PAIR[0]))
        is None
    )


def test_port_with_listener_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert is_port_taken(server.getsockname())


def test_port_with_listener_on_all_addresses_is_taken() -> None:
    with socket.create_server(("", 0)) as server:
        assert is_port_taken(("127.0.0.1", server.getsockname()[1]))


def test_port_without_listener_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    assert not is_port_taken(address)


def test_port_check_of_address_of_other_machine_is_error() -> None:
    with pytest.raises(OSError, match="assign"):
        is_port_taken(("192.0.2.1", 20000))


@pytest.mark.parametrize(
    ("release", "schemes", "expected"),
    [
        ("6.3.1", ["nio", "mqtt+nio", "stomp+nio"], ["stomp+nio"]),
        ("6.3.1", ["nio", "stomp+nio+ssl", "mqtt+nio"], ["mqtt+nio"]),
        ("6.3.1", ["nio", "amqp"], ["nio"]),
        ("5.5.1", ["mqtt", "nio"], ["nio"]),
        ("6.3.1", [], []),
    ],
)
def test_lab_probes_connector_that_provides_most_information(
    monkeypatch: pytest.MonkeyPatch, release: str, schemes: list[str], expected: list[str]
) -> None:
    probed: list[str] = []
    monkeypatch.setattr(
        connector_and_port_checks,
        "probe_connectors_together",
        lambda listeners, *_: probed.extend(listener.scheme for listener in listeners),
    )
    listeners = tuple(Listener(scheme, scheme, ("127.0.0.1", 1)) for scheme in schemes)
    broker = fleet_of(variables(release=release)).broker(PAIR[0])
    connector_and_port_checks.make_connector_probe(broker, 1.0)(DeployedBrokerSettings(listeners), ExpectedBroker(0))
    assert probed == expected
