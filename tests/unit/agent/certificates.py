"""A certificate authority for tests, and servers that present its certificates."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """An authority that signs certificates. ``ca`` is the PEM file with its own certificate."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.ca = directory / f"{name}.pem"
        authority = x509.BasicConstraints(ca=True, path_length=None)
        signed = _builder(self._name, self._name, self._key).add_extension(authority, critical=True)
        self.ca.write_bytes(signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def certificate(self, host: str, *, ends: datetime.timedelta = 30 * DAY, passphrase: bytes = b"") -> Path:
        """Return a PEM file with a key and the certificate for a host or address.

        ``ends`` is the time from now until the certificate expires; it can be negative.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        signed = _builder(name, self._name, key, ends).add_extension(
            x509.SubjectAlternativeName([_general_name(host)]), critical=False
        )
        secret = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        path = self._directory / f"{host}-{key.public_key().public_numbers().x:x}.pem"
        path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
            + signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, ends: datetime.timedelta = 30 * DAY
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 90 * DAY)
        .not_valid_after(now + ends)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@contextmanager
def server(context: ssl.SSLContext | None, *, response: bytes = b"") -> Iterator[int]:
    """Start a server on loopback and yield its port.

    It performs the TLS handshake if a context is given, reads up to 1000 bytes, sends ``response`` and closes.
    """
    listener = _listener()

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                client.settimeout(60)
                with suppress(OSError), client:
                    peer = context.wrap_socket(client, server_side=True) if context else client
                    with peer:
                        peer.recv(1000)
                        peer.sendall(response)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)


def _listener() -> socket.socket:
    """Listen on a port below the ephemeral ports: a client that polls an ephemeral port can connect to itself."""
    for port in range(21_000, 22_000):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no port from 21000 to 21999 is free: stop one of the processes that listen on them")


def server_context(pem: Path, **versions: ssl.TLSVersion) -> ssl.SSLContext:
    """Return the TLS context of a server that presents a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    for name, version in versions.items():
        setattr(context, name, version)
    return context
