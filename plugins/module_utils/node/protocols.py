# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The table of the protocols of a broker's connectors, and functions on connectors' URI schemes."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass

_PROTOCOL_BY_SCHEME = {
    "auto": "openwire",
    "https": "http",
    "nio": "openwire",
    "ssl": "openwire",
    "tcp": "openwire",
    "wss": "ws",
}


@dataclass(frozen=True)
class Protocol:
    """A messaging protocol of a broker's connectors, such as mqtt: its default port, clients and frame size limits.

    ``port``: the port in ActiveMQ's own activemq.xml; ``clients``: a description of the clients.
    ``supports_round_trip``: a probe can send a message over it and receive the same message. ``max_frame_size_since``:
    the first release whose connectors read ``wireFormat.maxFrameSize``; ``default_frames`` describes the accepted
    frames without this option.
    """

    name: str
    port: int
    clients: str
    supports_round_trip: bool = False
    max_frame_size_since: str = ""
    default_frames: str = ""


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("openwire", 61616, "Java clients and bridges"),
        Protocol("stomp", 61613, "STOMP clients", supports_round_trip=True),
        Protocol(
            "mqtt",
            1883,
            "MQTT clients and failover agents",
            supports_round_trip=True,
            # source: MQTTWireFormat of the release tags
            max_frame_size_since="5.12.0",
            default_frames="of up to 256 MB",
        ),
        # source: AmqpWireFormat of the release tags
        Protocol("amqp", 5672, "AMQP clients", max_frame_size_since="5.11.0", default_frames="of any size"),
        Protocol("ws", 61614, "browsers, over WebSocket"),
        Protocol("http", 8080, "OpenWire clients behind proxies"),
    )
}
"""The protocols by name. The frame limits of OpenWire, which differ by release, are in ``lint.frame_sizes``."""


def protocol_name_of_scheme(scheme: str) -> str:
    """Return the name of the protocol of a connector's URI scheme: ``mqtt`` for ``mqtt+ssl``.

    ``auto`` counts as openwire. A scheme that is none of these protocols (``vm``, ``udp``) is returned as it is,
    without what follows a plus sign.
    """
    first = scheme.split("+", 1)[0]
    return _PROTOCOL_BY_SCHEME.get(first, first)


def is_encrypted(scheme: str) -> bool:
    """Return whether connections to a connector with a URI scheme such as ``mqtt+ssl`` are encrypted by TLS."""
    return "ssl" in scheme or scheme in ("https", "wss")


def supports_round_trip(scheme: str) -> bool:
    """Return whether a probe of a connector with a URI scheme such as ``stomp`` can receive the message it sent."""
    protocol = PROTOCOLS.get(protocol_name_of_scheme(scheme))
    return protocol is not None and protocol.supports_round_trip


def encode_mqtt_text(text: str) -> bytes:
    """Encode a text for packets of MQTT: its length in two bytes, then UTF-8."""
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def encode_mqtt_packet(first: int, body: bytes) -> bytes:
    """Encode a packet of MQTT: its first byte, its length and its body."""
    return bytes([first]) + encode_varint(len(body)) + body


def encode_varint(number: int) -> bytes:
    """Encode an integer as a varint, as in MQTT and protocol buffers.

    Each byte has seven bits, the lowest first.
    """
    content = bytearray()
    while True:
        number, low = divmod(number, 128)
        content.append(low | (0x80 if number else 0))
        if not number:
            return bytes(content)


def read_varint_and_next_offset(content: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    """Read the varint at the offset ``at``, and return its integer and the offset after it.

    Raises ValueError for a varint of more than 10 bytes, and IndexError at the end of ``content``.
    """
    number = shift = 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("the data contains an integer (varint) of more than 10 bytes")
