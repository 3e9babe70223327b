"""Limits on what a broker may send on one connection (MQTT 3.1.1, and bounds), enforced before paho-mqtt reads it.

paho-mqtt reads packets of up to 256 MiB, keeps messages of QoS 2 until the broker releases them, answers any number of
PINGREQs, and accepts any number of CONNACKs. This module reads the header of each packet first. A packet that no broker
sends to an agent ends the connection. A message above the limit is skipped without keeping it. While too many received
bytes are still in memory, nothing more is read, so that the broker must wait.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from paho.mqtt.client import Client, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

CONNACK, PUBLISH, PUBACK, SUBACK, UNSUBACK, PINGRESP = 0x20, 0x30, 0x40, 0x90, 0xB0, 0xD0
_PACKET_LENGTHS = {CONNACK: (2, 2), PUBACK: (2, 2), SUBACK: (3, 3), UNSUBACK: (2, 2), PINGRESP: (0, 0)}
"""Shortest and longest packet of each type except PUBLISH; the agent subscribes to one filter at a time."""
_SHORTEST_PUBLISH = 3  # a topic of one character, QoS 0
_LONGEST_HEADER = 5
_CHUNK = 1 << 16
_MAX_CHUNKS = 64
"""Largest number of reads of a skipped message before the connection does its other work."""
_PAUSE = 0.02
_CHECK_PORT = "check that mb.urls in agent.conf names the MQTT connector of an ActiveMQ broker"
MAX_ANSWERS = 2000
"""Outgoing packets that may wait to be sent; while more wait, nothing is read."""
OVERHEAD = 4096
"""Bytes that a message takes in memory in addition to its topic and payload, until it is in the store."""
TOPIC_COPIES = 8
"""How many times a topic's length is counted: it is written to the inbox and, escaped, to records of the journal."""


MAX_RECEIVED = 16 << 20
"""Largest number of bytes of messages that the publisher or the subscriber keeps in memory, plus one packet."""


class ProtocolViolationError(ConnectionError):
    """An error for a broker's violation of the MQTT protocol, after which the connection ends.

    The broker sent an invalid packet, or one that the agent did not request.
    """


class ReceiveMemoryLimit:
    """A budget of received bytes: a limit on the bytes of received MQTT messages in memory.

    All connections of the publisher or of the subscriber share it. The receiver of a message keeps the reservation that
    ``create_message_memory_reservation`` returns with the message; when the last reference to it goes, its bytes no
    longer count.
    """

    def __init__(self, limit: int = MAX_RECEIVED) -> None:
        self._limit = limit
        self._used = 0
        self._lock = threading.Lock()  # for the threads of connections: an old one may still read when a new one starts
        self._released: deque[int] = deque()  # any thread appends at any time, which needs no lock

    def create_message_memory_reservation(self, size: int) -> MessageMemoryReservation:
        """Reserve ``size`` bytes of the memory for received messages for one message, and return the reservation.

        The bytes count as long as the reservation is referenced. This method also reserves bytes beyond the limit, and
        ``is_memory_limit_reached`` then returns True.
        """
        self._released.append(-size)
        return MessageMemoryReservation(size, self._released)

    def is_memory_limit_reached(self) -> bool:
        """Return whether the received messages that an agent holds in memory have reached their limit of bytes.

        Reading must then pause.
        """
        with self._lock:
            while self._released:
                self._used -= self._released.popleft()
            return self._used >= self._limit


class MessageMemoryReservation:
    """A reservation of memory for one received message, whose bytes count toward a ``ReceiveMemoryLimit``.

    They count as long as the reservation is referenced.
    """

    __slots__ = ("_released", "_size")

    def __init__(self, size: int, released: deque[int]) -> None:
        self._size, self._released = size, released

    def __del__(self) -> None:
        self._released.append(self._size)


class ReceivedMqttPacketFilter:
    """A filter of received MQTT packets, which skips oversized messages and rejects packets that no broker may send.

    It is between a socket and the MQTT client. ``on_oversized_message`` is called with the QoS of each message above
    ``limit`` bytes, which is read and discarded.
    """

    def __init__(self, limit: int, on_oversized_message: Callable[[int], None]) -> None:
        self._limit, self._on_oversized_message = limit, on_oversized_message
        self._header = bytearray()  # incomplete header of the packet that is being read
        self._complete_header = bytearray()  # complete header to return to the client
        self._body_bytes_left = 0  # of the packet whose header is complete
        self._skip_bytes_left = 0  # of a message that is skipped
        self._is_connack_received = False

    def read(self, receive: Callable[[int], bytes], size: int, may_read: Callable[[], bool]) -> bytes:
        """Read and return at most ``size`` bytes of the MQTT packets from a broker, without oversized messages.

        Returns no bytes at the end of the connection. ``may_read`` is called before each
        packet. Raises BlockingIOError when nothing can be read now, ProtocolViolationError for a packet that no broker
        sends.
        """
        for _ in range(_MAX_CHUNKS):
            if self._complete_header:
                received = bytes(self._complete_header[:size])
                del self._complete_header[:size]
                return received
            if self._body_bytes_left:
                data = receive(min(size, self._body_bytes_left, _CHUNK))
                self._body_bytes_left -= len(data)
                return data
            if self._skip_bytes_left:
                data = receive(min(self._skip_bytes_left, _CHUNK))
                self._skip_bytes_left -= len(data)
            elif not self._header and not may_read():
                time.sleep(_PAUSE)
                break
            else:
                data = receive(1)
                self._header += data
            if not data:
                return b""
            self._check_header()
        raise BlockingIOError

    def _check_header(self) -> None:
        """Check an MQTT packet when its header is complete: pass it on, skip it, or raise ProtocolViolationError."""
        if not self._header:
            return
        kind = self._header[0] & 0xF0
        self._check_kind(kind)
        if len(self._header) == 1 or self._header[-1] & 128:
            if len(self._header) >= _LONGEST_HEADER:
                raise ProtocolViolationError(
                    "the agent ended the connection, because the broker's answer is not valid MQTT (the length field "
                    f"of a packet has more than 4 bytes): {_CHECK_PORT}"
                )
            return
        length = sum((digit & 127) << 7 * place for place, digit in enumerate(self._header[1:]))
        if kind == PUBLISH and length > self._limit:
            self._on_oversized_message(self._header[0] >> 1 & 0b11)
            self._skip_bytes_left = length
        else:
            shortest, longest = _PACKET_LENGTHS.get(kind, (_SHORTEST_PUBLISH, self._limit))
            if not shortest <= length <= longest:
                raise ProtocolViolationError(
                    "the agent ended the connection, because the broker's answer is not valid MQTT (a packet of type "
                    f"{kind >> 4} has {length} bytes): {_CHECK_PORT}"
                )
            self._complete_header, self._body_bytes_left = self._header, length
        self._is_connack_received = True
        self._header = bytearray()

    def _check_kind(self, kind: int) -> None:
        if kind != PUBLISH and kind not in _PACKET_LENGTHS:
            raise ProtocolViolationError(
                "the agent ended the connection, because the broker's answer is not valid MQTT (brokers send no "
                f"packet of type {kind >> 4}): {_CHECK_PORT}"
            )
        if kind == PUBLISH and self._header[0] & 0b0100:
            raise ProtocolViolationError(
                "the agent ended the connection, because the broker sent a message of QoS 2, although the agent "
                f"subscribes with QoS 1 at most: {_CHECK_PORT}"
            )
        if (kind == CONNACK) == self._is_connack_received:
            violation = "a second packet CONNACK" if self._is_connack_received else "a packet before CONNACK"
            raise ProtocolViolationError(
                f"the agent ended the connection, because the broker violates MQTT (it sent {violation}): {_CHECK_PORT}"
            )


class BoundedMqttClient(Client):
    """An MQTT client (paho) with bounds on the packets that it receives, such as their size.

    ``violation`` is the reason why its ``ReceivedMqttPacketFilter`` ended the connection, or None.
    """

    def __init__(
        self,
        client_id: str,
        *,
        clean: bool,
        limit: int,
        intake: ReceiveMemoryLimit,
        on_oversized_message: Callable[[int], None],
    ) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean, protocol=MQTTv311,
            reconnect_on_failure=False, manual_ack=True,
        )  # fmt: skip
        self.max_inflight_messages_set(0)  # the publisher's window is the limit
        self.suppress_exceptions = False
        self.violation: str | None = None
        self.closing = False
        """Set when the connection ends: the client then reads the remaining data of the socket without limits."""
        self._intake = intake
        self._filter = ReceivedMqttPacketFilter(limit, on_oversized_message)

    def _may_read(self) -> bool:
        return self.closing or (not self._intake.is_memory_limit_reached() and len(self._out_packet) < MAX_ANSWERS)

    def _sock_recv(self, bufsize: int) -> bytes:
        try:
            return self._filter.read(super()._sock_recv, bufsize, self._may_read)
        except ProtocolViolationError as error:
            self.violation = str(error)
            raise

    def _packet_handle(self) -> MQTTErrorCode:
        """Process a packet; a packet that cannot be read ends the connection, where paho would end its thread."""
        try:
            return super()._packet_handle()
        except Exception as error:  # noqa: BLE001 -- a broker may send any bytes
            is_violation = isinstance(error, ProtocolViolationError)
            unreadable = (
                "the agent ended the connection, because the broker sent an MQTT packet that cannot be read: "
                f"{_CHECK_PORT}"
            )
            self.violation = str(error) if is_violation else unreadable
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
