"""HAProxy before real brokers: only the active node gets clients, and one that hangs gets none."""

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


def text_of(words: str) -> bytes:
    return struct.pack(">H", len(words)) + words.encode()


def connect(address: Address, who: Credentials, client_id: str) -> socket.socket:
    """An MQTT session; fails unless CONNACK says 0."""
    body = text_of("MQTT") + bytes((4, 0xC2, 0, 0)) + b"".join(map(text_of, (client_id, who.username, who.password)))
    client = socket.create_connection(address, timeout=PATIENCE)
    client.sendall(b"\x10" + bytes((len(body),)) + body)
    assert client.recv(4) == b"\x20\x02\x00\x00"
    return client


def ends(client: socket.socket) -> bool:
    """Whether the other side closes the connection; a silent one fails with TimeoutError."""
    with suppress(ConnectionError):
        while client.recv(4096):
            pass
    return True


def login(lab: Lab, host: str = A) -> Credentials:
    found = lab.credentials(host)
    assert found
    return found


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, HAProxy]]:
    """A pair behind HAProxy, which has looked at both nodes. The last test that takes it kills a node."""
    place = tmp_path_factory.mktemp("orders")
    inventory = write_balanced_inventory(place / "inventory", (A, B), release="6.3.1", connectors=CONNECTORS, **NETWORK)
    with Lab.open(inventory, place / "lab") as lab:
        lab.up()
        with HAProxy(lab, place / "haproxy") as proxy:
            proxy.wait_for(up={NODE_A}, down={NODE_B})
            yield lab, proxy


@in_every_situation
def test_a_look_with_a_login_leaves_no_trace_and_one_that_is_refused_will_do(
    tmp_path: Path, orders: tuple[Lab, HAProxy]
) -> None:
    lab, proxy = orders
    assert len(proxy.servers()) == 2 * len(CONNECTORS)
    stomp_round_trip(proxy.at("stomp"), login(lab), "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid)
    assert "is invalid" not in lab.log(A).read_text()

    # A second one, without a login; its ports are the first one's too, which the kernel allows.
    with HAProxy(lab, tmp_path / "stranger", login=False) as other:
        other.wait_for(up={NODE_A}, down={NODE_B})
    wait(lambda: "is invalid" in lab.log(A).read_text(), lambda: "the broker's log shows no refusal")


def test_clients_follow_the_active_node_and_leave_one_that_hangs(orders: tuple[Lab, HAProxy]) -> None:
    lab, proxy = orders
    who, mqtt = login(lab), proxy.at("mqtt")

    for number in range(TRIES):
        connect(mqtt, who, f"try-{number}").close()
    stomp_round_trip(proxy.at("stomp"), who, "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid)
    assert (proxy.sessions(NODE_A) > TRIES, proxy.sessions(NODE_B)) == (True, 0)

    with (
        MqttSubscriber([mqtt], ["events/#"], who, client_id="agent") as subscriber,
        MqttPublisher([mqtt], who) as publisher,
    ):
        publisher.publish("events/1", "before")
        lab.kill(A)
        publisher.publish("events/2", "after", timeout=2 * PATIENCE)
        assert set(subscriber.wait(2, 2 * PATIENCE)) == {"before", "after"}
    assert lab.wait_active("orders-mq01") == B
    proxy.wait_for(up={NODE_B}, down={NODE_A})

    idle = connect(mqtt, who, "idle")
    lab.pause(B)
    wait(lambda: proxy.down() == {NODE_A, NODE_B}, proxy.log_tail)
    assert ends(idle)
    for connector in ("mqtt", "stomp", "openwire"):
        with socket.create_connection(proxy.at(connector), timeout=PATIENCE) as client:
            assert ends(client), f"{connector} hangs"
    lab.resume(B)
    proxy.wait_for(up={NODE_B}, down={NODE_A})
    mqtt_round_trip(mqtt, who, "round", timeout=PATIENCE)


@in_every_situation
def test_of_pure_groups_masters_serve_alone_and_the_other_master_when_one_dies(tmp_path: Path, lab_of: LabOf) -> None:
    hosts = (*pair("orders"), *pair("orders", 2))
    lab = lab_of(write_balanced_inventory(tmp_path / "inventory", hosts, release="5.5.1", ha="pure", **NETWORK))
    lab.up()
    other = "orders-mq02-a"
    with HAProxy(lab, tmp_path / "haproxy") as proxy:
        proxy.wait_for(up={NODE_A, other}, down=set())
        stomp_round_trip(proxy.at("stomp"), login(lab), "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid)
        lab.kill(A)
        lab.wait_state(B, "active")
        proxy.wait_for(up={other}, down={NODE_A})
        stomp_round_trip(
            proxy.at("stomp"), login(lab, hosts[2]), "/topic/round", timeout=PATIENCE, listener_uid=proxy.uid
        )
        assert {server for _backend, server in proxy.servers()} == {NODE_A, other}


@in_every_situation
def test_an_mqtt_client_meets_the_same_pair_again(tmp_path: Path, lab_of: LabOf) -> None:
    hosts = [pair("orders", number)[0] for number in (1, 2)]
    variables: dict[str, Any] = {"release": "6.3.1", "ha": "none", "topology": "none"}
    lab = lab_of(write_balanced_inventory(tmp_path / "inventory", hosts, **variables, **NETWORK))
    lab.up()
    names = {host.partition(".")[0] for host in hosts}
    with HAProxy(lab, tmp_path / "haproxy") as proxy:
        proxy.wait_for(up=names, down=set())

        def met_by(client_id: str) -> str:
            before = {name: proxy.sessions(name) for name in names}
            connect(proxy.at("mqtt"), login(lab), client_id).close()
            wait(lambda: sum(map(proxy.sessions, names)) > sum(before.values()), proxy.log_tail)
            return next(name for name in names if proxy.sessions(name) > before[name])

        met = {client: {met_by(client) for _ in range(3)} for client in (f"kiosk-{n}" for n in range(8))}
        assert {len(found) for found in met.values()} == {1}
        assert set().union(*met.values()) == names

        # A session lives in one store: without it there is nothing to serve that client with.
        lost = next(iter(met["kiosk-0"]))
        lab.kill(lost)
        wait(lambda: proxy.down() == {lost}, proxy.log_tail)
        with pytest.raises((LabError, OSError, AssertionError)):
            connect(proxy.at("mqtt"), login(lab), "kiosk-0")
        kept = next(client for client, found in met.items() if found != {lost})
        connect(proxy.at("mqtt"), login(lab), kept).close()
