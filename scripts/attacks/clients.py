"""The clients of an attack: one that fails over, some that stay with one node, and what fills a store beforehand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompPublisher

FILLER_QUEUE = "filler"
_BODY = 1000  # bytes
_BATCH = 500  # messages of one transaction
_PATIENCE = 120.0
_STAY_PATIENCE = 30.0
_ROAMING_ANSWER = 3.0


@dataclass
class Sender:
    """A client that publishes numbered messages to a queue of its own, one after the other, until it is stopped.

    ``accepted`` holds the text of each message for which a broker sent a receipt, in order. ``silence`` is the longest
    time, in seconds, between two receipts.
    """

    queue: str
    addresses: Sequence[Address]
    credentials: Credentials | None
    answer_timeout: float
    patience: float
    accepted: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    silence: float = 0.0

    def run(self) -> None:
        """Publish until ``stopped`` is set, or no broker answers for ``patience`` seconds."""
        client = StompPublisher(self.addresses, self.credentials, answer_timeout=self.answer_timeout)
        last = time.monotonic()
        with client, suppress(LabError):
            while not self.stopped.is_set():
                body = f"{self.queue}-{len(self.accepted)}-".ljust(_BODY, "x")
                client.publish(f"/queue/{self.queue}", body, timeout=self.patience)
                self.accepted.append(body)
                now = time.monotonic()
                self.silence, last = max(self.silence, now - last), now


@contextmanager
def sending(
    pair: Sequence[Address], node: Sequence[Address], credentials: Credentials | None, *, staying: int = 2
) -> Iterator[list[Sender]]:
    """Start one client that fails over between the addresses of a pair, and ``staying`` ones that know one node only.

    Yields them, the roaming one first, once each has had 50 receipts; stops them at the end.
    """
    senders = [
        Sender("roaming", pair, credentials, _ROAMING_ANSWER, _PATIENCE),
        *(Sender(f"staying{n}", node, credentials, _STAY_PATIENCE, _STAY_PATIENCE) for n in range(staying)),
    ]
    with ExitStack() as stack:
        for sender in senders:
            thread = threading.Thread(target=sender.run, name=sender.queue)
            thread.start()
            stack.callback(thread.join, _PATIENCE)
            stack.callback(sender.stopped.set)
        wait_until(lambda: all(len(sender.accepted) >= 50 for sender in senders), "every client has had 50 receipts")
        yield senders


def filler(number: int) -> str:
    """Return the text of the message ``number`` that fills a store, 1 kB long."""
    return f"{FILLER_QUEUE}-{number}-".ljust(_BODY, "x")


def fill(address: Address, credentials: Credentials | None, megabytes: int) -> int:
    """Send messages of 1 kB to the queue ``filler`` until they take ``megabytes``; return their number."""
    number = megabytes * 1_000_000 // _BODY
    with StompConnection(address, credentials, timeout=_PATIENCE) as connection:
        for first in range(0, number, _BATCH):
            bodies = map(filler, range(first, min(first + _BATCH, number)))
            connection.send_transaction(f"/queue/{FILLER_QUEUE}", bodies)
    return number


def consume(
    address: Address, queue: str, credentials: Credentials | None, expected: set[str], *, idle: float = 15.0
) -> set[str]:
    """Take the messages of a queue; return those of ``expected`` that did not come.

    Ends when all have come, or none for ``idle`` seconds.
    """
    missing = set(expected)
    with StompConnection(address, credentials, timeout=_PATIENCE) as connection:
        connection.subscribe(f"/queue/{queue}")
        while missing and (message := connection.receive(idle)) is not None:
            missing.discard(message.body)
            connection.acknowledge(message)
    return missing


def wait_until(condition: Callable[[], bool], what: str, seconds: float = _PATIENCE) -> None:
    """Return once ``condition()`` is true. Raises LabError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(0.02)
