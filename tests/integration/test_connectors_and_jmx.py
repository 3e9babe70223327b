"""Transports, limits of connectors and JMX with their variables, on real brokers."""

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
from tests.integration.single_brokers import BrokerSandbox
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
        tls=create_tls_settings(directory),
    )
    with Lab.open([inventory], directory / "lab") as lab:
        lab.up()
        yield lab


def create_tls_settings(directory: Path) -> dict[str, str]:
    """Create a key and return ``activemq_tls`` with it as keystore and as truststore."""
    key = directory / "key.p12"
    make_key(key, days=30)
    return {f"{kind}{suffix}": value for kind in ("keystore", "truststore")
            for suffix, value in (("", str(key)), ("_password", "changeit"))}  # fmt: skip


def connector_address(lab: Lab, name: str) -> tuple[str, int]:
    ((host, _),) = lab.addresses(HOST, "amqp")
    return host, lab.fleet.broker(HOST).ports[name]


def exchange(address: tuple[str, int], request: bytes, *, tls: bool = False) -> bytes:
    """Send a request and return the first bytes of the response, without a check of the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, PATIENCE) as plain:
        client = context.wrap_socket(plain) if tls else plain
        client.sendall(request)
        return client.recv(4096)


def test_auto_connector_accepts_stomp_client(lab: Lab) -> None:
    stomp_round_trip(connector_address(lab, "any"), APP, "auto", timeout=PATIENCE)


def websocket_upgrade_request(address: tuple[str, int]) -> bytes:
    """Return the request with which a browser starts a WebSocket connection."""
    return (
        f"GET / HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
    ).encode()


def test_amqp_and_websocket_connectors_respond(lab: Lab) -> None:
    assert exchange(connector_address(lab, "amqp"), b"AMQP\x03\x01\x00\x00").startswith(b"AMQP\x03")
    address = connector_address(lab, "ws")
    assert exchange(address, websocket_upgrade_request(address)).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize("name", ["nio+ssl", "auto+nio+ssl", "wss"])
def test_encrypted_connector_does_not_respond_to_plain_client(lab: Lab, name: str) -> None:
    address = connector_address(lab, name)
    stomp = b"CONNECT\naccept-version:1.1\nhost:x\nlogin:app\npasscode:a password\n\n\0"
    request, response = {
        "wss": (websocket_upgrade_request(address), b"HTTP/1.1 101"),
        "auto+nio+ssl": (stomp, b"CONNECTED"),
        "nio+ssl": (b"", b"ActiveMQ"),
    }[name]
    assert response in exchange(address, request, tls=True)
    try:
        plain_response = exchange(address, request or b"anything in plain text\n")
    except OSError:
        plain_response = b""
    assert response not in plain_response


def test_connector_limits_consumers_of_connection(lab: Lab) -> None:
    with StompConnection(connector_address(lab, "stomp+nio"), APP, timeout=PATIENCE) as connection:
        connection.subscribe("/queue/one", ack="auto")
        with pytest.raises(StompError, match="at maximum limit: 1"):
            connection.subscribe("/queue/two", ack="auto")


def test_connector_limits_number_of_connections(lab: Lab) -> None:
    address = connector_address(lab, "few")
    with StompConnection(address, APP, timeout=PATIENCE), pytest.raises((StompError, OSError)):
        StompConnection(address, APP, timeout=5)


def test_jmx_accepts_only_its_users_with_their_access(sandbox: BrokerSandbox, tmp_path: Path) -> None:
    for number, release in enumerate(RELEASES, 1):
        users = [{"name": "reader", "password": "a-secret"}, *OPERATOR]
        read_by = _start_broker_with_jmx(sandbox, tmp_path, release, number, {"users": users})
        assert read_by("reader", "a-secret") == [
            f"read jmx-mq{number}-a",
            "refused Access denied! Invalid access level",
        ]
        assert read_by("op", "other") == [f"read jmx-mq{number}-a", "wrote"]
        assert read_by("op", "wrong")[0].startswith("refused Authentication failed")
        assert read_by()[0].startswith("refused Authentication failed")


@in_every_situation
@pytest.mark.parametrize(
    ("release", "encrypts"), [("5.8.0", True), *further(("5.5.1", True), ("5.18.3", False), ("6.3.1", False))]
)
def test_only_releases_that_support_jmx_tls_encrypt_jmx(
    sandbox: BrokerSandbox, tmp_path: Path, release: str, encrypts: bool
) -> None:
    assert Release.of(release).supports_jmx_tls == encrypts
    tls = create_tls_settings(tmp_path)
    read_by = _start_broker_with_jmx(sandbox, tmp_path, release, 10, {"users": OPERATOR, "tls": True}, tls=tls)
    trust = f"-Djavax.net.ssl.trustStore={tls['keystore']} -Djavax.net.ssl.trustStorePassword=changeit"
    assert read_by("op", "other", options=trust) == ["read jmx-mq10-a", "wrote"]
    assert ("SSLHandshakeException" in " ".join(read_by("op", "other"))) == encrypts


@in_every_situation
def test_jmx_without_users_accepts_client_without_login(sandbox: BrokerSandbox, tmp_path: Path) -> None:
    assert _start_broker_with_jmx(sandbox, tmp_path, "5.18.3", 8, {})() == ["read jmx-mq8-a", "wrote"]


def _start_broker_with_jmx(
    sandbox: BrokerSandbox, tmp_path: Path, release: str, number: int, jmx: dict[str, Any], **settings: Any
) -> Any:
    """Start a broker with JMX; return a function that reads it with a login and returns the lines of the client."""
    port = JMX_PORT + number
    [broker] = fleet(
        f"jmx-mq{number}", nodes="a", domain="", ha="none", release=release, console=False, authentication="none",
        jmx={"port": port, **jmx}, connectors=[{"name": "o", "scheme": "tcp", "port": 21616, "options": {}}],
        **settings, bind=sandbox.address(number), address="127.0.0.1", store_directory=str(tmp_path / release),
    ).brokers  # fmt: skip
    files = render_broker(broker, reveal=True)
    sandbox_broker = sandbox.add_broker(
        broker.host, release, files["conf/activemq.xml"].decode(), options=("-Djava.rmi.server.hostname=127.0.0.1",)
    )
    conf = sandbox_broker.data.parent / "conf"
    for name in ("credentials.properties", "jmx.password", "jmx.access"):
        if content := files.get(f"conf/{name}"):
            (conf / name).write_bytes(content)
    assert sandbox_broker.boot().fate == "started", sandbox_broker.output
    classes = tmp_path / f"classes-{number}"
    classes.mkdir()
    client = compile_client("ReadBroker", Release.of(release), classes)
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"

    def read_by(*login: str, options: str = "") -> list[str]:
        command = [client[0], *options.split(), *client[1:], url, *login]
        completed = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return [line.partition(" for ")[0] for line in completed.stdout.splitlines()] or [completed.stderr]

    return read_by
