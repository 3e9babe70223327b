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
    """The broker's end of one MQTT 3.1.1 connection. Packets here are shorter than 128 bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def packet(self) -> tuple[int, bytes]:
        """Kind and content of the next packet; kind 0 when the client has gone."""
        head = self._connection.recv(2, socket.MSG_WAITALL)
        if len(head) < 2:
            return 0, b""
        return head[0] >> 4, self._connection.recv(head[1], socket.MSG_WAITALL) if head[1] else b""

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)


def _parts(content: bytes) -> tuple[bytes, bytes, bytes]:
    """Topic, packet id and payload of a PUBLISH with QoS 1."""
    length = int.from_bytes(content[:2], "big")
    return content[2 : 2 + length], content[2 + length : 4 + length], content[4 + length :]


def echoing(peer: Peer) -> None:
    """Acknowledges everything, and gives each message back."""
    peer.packet()
    peer.send(ACCEPTED)
    while True:
        kind, content = peer.packet()
        if kind == SUBSCRIBE:
            peer.send(b"\x90\x03" + content[:2] + b"\x01")
        elif kind == PUBLISH:
            topic, packet_id, payload = _parts(content)
            peer.send(b"\x40\x02" + packet_id)
            body = len(topic).to_bytes(2, "big") + topic + payload
            peer.send(b"\x30" + bytes([len(body)]) + body)
        elif kind == 0:
            return


def refusing(peer: Peer) -> None:
    peer.packet()
    peer.send(BAD_PASSWORD)


def dying(peer: Peer) -> None:
    """Takes the login and the first message, and dies before it has acknowledged it."""
    peer.packet()
    peer.send(ACCEPTED)
    peer.packet()


def leaving(peer: Peer) -> None:
    """Takes the login and goes."""
    peer.packet()
    peer.send(ACCEPTED)


def silent(peer: Peer) -> None:
    while peer.packet()[0]:
        pass


@contextmanager
def broker(*scripts: Script) -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                with suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        script(Peer(connection))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()


def test_a_round_trip_ends_when_the_message_is_back() -> None:
    with broker(echoing) as address:
        mqtt_round_trip(address, None, "probe", timeout=60)


def test_a_broker_that_says_nothing_is_silent_in_time() -> None:
    with broker(silent) as address, pytest.raises(TimeoutError, match="did not answer"):
        mqtt_round_trip(address, None, "probe", timeout=0.2)


def test_a_refused_login_is_no_silence() -> None:
    with broker(refusing) as address, pytest.raises(LabError, match="refused the login: Bad user name or password"):
        mqtt_round_trip(address, None, "probe", timeout=60)


@pytest.mark.parametrize("first", [refusing, dying])
def test_a_publisher_goes_on_at_the_next_broker(first: Script) -> None:
    with broker(first) as one, broker(echoing) as two, MqttPublisher([one, two]) as publisher:
        assert publisher.publish("t", "m", timeout=60) == 2


def test_a_publisher_whose_broker_left_in_between_goes_on_at_the_next() -> None:
    def once(peer: Peer) -> None:
        peer.packet()
        peer.send(ACCEPTED)
        _, packet_id, _ = _parts(peer.packet()[1])
        peer.send(b"\x40\x02" + packet_id)

    with broker(once) as one, broker(echoing) as two, MqttPublisher([one, two]) as publisher:
        assert publisher.publish("t", "first", timeout=60) == 1
        time.sleep(0.3)  # until paho knows that the connection is gone
        assert publisher.publish("t", "second", timeout=60) == 2


def test_a_publisher_gives_up_in_time() -> None:
    with (
        broker(leaving) as address,
        MqttPublisher([address], answer_timeout=0.1) as publisher,
        pytest.raises(LabError, match="no broker accepted a message for t"),
    ):
        publisher.publish("t", "m", timeout=0.2)


def test_a_subscriber_goes_on_at_the_next_broker() -> None:
    def one_message(body: bytes) -> Script:
        def script(peer: Peer) -> None:
            peer.packet()
            peer.send(ACCEPTED)
            _, content = peer.packet()
            peer.send(b"\x90\x03" + content[:2] + b"\x01")
            peer.send(b"\x30" + bytes([3 + len(body)]) + b"\x00\x01t" + body)

        return script

    with (
        broker(one_message(b"a")) as one,
        broker(one_message(b"b")) as two,
        MqttSubscriber([one, two], ["t"], client_id="me") as subscriber,
    ):
        assert subscriber.wait(2, 10) == ["a", "b"]


def test_a_subscriber_that_nobody_takes_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(LabError, match="no broker accepted the subscription of me"):
        MqttSubscriber([address], ["t"], client_id="me").start(0.3)


def test_a_subscription_that_is_refused_is_none() -> None:
    def script(peer: Peer) -> None:
        peer.packet()
        peer.send(ACCEPTED)
        _, content = peer.packet()
        peer.send(b"\x90\x03" + content[:2] + b"\x80")
        peer.packet()

    with broker(script) as address, pytest.raises(LabError, match="no broker accepted the subscription of me"):
        MqttSubscriber([address], ["t"], client_id="me").start(0.5)
