"""A connection against sockets that accept, answer, refuse, freeze and hang up."""

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
from activemq_agent.packet_limits import BoundedClient
from activemq_agent.session import Session
from tests.waiting import PATIENCE, wait_until, within

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, PING, DISCONNECT = 1, 3, 4, 8, 12, 14


class Peer:
    """A broker of a few lines on loopback: what it answers to a packet is up to the test."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.packets: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self.answers: dict[int, Callable[[bytes], bytes]] = {CONNECT: lambda _body: b"\x20\x02\x00\x00"}
        self.frozen = threading.Event()
        self.connection: socket.socket | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self.connection, _ = self.listener.accept()
                threading.Thread(target=self._talk, args=(self.connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while not self.frozen.is_set():
                first = self._read(connection, 1)[0]
                body = self._read(connection, self._length(connection))
                self.packets.put((first >> 4, body))
                answer = self.answers.get(first >> 4)
                if answer:
                    connection.sendall(answer(body))

    def _length(self, connection: socket.socket) -> int:
        value = shift = 0
        while True:
            byte = self._read(connection, 1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _read(self, connection: socket.socket, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = connection.recv(size - len(found))
            if not more:
                raise EOFError
            found += more
        return found

    def packet(self, kind: int) -> bytes:
        """The body of the next packet of a kind."""
        deadline = time.monotonic() + 60
        while True:
            found, body = self.packets.get(timeout=deadline - time.monotonic())
            if found == kind:
                return body

    def close(self) -> None:
        self.listener.close()
        if self.connection:
            self.connection.close()


def puback(body: bytes) -> bytes:
    (length,) = struct.unpack("!H", body[:2])
    return b"\x40\x02" + body[2 + length : 4 + length]


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


class Opened:
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
def opened(peer: Peer) -> Iterator[Opened]:
    opened = Opened(peer.port)
    assert opened.next() == TransportUp(7)
    assert opened.next() == ConnackReceived(7, None, False)
    yield opened
    opened.session.close()


def test_connect_says_version_keepalive_identity_and_that_the_session_is_durable(peer: Peer, opened: Opened) -> None:
    body = peer.packet(CONNECT)
    assert body[:7] == b"\x00\x04MQTT\x04"
    flags, keepalive = body[7], struct.unpack("!H", body[8:10])[0]
    assert (flags, keepalive) == (0, 10)
    assert body[10:] == b"\x00\x06host-1"


def test_username_and_password_go_out_and_the_password_is_in_no_event(peer: Peer) -> None:
    opened = Opened(peer.port, username="agent", password=Password("s3cret"))
    assert b"\x00\x05agent\x00\x06s3cret" in peer.packet(CONNECT)
    assert "s3cret" not in repr([opened.next(), opened.next()])
    opened.session.close()


@pytest.mark.parametrize(("code", "bad"), [(5, True), (4, True), (3, False), (2, False)])
def test_a_refused_login_tells_whether_it_is_the_credentials(peer: Peer, code: int, bad: bool) -> None:
    peer.answers[CONNECT] = lambda _body: b"\x20\x02\x00" + bytes([code])
    opened = Opened(peer.port)
    opened.next()
    answer = opened.next()
    assert isinstance(answer, ConnackReceived)
    assert answer.bad_credentials is bad
    assert answer.refused is not None
    assert "127.0.0.1" in answer.refused
    assert isinstance(opened.next(), ConnectionEnded)


def test_a_port_where_nobody_listens_says_so() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        port = bound.getsockname()[1]
        assert Opened(port).next() == ConnectionEnded(
            7, f"no process listens on 127.0.0.1:{port}: start the broker, or correct mb.urls"
        )


def test_a_broker_that_closes_is_gone_and_the_client_does_not_come_back_by_itself(peer: Peer, opened: Opened) -> None:
    assert peer.connection is not None
    peer.packet(CONNECT)
    peer.connection.shutdown(socket.SHUT_RDWR)
    assert opened.next() == ConnectionEnded(7, "the connection was closed")
    with pytest.raises(queue.Empty):
        peer.packets.get(timeout=1.5)


def test_a_publish_returns_the_number_that_its_puback_carries(peer: Peer, opened: Opened) -> None:
    peer.answers[PUBLISH] = puback
    mids = [opened.session.publish("a/b", b"x") for _ in range(50)]
    assert [opened.next() for _ in mids] == [PubackReceived(7, mid or 0) for mid in mids]


def test_more_than_pahos_own_window_of_twenty_may_be_on_the_wire(peer: Peer, opened: Opened) -> None:
    for _ in range(200):
        opened.session.publish("a/b", b"x")
    for _ in range(200):
        peer.packet(PUBLISH)


def test_a_refused_subscription_is_told_from_a_granted_one(peer: Peer, opened: Opened) -> None:
    codes = iter([b"\x01", b"\x80"])
    peer.answers[SUBSCRIBE] = lambda body: b"\x90\x03" + body[:2] + next(codes)
    granted, refused = opened.session.subscribe("a/#"), opened.session.subscribe("b/#")
    assert opened.next() == SubackReceived(7, granted or 0, False)
    assert opened.next() == SubackReceived(7, refused or 0, True)


def test_a_message_is_acknowledged_only_when_it_is_asked_for(peer: Peer, opened: Opened) -> None:
    assert peer.connection is not None
    peer.packet(CONNECT)
    peer.connection.sendall(b"\x32\x0a\x00\x03a/b\x00\x09xyz")
    assert opened.next()[:5] == MessageReceived(7, "a/b", b"xyz", 1, 9)[:5]
    with pytest.raises(queue.Empty):
        peer.packets.get(timeout=0.5)
    opened.session.acknowledge(9)
    assert peer.packet(PUBACK) == b"\x00\x09"


def test_a_message_on_a_topic_that_is_no_text_still_comes(peer: Peer, opened: Opened) -> None:
    assert peer.connection is not None
    peer.connection.sendall(b"\x32\x0a\x00\x03a\xff\xfe\x00\x09xyz")
    message = opened.next()
    assert isinstance(message, MessageReceived)
    assert message.mid == 9


def test_an_orderly_end_says_goodbye(peer: Peer, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_agent.session.FAREWELL", 30.0)  # a busy machine takes its time
    opened.session.close(orderly=True)
    assert peer.packet(DISCONNECT) == b""
    assert isinstance(opened.next(), ConnectionEnded)


def test_an_orderly_end_right_after_the_connection_says_goodbye(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that made the connection may still be at work, and does not cut the farewell short."""
    monkeypatch.setattr("activemq_agent.session.FAREWELL", 30.0)
    start, disconnect = BoundedClient.loop_start, BoundedClient.disconnect
    connecting: list[threading.Thread] = []
    leaving = threading.Event()

    def start_and_linger(client: BoundedClient) -> object:
        connecting.append(threading.current_thread())
        started = start(client)
        leaving.wait(60)
        return started

    def disconnect_afterwards(client: BoundedClient) -> object:
        leaving.set()
        connecting[0].join(60)
        return disconnect(client)

    monkeypatch.setattr(BoundedClient, "loop_start", start_and_linger)
    monkeypatch.setattr(BoundedClient, "disconnect", disconnect_afterwards)
    opened = Opened(peer.port)
    assert opened.next() == TransportUp(7)
    assert opened.next() == ConnackReceived(7, None, False)
    opened.session.close(orderly=True)
    assert peer.packet(DISCONNECT) == b""


@pytest.mark.parametrize("orderly", [False, True])
def test_closing_waits_for_no_broker_that_reads_nothing(peer: Peer, opened: Opened, orderly: bool) -> None:
    peer.frozen.set()
    for _ in range(100):
        opened.session.publish("a/b", bytes(100_000))
    within(PATIENCE, lambda: opened.session.close(orderly=orderly))
    while not isinstance(opened.next(), ConnectionEnded):
        pass


def test_a_port_that_accepts_and_never_answers_is_closed_at_once(peer: Peer) -> None:
    peer.answers.clear()
    opened = Opened(peer.port)
    assert opened.next() == TransportUp(7)
    within(PATIENCE, opened.session.close)
    assert isinstance(opened.next(), ConnectionEnded)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_thread_and_no_socket_is_left_behind(peer: Peer) -> None:
    before = threading.active_count()
    descriptors = _descriptors()
    for _ in range(5):
        opened = Opened(peer.port)
        opened.next()
        opened.next()
        opened.session.close(orderly=True)
        opened.next()
        assert peer.connection is not None
        peer.connection.close()
    wait_until(
        lambda: threading.active_count() <= before and _descriptors() <= descriptors,
        "no thread and no socket is left",
        seen=lambda: (threading.active_count(), _descriptors()),
        pause=0.01,
    )


def test_events_arrive_while_publish_is_being_called_from_another_thread(peer: Peer, opened: Opened) -> None:
    """The deadlock of a lock held across publish() and taken in a callback: there is no lock to take."""
    peer.answers[PUBLISH] = puback
    done = threading.Event()

    def publish() -> None:
        for _ in range(2000):
            opened.session.publish("a/b", b"x" * 200)
        done.set()

    threading.Thread(target=publish, daemon=True).start()
    assert len([opened.next() for _ in range(2000)]) == 2000
    assert done.wait(60)
