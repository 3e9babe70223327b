"""An MQTT broker of a page on loopback: QoS 0 and 1, no sessions kept, no rights but what a test says."""

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
    """``grants`` says which filters may be read; ``delivers`` is false for one that drops what it takes."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        code: int | None = 0,
        grants: Callable[[str], bool] = lambda _filter: True,
        delivers: bool = True,
    ) -> None:
        self._tls, self._code, self._grants, self._delivers = tls, code, grants, delivers
        self._listener = _listener()
        self.port: int = self._listener.getsockname()[1]
        self.published: list[tuple[str, bytes]] = []
        self._lock = threading.RLock()
        self._filters: dict[socket.socket, list[str]] = {}

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            for one in (self._listener, *self._filters):
                with suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)
        self._listener.close()

    def send(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Deliver a message to whoever has subscribed."""
        with self._lock:
            for peer, filters in list(self._filters.items()):
                if any(filter_matches(one, topic) for one in filters):
                    with suppress(OSError):
                        peer.sendall(_publish(topic, payload, qos))

    def hang_up(self) -> None:
        """End every connection."""
        with self._lock:
            for peer in self._filters:
                with suppress(OSError):
                    socket.socket.shutdown(peer, socket.SHUT_RDWR)

    def force(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Deliver a message to everybody, subscribed or not."""
        with self._lock:
            for peer in list(self._filters):
                with suppress(OSError):
                    peer.sendall(_publish(topic, payload, qos))

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(accepted,), daemon=True).start()

    def _talk(self, accepted: socket.socket) -> None:
        with suppress(OSError, EOFError):
            peer = self._tls.wrap_socket(accepted, server_side=True) if self._tls else accepted
            with peer:
                with self._lock:
                    self._filters[peer] = []
                try:
                    while True:
                        first, body = read_packet(peer)
                        self._take(peer, first, body)
                finally:
                    with self._lock:
                        del self._filters[peer]

    def _take(self, peer: socket.socket, first: int, body: bytes) -> None:
        match first & 0xF0:
            case 0x10 if self._code is not None:
                self._answer(peer, CONNACK, bytes([0, self._code]))
            case 0x30:
                self._published(peer, first >> 1 & 3, body)
            case 0x80:
                (length,) = struct.unpack("!H", body[2:4])
                wanted = body[4 : 4 + length].decode()
                granted = self._grants(wanted)
                if granted:
                    with self._lock:
                        self._filters[peer].append(wanted)
                self._answer(peer, SUBACK, body[:2] + bytes([body[-1] if granted else 0x80]))
            case 0xA0:
                self._answer(peer, UNSUBACK, body[:2])
            case 0xC0:
                self._answer(peer, PINGRESP, b"")
            case 0xE0:
                raise EOFError

    def _published(self, peer: socket.socket, qos: int, body: bytes) -> None:
        (length,) = struct.unpack("!H", body[:2])
        topic, rest = body[2 : 2 + length].decode(), body[2 + length :]
        if qos:
            self._answer(peer, PUBACK, rest[:2])
            rest = rest[2:]
        with self._lock:
            self.published.append((topic, rest))
        if self._delivers:
            self.send(topic, rest, qos)

    def _answer(self, peer: socket.socket, kind: int, body: bytes) -> None:
        with self._lock:
            peer.sendall(encode_mqtt_packet(kind, body))


def _publish(topic: str, payload: bytes, qos: int) -> bytes:
    name = topic.encode()
    body = struct.pack("!H", len(name)) + name + (b"\0\1" if qos else b"") + payload
    return encode_mqtt_packet(0x30 | qos << 1, body)


def read_packet(peer: socket.socket) -> tuple[int, bytes]:
    first, length, shift = read(peer, 1)[0], 0, 0
    while True:
        digit = read(peer, 1)[0]
        length |= (digit & 127) << shift
        shift += 7
        if digit < 128:
            return first, read(peer, length)


def read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _listener() -> socket.socket:
    """A port below the ephemeral ones: a poll of one of those may connect to itself."""
    for port in range(22_000, 23_000):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no free port")
