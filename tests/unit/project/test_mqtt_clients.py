"""The MQTT clients of the tests: round trips, publishers and subscribers, with scripted brokers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from tests.mqtt_clients import MqttPublisher, MqttSubscriber, mqtt_round_trip

CONNECT, PUBLISH, SUBSCRIBE = 1, 3, 8
ACCEPTED, BAD_PASSWORD = b"\x20\x02\x00\x00", b"\x20\x02\x00\x04"

Script = Callable[["Peer"], object]


class Peer:
    """The broker's end of an MQTT 3.1.1 connection. All packets are shorter than 128 bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def receive_packet(self) -> tuple[int, bytes]:
        """Return kind and content of the next packet; kind 0 if the client has disconnected."""
        head = self._connection.recv(2, socket.MSG_WAITALL)
        if len(head) < 2:
            return 0, b""
        return head[0] >> 4, self._connection.recv(head[1], socket.MSG_WAITALL) if head[1] else b""

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)


def _parse_publish(content: bytes) -> tuple[bytes, bytes, bytes]:
    """Return topic, packet id and payload of a PUBLISH with QoS 1."""
    length = int.from_bytes(content[:2], "big")
    return content[2 : 2 + length], content[2 + length : 4 + length], content[4 + length :]


def deliver_messages(peer: Peer) -> None:
    """Acknowledge each subscription and message, and deliver each message to the client."""
    peer.receive_packet()
    peer.send(ACCEPTED)
    while True:
        kind, content = peer.receive_packet()
        if kind == SUBSCRIBE:
            peer.send(b"\x90\x03" + content[:2] + b"\x01")
        elif kind == PUBLISH:
            topic, packet_id, payload = _parse_publish(content)
            peer.send(b"\x40\x02" + packet_id)
            body = len(topic).to_bytes(2, "big") + topic + payload
            peer.send(b"\x30" + bytes([len(body)]) + body)
        elif kind == 0:
            return


def refuse_login(peer: Peer) -> None:
    """Answer the login with a wrong password."""
    peer.receive_packet()
    peer.send(BAD_PASSWORD)


def disconnect_before_acknowledgement(peer: Peer) -> None:
    """Accept the login, receive the first message, and disconnect without an acknowledgement."""
    peer.receive_packet()
    peer.send(ACCEPTED)
    peer.receive_packet()


def disconnect_after_login(peer: Peer) -> None:
    """Accept the login and disconnect."""
    peer.receive_packet()
    peer.send(ACCEPTED)


def answer_nothing(peer: Peer) -> None:
    """Read all packets of the client without an answer."""
    while peer.receive_packet()[0]:
        pass


@contextmanager
def scripted_broker(*scripts: Script) -> Iterator[Address]:
    """Serve connections in turn, each with the next script; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                with suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        script(Peer(connection))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()


def test_mqtt_round_trip_ends_when_message_is_received() -> None:
    with scripted_broker(deliver_messages) as address:
        mqtt_round_trip(address, None, "probe", timeout=60)


def test_mqtt_round_trip_with_broker_that_does_not_answer_times_out() -> None:
    with scripted_broker(answer_nothing) as address, pytest.raises(TimeoutError, match="did not answer"):
        mqtt_round_trip(address, None, "probe", timeout=0.2)


def test_mqtt_round_trip_with_refused_login_reports_refusal() -> None:
    with (
        scripted_broker(refuse_login) as address,
        pytest.raises(LabError, match="refused the login: Bad user name or password"),
    ):
        mqtt_round_trip(address, None, "probe", timeout=60)


@pytest.mark.parametrize("first_script", [refuse_login, disconnect_before_acknowledgement])
def test_mqtt_test_publisher_continues_at_next_broker(first_script: Script) -> None:
    with (
        scripted_broker(first_script) as first_address,
        scripted_broker(deliver_messages) as second_address,
        MqttPublisher([first_address, second_address]) as publisher,
    ):
        assert publisher.publish("t", "m", timeout=60) == 2


def test_mqtt_test_publisher_continues_at_next_broker_after_disconnection() -> None:
    def acknowledge_one_message(peer: Peer) -> None:
        peer.receive_packet()
        peer.send(ACCEPTED)
        _, packet_id, _ = _parse_publish(peer.receive_packet()[1])
        peer.send(b"\x40\x02" + packet_id)

    with (
        scripted_broker(acknowledge_one_message) as first_address,
        scripted_broker(deliver_messages) as second_address,
        MqttPublisher([first_address, second_address]) as publisher,
    ):
        assert publisher.publish("t", "first", timeout=60) == 1
        time.sleep(0.3)  # until paho has noticed the disconnection
        assert publisher.publish("t", "second", timeout=60) == 2


def test_mqtt_test_publisher_without_broker_reports_error_at_timeout() -> None:
    with (
        scripted_broker(disconnect_after_login) as address,
        MqttPublisher([address], answer_timeout=0.1) as publisher,
        pytest.raises(LabError, match="no broker accepted a message for t"),
    ):
        publisher.publish("t", "m", timeout=0.2)


def test_mqtt_test_subscriber_continues_at_next_broker() -> None:
    def deliver_one_message(body: bytes) -> Script:
        def script(peer: Peer) -> None:
            peer.receive_packet()
            peer.send(ACCEPTED)
            _, content = peer.receive_packet()
            peer.send(b"\x90\x03" + content[:2] + b"\x01")
            peer.send(b"\x30" + bytes([3 + len(body)]) + b"\x00\x01t" + body)

        return script

    with (
        scripted_broker(deliver_one_message(b"a")) as first_address,
        scripted_broker(deliver_one_message(b"b")) as second_address,
        MqttSubscriber([first_address, second_address], ["t"], client_id="me") as subscriber,
    ):
        assert subscriber.wait(2, 10) == ["a", "b"]


def test_mqtt_test_subscriber_without_broker_reports_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(LabError, match="no broker accepted the subscription of me"):
        MqttSubscriber([address], ["t"], client_id="me").start(0.3)


def test_mqtt_test_subscriber_reports_refused_subscription_as_error() -> None:
    def refuse_subscription(peer: Peer) -> None:
        peer.receive_packet()
        peer.send(ACCEPTED)
        _, content = peer.receive_packet()
        peer.send(b"\x90\x03" + content[:2] + b"\x80")
        peer.receive_packet()

    with (
        scripted_broker(refuse_subscription) as address,
        pytest.raises(LabError, match="no broker accepted the subscription of me"),
    ):
        MqttSubscriber([address], ["t"], client_id="me").start(0.5)
