"""A minimal MQTT broker on loopback: QoS 0 and 1, no persistent sessions, and the rights that a test grants."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from activemq_agent.store.inbox import filter_matches
from activemq_fleet.node.protocols import encode_mqtt_packet

CONNACK, PUBACK, SUBACK, UNSUBACK, PINGRESP = 0x20, 0x40, 0x90, 0xB0, 0xD0


class TinyBroker:
    """A broker. ``grants``: whether clients may subscribe to a filter; ``delivers``: whether it delivers messages."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        code: int | None = 0,
        grants: Callable[[str], bool] = lambda _filter: True,
        delivers: bool = True,
    ) -> None:
        self._tls, self._code, self._grants, self._delivers = tls, code, grants, delivers
        self._listener = _create_listener()
        self.port: int = self._listener.getsockname()[1]
        self.published: list[tuple[str, bytes]] = []
        self._lock = threading.RLock()
        self._filters: dict[socket.socket, list[str]] = {}

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept_connections, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            for connection in (self._listener, *self._filters):
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
        self._listener.close()

    def send(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Deliver a message to the subscribed clients."""
        with self._lock:
            for peer, filters in list(self._filters.items()):
                if any(filter_matches(topic_filter, topic) for topic_filter in filters):
                    with suppress(OSError):
                        peer.sendall(_encode_publish(topic, payload, qos))

    def hang_up(self) -> None:
        """Close all connections."""
        with self._lock:
            for peer in self._filters:
                with suppress(OSError):
                    socket.socket.shutdown(peer, socket.SHUT_RDWR)

    def force(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Deliver a message to all clients, also to those without a subscription."""
        with self._lock:
            for peer in list(self._filters):
                with suppress(OSError):
                    peer.sendall(_encode_publish(topic, payload, qos))

    def _accept_connections(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._serve_connection, args=(accepted,), daemon=True).start()

    def _serve_connection(self, accepted: socket.socket) -> None:
        with suppress(OSError, EOFError):
            peer = self._tls.wrap_socket(accepted, server_side=True) if self._tls else accepted
            with peer:
                with self._lock:
                    self._filters[peer] = []
                try:
                    while True:
                        first, body = read_packet(peer)
                        self._process_packet(peer, first, body)
                finally:
                    with self._lock:
                        del self._filters[peer]

    def _process_packet(self, peer: socket.socket, first: int, body: bytes) -> None:
        match first & 0xF0:
            case 0x10 if self._code is not None:
                self._respond(peer, CONNACK, bytes([0, self._code]))
            case 0x30:
                self._process_publish(peer, first >> 1 & 3, body)
            case 0x80:
                (length,) = struct.unpack("!H", body[2:4])
                topic_filter = body[4 : 4 + length].decode()
                granted = self._grants(topic_filter)
                if granted:
                    with self._lock:
                        self._filters[peer].append(topic_filter)
                self._respond(peer, SUBACK, body[:2] + bytes([body[-1] if granted else 0x80]))
            case 0xA0:
                self._respond(peer, UNSUBACK, body[:2])
            case 0xC0:
                self._respond(peer, PINGRESP, b"")
            case 0xE0:
                raise EOFError

    def _process_publish(self, peer: socket.socket, qos: int, body: bytes) -> None:
        (length,) = struct.unpack("!H", body[:2])
        topic, payload = body[2 : 2 + length].decode(), body[2 + length :]
        if qos:
            self._respond(peer, PUBACK, payload[:2])
            payload = payload[2:]
        with self._lock:
            self.published.append((topic, payload))
        if self._delivers:
            self.send(topic, payload, qos)

    def _respond(self, peer: socket.socket, kind: int, body: bytes) -> None:
        with self._lock:
            peer.sendall(encode_mqtt_packet(kind, body))


def _encode_publish(topic: str, payload: bytes, qos: int) -> bytes:
    name = topic.encode()
    body = struct.pack("!H", len(name)) + name + (b"\0\1" if qos else b"") + payload
    return encode_mqtt_packet(0x30 | qos << 1, body)


def read_packet(peer: socket.socket) -> tuple[int, bytes]:
    """Return the first byte and the body of the next packet."""
    first, length, shift = read(peer, 1)[0], 0, 0
    while True:
        digit = read(peer, 1)[0]
        length |= (digit & 127) << shift
        shift += 7
        if digit < 128:
            return first, read(peer, length)


def read(peer: socket.socket, size: int) -> bytes:
    """Return the next ``size`` bytes of a connection."""
    received = b""
    while len(received) < size:
        chunk = peer.recv(size - len(received))
        if not chunk:
            raise EOFError
        received += chunk
    return received


def _create_listener() -> socket.socket:
    """Return a listener below the ephemeral ports: a client that polls an ephemeral port may connect to itself."""
    for port in range(22_000, 23_000):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no port from 22000 to 22999 is free: stop the processes that use these ports")
