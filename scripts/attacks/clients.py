"""The clients of an attack: one fails over, and some connect to one node only. A function fills a store beforehand."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompPublisher
from activemq_fleet.node.timeouts import READY

FILLER_QUEUE = "filler"
SUBSCRIBED_TOPIC = "subscribed"
"""The topic with a durable subscription; all other names are of queues."""
_SUBSCRIBER = "away"
"""The client id and the subscription name of its subscriber, which is not connected during an attack."""
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

    ``queue`` can also be the topic with a durable subscription.

    With ``consumes_from``, another client consumes the messages at these addresses, so that the broker cleans up the
    store. ``accepted`` is the number of messages for which a broker sent a receipt: those with lower numbers.
    ``arrived`` contains the numbers of the consumed messages. ``silence`` is the longest time, in seconds, between two
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
        """Consume messages at each address in turn, until ``stopped`` is set."""
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
    """Start a client that fails over between the addresses of a pair, and ``staying`` clients of one node only.

    With ``has_topic``, another client fails over and publishes to a topic whose durable subscriber is not connected.

    Yield the clients, the roaming client first, when each has received 50 receipts; stop them at the end. A staying
    client stops after ``stay_patience`` seconds without a response. With ``consumed``, other clients consume the
    messages; otherwise the messages stay in the store.
    """
    consume_from = pair if consumed else ()
    if has_topic:
        with _subscribed(node[0], SUBSCRIBED_TOPIC, credentials, READY):
            pass  # The subscription remains after its subscriber disconnects.
    senders = [
        Sender("roaming", pair, credentials, _ROAMING_ANSWER, READY, consume_from),
        *(Sender(f"staying{n}", node, credentials, stay_patience, stay_patience, consume_from) for n in range(staying)),
        *([Sender(SUBSCRIBED_TOPIC, pair, credentials, _ROAMING_ANSWER, READY, consume_from)] if has_topic else ()),
    ]
    with ExitStack() as stack:
        for sender in senders:
            for method in (sender.run, sender.consume):
                thread = threading.Thread(target=method, name=sender.queue)
                thread.start()
                stack.callback(thread.join, READY)
            stack.callback(sender.stopped.set)
        wait_until(lambda: all(sender.accepted >= 50 for sender in senders), "every client has received 50 receipts")
        yield senders


def text_of(queue: str, number: int) -> str:
    """Return the text of the message of a queue with a number, 1 kB long."""
    return f"{queue}-{number}-".ljust(_BODY, "x")


def fill(address: Address, credentials: Credentials | None, megabytes: int) -> int:
    """Send ``megabytes`` of messages of 1 kB to the queue ``filler``; return their number."""
    number = megabytes * MESSAGES_A_MEGABYTE
    with StompConnection(address, credentials, timeout=READY) as connection:
        for first in range(0, number, _BATCH):
            bodies = (text_of(FILLER_QUEUE, message) for message in range(first, min(first + _BATCH, number)))
            connection.send_transaction(f"/queue/{FILLER_QUEUE}", bodies)
    return number


def consume(
    address: Address, queue: str, credentials: Credentials | None, count: int, arrived: Iterable[int] = ()
) -> list[int]:
    """Consume the messages of a queue; return those of the first ``count`` that did not arrive with their text.

    The messages with the numbers in ``arrived`` were consumed before. Return when all messages arrived, or when no
    message arrived for 30 s.
    """
    has_arrived = bytearray(count)
    for number in arrived:
        if number < count:  # Otherwise its receipt was lost, and it was sent again with the same number.
            has_arrived[number] = 1
    missing, unacknowledged = count - sum(has_arrived), 0
    with _subscribed(address, queue, credentials, READY, {"activemq.prefetchSize": str(_PREFETCHED)}) as connection:
        while missing and (message := connection.receive(_IDLE)) is not None:
            number = _number_in(message.body)
            if number < count and not has_arrived[number] and message.body == text_of(queue, number):
                has_arrived[number] = 1
                missing -= 1
            unacknowledged += 1
            if unacknowledged == _ACKNOWLEDGED or not missing:
                connection.acknowledge(message)
                unacknowledged = 0
    return [number for number, arrival in enumerate(has_arrived) if not arrival] if missing else []


@contextmanager
def _subscribed(
    address: Address,
    queue: str,
    credentials: Credentials | None,
    timeout: float,
    headers: Mapping[str, str] | None = None,
) -> Iterator[StompConnection]:
    """Connect and subscribe to a queue, or to the topic with its durable subscription."""
    client_id, subscription_headers = None, dict(headers or {})
    if queue == SUBSCRIBED_TOPIC:
        client_id = subscription_headers["activemq.subscriptionName"] = _SUBSCRIBER
    with StompConnection(address, credentials, timeout=timeout, client_id=client_id) as connection:
        connection.subscribe(_destination_of(queue), headers=subscription_headers)
        yield connection


def _destination_of(queue: str) -> str:
    return f"/topic/{queue}" if queue == SUBSCRIBED_TOPIC else f"/queue/{queue}"


def _number_in(text: str) -> int:
    return int(text.split("-", 2)[1])


def wait_until(condition: Callable[[], bool], description: str, seconds: float = READY) -> None:
    """Return when ``condition()`` is true. Raises LabError after ``seconds``."""
    if not poll_for_true_result(condition, seconds, 0.02):
        raise LabError(f"timed out after {seconds:g} s: the condition is not met that {description}")
