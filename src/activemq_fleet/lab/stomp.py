"""STOMP 1.0 clients with a deadline on every step, for brokers that are killed and frozen.

The library stomp.py is not used: it waits for CONNECTED without a timeout, and has one timeout for connecting and for
receiving. It therefore cannot distinguish a frozen broker or an empty queue from a dead broker.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from activemq_fleet.addresses import Address, join_host_port
from activemq_fleet.errors import LabError
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.probe.broker_connection import require_owner_of_local_listener
from activemq_fleet.node.probe.deadline_socket import DeadlineSocket
from activemq_fleet.node.probe.stomp_client import StompClient, StompFrame, connect_headers

RETRY_PAUSE = 0.05
"""Seconds between two attempts to send a message that no broker accepts."""
ANSWER_TIMEOUT = 3.0
"""Seconds after which a publisher leaves a broker that does not answer, and connects to the next one."""
_NO_LIMIT = sys.maxsize


class StompError(LabError):
    """An error in a STOMP exchange: the broker refused, closed the connection, or sent an unexpected frame."""


class StompTimeout(StompError):
    """A timeout in a STOMP exchange: the broker accepted the connection, but did not answer in time."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and a password with which a client logs in to a broker."""

    username: str
    password: str = field(repr=False)


class StompConnection:
    """A STOMP connection to a broker, for use by one thread.

    Timeouts are in seconds.
    """

    def __init__(
        self,
        address: Address,
        credentials: Credentials | None = None,
        *,
        timeout: float = 10.0,
        client_id: str | None = None,
        listener_uid: int | None = None,
    ) -> None:
        """Connect and log in. Raises StompTimeout, StompError, or OSError where no process listens.

        A listener on this machine gets the login only if it belongs to the account ``listener_uid``, by default the
        caller's, as the brokers of a lab do. A load balancer may have a different account.
        """
        self._timeout = timeout
        self._name = join_host_port(*address)
        self._receipts = 0
        self._waiting: list[StompFrame] = []
        self._socket = socket.create_connection(address, timeout)
        self._client = StompClient(DeadlineSocket(self._socket, timeout, _NO_LIMIT))
        try:
            if credentials:
                owner = os.geteuid() if listener_uid is None else listener_uid
                require_owner_of_local_listener(self._socket, owner, timeout)
            login = Login(credentials.username, credentials.password) if credentials else Login()
            self._write("CONNECT", connect_headers(login, client_id or ""))
            _require_command(self._read_frame(time.monotonic() + timeout), "CONNECTED")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the STOMP connection.

        DISCONNECT is sent if the broker still listens.
        """
        try:
            self._write("DISCONNECT", {})
        except OSError:
            pass
        finally:
            self._socket.close()

    def send(self, destination: str, body: str, headers: Mapping[str, str] | None = None) -> None:
        """Send one persistent message over STOMP, and wait until the broker has stored it.

        The broker confirms it by RECEIPT. A kill of the broker after the return loses no message. Raises StompError, or
        OSError when the connection breaks.
        """
        all_headers = {"destination": destination, "persistent": "true", **(headers or {})}
        self._write_and_await_receipt("SEND", all_headers, body)

    def send_transaction(self, destination: str, bodies: Iterable[str]) -> None:
        """Send persistent messages in one STOMP transaction, and wait until the broker has committed it.

        Raises StompError.
        """
        self._receipts += 1
        transaction = f"t{self._receipts}"
        self._write("BEGIN", {"transaction": transaction})
        for body in bodies:
            self._write("SEND", {"destination": destination, "persistent": "true", "transaction": transaction}, body)
        self._write("COMMIT", {"transaction": transaction, "receipt": transaction})
        self._await_receipt(transaction)

    def subscribe(self, destination: str, *, ack: str = "client", headers: Mapping[str, str] | None = None) -> None:
        """Subscribe to a destination over STOMP, and wait until the broker has confirmed it.

        Raises StompError.
        """
        self._write_and_await_receipt("SUBSCRIBE", {"destination": destination, "ack": ack, **(headers or {})})

    def receive(self, timeout: float) -> StompFrame | None:
        """Receive and return the next STOMP message; None if none arrives within ``timeout`` seconds."""
        if self._waiting:
            return self._waiting.pop(0)
        deadline = time.monotonic() + timeout
        try:
            return _require_command(self._read_frame(deadline), "MESSAGE")
        except StompTimeout:
            return None

    def acknowledge(self, message: StompFrame, *, await_receipt: bool = False) -> None:
        """Acknowledge a STOMP message, so that the broker removes it.

        All messages before it are acknowledged, too. With ``await_receipt`` the broker has removed the message from its
        store after the return; without it, a kill of the broker can undo the acknowledgement. Raises StompError.
        """
        write = self._write_and_await_receipt if await_receipt else self._write
        write("ACK", {"message-id": message.headers["message-id"]})

    def _write_and_await_receipt(self, command: str, headers: Mapping[str, str], body: str = "") -> None:
        self._receipts += 1
        receipt = f"r{self._receipts}"
        self._write(command, {**headers, "receipt": receipt}, body)
        self._await_receipt(receipt)

    def _await_receipt(self, receipt: str) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            frame = self._read_frame(deadline)
            if frame.command == "MESSAGE":
                self._waiting.append(frame)
            elif _require_command(frame, "RECEIPT").headers.get("receipt-id") == receipt:
                return

    def _write(self, command: str, headers: Mapping[str, str], body: str = "") -> None:
        self._client.exchange.renew_deadline(self._timeout)
        try:
            self._client.send_frame(command, headers, body)
        except ValueError as error:
            raise StompError(str(error)) from None
        except TimeoutError:
            raise StompTimeout(
                f"the broker {self._name} did not accept the STOMP frame {command} in {self._timeout:g} s: check the "
                "log of this broker"
            ) from None

    def _read_frame(self, deadline: float) -> StompFrame:
        self._client.exchange.renew_deadline(max(0.001, deadline - time.monotonic()))
        try:
            return self._client.read_frame()
        except TimeoutError:
            raise StompTimeout(
                f"the broker {self._name} sent no STOMP frame before the timeout: check the log of this broker"
            ) from None
        except ConnectionResetError:
            raise StompError(
                f"the broker {self._name} closed the STOMP connection: check the log of this broker"
            ) from None


class StompPublisher:
    """A STOMP publisher that sends each persistent message until a broker has confirmed it.

    The confirmation is a RECEIPT.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        credentials: Credentials | None = None,
        *,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        """Make a STOMP publisher, which does not connect yet.

        ``answer_timeout``: seconds after which the publisher leaves a broker without an answer for the next one.
        """
        self._addresses = itertools.cycle(addresses)
        self._credentials = credentials
        self._answer_timeout = answer_timeout
        self._connection: StompConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def publish_until_confirmed(self, destination: str, body: str, *, timeout: float = 60.0) -> int:
        """Publish a message repeatedly until a broker confirms it, and return how often it was sent.

        The result is 1 where nothing went wrong. Raises LabError when no broker accepts it within ``timeout`` seconds.
        """

        def send() -> None:
            if self._connection is None:
                address = next(self._addresses)
                self._connection = StompConnection(address, self._credentials, timeout=self._answer_timeout)
            self._connection.send(destination, body)

        return send_until_accepted(send, self.close, to=destination, timeout=timeout)

    def close(self) -> None:
        """Close the connection of a STOMP publisher.

        The next message opens another.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def send_until_accepted(send: Callable[[], None], hang_up: Callable[[], None], *, to: str, timeout: float) -> int:
    """Call the function ``send`` repeatedly until a broker accepts its message, and return the number of calls.

    ``hang_up`` is called after each failure, so that the next call connects to another broker. Raises LabError, naming
    ``to``, when no broker accepts the message within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    last: Exception | None = None
    for attempt in itertools.count(1):
        try:
            send()
        except (OSError, LabError) as error:
            last = error
            hang_up()
            if time.monotonic() > deadline:
                break
            time.sleep(RETRY_PAUSE)
        else:
            return attempt
    raise LabError(
        f"no broker accepted a message for the destination {to} within {timeout:g} s: check the logs of the brokers. "
        f"The last attempt failed: {last}"
    )


def _require_command(frame: StompFrame, command: str) -> StompFrame:
    if frame.command != command:
        raise StompError(
            f"the broker sent the STOMP frame {frame.command} instead of {command}: "
            f"{(frame.error_reason or 'the frame contains no reason').rstrip('.')}. Check the log of the broker"
        )
    return frame
