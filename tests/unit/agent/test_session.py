"""A connection to sockets that accept, respond, refuse, stop responding and disconnect."""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.config import Config
from activemq_agent.config_values import Endpoint, Password
from activemq_agent.connection_events import (
    ConnackReceived,
    ConnectionEnded,
    MessageReceived,
    PubackReceived,
    SessionEvent,
    SubackReceived,
    TransportUp,
)
from activemq_agent.packet_limits import BoundedMqttClient
from activemq_agent.session import Session
from tests.waiting import PATIENCE, wait_until, within

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, PING, DISCONNECT = 1, 3, 4, 8, 12, 14


class Peer:
    """A minimal MQTT broker on loopback. The test defines its response to each type of packet."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.packets: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self.answers: dict[int, Callable[[bytes], bytes]] = {CONNECT: lambda _body: b"\x20\x02\x00\x00"}
        self.frozen = threading.Event()
        self.connection: socket.socket | None = None
        threading.Thread(target=self._accept_connections, daemon=True).start()

    def _accept_connections(self) -> None:
        with suppress(OSError):
            while True:
                self.connection, _ = self.listener.accept()
                threading.Thread(target=self._serve_connection, args=(self.connection,), daemon=True).start()

    def _serve_connection(self, connection: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while not self.frozen.is_set():
                first = self._read(connection, 1)[0]
                body = self._read(connection, self._length(connection))
                self.packets.put((first >> 4, body))
                respond = self.answers.get(first >> 4)
                if respond:
                    connection.sendall(respond(body))

    def _length(self, connection: socket.socket) -> int:
        value = shift = 0
        while True:
            byte = self._read(connection, 1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _read(self, connection: socket.socket, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = connection.recv(size - len(received))
            if not chunk:
                raise EOFError
            received += chunk
        return received

    def packet(self, kind: int) -> bytes:
        """Return the body of the next packet of a kind."""
        deadline = time.monotonic() + 60
        while True:
            received_kind, body = self.packets.get(timeout=deadline - time.monotonic())
            if received_kind == kind:
                return body

    def close(self) -> None:
        self.listener.close()
        if self.connection:
            self.connection.close()


def encode_puback(body: bytes) -> bytes:
    (length,) = struct.unpack("!H", body[:2])
    return b"\x40\x02" + body[2 + length : 4 + length]


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


class OpenedSession:
    """A session that was started, and its events."""

    def __init__(self, port: int, **options: Any) -> None:
        self.events: queue.SimpleQueue[SessionEvent] = queue.SimpleQueue()
        self.broker = Endpoint(host="127.0.0.1", port=port)
        self.config = Config(urls=(self.broker,), client_id="host-1", **options)
        self.session = Session(
            self.broker, self.config, client_id="host-1", clean=False, on_event=self.events.put, conn=7
        )
        self.session.start()

    def next(self, timeout: float = 60.0) -> SessionEvent:
        return self.events.get(timeout=timeout)


@pytest.fixture
def opened_session(peer: Peer) -> Iterator[OpenedSession]:
    opened_session = OpenedSession(peer.port)
    assert opened_session.next() == TransportUp(7)
    assert opened_session.next() == ConnackReceived(7, None, False)
    yield opened_session
    opened_session.session.close()


def test_connect_packet_contains_version_keepalive_client_id_and_durable_session(
    peer: Peer, opened_session: OpenedSession
) -> None:
    body = peer.packet(CONNECT)
    assert body[:7] == b"\x00\x04MQTT\x04"
    flags, keepalive = body[7], struct.unpack("!H", body[8:10])[0]
    assert (flags, keepalive) == (0, 10)
    assert body[10:] == b"\x00\x06host-1"


def test_mqtt_session_sends_credentials_and_its_events_omit_password(peer: Peer) -> None:
    opened_session = OpenedSession(peer.port, username="agent", password=Password("s3cret"))
    assert b"\x00\x05agent\x00\x06s3cret" in peer.packet(CONNECT)
    assert "s3cret" not in repr([opened_session.next(), opened_session.next()])
    opened_session.session.close()


@pytest.mark.parametrize(("code", "bad_credentials"), [(5, True), (4, True), (3, False), (2, False)])
def test_refused_login_reports_whether_credentials_are_wrong(peer: Peer, code: int, bad_credentials: bool) -> None:
    peer.answers[CONNECT] = lambda _body: b"\x20\x02\x00" + bytes([code])
    opened_session = OpenedSession(peer.port)
    opened_session.next()
    connack = opened_session.next()
    assert isinstance(connack, ConnackReceived)
    assert connack.bad_credentials is bad_credentials
    assert connack.refused is not None
    assert "127.0.0.1" in connack.refused
    assert isinstance(opened_session.next(), ConnectionEnded)


def test_mqtt_session_reports_address_of_port_without_listener() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, but not listening
        port = bound.getsockname()[1]
        assert OpenedSession(port).next() == ConnectionEnded(
            7, f"no process listens on 127.0.0.1:{port}: start the broker, or correct mb.urls"
        )


def test_mqtt_session_reports_connection_closed_by_broker_and_does_not_reopen_it(
    peer: Peer, opened_session: OpenedSession
) -> None:
    assert peer.connection is not None
    peer.packet(CONNECT)
    peer.connection.shutdown(socket.SHUT_RDWR)
    assert opened_session.next() == ConnectionEnded(7, "the connection was closed")
    with pytest.raises(queue.Empty):
        peer.packets.get(timeout=1.5)


def test_publish_returns_message_id_of_its_puback(peer: Peer, opened_session: OpenedSession) -> None:
    peer.answers[PUBLISH] = encode_puback
    mids = [opened_session.session.publish("a/b", b"x") for _ in range(50)]
    assert [opened_session.next() for _ in mids] == [PubackReceived(7, mid or 0) for mid in mids]


def test_mqtt_session_permits_more_than_20_unacknowledged_messages(peer: Peer, opened_session: OpenedSession) -> None:
    """The default window of paho is 20 messages."""
    for _ in range(200):
        opened_session.session.publish("a/b", b"x")
    for _ in range(200):
        peer.packet(PUBLISH)


def test_refused_and_granted_subscriptions_are_distinguished(peer: Peer, opened_session: OpenedSession) -> None:
    codes = iter([b"\x01", b"\x80"])
    peer.answers[SUBSCRIBE] = lambda body: b"\x90\x03" + body[:2] + next(codes)
    granted, refused = opened_session.session.subscribe("a/#"), opened_session.session.subscribe("b/#")
    assert opened_session.next() == SubackReceived(7, granted or 0, False)
    assert opened_session.next() == SubackReceived(7, refused or 0, True)


def test_message_is_acknowledged_only_by_call_of_acknowledge(peer: Peer, opened_session: OpenedSession) -> None:
    assert peer.connection is not None
    peer.packet(CONNECT)
    peer.connection.sendall(b"\x32\x0a\x00\x03a/b\x00\x09xyz")
    assert opened_session.next()[:5] == MessageReceived(7, "a/b", b"xyz", 1, 9)[:5]
    with pytest.raises(queue.Empty):
        peer.packets.get(timeout=0.5)
    opened_session.session.acknowledge(9)
    assert peer.packet(PUBACK) == b"\x00\x09"


def test_message_with_topic_that_is_not_valid_utf8_is_delivered(peer: Peer, opened_session: OpenedSession) -> None:
    assert peer.connection is not None
    peer.connection.sendall(b"\x32\x0a\x00\x03a\xff\xfe\x00\x09xyz")
    message = opened_session.next()
    assert isinstance(message, MessageReceived)
    assert message.mid == 9


def test_orderly_close_of_mqtt_session_sends_disconnect_packet(
    peer: Peer, opened_session: OpenedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_agent.session.FAREWELL", 30.0)  # a busy machine is slow
    opened_session.session.close(orderly=True)
    assert peer.packet(DISCONNECT) == b""
    assert isinstance(opened_session.next(), ConnectionEnded)


def test_orderly_close_of_mqtt_session_right_after_connect_sends_disconnect(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that opened the connection may still run. It does not interrupt the DISCONNECT packet."""
    monkeypatch.setattr("activemq_agent.session.FAREWELL", 30.0)
    start, disconnect = BoundedMqttClient.loop_start, BoundedMqttClient.disconnect
    connecting: list[threading.Thread] = []
    disconnecting = threading.Event()

    def start_and_wait(client: BoundedMqttClient) -> object:
        connecting.append(threading.current_thread())
        started = start(client)
        disconnecting.wait(60)
        return started

    def disconnect_after_start(client: BoundedMqttClient) -> object:
        disconnecting.set()
        connecting[0].join(60)
        return disconnect(client)

    monkeypatch.setattr(BoundedMqttClient, "loop_start", start_and_wait)
    monkeypatch.setattr(BoundedMqttClient, "disconnect", disconnect_after_start)
    opened_session = OpenedSession(peer.port)
    assert opened_session.next() == TransportUp(7)
    assert opened_session.next() == ConnackReceived(7, None, False)
    opened_session.session.close(orderly=True)
    assert peer.packet(DISCONNECT) == b""


@pytest.mark.parametrize("orderly", [False, True])
def test_closing_mqtt_session_does_not_wait_for_broker_that_reads_nothing(
    peer: Peer, opened_session: OpenedSession, orderly: bool
) -> None:
    peer.frozen.set()
    for _ in range(100):
        opened_session.session.publish("a/b", bytes(100_000))
    within(PATIENCE, lambda: opened_session.session.close(orderly=orderly))
    while not isinstance(opened_session.next(), ConnectionEnded):
        pass


def test_mqtt_session_without_connack_closes_immediately(peer: Peer) -> None:
    peer.answers.clear()
    opened_session = OpenedSession(peer.port)
    assert opened_session.next() == TransportUp(7)
    within(PATIENCE, opened_session.session.close)
    assert isinstance(opened_session.next(), ConnectionEnded)


def _descriptor_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_closed_mqtt_sessions_leave_no_thread_and_no_socket(peer: Peer) -> None:
    threads_before = threading.active_count()
    descriptors_before = _descriptor_count()
    for _ in range(5):
        opened_session = OpenedSession(peer.port)
        opened_session.next()
        opened_session.next()
        opened_session.session.close(orderly=True)
        opened_session.next()
        assert peer.connection is not None
        peer.connection.close()
    wait_until(
        lambda: threading.active_count() <= threads_before and _descriptor_count() <= descriptors_before,
        "no thread and no socket is left",
        seen=lambda: (threading.active_count(), _descriptor_count()),
        pause=0.01,
    )


def test_mqtt_session_receives_pubacks_while_another_thread_publishes(
    peer: Peer, opened_session: OpenedSession
) -> None:
    """A lock that is held during publish() and acquired in a callback would cause a deadlock."""
    peer.answers[PUBLISH] = encode_puback
    done = threading.Event()

    def publish() -> None:
        for _ in range(2000):
            opened_session.session.publish("a/b", b"x" * 200)
        done.set()

    threading.Thread(target=publish, daemon=True).start()
    assert len([opened_session.next() for _ in range(2000)]) == 2000
    assert done.wait(60)
