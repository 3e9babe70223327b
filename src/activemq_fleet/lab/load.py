"""Load on a pair, and what became of every message of it.

A message is accepted when a broker has said so (PUBACK, RECEIPT), and delivered when a consumer
has it. Each has a number, so that what was lost or came twice is known by name.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.clients import StompPublisher, stomp_drain
from activemq_fleet.lab.stomp import Credentials

_PERIOD = 0.004  # seconds between two messages of one protocol


@dataclass(frozen=True, slots=True)
class Account:
    """The end of one load: counts of messages, ``silence`` in seconds."""

    protocol: str
    accepted: int
    delivered: int
    lost: tuple[str, ...]
    duplicated: int
    silence: float
    """Longest time between two acceptances: how long clients were kept waiting."""


class Consumer(Protocol):
    """Gives what has arrived once ``expected`` different messages have, or time is up."""

    def __call__(self, expected: int, timeout: float, /) -> Sequence[str]: ...


@dataclass
class Load:
    """Publishes numbered messages from a thread of its own until it is ended."""

    protocol: str
    publish: Callable[[str], object]
    consume: Consumer
    _accepted: list[str] = field(default_factory=list)
    _moments: list[float] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _error: LabError | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name=f"load-{self.protocol}", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def accepted(self) -> int:
        """How many messages brokers have accepted so far."""
        return len(self._accepted)

    def wait_for(self, more: int, timeout: float = 120.0) -> None:
        """Wait until ``more`` further messages have been accepted. Raises LabError after ``timeout`` s."""
        target, deadline = self.accepted + more, time.monotonic() + timeout
        while self.accepted < target:
            if self._error:
                raise self._error
            if time.monotonic() > deadline:
                raise LabError(f"{self.protocol}: {self.accepted} messages accepted, {target} expected, {timeout:g} s")
            time.sleep(0.02)

    def end(self) -> None:
        """Stop publishing."""
        self._ended.set()
        if self._thread:
            self._thread.join(90)

    def account(self, timeout: float = 120.0) -> Account:
        """Stop publishing, wait for what was accepted to arrive, and count."""
        self.end()
        if self._error:
            raise self._error
        arrived = Counter(self.consume(len(self._accepted), timeout))
        steps = zip(self._moments, self._moments[1:], strict=False)
        return Account(
            protocol=self.protocol,
            accepted=len(self._accepted),
            delivered=sum(1 for body in self._accepted if arrived[body]),
            lost=tuple(body for body in self._accepted if not arrived[body]),
            duplicated=sum(count - 1 for count in arrived.values() if count > 1),
            silence=max((after - before for before, after in steps), default=0.0),
        )

    def _run(self) -> None:
        number = 0
        try:
            while not self._ended.wait(_PERIOD):
                body = f"{self.protocol}-{number}"
                self.publish(body)
                self._accepted.append(body)
                self._moments.append(time.monotonic())
                number += 1
        except LabError as error:
            self._error = error


def stomp_load(addresses: Sequence[Address], queue: str, credentials: Credentials | None) -> Load:
    """Persistent messages to a queue, consumed from whichever node is active at the end."""
    publisher = StompPublisher(addresses, credentials)
    destination = f"/queue/{queue}"

    def consume(expected: int, timeout: float) -> Sequence[str]:
        return stomp_drain(addresses, destination, credentials, expected=expected, timeout=timeout)

    return Load("STOMP", lambda body: publisher.publish(destination, body), consume)
