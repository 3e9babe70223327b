"""HAProxy in front of servers that are not brokers: only a server with a valid certificate receives the password."""

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
PASSWORD = "made-up-check"
PORTS = {"stomp": 21713, "mqtt": 21783}
RESPONSES = {"stomp": b"CONNECTED\n\n\0\n", "mqtt": b"\x20\x02\x00\x00"}
_NUMBERS = itertools.count(2)


class Authority:
    """A CA and the certificates that it issues."""

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
        """Return the TLS context of a server with a certificate of the name and the address."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ipaddress.ip_address(address))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate = self._builder(subject, key, names).sign(self._key, hashes.SHA256())
        certificate_and_key = self._directory / f"{self._name}-{host}.pem"
        certificate_and_key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate_and_key)
        return context


class Server:
    """A server that accepts connections on both ports, responds to a login as a broker does, and stores all input."""

    def __init__(self, address: str, context: ssl.SSLContext | None) -> None:
        self.received = bytearray()
        self.connections = 0
        self._context = context
        self._sockets = {name: socket.create_server((address, port)) for name, port in PORTS.items()}
        for name, listener in self._sockets.items():
            threading.Thread(target=self._serve, args=(listener, RESPONSES[name]), daemon=True).start()

    def close(self) -> None:
        for listener in self._sockets.values():
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _serve(self, listener: socket.socket, response: bytes) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.connections += 1
                with suppress(OSError):
                    self._exchange(client, response)

    def _exchange(self, client: socket.socket, response: bytes) -> None:
        client.settimeout(2)
        with self._context.wrap_socket(client, server_side=True) if self._context else client as stream:
            self.received += stream.recv(4096)
            stream.sendall(response)
            self.received += stream.recv(4096)


@contextmanager
def checked_server(directory: Path, address: str, context: ssl.SSLContext | None, ca: Path | None) -> Iterator[Server]:
    """Start a server at the address of a broker with TLS, and HAProxy, whose rendered configuration checks it."""
    tls = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
        ("keystore_password", "truststore_password"), "made-up-store"
    )
    connectors = [{"name": name, "scheme": f"{name}+nio", "port": port} for name, port in PORTS.items()]
    broker = {"release": "6.3.1", "ha": "none", "address": address, "tls": tls, "connectors": connectors}
    balancer = {
        "vip": f"127.{os.getpid() % 200 + 20}.9.{next(_NUMBERS)}",
        "vip_interface": "lo",
        "vip_check_port": 21000 + os.getpid() % 5000,
        "vip_username": "check",
        "vip_password": PASSWORD,
        **({"vip_broker_ca": str(ca)} if ca else {}),
    }
    variables: dict[str, dict[str, Any]] = {
        host: {f"activemq_{name}": value for name, value in settings.items()}
        for host, settings in ((BROKER, broker), ("lb1.example.com", balancer))
    }
    (rendered_balancer,) = build_fleet(variables, {BALANCERS: ["lb1.example.com"]}).balancers
    haproxy_cfg = render_balancer(rendered_balancer, reveal=True)["haproxy.cfg"].decode()
    omitted = () if os.geteuid() == 0 else _UNPRIVILEGED
    lines = [line for line in haproxy_cfg.splitlines(keepends=True) if not line.strip().startswith(omitted or "\0")]
    (directory / "haproxy.cfg").write_text("".join(lines))
    server = Server(address, context)
    with (directory / "haproxy.log").open("w") as log:
        process = subprocess.Popen(
            [shutil.which("haproxy") or "haproxy", "-db", "-f", str(directory / "haproxy.cfg")], stdout=log, stderr=log
        )
        try:
            yield server
        finally:
            process.kill()
            process.wait()
            server.close()


def haproxy_log(directory: Path) -> str:
    return (directory / "haproxy.log").read_text()


@pytest.fixture
def address() -> str:
    return f"127.{os.getpid() % 200 + 20}.8.{next(_NUMBERS)}"


def test_haproxy_logs_in_to_broker_with_valid_certificate(tmp_path: Path, address: str) -> None:
    ca = Authority(tmp_path, "ours")
    with checked_server(tmp_path, address, ca.server(BROKER, address), ca.pem) as server:
        wait(lambda: "succeeded, reason" in haproxy_log(tmp_path), lambda: haproxy_log(tmp_path), timeout=40)
        wait(lambda: PASSWORD.encode() in server.received, lambda: haproxy_log(tmp_path), timeout=40)


@pytest.mark.parametrize("kind", ["of another authority", "of another host", "without TLS"])
def test_server_with_wrong_certificate_at_address_of_broker_gets_no_password(
    tmp_path: Path, address: str, kind: str
) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    contexts = {
        "of another authority": theirs.server(BROKER, address),
        "of another host": ours.server("orders-mq01-b.example.com", "127.0.0.9"),
        "without TLS": None,
    }
    with checked_server(tmp_path, address, contexts[kind], ours.pem) as server:
        wait(
            lambda: server.connections > 4 and "failed, reason" in haproxy_log(tmp_path),
            lambda: haproxy_log(tmp_path),
            timeout=40,
        )
        assert PASSWORD.encode() not in server.received
        assert "succeeded, reason" not in haproxy_log(tmp_path)


def test_server_gets_no_password_if_haproxy_has_no_ca_to_verify_it(tmp_path: Path, address: str) -> None:
    theirs = Authority(tmp_path, "theirs")
    with checked_server(tmp_path, address, theirs.server("other.example.com", address), None) as server:
        wait(
            lambda: server.connections > 4 and b"CONNECT\n" in server.received,
            lambda: haproxy_log(tmp_path),
            timeout=40,
        )
        assert PASSWORD.encode() not in server.received
