"""An MQTT client that only accepts responses of a broker as evidence: CONNACK, and its own messages.

Run it in the network of the machines: ``nsenter --net=… python -m tests.hosts.exchange …``

    round ADDRESS           publish a message and receive it
    leave ADDRESS COUNT     publish messages for a durable session that is disconnected
    take ADDRESS... COUNT   reconnect this session to the active broker, and receive exactly these messages
    watch ADDRESS...        retry until one broker completes a round trip
    cross ADDRESS ADDRESS   publish messages to the first broker until the second delivers one

Each command prints one JSON object on success, and otherwise the error in one line on stderr (exit 1).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

DURABLE = "exchange-durable"
TOPIC = "exchange/kept"
QUICK, PATIENCE = 5.0, 60.0
"""Seconds in which a broker that is ready responds, on an idle machine and on a busy one."""
ANSWER = 15.0
"""Seconds for the response of one of several brokers."""
QUIET = 1.0
"""Seconds in which a duplicate message would arrive."""


class ExchangeError(Exception):
    """An exchange with a broker failed; the text contains the reason."""


class LateExchangeError(ExchangeError):
    """An exchange with a broker had not ended when the wait timed out."""


@dataclass(frozen=True, slots=True)
class Login:
    username: str
    password: str
    port: int = 1883


@dataclass(slots=True)
class Session:
    """One MQTT session; messages arrive in ``received``, which ``changed`` guards."""

    address: str
    login: Login
    name: str
    durable: bool = False
    patience: float = PATIENCE
    received: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    connected: str | None = None
    subscribed: bool = False
    lost: bool = False
    client: mqtt.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self.name,
            clean_session=not self.durable,
            reconnect_on_failure=False,
        )
        # A host without power sends no response, and the client may try such hosts in turn.
        self.client.connect_timeout = 1 if self.patience < PATIENCE else 15
        self.client.username_pw_set(self.login.username, self.login.password)
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = self._on_message

    def open(self) -> None:
        """Connect; return when the broker has sent a CONNACK with success."""
        try:
            self.client.connect(self.address, self.login.port, keepalive=30)
        except OSError as error:
            raise ExchangeError(f"{self.address}:{self.login.port}: {error}") from error
        self.client.loop_start()
        self._until(lambda: self.connected is not None, "no CONNACK")
        if self.connected != "Success":
            raise ExchangeError(f"{self.address}: the broker refused the connection: {self.connected}")

    def subscribe(self, topic: str) -> None:
        self.client.subscribe(topic, qos=1)
        self._until(lambda: self.subscribed, "no SUBACK")

    def publish(self, topic: str, text: str) -> None:
        """Publish a message; return when the broker has acknowledged it."""
        sent, deadline = self.client.publish(topic, text, qos=1), time.monotonic() + self.patience
        try:
            while not sent.is_published() and not self.lost and time.monotonic() < deadline:
                sent.wait_for_publish(0.5)
            if sent.is_published():
                return
        except (RuntimeError, ValueError) as error:
            raise ExchangeError(f"{self.address}: {error}") from error
        reason = "the connection is lost" if self.lost else f"none within {self.patience:g} s"
        raise ExchangeError(f"{self.address}: no PUBACK: {reason}")

    def wait_for(self, count: int) -> None:
        self._until(lambda: len(self.received) >= count, f"fewer than {count} messages")

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def _until(self, condition: Any, complaint: str) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: condition() or self.lost, self.patience):
                raise ExchangeError(f"{self.address}: {complaint} within {self.patience:g} s")
            if not condition():
                raise ExchangeError(f"{self.address}: {complaint}, and the connection is lost")

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        with self.changed:
            self.connected = str(reason)
            self.changed.notify_all()

    def _on_disconnect(self, *_: Any) -> None:
        with self.changed:
            self.lost = True
            self.changed.notify_all()

    def _on_subscribe(self, *_: Any) -> None:
        with self.changed:
            self.subscribed = True
            self.changed.notify_all()

    def _on_message(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        with self.changed:
            self.received.append(message.payload.decode())
            self.changed.notify_all()


def round_trip(address: str, login: Login, patience: float = PATIENCE) -> dict[str, Any]:
    """Complete a round trip of a message, which proves that a broker is active."""
    began = time.monotonic()
    token = uuid.uuid4().hex
    session = Session(address, login, f"exchange-{token}", patience=patience)
    try:
        session.open()
        session.subscribe(f"exchange/round/{token}")
        session.publish(f"exchange/round/{token}", token)
        session.wait_for(1)
    finally:
        session.close()
    if session.received != [token]:
        raise ExchangeError(f"{address}: the broker delivered {session.received} instead of the published message")
    return {"address": address, "seconds": round(time.monotonic() - began, 3)}


def leave(address: str, login: Login, count: int, patience: float = PATIENCE) -> dict[str, Any]:
    """Create a durable session, disconnect it, and publish ``count`` messages for it: ``TIME NUMBER``.

    All messages have the time of this call, which distinguishes them from messages of earlier calls that failed.
    """
    absent = Session(address, login, DURABLE, durable=True)
    try:
        absent.open()
        absent.subscribe(TOPIC)
    finally:
        absent.close()
    sender = Session(address, login, f"exchange-{uuid.uuid4().hex}", patience=patience)
    mark = time.time_ns()
    try:
        sender.open()
        for number in range(count):
            sender.publish(TOPIC, f"{mark} {number}")
    finally:
        sender.close()
    return {"address": address, "left": count}


def take(addresses: Sequence[str], login: Login, count: int, timeout: float) -> dict[str, Any]:
    """Reconnect the durable session; check that every message of the last ``leave`` arrives once and in order.

    If the connection is lost, it connects to the next broker, which may deliver unacknowledged messages again.
    """
    deadline, sessions = time.monotonic() + timeout, list[list[str]]()
    for address in itertools.cycle(addresses):
        session = Session(address, login, DURABLE, durable=True, patience=ANSWER if len(addresses) > 1 else PATIENCE)
        try:
            session.open()
            session.subscribe(TOPIC)
            _wait_for_all(session, sessions, count, deadline)
            break
        except ExchangeError as error:
            if time.monotonic() > deadline:
                raise LateExchangeError(
                    f"timed out: {error}; {count} messages left, received {_last_of(sessions)}"
                ) from error
        finally:
            session.close()
            sessions.append(session.received)
        time.sleep(0.5)
    received = _last_of(sessions)
    expected = [str(number) for number in range(count)]
    has_duplicates = any(len(set(numbers)) < len(numbers) for numbers in received)
    if list(dict.fromkeys(itertools.chain(*received))) != expected or has_duplicates:
        raise ExchangeError(f"{address}: {count} messages left, received {received}")
    return {"address": address, "taken": count}


def _wait_for_all(session: Session, before: Sequence[Sequence[str]], count: int, end: float) -> None:
    """Wait until all messages and no more arrive; ExchangeError if the connection is lost or the wait times out."""
    while True:
        have = len(session.received)
        if len(set(itertools.chain(*_last_of([*before, session.received])))) >= count:
            time.sleep(QUIET)
            if len(session.received) == have:
                return
        elif session.lost:
            raise ExchangeError(f"{session.address}: the connection is lost")
        elif time.monotonic() > end:
            raise LateExchangeError(f"{session.address}: timed out with fewer than {count} messages")
        else:
            time.sleep(0.05)


def _last_of(sessions: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the numbers of the last ``leave`` that each session received."""
    marks = [tuple(text.split(" ")) for text in itertools.chain(*sessions)]
    newest = max((int(mark) for mark, _ in marks), default=0)
    return [[text.split(" ")[1] for text in texts if text.startswith(f"{newest} ")] for texts in sessions]


def watch(addresses: Sequence[str], login: Login, timeout: float) -> dict[str, Any]:
    """Try all brokers in turn until one completes a round trip; ``seconds`` is the time since the start."""
    began = time.monotonic()
    while True:
        problems = []
        # Short at first, because a hung broker delays the attempts with the others.
        patience = max(QUICK, min(PATIENCE / 2, (time.monotonic() - began) / 4))
        for address in addresses:
            try:
                round_trip(address, login, patience)
            except ExchangeError as error:
                problems.append(str(error))
            else:
                return {"address": address, "seconds": round(time.monotonic() - began, 3)}
        if time.monotonic() - began > timeout:
            raise LateExchangeError(f"timed out: no broker became active within {timeout:g} s: {'; '.join(problems)}")
        time.sleep(0.05)


def cross(source: str, target: str, login: Login, timeout: float) -> dict[str, Any]:
    """Publish to one broker until another delivers a message to its subscriber, over a bridge."""
    began = time.monotonic()
    token = uuid.uuid4().hex
    subscriber = Session(target, login, f"exchange-{token}-there")
    publisher = Session(source, login, f"exchange-{token}-here")
    try:
        subscriber.open()
        subscriber.subscribe(f"exchange/cross/{token}")
        publisher.open()
        while not subscriber.received:
            publisher.publish(f"exchange/cross/{token}", token)
            if time.monotonic() - began > timeout:
                raise LateExchangeError(f"timed out: no message arrived from {source} at {target} within {timeout:g} s")
            time.sleep(0.2)
    finally:
        subscriber.close()
        publisher.close()
    return {"from": source, "to": target, "seconds": round(time.monotonic() - began, 3)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="exchange")
    parser.add_argument("--username", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--timeout", type=float, default=240, help="seconds (watch, cross, take)")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for one response (leave)")
    parser.add_argument("command", choices=("round", "leave", "take", "watch", "cross"))
    parser.add_argument("arguments", nargs="+", metavar="ADDRESS [COUNT]")
    options = parser.parse_args()
    login = Login(options.username, options.password, options.port)
    try:
        if options.command == "watch":
            result = watch(options.arguments, login, options.timeout)
        elif options.command == "cross":
            result = cross(options.arguments[0], options.arguments[1], login, options.timeout)
        elif options.command == "round":
            result = round_trip(options.arguments[0], login)
        elif options.command == "leave":
            result = leave(options.arguments[0], login, int(options.arguments[1]), options.patience)
        else:
            result = take(options.arguments[:-1], login, int(options.arguments[-1]), options.timeout)
    except ExchangeError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
