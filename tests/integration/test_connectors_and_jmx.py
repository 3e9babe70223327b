"""Transports, limits of connectors and JMX as their variables set them, on real brokers."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompError
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from tests.integration.java_clients import compile_client
from tests.integration.labs import write_inventory
from tests.integration.monitored import make_key
from tests.integration.planted import Ground
from tests.integration.waiting import PATIENCE
from tests.situations import EVERY_SITUATION, further, in_every_situation
from tests.stomp_clients import stomp_round_trip
from tests.unit.fleets import fleet

HOST = "shop-mq01-a.example.com"
APP = Credentials("app", "a password")
USERS = [{"name": APP.username, "password": APP.password, "groups": ["staff"]}]
OPERATOR = [{"name": "op", "password": "other", "access": "readwrite"}]
JMX_PORT = 21099
RELEASES = ["5.18.3", *(["5.5.1", "5.8.0", "6.3.1"] if EVERY_SITUATION else [])]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    plain: list[dict[str, Any]] = [
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
    encrypted = [
        {"name": "nio+ssl", "scheme": "nio", "port": 61617, "options": {}},
        {"name": "wss", "scheme": "ws", "port": 61619, "options": {}},
        {"name": "auto+nio+ssl", "scheme": "auto+nio", "port": 61618, "options": {}},
    ]
    directory = tmp_path_factory.mktemp("connectors")
    inventory = write_inventory(
        directory / "inventory",
        [HOST],
        release="5.18.3",
        ha="none",
        connectors=[{**connector, "tls": False} for connector in plain] + encrypted,
        users=USERS,
        tls=tls_of(directory),
    )
    with Lab.open([inventory], directory / "lab") as lab:
        lab.up()
        yield lab


def tls_of(directory: Path) -> dict[str, str]:
    """``activemq_tls`` with a key that was made just now, which also is the one that is trusted."""
    key = directory / "key.p12"
    make_key(key, days=30)
    return {f"{kind}{what}": value for kind in ("keystore", "truststore")
            for what, value in (("", str(key)), ("_password", "changeit"))}  # fmt: skip


def address(lab: Lab, name: str) -> tuple[str, int]:
    ((host, _),) = lab.addresses(HOST, "amqp")
    return host, lab.fleet.broker(HOST).ports[name]


def answer(where: tuple[str, int], request: bytes, *, tls: bool = False) -> bytes:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(where, PATIENCE) as plain:
        client = trusting.wrap_socket(plain) if tls else plain
        client.sendall(request)
        return client.recv(4096)


def test_auto_speaks_whatever_the_client_does(lab: Lab) -> None:
    stomp_round_trip(address(lab, "any"), APP, "auto", timeout=PATIENCE)


def upgrade(where: tuple[str, int]) -> bytes:
    """What a browser sends to speak WebSocket."""
    return (
        f"GET / HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
    ).encode()


def test_amqp_and_websocket_answer(lab: Lab) -> None:
    assert answer(address(lab, "amqp"), b"AMQP\x03\x01\x00\x00").startswith(b"AMQP\x03")
    where = address(lab, "ws")
    assert answer(where, upgrade(where)).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize("name", ["nio+ssl", "auto+nio+ssl", "wss"])
def test_an_encrypted_connector_answers_nobody_in_plain(lab: Lab, name: str) -> None:
    where = address(lab, name)
    stomp = b"CONNECT\naccept-version:1.1\nhost:x\nlogin:app\npasscode:a password\n\n\0"
    request, said = {
        "wss": (upgrade(where), b"HTTP/1.1 101"),
        "auto+nio+ssl": (stomp, b"CONNECTED"),
        "nio+ssl": (b"", b"ActiveMQ"),
    }[name]
    assert said in answer(where, request, tls=True)
    try:
        in_plain = answer(where, request or b"anything in plain text\n")
    except OSError:
        in_plain = b""
    assert said not in in_plain


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
        users = [{"name": "look", "password": "a-secret"}, *OPERATOR]
        found = _read_by(ground, tmp_path, release, number, {"users": users})
        assert found("look", "a-secret") == [f"read jmx-mq{number}-a", "refused Access denied! Invalid access level"]
        assert found("op", "other") == [f"read jmx-mq{number}-a", "wrote"]
        assert found("op", "wrong")[0].startswith("refused Authentication failed")
        assert found()[0].startswith("refused Authentication failed")


@in_every_situation
@pytest.mark.parametrize(
    ("release", "encrypts"), [("5.8.0", True), *further(("5.5.1", True), ("5.18.3", False), ("6.3.1", False))]
)
def test_jmx_is_encrypted_by_those_releases_alone_that_are_not_refused(
    ground: Ground, tmp_path: Path, release: str, encrypts: bool
) -> None:
    assert Release.of(release).supports_jmx_tls == encrypts
    tls = tls_of(tmp_path)
    found = _read_by(ground, tmp_path, release, 10, {"users": OPERATOR, "tls": True}, tls=tls)
    trust = f"-Djavax.net.ssl.trustStore={tls['keystore']} -Djavax.net.ssl.trustStorePassword=changeit"
    assert found("op", "other", options=trust) == ["read jmx-mq10-a", "wrote"]
    assert ("SSLHandshakeException" in " ".join(found("op", "other"))) == encrypts


@in_every_situation
def test_jmx_without_users_lets_in_anybody(ground: Ground, tmp_path: Path) -> None:
    assert _read_by(ground, tmp_path, "5.18.3", 8, {})() == ["read jmx-mq8-a", "wrote"]


def _read_by(ground: Ground, tmp_path: Path, release: str, number: int, jmx: dict[str, Any], **settings: Any) -> Any:
    """A broker with JMX, and a function that reads it as somebody and returns the lines of the client."""
    port = JMX_PORT + number
    [broker] = fleet(
        f"jmx-mq{number}", nodes="a", domain="", ha="none", release=release, console=False, authentication="none",
        jmx={"port": port, **jmx}, connectors=[{"name": "o", "scheme": "tcp", "port": 21616, "options": {}}],
        **settings, bind=ground.address(number), address="127.0.0.1", store_directory=str(tmp_path / release),
    ).brokers  # fmt: skip
    files = render_broker(broker, reveal=True)
    planted = ground.plant(
        broker.host, release, files["conf/activemq.xml"].decode(), options=("-Djava.rmi.server.hostname=127.0.0.1",)
    )
    conf = planted.data.parent / "conf"
    for name in ("credentials.properties", "jmx.password", "jmx.access"):
        if content := files.get(f"conf/{name}"):
            (conf / name).write_bytes(content)
    assert planted.boot().fate == "started", planted.output
    classes = tmp_path / f"classes-{number}"
    classes.mkdir()
    client = compile_client("ReadBroker", Release.of(release), classes)
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"

    def read(*who: str, options: str = "") -> list[str]:
        command = [client[0], *options.split(), *client[1:], url, *who]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return [line.partition(" for ")[0] for line in done.stdout.splitlines()] or [done.stderr]

    return read
