"""Small MQTT and STOMP clients that fail over: for tests, demo and drill.

A message counts as accepted when a broker has said so (RECEIPT, PUBACK). It is then sent no
more; one that was not accepted is sent again, to the next broker, and may so arrive twice.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from activemq_fleet.addresses import Address, join
from activemq_fleet.errors import LabError
from activemq_fleet.lab.mqtt import MqttPublisher, MqttSubscriber, mqtt_round_trip
from activemq_fleet.lab.retry import PAUSE, send_until_accepted
from activemq_fleet.lab.stomp import Credentials, StompConnection

__all__ = [
    "Credentials",
    "MqttPublisher",
    "MqttSubscriber",
    "StompPublisher",
    "mqtt_round_trip",
    "stomp_drain",
    "stomp_round_trip",
    "stomp_send",
]

ANSWER_TIMEOUT = 3.0
"""Seconds after which a publisher gives up a broker that says nothing, and turns to the next one."""


def stomp_round_trip(address: Address, credentials: Credentials | None, topic: str, *, timeout: float = 5.0) -> None:
    """Send one message to a topic and get it back: a broker that does this works.

    Raises StompSilence for one that takes the connection and says nothing, StompError for one
    that refuses, OSError where nobody listens.
    """
    body = uuid.uuid4().hex
    with StompConnection(address, credentials, timeout=timeout) as connection:
        connection.subscribe(f"/topic/{topic}", ack="auto")
        connection.send(f"/topic/{topic}", body, {"persistent": "false"})
        deadline = time.monotonic() + timeout
        while (message := connection.receive(deadline - time.monotonic())) is not None:
            if message.body == body:
                return
    raise LabError(f"{join(*address)} took a message and did not give it back in {timeout:g} s")


def stomp_send(
    addresses: Sequence[Address],
    destination: str,
    bodies: Iterable[str],
    credentials: Credentials | None = None,
    *,
    timeout: float = 60.0,
) -> list[str]:
    """Send persistent messages one after the other; returns all bodies, each receipted.

    ``destination`` is ``/queue/NAME`` or ``/topic/NAME``; ``timeout`` is for each message.
    Raises LabError when no broker of the list takes one in time.
    """
    # Where there is nobody else to send to, a broker that is slow to answer need not get a second copy.
    patience = timeout / 2 if len(addresses) == 1 else ANSWER_TIMEOUT
    with StompPublisher(addresses, credentials, answer_timeout=patience) as publisher:
        sent = []
        for body in bodies:
            publisher.publish(destination, body, timeout=timeout)
            sent.append(body)
        return sent


def stomp_drain(
    addresses: Sequence[Address],
    destination: str,
    credentials: Credentials | None = None,
    *,
    expected: int | None = None,
    idle: float = 3.0,
    timeout: float = 60.0,
) -> list[str]:
    """Consume a queue; returns the bodies in the order of arrival, those that came twice included.

    Ends when ``expected`` different ones have come, or none for ``idle`` seconds (only without
    ``expected``), or after ``timeout`` seconds. Fails over to the next address.
    """
    got: list[str] = []
    deadline = time.monotonic() + timeout
    for address in itertools.cycle(addresses):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return got
        with (
            suppress(OSError, LabError),
            StompConnection(address, credentials, timeout=min(5, remaining)) as connection,
        ):
            connection.subscribe(destination)
            while (remaining := deadline - time.monotonic()) > 0:
                message = connection.receive(min(remaining, idle) if expected is None else remaining)
                if message is None:
                    return got
                got.append(message.body)
                connection.acknowledge(message)
                if expected is not None and len(set(got)) >= expected:
                    return got
        time.sleep(PAUSE)
    return got


class StompPublisher:
    """Sends persistent messages, each until a broker of the list has receipted it."""

    def __init__(
        self,
        addresses: Sequence[Address],
        credentials: Credentials | None = None,
        *,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        """``answer_timeout``: seconds after which a broker that says nothing is given up."""
        self._addresses = itertools.cycle(addresses)
        self._credentials = credentials
        self._answer_timeout = answer_timeout
        self._connection: StompConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def publish(self, destination: str, body: str, *, timeout: float = 60.0) -> int:
        """Returns how often it was sent: 1 where nothing went wrong.

        Raises LabError when no broker takes it within ``timeout`` seconds.
        """

        def send() -> None:
            if self._connection is None:
                address = next(self._addresses)
                self._connection = StompConnection(address, self._credentials, timeout=self._answer_timeout)
            self._connection.send(destination, body)

        return send_until_accepted(send, self.close, to=destination, timeout=timeout)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
