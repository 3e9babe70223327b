"""STOMP clients of the tests: one message there and back, many of them sent, a queue emptied.

A message counts as accepted when a broker has sent its RECEIPT. It is then sent no more; one that was not accepted
is sent again, to the next broker, and may so arrive twice.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress

from activemq_fleet.addresses import Address, join_host_port
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import ANSWER_TIMEOUT, RETRY_PAUSE, Credentials, StompConnection, StompPublisher


def stomp_round_trip(
    address: Address,
    credentials: Credentials | None,
    topic: str,
    *,
    timeout: float = 5.0,
    listener_uid: int | None = None,
) -> None:
    """Send one message to a topic and get it back: a broker that does this works.

    Raises StompTimeout for one that takes the connection and says nothing, StompError for one
    that refuses, OSError where nobody listens.
    """
    body = uuid.uuid4().hex
    with StompConnection(address, credentials, timeout=timeout, listener_uid=listener_uid) as connection:
        connection.subscribe(f"/topic/{topic}", ack="auto")
        connection.send(f"/topic/{topic}", body, {"persistent": "false"})
        deadline = time.monotonic() + timeout
        while (message := connection.receive(deadline - time.monotonic())) is not None:
            if message.body == body:
                return
    raise LabError(f"{join_host_port(*address)} took a message and did not give it back in {timeout:g} s")


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
            publisher.publish_until_confirmed(destination, body, timeout=timeout)
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
        time.sleep(RETRY_PAUSE)
    return got
