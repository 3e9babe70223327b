"""A client that believes nothing but what it gets back: CONNACK, and its own messages.

Run inside the machines' network: ``nsenter --net=… python -m tests.hosts.exchange …``

    round ADDRESS           one message published and received again
    leave ADDRESS COUNT     messages for a durable session that is not there now
    take ADDRESS COUNT      that session comes back and takes exactly those
    watch ADDRESS...        try until one of them gives a message back
    cross ADDRESS ADDRESS   messages published at the first, until one arrives at the second

Each prints one JSON object on success and says in one line on stderr why not (exit 1).
"""

from __future__ import annotations

import argparse
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
PATIENCE = 5.0
"""Seconds in which a broker that is ready has answered, on a machine that others load."""


class ExchangeError(Exception):
    """The broker did not do its part; ``str()`` says which."""


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
    received: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    connected: str | None = None
    subscribed: bool = False
    client: mqtt.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self.name,
            clean_session=not self.durable,
            reconnect_on_failure=False,
        )
        self.client.connect_timeout = 1  # a host without power gives no answer at all
        self.client.username_pw_set(self.login.username, self.login.password)
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = self._on_message

    def open(self) -> None:
        """Return when the broker answered CONNACK with success."""
        try:
            self.client.connect(self.address, self.login.port, keepalive=30)
        except OSError as error:
            raise ExchangeError(f"{self.address}:{self.login.port}: {error}") from error
        self.client.loop_start()
        self._until(lambda: self.connected is not None, "no CONNACK")
        if self.connected != "Success":
            raise ExchangeError(f"{self.address}: refused: {self.connected}")

    def subscribe(self, topic: str) -> None:
        self.client.subscribe(topic, qos=1)
        self._until(lambda: self.subscribed, "no SUBACK")

    def publish(self, topic: str, text: str) -> None:
        """Return when the broker acknowledged it."""
        sent = self.client.publish(topic, text, qos=1)
        try:
            sent.wait_for_publish(PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise ExchangeError(f"{self.address}: {error}") from error
        if not sent.is_published():
            raise ExchangeError(f"{self.address}: no PUBACK")

    def wait_for(self, count: int) -> None:
        self._until(lambda: len(self.received) >= count, f"fewer than {count} messages")

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def _until(self, condition: Any, complaint: str) -> None:
        with self.changed:
            if not self.changed.wait_for(condition, PATIENCE):
                raise ExchangeError(f"{self.address}: {complaint} within {PATIENCE:g} s")

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        with self.changed:
            self.connected = str(reason)
            self.changed.notify_all()

    def _on_subscribe(self, *_: Any) -> None:
        with self.changed:
            self.subscribed = True
            self.changed.notify_all()

    def _on_message(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        with self.changed:
            self.received.append(message.payload.decode())
            self.changed.notify_all()


def round_trip(address: str, login: Login) -> dict[str, Any]:
    """Publish a message and get it back; the proof that a broker is active and works."""
    began = time.monotonic()
    token = uuid.uuid4().hex
    session = Session(address, login, f"exchange-{token}")
    try:
        session.open()
        session.subscribe(f"exchange/round/{token}")
        session.publish(f"exchange/round/{token}", token)
        session.wait_for(1)
    finally:
        session.close()
    if session.received != [token]:
        raise ExchangeError(f"{address}: gave back {session.received}, not what was published")
    return {"address": address, "seconds": round(time.monotonic() - began, 3)}


def leave(address: str, login: Login, count: int) -> dict[str, Any]:
    """Make a durable session, go away, and publish ``count`` messages for it."""
    absent = Session(address, login, DURABLE, durable=True)
    try:
        absent.open()
        absent.subscribe(TOPIC)
    finally:
        absent.close()
    sender = Session(address, login, f"exchange-{uuid.uuid4().hex}")
    try:
        sender.open()
        for number in range(count):
            sender.publish(TOPIC, str(number))
    finally:
        sender.close()
    return {"address": address, "left": count}


def take(address: str, login: Login, count: int) -> dict[str, Any]:
    """Come back as the durable session: every message once, in order, or an error."""
    session = Session(address, login, DURABLE, durable=True)
    try:
        session.open()
        session.subscribe(TOPIC)
        session.wait_for(count)
        time.sleep(0.5)  # a duplicate would follow at once
    finally:
        session.close()
    if session.received != [str(number) for number in range(count)]:
        raise ExchangeError(f"{address}: {count} messages left, {session.received} taken")
    return {"address": address, "taken": count}


def watch(addresses: Sequence[str], login: Login, timeout: float) -> dict[str, Any]:
    """Try all in turn until one gives a message back; ``seconds`` is since the start."""
    began = time.monotonic()
    while True:
        problems = []
        for address in addresses:
            try:
                round_trip(address, login)
            except ExchangeError as error:
                problems.append(str(error))
            else:
                return {"address": address, "seconds": round(time.monotonic() - began, 3)}
        if time.monotonic() - began > timeout:
            raise ExchangeError(f"nobody took over within {timeout:g} s: {'; '.join(problems)}")
        time.sleep(0.05)


def cross(source: str, target: str, login: Login, timeout: float) -> dict[str, Any]:
    """Publish at one broker until another gives it to its subscriber: a bridge leads from here to there."""
    began = time.monotonic()
    token = uuid.uuid4().hex
    there, here = Session(target, login, f"exchange-{token}-there"), Session(source, login, f"exchange-{token}-here")
    try:
        there.open()
        there.subscribe(f"exchange/cross/{token}")
        here.open()
        while not there.received:
            here.publish(f"exchange/cross/{token}", token)
            if time.monotonic() - began > timeout:
                raise ExchangeError(f"nothing crosses from {source} to {target} within {timeout:g} s")
            time.sleep(0.2)
    finally:
        there.close()
        here.close()
    return {"from": source, "to": target, "seconds": round(time.monotonic() - began, 3)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="exchange")
    parser.add_argument("--username", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--timeout", type=float, default=60, help="seconds (watch, cross)")
    parser.add_argument("what", choices=("round", "leave", "take", "watch", "cross"))
    parser.add_argument("words", nargs="+", metavar="ADDRESS [COUNT]")
    options = parser.parse_args()
    login = Login(options.username, options.password, options.port)
    try:
        if options.what == "watch":
            result = watch(options.words, login, options.timeout)
        elif options.what == "cross":
            result = cross(options.words[0], options.words[1], login, options.timeout)
        elif options.what == "round":
            result = round_trip(options.words[0], login)
        else:
            act = leave if options.what == "leave" else take
            result = act(options.words[0], login, int(options.words[1]))
    except ExchangeError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
