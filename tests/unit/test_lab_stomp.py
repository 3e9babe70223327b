from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompError, StompPublisher, StompTimeout
from tests.stomp_clients import stomp_drain, stomp_round_trip
from tests.waiting import PATIENCE, within

CONNECTED = b"CONNECTED\nsession:1\n\n\0\n"


class Peer:
    """The broker's end of one connection, as a script."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = b""

    def frame(self) -> str:
        while b"\0" not in self._buffer:
            data = self.connection.recv(65536)
            if not data:
                return ""
            self._buffer += data
        frame, _, self._buffer = self._buffer.partition(b"\0")
        return frame.decode().lstrip("\n")

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.sendall(part)

    def receipt(self, frame: str) -> None:
        name = next(line for line in frame.split("\n") if line.startswith("receipt:"))
        self.send(f"RECEIPT\nreceipt-id:{name.partition(':')[2]}\n\n\0".encode())


@contextmanager
def broker(*scripts: Callable[[Peer], object]) -> Iterator[Address]:
    """Listens, and plays one script a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                connection, _ = server.accept()
                with connection:
                    script(Peer(connection))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()
        thread.join(60)


def echoing(peer: Peer) -> None:
    """Takes every message and gives it back to the one subscription there is."""
    peer.frame()
    peer.send(CONNECTED)
    while frame := peer.frame():
        if frame.startswith("SEND"):
            body = frame.partition("\n\n")[2]
            peer.send(f"MESSAGE\nmessage-id:{body}\n\n{body}\0".encode())
        if "receipt:" in frame:
            peer.receipt(frame)


def refusing(peer: Peer) -> None:
    peer.frame()
    peer.send(b"ERROR\nmessage:User name [x] or password is invalid.\n\n\0")


def silent(peer: Peer) -> None:
    peer.connection.settimeout(2)
    peer.frame()
    try:
        peer.connection.recv(1)
    except TimeoutError:
        return


def test_a_login_is_sent_with_connect() -> None:
    seen = []

    def script(peer: Peer) -> None:
        seen.append(peer.frame())
        peer.send(CONNECTED)

    with broker(script) as address:
        StompConnection(address, Credentials("app", "pw")).close()
    assert seen[0].split("\n")[:3] == ["CONNECT", "login:app", "passcode:pw"]


def test_a_refused_login_says_what_the_broker_said() -> None:
    with broker(refusing) as address, pytest.raises(StompError, match="password is invalid"):
        StompConnection(address)


def test_a_broker_that_says_nothing_is_silent_in_time() -> None:
    with broker(silent) as address, pytest.raises(StompTimeout):
        within(PATIENCE, lambda: StompConnection(address, timeout=0.2))


def test_a_broker_that_hangs_up_is_not_silent() -> None:
    with broker(lambda peer: peer.frame()) as address, pytest.raises(StompError, match="closed the STOMP connection"):
        StompConnection(address)


def test_nobody_listening_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        StompConnection(address)


def test_frames_may_arrive_in_any_pieces() -> None:
    def script(peer: Peer) -> None:
        peer.frame()
        for byte in CONNECTED:
            peer.send(bytes([byte]))

    with broker(script) as address:
        StompConnection(address).close()


def test_a_message_that_comes_before_the_receipt_is_kept() -> None:
    with broker(echoing) as address, StompConnection(address) as connection:
        connection.send("/queue/q", "first")
        message = connection.receive(1)
    assert message is not None
    assert message.body == "first"


def test_a_body_with_a_length_may_hold_a_nul() -> None:
    def script(peer: Peer) -> None:
        peer.frame()
        peer.send(CONNECTED, b"MESSAGE\nmessage-id:1\ncontent-length:3\n\na\0b\0")

    with broker(script) as address, StompConnection(address) as connection:
        message = connection.receive(1)
    assert message is not None
    assert message.body == "a\0b"


def test_no_message_in_time_is_none() -> None:
    with broker(echoing) as address, StompConnection(address) as connection:
        assert connection.receive(0.05) is None


@pytest.mark.parametrize("bad", ["a\nb", "a\0b"])
def test_a_header_cannot_smuggle_a_frame(bad: str) -> None:
    with broker(echoing) as address, StompConnection(address) as connection, pytest.raises(StompError):
        connection.send(bad, "body")


def test_a_password_does_not_show() -> None:
    assert "pw" not in repr(Credentials("app", "pw"))


def test_a_round_trip_ends_when_the_message_is_back() -> None:
    with broker(echoing) as address:
        stomp_round_trip(address, None, "probe", timeout=2)


def test_a_publisher_goes_on_at_the_next_broker() -> None:
    with broker(refusing) as first, broker(echoing) as second, StompPublisher([first, second]) as publisher:
        assert publisher.publish_until_confirmed("/queue/q", "m", timeout=60) == 2


def test_a_publisher_gives_up_in_time_and_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with StompPublisher([address]) as publisher, pytest.raises(LabError, match="refused"):
        publisher.publish_until_confirmed("/queue/q", "m", timeout=0.1)


def test_a_drain_goes_on_at_the_next_broker() -> None:
    def one_message(body: str) -> Callable[[Peer], None]:
        def script(peer: Peer) -> None:
            peer.frame()
            peer.send(CONNECTED)
            peer.receipt(peer.frame())
            peer.send(f"MESSAGE\nmessage-id:{body}\n\n{body}\0".encode())
            assert peer.frame().startswith("ACK")

        return script

    with broker(one_message("a")) as first, broker(one_message("b")) as second:
        assert stomp_drain([first, second], "/queue/q", expected=2, timeout=60) == ["a", "b"]
