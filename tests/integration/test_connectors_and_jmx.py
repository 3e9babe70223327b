"""Transports, limits of connectors and JMX as their variables set them, on real brokers."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab import Credentials, Lab
from activemq_fleet.lab.stomp import StompConnection, StompError
from activemq_fleet.releases import Release
from activemq_fleet.render import render
from tests.integration.java_clients import compiled
from tests.integration.labs import write_inventory
from tests.integration.planted import Ground
from tests.integration.waiting import PATIENCE
from tests.situations import EVERY_SITUATION
from tests.stomp_clients import stomp_round_trip
from tests.unit.fleets import fleet

HOST = "shop-mq01-a.example.com"
APP = Credentials("app", "a password")
USERS = [{"name": APP.username, "password": APP.password, "groups": ["staff"]}]
JMX_PORT = 21099
RELEASES = ["5.18.3", *(["5.5.1", "5.8.0", "6.3.1"] if EVERY_SITUATION else [])]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    connectors: list[dict[str, Any]] = [
        {"name": "any", "scheme": "auto+nio", "port": 61616, "options": {}},
        {"name": "ws", "scheme": "ws", "port": 61614, "options": {}},
        {"name": "amqp", "scheme": "amqp", "port": 5672, "options": {}},
        {
            "name": "stomp+nio",
            "scheme": "stomp+nio",
            "port": 61613,
            "options": {},
            "attributes": {"maximumConsumersAllowedPerConnection": 1},
        },
        {"name": "few", "scheme": "stomp", "port": 61623, "options": {"maximumConnections": 1}},
    ]
    directory = tmp_path_factory.mktemp("connectors")
    inventory = write_inventory(
        directory / "inventory", [HOST], release="5.18.3", ha="none", connectors=connectors, users=USERS
    )
    with Lab.open([inventory], directory / "lab") as lab:
        lab.up()
        yield lab


def address(lab: Lab, name: str) -> tuple[str, int]:
    ((host, _),) = lab.addresses(HOST, "amqp")
    return host, lab.fleet.broker(HOST).ports[name]


def answer(where: tuple[str, int], request: bytes) -> bytes:
    with socket.create_connection(where, PATIENCE) as client:
        client.sendall(request)
        return client.recv(4096)


def test_auto_speaks_whatever_the_client_does(lab: Lab) -> None:
    stomp_round_trip(address(lab, "any"), APP, "auto", timeout=PATIENCE)


def test_amqp_and_websocket_answer(lab: Lab) -> None:
    assert answer(address(lab, "amqp"), b"AMQP\x03\x01\x00\x00").startswith(b"AMQP\x03")
    host, port = address(lab, "ws")
    request = (
        f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
    )
    assert answer((host, port), request.encode()).startswith(b"HTTP/1.1 101")


def test_a_connection_has_no_more_consumers_than_its_connector_allows(lab: Lab) -> None:
    with StompConnection(address(lab, "stomp+nio"), APP, timeout=PATIENCE) as connection:
        connection.subscribe("/queue/one", ack="auto")
        with pytest.raises(StompError, match="at maximum limit: 1"):
            connection.subscribe("/queue/two", ack="auto")


def test_a_connector_has_no_more_connections_than_it_allows(lab: Lab) -> None:
    where = address(lab, "few")
    with StompConnection(where, APP, timeout=PATIENCE), pytest.raises((StompError, OSError)):
        StompConnection(where, APP, timeout=5)


def test_jmx_lets_in_whom_it_knows_with_the_rights_given(ground: Ground, tmp_path: Path) -> None:
    for number, release in enumerate(RELEASES, 1):
        users = [{"name": "look", "password": "a-secret"}, {"name": "op", "password": "other", "access": "readwrite"}]
        found = _read_by(ground, tmp_path, release, number, {"users": users})
        assert found("look", "a-secret") == [f"read jmx-mq{number}-a", "refused Access denied! Invalid access level"]
        assert found("op", "other") == [f"read jmx-mq{number}-a", "wrote"]
        assert found("op", "wrong")[0].startswith("refused Authentication failed")
        assert found()[0].startswith("refused Authentication failed")


def test_jmx_without_users_lets_in_anybody(ground: Ground, tmp_path: Path) -> None:
    assert _read_by(ground, tmp_path, "5.18.3", 8, {})() == ["read jmx-mq8-a", "wrote"]


def _read_by(ground: Ground, tmp_path: Path, release: str, number: int, jmx: dict[str, Any]) -> Any:
    """A broker with JMX, and a function that reads it as somebody and returns the lines of the client."""
    port = JMX_PORT + number
    [broker] = fleet(
        f"jmx-mq{number}", nodes="a", domain="", ha="none", release=release, console=False, authentication="none",
        jmx={"port": port, **jmx}, connectors=[{"name": "o", "scheme": "tcp", "port": 21616, "options": {}}],
        bind=ground.address(number), address="127.0.0.1", store_directory=str(tmp_path / release),
    ).brokers  # fmt: skip
    files = render(broker, reveal=True)
    planted = ground.plant(
        broker.host, release, files["conf/activemq.xml"].decode(), options=("-Djava.rmi.server.hostname=127.0.0.1",)
    )
    conf = planted.data.parent / "conf"
    for name in ("credentials.properties", "jmx.password", "jmx.access"):
        if content := files.get(f"conf/{name}"):
            (conf / name).write_bytes(content)
    assert planted.boot().fate == "started", planted.said
    classes = tmp_path / f"classes-{number}"
    classes.mkdir()
    client = compiled("ReadBroker", Release.of(release), classes)
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"

    def read(*who: str) -> list[str]:
        done = subprocess.run([*client, url, *who], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return [line.partition(" for ")[0] for line in done.stdout.splitlines()] or [done.stderr]

    return read
