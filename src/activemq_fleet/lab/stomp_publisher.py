"""Publish messages over STOMP to a pair, each until one broker of the pair confirms it (RECEIPT)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from activemq_fleet.addresses import Address
from activemq_fleet.lab.retry import send_until_accepted
from activemq_fleet.lab.stomp import Credentials, StompConnection

ANSWER_TIMEOUT = 3.0
"""Seconds after which a publisher gives up a broker that says nothing, and turns to the next one."""


class StompPublisher:
    """Publishes persistent messages, each until a broker of the given addresses has confirmed it (RECEIPT)."""

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
        """Send a message until a broker confirms it; return how often it was sent, 1 where nothing went wrong.

        Raises LabError when no broker accepts it within ``timeout`` seconds.
        """

        def send() -> None:
            if self._connection is None:
                address = next(self._addresses)
                self._connection = StompConnection(address, self._credentials, timeout=self._answer_timeout)
            self._connection.send(destination, body)

        return send_until_accepted(send, self.close, to=destination, timeout=timeout)

    def close(self) -> None:
        """Close the connection; the next message opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
