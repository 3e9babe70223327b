"""STOMP clients of the tests: a round trip of one message, a sender of many messages, and a consumer of a queue.

A message counts as accepted when a broker has sent its RECEIPT. It is then not sent again. A message that was not
accepted is sent to the next broker, so it can arrive twice.
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
    """Complete a round trip of one message on a topic; a broker that completes it is healthy.

    Raises StompTimeout if the broker accepts the connection and does not answer, StompError if the broker refuses,
    and OSError if no process listens.
    """
    body = uuid.uuid4().hex
    with StompConnection(address, credentials, timeout=timeout, listener_uid=listener_uid) as connection:
        connection.subscribe(f"/topic/{topic}", ack="auto")
        connection.send(f"/topic/{topic}", body, {"persistent": "false"})
        deadline = time.monotonic() + timeout
        while (message := connection.receive(deadline - time.monotonic())) is not None:
            if message.body == body:
                return
    raise LabError(f"{join_host_port(*address)} accepted a message, but did not return it in {timeout:g} s")


def stomp_send(
    addresses: Sequence[Address],
    destination: str,
    bodies: Iterable[str],
    credentials: Credentials | None = None,
    *,
    timeout: float = 60.0,
) -> list[str]:
    """Send persistent messages in sequence; return all bodies, each confirmed by a receipt.

    ``destination`` is ``/queue/NAME`` or ``/topic/NAME``; ``timeout`` applies to each message.
    Raises LabError if no broker of the list accepts a message in time.
    """
    # With a single broker, a longer timeout avoids a second copy of a message when the broker answers slowly.
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
    """Consume a queue; return the bodies in the order of arrival, including duplicates.

    Returns when ``expected`` different bodies have arrived, or after ``timeout`` seconds. Without ``expected``, returns
    also when no body has arrived for ``idle`` seconds. Fails over to the next address.
    """
    bodies: list[str] = []
    deadline = time.monotonic() + timeout
    for address in itertools.cycle(addresses):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return bodies
        with (
            suppress(OSError, LabError),
            StompConnection(address, credentials, timeout=min(5, remaining)) as connection,
        ):
            connection.subscribe(destination)
            while (remaining := deadline - time.monotonic()) > 0:
                message = connection.receive(min(remaining, idle) if expected is None else remaining)
                if message is None:
                    return bodies
                bodies.append(message.body)
                connection.acknowledge(message)
                if expected is not None and len(set(bodies)) >= expected:
                    return bodies
        time.sleep(RETRY_PAUSE)
    return bodies
