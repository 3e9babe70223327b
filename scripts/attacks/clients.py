"""The clients of an attack: one that fails over, some that stay with one node, and what fills a store beforehand."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.polling import poll_until_true
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompPublisher
from activemq_fleet.node.timeouts import READY

FILLER_QUEUE = "filler"
SUBSCRIBED_TOPIC = "subscribed"
"""The topic with a durable subscription; all other names are of queues."""
_SUBSCRIBER = "away"
"""The client id, and the name of the subscription, of its subscriber."""
_BODY = 1000  # bytes
MESSAGES_A_MEGABYTE = 1_000_000 // _BODY
_BATCH = 500  # messages of one transaction
_STAY_PATIENCE = 30.0
_ROAMING_ANSWER = 3.0
_RETRY = 0.2
_IDLE = 30.0
_PREFETCHED = 1000
_ACKNOWLEDGED = 100  # messages at once


@dataclass
class Sender:
    """A client that publishes numbered messages to a separate queue, one after the other, until it is stopped.

    ``queue`` can be the topic with a durable subscription, too.

    With ``consumes_from`` another client takes its messages from these addresses, so that the store is cleaned up.
    ``accepted`` is the number of messages for which a broker sent a receipt: those with the numbers below it.
    ``arrived`` are the numbers of those that were taken. ``silence`` is the longest time, in seconds, between two
    receipts.
    """

    queue: str
    addresses: Sequence[Address]
    credentials: Credentials | None
    answer_timeout: float
    patience: float
    consumes_from: Sequence[Address] = ()
    accepted: int = 0
    arrived: set[int] = field(default_factory=set)
    stopped: threading.Event = field(default_factory=threading.Event)
    silence: float = 0.0

    def run(self) -> None:
        """Publish until ``stopped`` is set, or no broker answers for ``patience`` seconds."""
        client = StompPublisher(self.addresses, self.credentials, answer_timeout=self.answer_timeout)
        last = time.monotonic()
        with client, suppress(LabError):
            while not self.stopped.is_set():
                client.publish_until_confirmed(
                    _destination_of(self.queue), text_of(self.queue, self.accepted), timeout=self.patience
                )
                self.accepted += 1
                now = time.monotonic()
                self.silence, last = max(self.silence, now - last), now

    def consume(self) -> None:
        """Take messages from whichever node has some, until ``stopped`` is set."""
        for address in itertools.cycle(self.consumes_from):
            if self.stopped.wait(_RETRY):
                return
            with (
                suppress(OSError, LabError),
                _subscribed(address, self.queue, self.credentials, _ROAMING_ANSWER) as connection,
            ):
                while not self.stopped.is_set() and (message := connection.receive(_ROAMING_ANSWER)):
                    self.arrived.add(_number_in(message.body))
                    connection.acknowledge(message)


@contextmanager
def sending(
    pair: Sequence[Address],
    node: Sequence[Address],
    credentials: Credentials | None,
    *,
    staying: int = 2,
    stay_patience: float = _STAY_PATIENCE,
    consumed: bool = False,
    has_topic: bool = False,
) -> Iterator[list[Sender]]:
    """Start one client that fails over between the addresses of a pair, and ``staying`` ones that know one node only.

    With ``has_topic`` another one fails over and publishes to a topic, whose durable subscriber is away.

    Yields them, the roaming one first, once each has had 50 receipts; stops them at the end. A staying one gives up
    after ``stay_patience`` seconds without an answer. ``consumed``: their messages are taken all the while, else they
    stay in the store.
    """
    takers = pair if consumed else ()
    if has_topic:
        with _subscribed(node[0], SUBSCRIBED_TOPIC, credentials, READY):
            pass  # The subscription stays when its subscriber goes.
    senders = [
        Sender("roaming", pair, credentials, _ROAMING_ANSWER, READY, takers),
        *(Sender(f"staying{n}", node, credentials, stay_patience, stay_patience, takers) for n in range(staying)),
        *([Sender(SUBSCRIBED_TOPIC, pair, credentials, _ROAMING_ANSWER, READY, takers)] if has_topic else ()),
    ]
    with ExitStack() as stack:
        for sender in senders:
            for work in (sender.run, sender.consume):
                thread = threading.Thread(target=work, name=sender.queue)
                thread.start()
                stack.callback(thread.join, READY)
            stack.callback(sender.stopped.set)
        wait_until(lambda: all(sender.accepted >= 50 for sender in senders), "every client has had 50 receipts")
        yield senders


def text_of(queue: str, number: int) -> str:
    """Return the text of a queue's message with that number, 1 kB long."""
    return f"{queue}-{number}-".ljust(_BODY, "x")


def fill(address: Address, credentials: Credentials | None, megabytes: int) -> int:
    """Send messages of 1 kB to the queue ``filler`` until they take ``megabytes``; return their number."""
    number = megabytes * MESSAGES_A_MEGABYTE
    with StompConnection(address, credentials, timeout=READY) as connection:
        for first in range(0, number, _BATCH):
            bodies = (text_of(FILLER_QUEUE, each) for each in range(first, min(first + _BATCH, number)))
            connection.send_transaction(f"/queue/{FILLER_QUEUE}", bodies)
    return number


def consume(
    address: Address, queue: str, credentials: Credentials | None, count: int, arrived: Iterable[int] = ()
) -> list[int]:
    """Take the messages of a queue; return which of the first ``count`` did not come with the text they were sent.

    ``arrived`` came before. Ends when all have come, or none for 30 s.
    """
    here = bytearray(count)
    for number in arrived:
        if number < count:  # Else its receipt was lost, and it was sent again under the same number.
            here[number] = 1
    missing, unacknowledged = count - sum(here), 0
    with _subscribed(address, queue, credentials, READY, {"activemq.prefetchSize": str(_PREFETCHED)}) as connection:
        while missing and (message := connection.receive(_IDLE)) is not None:
            number = _number_in(message.body)
            if number < count and not here[number] and message.body == text_of(queue, number):
                here[number] = 1
                missing -= 1
            unacknowledged += 1
            if unacknowledged == _ACKNOWLEDGED or not missing:
                connection.acknowledge(message)
                unacknowledged = 0
    return [number for number, came in enumerate(here) if not came] if missing else []


@contextmanager
def _subscribed(
    address: Address,
    queue: str,
    credentials: Credentials | None,
    timeout: float,
    headers: Mapping[str, str] | None = None,
) -> Iterator[StompConnection]:
    """Connect and subscribe to a queue, or to the topic with its durable subscription."""
    client, named = None, dict(headers or {})
    if queue == SUBSCRIBED_TOPIC:
        client = named["activemq.subscriptionName"] = _SUBSCRIBER
    with StompConnection(address, credentials, timeout=timeout, client_id=client) as connection:
        connection.subscribe(_destination_of(queue), headers=named)
        yield connection


def _destination_of(queue: str) -> str:
    return f"/topic/{queue}" if queue == SUBSCRIBED_TOPIC else f"/queue/{queue}"


def _number_in(text: str) -> int:
    return int(text.split("-", 2)[1])


def wait_until(condition: Callable[[], bool], what: str, seconds: float = READY) -> None:
    """Return once ``condition()`` is true. Raises LabError after ``seconds``."""
    if not poll_until_true(condition, seconds, 0.02):
        raise LabError(f"waited {seconds:g} s in vain until {what}")
