"""Manage one MQTT connection, from its TCP handshake to its end, and report its activity as events.

Each connection is a new paho client, so that no state is carried over: paho's queue would repeat messages that the
outbox repeats, too. The callbacks do nothing but put an event into a queue. paho calls ``on_publish`` under the lock
that ``publish`` takes. So a caller deadlocks if it holds another lock during ``publish`` and takes that lock in the
callback (measured with paho-mqtt 2.2.0). A PUBACK may be in the queue before ``publish`` has returned its number. This
needs no lock, because one thread both reads the queue and publishes.

A frozen broker accepts connections but sends nothing, so every wait has a timeout. A hostile broker may send anything:
``packet_limits`` bounds what is read, and a packet that no broker sends ends the connection.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from activemq_agent.agent_errors import AgentError
from activemq_agent.connection_events import (
    ConnackReceived,
    ConnectionEnded,
    MessageReceived,
    OversizedMessageReceived,
    PubackReceived,
    SessionEvent,
    SubackReceived,
    TransportUp,
)
from activemq_agent.packet_limits import (
    OVERHEAD,
    TOPIC_COPIES,
    BoundedMqttClient,
    ProtocolViolationError,
    ReceiveMemoryLimit,
)
from activemq_agent.tls import explain_connection_failure

if TYPE_CHECKING:
    from activemq_agent.config import Config
    from activemq_agent.config_values import Endpoint

CONNECT_TIMEOUT = 4.5
"""Seconds for TCP and TLS: below the machine's 5 s for CONNACK, so that a late CONNECT cannot evict a newer one."""
FAREWELL = 0.5
"""Seconds that an orderly end may take to get DISCONNECT out; a frozen broker reads nothing."""

_BAD_CREDENTIALS = {134, 135}  # paho's names for CONNACK 4 and 5
_KEEPALIVE_TIMEOUT = 141


class Session:
    """An MQTT session with one broker, over one connection.

    It lasts from ``start`` to ``close``, and is for use by one thread. ``on_event`` is called by other threads: give it
    a queue's ``put``. ``tls``: what ``tls_context`` returned, for a broker that is to be reached by TLS. ``intake``
    bounds received bytes that are still in memory, ``largest`` the bytes of a packet (by default ``packet.bytes`` of
    the configuration).
    """

    def __init__(
        self,
        broker: Endpoint,
        config: Config,
        *,
        client_id: str,
        clean: bool,
        on_event: Callable[[SessionEvent], None],
        conn: int = 0,
        tls: ssl.SSLContext | None = None,
        intake: ReceiveMemoryLimit | None = None,
        largest: int | None = None,
    ) -> None:
        self._intake = intake or ReceiveMemoryLimit()
        self._conn, self._on_event = conn, on_event
        self._broker = broker
        self._keepalive = config.policy.keepalive
        self._unanswered_subscribes = 0
        self._closed = self._is_connack_received = False
        self._ended = threading.Event()
        client: Any = BoundedMqttClient(
            client_id, clean=clean, limit=largest or config.packet_bytes, intake=self._intake,
            on_oversized_message=lambda qos: on_event(OversizedMessageReceived(conn, qos)),
        )  # fmt: skip
        self._client = client  # None after the end: its sockets are closed with the last reference
        client.connect_timeout = CONNECT_TIMEOUT
        if config.username:
            client.username_pw_set(config.username, config.password.text if config.password else None)
        if broker.tls:
            client.tls_set_context(tls)
        client.on_socket_open = self._on_socket_open
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message

    def start(self) -> None:
        """Start an MQTT session with a broker by connecting in a new thread."""
        threading.Thread(target=self._connect_to_broker, name=f"mqtt-dial-{self._conn}", daemon=True).start()

    def publish(self, topic: str, payload: bytes, qos: int = 1) -> int | None:
        """Publish an MQTT message to the broker, and return its packet id.

        Returns None if the connection has ended. Raises ValueError for a bad topic.
        """
        client = self._client
        info = client.publish(topic, payload, qos) if client is not None else None
        return int(info.mid) if info is not None and info.rc == 0 else None

    def subscribe(self, topic_filter: str, qos: int = 1) -> int | None:
        """Subscribe an MQTT session to one topic filter, and return the packet id of the SUBSCRIBE.

        Returns None without a connection. The answer of the broker is the event ``SubackReceived``.
        """
        client = self._client
        self._unanswered_subscribes += 1
        rc, mid = client.subscribe(topic_filter, qos) if client is not None else (1, None)
        return int(mid) if rc == 0 and mid is not None else None

    def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe an MQTT session from one topic filter.

        This does nothing without a connection.
        """
        client = self._client
        if client is not None:
            client.unsubscribe(topic_filter)

    def acknowledge(self, mid: int) -> None:
        """Acknowledge a received MQTT message to the broker.

        ``mid`` is the packet id of the message. After the end of the connection this has no effect, and the broker
        delivers the message again.
        """
        client = self._client
        if client is not None:
            client.ack(mid, 1)

    def close(self, *, orderly: bool = False) -> None:
        """Close an MQTT session with a broker.

        ``orderly`` sends DISCONNECT first and takes at most ``FAREWELL`` (0.5) seconds.
        """
        self._closed = True
        client = self._client
        if client is None:
            return
        if orderly:
            with contextlib.suppress(OSError, ValueError):
                client.disconnect()
                self._ended.wait(FAREWELL)
        client.closing = True
        # The client's thread waits in select(): it wakes, closes the socket and ends. The shutdown() of a TLS socket
        # would delete state that this thread still uses.
        client_socket = client.socket()
        if client_socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(client_socket, socket.SHUT_RDWR)

    # -- in threads of the client: these methods must not wait ------------------------------------

    def _connect_to_broker(self) -> None:
        client = self._client
        try:
            client.connect(*self._broker.socket_address, keepalive=self._keepalive)
        except (OSError, ValueError, AgentError) as error:
            self._report_end(explain_connection_failure(error, self._broker, seconds=CONNECT_TIMEOUT))
            return
        self._on_event(TransportUp(self._conn))
        client.loop_start()

    def _report_end(self, reason: str, *, silent: bool = False, hostile: bool = False) -> None:
        self._ended.set()
        self._client = None
        self._on_event(ConnectionEnded(self._conn, reason, silent, hostile))

    def _on_socket_open(self, _client: Any, _data: Any, opened: socket.socket) -> None:
        if self._closed:
            opened.close()
            raise AgentError(
                f"the agent ended the attempt to connect to {self._broker.host_port_text}, because it no longer "
                "requires this connection, for example when it stops: no action is required"
            )

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._is_connack_received = True
        refused = (
            f"the broker {self._broker.host_port_text} rejected the login: {reason}" if reason.is_failure else None
        )
        self._on_event(ConnackReceived(self._conn, refused, reason.value in _BAD_CREDENTIALS))

    def _on_disconnect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if client.violation is not None:
            self._report_end(client.violation, hostile=True)
            return
        silent = reason.value == _KEEPALIVE_TIMEOUT
        text = f"the broker sent nothing for {2 * self._keepalive} s" if silent else "the connection was closed"
        if not (silent or self._is_connack_received):
            use_tls = "if this port uses TLS, write ssl:// in mb.urls of agent.conf"
            hint = "check the broker's log activemq.log" if self._broker.tls else use_tls
            text = (
                f"the broker {self._broker.host_port_text} closed the connection without an answer to CONNECT: {hint}"
            )
        self._report_end(text, silent=silent)

    def _on_subscribe(self, _client: Any, _data: Any, mid: int, reasons: Any, _properties: Any) -> None:
        if self._unanswered_subscribes <= 0:
            raise ProtocolViolationError(
                "the broker violates MQTT, because it sent a SUBACK that the agent did not request: check that mb.urls "
                "in agent.conf names the MQTT connector of an ActiveMQ broker"
            )
        self._unanswered_subscribes -= 1
        self._on_event(SubackReceived(self._conn, mid, any(reason.is_failure for reason in reasons)))

    def _on_publish(self, _client: Any, _data: Any, mid: int, _reason: Any, _properties: Any) -> None:
        self._on_event(PubackReceived(self._conn, mid))

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:  # the sender chose the topic, so the broker is not at fault
            topic = "\ufffd"
        held = self._intake.create_message_memory_reservation(
            len(message.payload) + TOPIC_COPIES * len(topic) + OVERHEAD
        )
        self._on_event(MessageReceived(self._conn, topic, bytes(message.payload), message.qos, message.mid, held))
