"""HAProxy before servers that are no brokers: who has not the right certificate never gets the password."""

from __future__ import annotations

import datetime
import ipaddress
import itertools
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from activemq_fleet.render import render_balancer
from activemq_fleet.topology import BALANCERS, build_fleet
from tests.integration.balancing import _UNPRIVILEGED, needs_haproxy, wait

pytestmark = needs_haproxy

BROKER = "orders-mq01-a.example.com"
PASSWORD = "made-up-look"
PORTS = {"stomp": 21713, "mqtt": 21783}
ANSWERS = {"stomp": b"CONNECTED\n\n\0\n", "mqtt": b"\x20\x02\x00\x00"}
_NUMBERS = itertools.count(2)


class Authority:
    """A CA and the certificates it gives out."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._subject = subject
        certificate = self._builder(subject, self._key, x509.BasicConstraints(ca=True, path_length=None))
        self.pem = directory / f"{name}.pem"
        self.pem.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._subject)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder

    def server(self, host: str, address: str) -> ssl.SSLContext:
        """What a server with a certificate of this name and address speaks with."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ipaddress.ip_address(address))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate = self._builder(subject, key, names).sign(self._key, hashes.SHA256())
        both = self._directory / f"{self._name}-{host}.pem"
        both.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        return context


class Server:
    """Takes connections on both ports, says what a broker says to a login, and keeps all it hears."""

    def __init__(self, address: str, context: ssl.SSLContext | None) -> None:
        self.heard = bytearray()
        self.dials = 0
        self._context = context
        self._sockets = {name: socket.create_server((address, port)) for name, port in PORTS.items()}
        for name, listener in self._sockets.items():
            threading.Thread(target=self._serve, args=(listener, ANSWERS[name]), daemon=True).start()

    def close(self) -> None:
        for listener in self._sockets.values():
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _serve(self, listener: socket.socket, answer: bytes) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.dials += 1
                with suppress(OSError):
                    self._talk(client, answer)

    def _talk(self, client: socket.socket, answer: bytes) -> None:
        client.settimeout(2)
        with self._context.wrap_socket(client, server_side=True) if self._context else client as spoken:
            self.heard += spoken.recv(4096)
            spoken.sendall(answer)
            self.heard += spoken.recv(4096)


@contextmanager
def looked_at(place: Path, address: str, context: ssl.SSLContext | None, ca: Path | None) -> Iterator[Server]:
    """A server where a broker with TLS is said to be, and HAProxy, with what is rendered for it, looking at it."""
    tls = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
        ("keystore_password", "truststore_password"), "made-up-store"
    )
    connectors = [{"name": name, "scheme": f"{name}+nio", "port": port} for name, port in PORTS.items()]
    broker = {"release": "6.3.1", "ha": "none", "address": address, "tls": tls, "connectors": connectors}
    balancer = {
        "vip": f"127.{os.getpid() % 200 + 20}.9.{next(_NUMBERS)}",
        "vip_interface": "lo",
        "vip_check_port": 21000 + os.getpid() % 5000,
        "vip_username": "look",
        "vip_password": PASSWORD,
        **({"vip_broker_ca": str(ca)} if ca else {}),
    }
    said: dict[str, dict[str, Any]] = {
        host: {f"activemq_{name}": value for name, value in known.items()}
        for host, known in ((BROKER, broker), ("lb1.example.com", balancer))
    }
    (one,) = build_fleet(said, {BALANCERS: ["lb1.example.com"]}).balancers
    text = render_balancer(one, reveal=True)["haproxy.cfg"].decode()
    left_out = () if os.geteuid() == 0 else _UNPRIVILEGED
    lines = [line for line in text.splitlines(keepends=True) if not line.strip().startswith(left_out or "\0")]
    (place / "haproxy.cfg").write_text("".join(lines))
    server = Server(address, context)
    with (place / "haproxy.log").open("w") as log:
        process = subprocess.Popen(
            [shutil.which("haproxy") or "haproxy", "-db", "-f", str(place / "haproxy.cfg")], stdout=log, stderr=log
        )
        try:
            yield server
        finally:
            process.kill()
            process.wait()
            server.close()


def log(place: Path) -> str:
    return (place / "haproxy.log").read_text()


@pytest.fixture
def address() -> str:
    return f"127.{os.getpid() % 200 + 20}.8.{next(_NUMBERS)}"


def test_a_broker_with_its_own_certificate_is_logged_in_to(tmp_path: Path, address: str) -> None:
    ca = Authority(tmp_path, "ours")
    with looked_at(tmp_path, address, ca.server(BROKER, address), ca.pem) as server:
        wait(lambda: "succeeded, reason" in log(tmp_path), lambda: log(tmp_path), timeout=40)
        wait(lambda: PASSWORD.encode() in server.heard, lambda: log(tmp_path), timeout=40)


@pytest.mark.parametrize("who", ["of another authority", "of another host", "without TLS"])
def test_a_stranger_where_a_broker_should_be_is_not_told_the_password(tmp_path: Path, address: str, who: str) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    contexts = {
        "of another authority": theirs.server(BROKER, address),
        "of another host": ours.server("orders-mq01-b.example.com", "127.0.0.9"),
        "without TLS": None,
    }
    with looked_at(tmp_path, address, contexts[who], ours.pem) as server:
        wait(lambda: server.dials > 4 and "failed, reason" in log(tmp_path), lambda: log(tmp_path), timeout=40)
        assert PASSWORD.encode() not in server.heard
        assert "succeeded, reason" not in log(tmp_path)


def test_a_stranger_is_not_told_the_password_where_nobody_can_verify_him(tmp_path: Path, address: str) -> None:
    theirs = Authority(tmp_path, "theirs")
    with looked_at(tmp_path, address, theirs.server("stranger.example.com", address), None) as server:
        wait(lambda: server.dials > 4 and b"CONNECT\n" in server.heard, lambda: log(tmp_path), timeout=40)
        assert PASSWORD.encode() not in server.heard
