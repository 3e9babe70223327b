"""HAProxy in front of real brokers: only the active node receives clients, and a hung node receives none."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials
from tests.integration.balancing import PATIENCE, HAProxy, needs_haproxy, wait, write_balanced_inventory
from tests.integration.conftest import LabOf
from tests.integration.labs import pair
from tests.mqtt_clients import MqttPublisher, MqttSubscriber, mqtt_round_trip
from tests.situations import in_every_situation
from tests.stomp_clients import stomp_round_trip

pytestmark = needs_haproxy

A, B = pair("orders")
NODE_A, NODE_B = (host.partition(".")[0] for host in (A, B))
NETWORK: dict[str, Any] = {"network_username": "network", "network_password": "s3cret-network"}
CONNECTORS = [
    {"name": "openwire", "scheme": "nio", "port": 61616},
    {"name": "stomp", "scheme": "stomp+nio", "port": 61613},
    {"name": "mqtt", "scheme": "mqtt+nio", "port": 1883},
    {"name": "any", "scheme": "auto+nio", "port": 61617},
]
TRIES = 50


def mqtt_string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def open_mqtt_session(address: Address, credentials: Credentials, client_id: str) -> socket.socket:
    """Open an MQTT session; fail unless CONNACK has the return code 0."""
    body = (
        mqtt_string("MQTT")
        + bytes((4, 0xC2, 0, 0))
        + b"".join(map(mqtt_string, (client_id, credentials.username, credentials.password)))
    )
    client = socket.create_connection(address, timeout=PATIENCE)
    client.sendall(b"\x10" + bytes((len(body),)) + body)
    assert client.recv(4) == b"\x20\x02\x00\x00"
    return client


def is_closed(client: socket.socket) -> bool:
    """Return whether the peer closes the connection; raise TimeoutError if it sends nothing."""
    with suppress(ConnectionError):
        while client.recv(4096):
            pass
    return True


def credentials_of(lab: Lab, host: str = A) -> Credentials:
    credentials = lab.credentials(host)
    assert credentials
    return credentials


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, HAProxy]]:
    """Start a pair and HAProxy, and wait until it has checked both nodes; the last test with this pair kills a node."""
    directory = tmp_path_factory.mktemp("orders")
    inventory = write_balanced_inventory(
        directory / "inventory", (A, B), release="6.3.1", connectors=CONNECTORS, **NETWORK
    )
    with Lab.open(inventory, directory / "lab") as lab:
        lab.up()
        with HAProxy(lab, directory / "haproxy") as proxy:
            proxy.wait_for(up={NODE_A}, down={NODE_B})
            yield lab, proxy


@in_every_situation
def test_health_check_with_login_logs_nothing_and_rejected_login_suffices(
    tmp_path: Path, orders: tuple[Lab, HAProxy]
) -> None:
    lab, proxy = orders
    assert len(proxy.servers()) == 2 * len(CONNECTORS)
    stomp_round_trip(proxy.at("stomp"), credentials_of(lab), "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid)
    assert "is invalid" not in lab.log(A).read_text()

    # A second HAProxy, without a login. It uses the same ports, which the kernel allows.
    with HAProxy(lab, tmp_path / "without-login", login=False) as proxy_without_login:
        proxy_without_login.wait_for(up={NODE_A}, down={NODE_B})
    wait(lambda: "is invalid" in lab.log(A).read_text(), lambda: "the broker's log reports no rejected login")


def test_clients_connect_to_active_node_and_leave_hung_node(orders: tuple[Lab, HAProxy]) -> None:
    lab, proxy = orders
    credentials, mqtt = credentials_of(lab), proxy.at("mqtt")

    for number in range(TRIES):
        open_mqtt_session(mqtt, credentials, f"try-{number}").close()
    stomp_round_trip(proxy.at("stomp"), credentials, "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid)
    assert proxy.sessions(NODE_A) > TRIES
    assert proxy.sessions(NODE_B) == 0

    with (
        MqttSubscriber([mqtt], ["events/#"], credentials, client_id="agent") as subscriber,
        MqttPublisher([mqtt], credentials) as publisher,
    ):
        publisher.publish("events/1", "before")
        lab.kill(A)
        publisher.publish("events/2", "after", timeout=2 * PATIENCE)
        assert set(subscriber.wait(2, 2 * PATIENCE)) == {"before", "after"}
    assert lab.wait_active("orders-mq01") == B
    proxy.wait_for(up={NODE_B}, down={NODE_A})

    idle = open_mqtt_session(mqtt, credentials, "idle")
    lab.pause(B)
    wait(lambda: proxy.down() == {NODE_A, NODE_B}, proxy.log_tail)
    assert is_closed(idle)
    for connector in ("mqtt", "stomp", "openwire"):
        with socket.create_connection(proxy.at(connector), timeout=PATIENCE) as client:
            assert is_closed(client), f"the connection to {connector} is not closed"
    lab.resume(B)
    proxy.wait_for(up={NODE_B}, down={NODE_A})
    mqtt_round_trip(mqtt, credentials, "round", timeout=PATIENCE)


@in_every_situation
def test_only_masters_of_pure_groups_serve_and_other_master_after_kill(tmp_path: Path, lab_of: LabOf) -> None:
    hosts = (*pair("orders"), *pair("orders", 2))
    lab = lab_of(write_balanced_inventory(tmp_path / "inventory", hosts, release="5.5.1", ha="pure", **NETWORK))
    lab.up()
    other_master = "orders-mq02-a"
    with HAProxy(lab, tmp_path / "haproxy") as proxy:
        proxy.wait_for(up={NODE_A, other_master}, down=set())
        stomp_round_trip(
            proxy.at("stomp"), credentials_of(lab), "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid
        )
        lab.kill(A)
        lab.wait_state(B, "active")
        proxy.wait_for(up={other_master}, down={NODE_A})
        stomp_round_trip(
            proxy.at("stomp"), credentials_of(lab, hosts[2]), "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid
        )
        assert {server for _backend, server in proxy.servers()} == {NODE_A, other_master}


@in_every_situation
def test_mqtt_client_is_always_connected_to_same_pair(tmp_path: Path, lab_of: LabOf) -> None:
    hosts = [pair("orders", number)[0] for number in (1, 2)]
    variables: dict[str, Any] = {"release": "6.3.1", "ha": "none", "topology": "none"}
    lab = lab_of(write_balanced_inventory(tmp_path / "inventory", hosts, **variables, **NETWORK))
    lab.up()
    names = {host.partition(".")[0] for host in hosts}
    with HAProxy(lab, tmp_path / "haproxy") as proxy:
        proxy.wait_for(up=names, down=set())

        def connected_server(client_id: str) -> str:
            sessions = {name: proxy.sessions(name) for name in names}
            open_mqtt_session(proxy.at("mqtt"), credentials_of(lab), client_id).close()
            wait(lambda: sum(map(proxy.sessions, names)) > sum(sessions.values()), proxy.log_tail)
            return next(name for name in names if proxy.sessions(name) > sessions[name])

        clients = [f"kiosk-{number}" for number in range(8)]
        servers = {client: {connected_server(client) for _ in range(3)} for client in clients}
        assert {len(names_of_client) for names_of_client in servers.values()} == {1}
        assert set().union(*servers.values()) == names

        # A session exists in only one store: without this store, no broker can serve its client.
        lost = next(iter(servers["kiosk-0"]))
        lab.kill(lost)
        wait(lambda: proxy.down() == {lost}, proxy.log_tail)
        with pytest.raises((LabError, OSError, AssertionError)):
            open_mqtt_session(proxy.at("mqtt"), credentials_of(lab), "kiosk-0")
        unaffected = next(client for client in clients if servers[client] != {lost})
        open_mqtt_session(proxy.at("mqtt"), credentials_of(lab), unaffected).close()
