"""MQTT clients that fail over, based on paho, with QoS 1 and sessions as the agents use them."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from activemq_fleet.addresses import Address, join_host_port
from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import RETRY_PAUSE, Credentials, send_until_accepted


class LatePublishError(LabError):
    """A broker had not acknowledged a message when the wait timed out."""


def mqtt_round_trip(address: Address, credentials: Credentials | None, topic: str, *, timeout: float = 5.0) -> None:
    """Send one message to a topic with QoS 1 and receive it, which only a healthy broker permits.

    Raise TimeoutError if the broker accepts the connection and does not respond, LabError if it refuses, and OSError
    if no process listens on the address.
    """
    body = uuid.uuid4().hex.encode()
    arrived = threading.Event()
    subscribed = threading.Event()
    client = _mqtt_client(f"fleet-{uuid.uuid4().hex[:12]}", credentials, clean=True)
    client.on_subscribe = _when_granted(subscribed)
    client.on_message = lambda _c, _u, message: arrived.set() if message.payload == body else None
    deadline = time.monotonic() + timeout
    with _Connected(client, address, timeout):
        client.subscribe(topic, 1)
        if not subscribed.wait(deadline - time.monotonic()):
            raise TimeoutError(f"{join_host_port(*address)} did not grant a subscription in {timeout:g} s")
        client.publish(topic, body, 1)
        if not arrived.wait(max(0.1, deadline - time.monotonic())):
            raise LabError(f"{join_host_port(*address)} accepted a message and did not deliver it in {timeout:g} s")


class MqttPublisher:
    """A publisher with QoS 1 that repeats each message until a broker of the list has acknowledged it.

    A PUBACK confirms that the broker received the message, not that the message was permitted: ActiveMQ also sends one
    for a refused publish.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        credentials: Credentials | None = None,
        *,
        client_id: str | None = None,
        answer_timeout: float = 3.0,
    ) -> None:
        self._addresses = itertools.cycle(addresses)
        self._credentials = credentials
        self._client_id = client_id or f"fleet-{uuid.uuid4().hex[:12]}"
        self._answer_timeout = answer_timeout
        self._connected: _Connected | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def publish(self, topic: str, payload: str, *, timeout: float = 60.0) -> int:
        """Publish a message; return how often it was sent. Raise LabError if no broker acknowledges it in time."""

        def send() -> None:
            if self._connected is None:
                client = _mqtt_client(self._client_id, self._credentials, clean=True)
                self._connected = _Connected(client, next(self._addresses), self._answer_timeout)
                self._connected.open()
            self._connected.publish(topic, payload.encode(), self._answer_timeout)

        return send_until_accepted(send, self.close, to=topic, timeout=timeout)

    def close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()


class MqttSubscriber:
    """A durable subscription that follows its pair; the payloads that arrive are in ``received``."""

    def __init__(
        self,
        addresses: Sequence[Address],
        topics: Sequence[str],
        credentials: Credentials | None = None,
        *,
        client_id: str,
    ) -> None:
        self._addresses = itertools.cycle(addresses)
        self._topics = [(topic, 1) for topic in topics]
        self._credentials = credentials
        self._client_id = client_id
        self._lock = threading.Lock()
        self._received: list[str] = []
        self._ended = threading.Event()
        self._subscribed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"mqtt-{client_id}", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def received(self) -> list[str]:
        """Return the payloads in the order of arrival, including duplicates."""
        with self._lock:
            return list(self._received)

    def start(self, timeout: float = 120.0) -> None:
        """Subscribe. Raise LabError if no broker of the list accepts the subscription in ``timeout`` seconds."""
        self._thread.start()
        if not self._subscribed.wait(timeout):
            self.close()
            raise LabError(f"no broker accepted the subscription of {self._client_id} in {timeout:g} s")

    def wait(self, expected: int, timeout: float) -> list[str]:
        """Return ``received`` as soon as it holds ``expected`` different payloads, or after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while len(set(self.received)) < expected and time.monotonic() < deadline:
            time.sleep(RETRY_PAUSE)
        return self.received

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _follow(self) -> None:
        for address in self._addresses:
            if self._ended.is_set():
                return
            client = _mqtt_client(self._client_id, self._credentials, clean=False)
            client.on_message = self._append_message
            client.on_subscribe = _when_granted(self._subscribed)
            with suppress(OSError, LabError), _Connected(client, address, 3.0) as connected:
                client.subscribe(self._topics)
                while not self._ended.is_set() and not connected.lost.wait(RETRY_PAUSE):
                    pass
            self._ended.wait(RETRY_PAUSE)

    def _append_message(self, _client: Any, _data: Any, message: Any) -> None:
        with self._lock:
            self._received.append(message.payload.decode(errors="replace"))


def _mqtt_client(client_id: str, credentials: Credentials | None, *, clean: bool) -> Any:
    from paho.mqtt.client import Client, MQTTv311
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=clean,
        protocol=MQTTv311,
        reconnect_on_failure=False,
    )
    if credentials:
        client.username_pw_set(credentials.username, credentials.password)
    return client


def _when_granted(event: threading.Event) -> Callable[..., None]:
    """Return a callback that sets the event for a SUBACK that grants; a refusal is also a SUBACK."""

    def on_subscribe(_client: Any, _data: Any, _mid: Any, reasons: Any, _properties: Any) -> None:
        if not any(reason.is_failure for reason in reasons):
            event.set()

    return on_subscribe


class _Connected:
    """A connected MQTT client; ``lost`` is set when the connection is lost."""

    def __init__(self, client: Any, address: Address, timeout: float) -> None:
        self.lost = threading.Event()
        self._client, self._address, self._timeout = client, address, timeout
        self._answered = threading.Event()
        self._reason: Any = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect, and return after CONNACK. Raise TimeoutError, LabError or OSError."""
        client = self._client
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.connect_timeout = self._timeout
        client.connect(*self._address, keepalive=10)
        client.loop_start()
        answered = self._answered.wait(self._timeout)
        if self._reason is not None and not self._reason.is_failure:
            return
        self.close()
        if not answered:
            raise TimeoutError(
                f"{join_host_port(*self._address)} accepted the connection and did not answer in {self._timeout:g} s"
            )
        raise LabError(
            f"{join_host_port(*self._address)} refused the login: {self._reason or 'it closed the connection'}"
        )

    def publish(self, topic: str, payload: bytes, timeout: float) -> None:
        """Publish with QoS 1. Raise LabError without a PUBACK in time."""
        deadline = time.monotonic() + timeout
        try:
            info = self._client.publish(topic, payload, 1)
            while not info.is_published():
                if self.lost.is_set():
                    raise LabError(
                        f"{join_host_port(*self._address)} closed the connection before it acknowledged a message"
                    )
                if time.monotonic() > deadline:
                    raise LatePublishError(f"{join_host_port(*self._address)} did not acknowledge a message: timed out")
                time.sleep(0.001)
        except (RuntimeError, ValueError) as error:  # paho's errors for a connection that was lost before
            raise LabError(f"{join_host_port(*self._address)} did not accept a message: {error}") from None

    def close(self) -> None:
        with suppress(OSError):
            self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._reason = reason
        self._answered.set()

    def _on_disconnect(self, *_: Any) -> None:
        self.lost.set()
        self._answered.set()
