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


class ScriptedConnection:
    """The broker's end of one connection, which the script of a test controls."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = b""

    def receive_frame(self) -> str:
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

    def send_receipt(self, frame: str) -> None:
        name = next(line for line in frame.split("\n") if line.startswith("receipt:"))
        self.send(f"RECEIPT\nreceipt-id:{name.partition(':')[2]}\n\n\0".encode())


@contextmanager
def scripted_broker(*scripts: Callable[[ScriptedConnection], object]) -> Iterator[Address]:
    """Listen on loopback, run one script per connection, and yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                connection, _ = server.accept()
                with connection:
                    script(ScriptedConnection(connection))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()
        thread.join(60)


def echo_messages(peer: ScriptedConnection) -> None:
    """Send every message back to the only subscription."""
    peer.receive_frame()
    peer.send(CONNECTED)
    while frame := peer.receive_frame():
        if frame.startswith("SEND"):
            body = frame.partition("\n\n")[2]
            peer.send(f"MESSAGE\nmessage-id:{body}\n\n{body}\0".encode())
        if "receipt:" in frame:
            peer.send_receipt(frame)


def reject_login(peer: ScriptedConnection) -> None:
    peer.receive_frame()
    peer.send(b"ERROR\nmessage:User name [x] or password is invalid.\n\n\0")


def send_nothing(peer: ScriptedConnection) -> None:
    peer.connection.settimeout(2)
    peer.receive_frame()
    try:
        peer.connection.recv(1)
    except TimeoutError:
        return


def test_stomp_connect_frame_contains_login_and_passcode() -> None:
    frames = []

    def script(peer: ScriptedConnection) -> None:
        frames.append(peer.receive_frame())
        peer.send(CONNECTED)

    with scripted_broker(script) as address:
        StompConnection(address, Credentials("app", "pw")).close()
    assert frames[0].split("\n")[:3] == ["CONNECT", "login:app", "passcode:pw"]


def test_rejected_stomp_login_raises_error_with_message_of_broker() -> None:
    with scripted_broker(reject_login) as address, pytest.raises(StompError, match="password is invalid"):
        StompConnection(address)


def test_broker_without_response_to_stomp_raises_timeout() -> None:
    with scripted_broker(send_nothing) as address, pytest.raises(StompTimeout):
        within(PATIENCE, lambda: StompConnection(address, timeout=0.2))


def test_broker_that_closes_stomp_connection_raises_error() -> None:
    with (
        scripted_broker(lambda peer: peer.receive_frame()) as address,
        pytest.raises(StompError, match="closed the STOMP connection"),
    ):
        StompConnection(address)


def test_stomp_connection_to_closed_port_raises_connection_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        StompConnection(address)


def test_stomp_frame_is_parsed_if_it_arrives_byte_by_byte() -> None:
    def script(peer: ScriptedConnection) -> None:
        peer.receive_frame()
        for byte in CONNECTED:
            peer.send(bytes([byte]))

    with scripted_broker(script) as address:
        StompConnection(address).close()


def test_stomp_message_that_arrives_before_receipt_is_kept() -> None:
    with scripted_broker(echo_messages) as address, StompConnection(address) as connection:
        connection.send("/queue/q", "first")
        message = connection.receive(1)
    assert message is not None
    assert message.body == "first"


def test_stomp_body_with_content_length_may_contain_nul() -> None:
    def script(peer: ScriptedConnection) -> None:
        peer.receive_frame()
        peer.send(CONNECTED, b"MESSAGE\nmessage-id:1\ncontent-length:3\n\na\0b\0")

    with scripted_broker(script) as address, StompConnection(address) as connection:
        message = connection.receive(1)
    assert message is not None
    assert message.body == "a\0b"


def test_stomp_receive_returns_none_after_timeout() -> None:
    with scripted_broker(echo_messages) as address, StompConnection(address) as connection:
        assert connection.receive(0.05) is None


@pytest.mark.parametrize("bad", ["a\nb", "a\0b"])
def test_stomp_destination_with_newline_or_nul_is_rejected(bad: str) -> None:
    with scripted_broker(echo_messages) as address, StompConnection(address) as connection, pytest.raises(StompError):
        connection.send(bad, "body")


def test_repr_of_stomp_credentials_hides_password() -> None:
    assert "pw" not in repr(Credentials("app", "pw"))


def test_stomp_round_trip_completes_when_message_returns() -> None:
    with scripted_broker(echo_messages) as address:
        stomp_round_trip(address, None, "probe", timeout=2)


def test_stomp_publisher_connects_to_next_broker_after_rejected_login() -> None:
    with (
        scripted_broker(reject_login) as first_address,
        scripted_broker(echo_messages) as second_address,
        StompPublisher([first_address, second_address]) as publisher,
    ):
        assert publisher.publish_until_confirmed("/queue/q", "m", timeout=60) == 2


def test_stomp_publisher_reports_reason_when_timeout_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with StompPublisher([address]) as publisher, pytest.raises(LabError, match="refused"):
        publisher.publish_until_confirmed("/queue/q", "m", timeout=0.1)


def test_stomp_drain_continues_at_next_broker() -> None:
    def script_with_message(body: str) -> Callable[[ScriptedConnection], None]:
        def script(peer: ScriptedConnection) -> None:
            peer.receive_frame()
            peer.send(CONNECTED)
            peer.send_receipt(peer.receive_frame())
            peer.send(f"MESSAGE\nmessage-id:{body}\n\n{body}\0".encode())
            assert peer.receive_frame().startswith("ACK")

        return script

    with (
        scripted_broker(script_with_message("a")) as first_address,
        scripted_broker(script_with_message("b")) as second_address,
    ):
        assert stomp_drain([first_address, second_address], "/queue/q", expected=2, timeout=60) == ["a", "b"]
