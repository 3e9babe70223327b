# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a message as kahaDB stores it: an OpenWire frame, loosely encoded, without a cache.

Releases before 5.13 write version 6 of OpenWire; later releases write version 11 to stores that they created
(OpenWireFormat, CommandTypes.PROTOCOL_STORE_VERSION). Only the length of the frame shows the version.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ..foreign_data import parse_untrusted_json

VERSIONS = (11, 6)
_HEAD = struct.Struct(">iBiB")
_STRING_AND_LONGS = {110: "", 120: "s", 121: "sq", 122: "sqq", 123: "sqq", 124: "s"}
_DESTINATIONS = (100, 101, 102, 103)
_MESSAGE_ID, _LOCAL_TRANSACTION, _XA_TRANSACTION = 110, 111, 112


@dataclass(frozen=True)
class StoredMessage:
    """One message as it is stored in a kahaDB journal.

    ``frame`` is the whole OpenWire frame, which begins with its length; ``version`` is the version of OpenWire. Offsets
    in bytes of the frame are those of the destination, the transaction, the rest (from the original destination on) and
    the message id. ``content`` are start and end of the body.
    """

    frame: bytes
    version: int
    destination: int
    transaction: int
    rest: int
    message_id: int
    content: tuple[int, int]


class _FrameReader:
    """A reader of the fields of an OpenWire frame, with a position in the frame.

    Methods raise ValueError or struct.error for data that does not match the version.
    """

    def __init__(self, frame: bytes, version: int) -> None:
        self.frame, self.version, self.position = frame, version, _HEAD.size

    def skip(self, size: int) -> None:
        if size < 0 or self.position + size > len(self.frame):
            raise ValueError(size)
        self.position += size

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self.frame, self.position)
        self.skip(struct.calcsize(f">{form}"))
        return int(value)

    def string(self) -> None:
        if self.number("B"):
            self.skip(self.number("H"))

    def block(self) -> tuple[int, int]:
        if not self.number("B"):
            return 0, 0
        size = self.number("i")
        self.skip(size)
        return self.position - size, self.position

    def skip_nested_object(self) -> None:
        """Skip a nested object in the frame of an OpenWire message.

        It is an id, a destination or a transaction id.
        """
        if not self.number("B"):
            return
        kind = self.number("B")
        if kind in _DESTINATIONS:
            self.string()
        elif kind == _MESSAGE_ID:
            if self.version >= 10:
                self.string()
            self.skip_nested_object()
            self.skip(16)
        elif kind == _LOCAL_TRANSACTION:
            self.skip(8)
            self.skip_nested_object()
        elif kind == _XA_TRANSACTION:
            self.skip(4)
            self.block()
            self.block()
        elif kind in _STRING_AND_LONGS:
            self.string()
            self.skip(8 * _STRING_AND_LONGS[kind].count("q"))
        else:
            raise ValueError(kind)

    def array(self) -> None:
        if self.number("B"):
            for _index in range(self.number("H")):
                self.skip_nested_object()


def parse_openwire_message(frame: bytes) -> StoredMessage:
    """Parse the frame of an OpenWire message, and return the message.

    The message has the offsets of its parts. Raises ValueError for other data.
    """
    for version in VERSIONS:
        try:
            return _parse_frame(frame, version)
        except (ValueError, struct.error):
            continue
    raise ValueError("the message has neither the format of OpenWire 6 nor that of OpenWire 11")


def _parse_frame(frame: bytes, version: int) -> StoredMessage:
    reader = _FrameReader(frame, version)
    if _HEAD.unpack_from(frame)[0] != len(frame) - 4:
        raise ValueError(len(frame))
    reader.skip_nested_object()  # producer
    destination = reader.position
    reader.skip_nested_object()
    transaction = reader.position
    reader.skip_nested_object()
    rest = reader.position
    reader.skip_nested_object()  # original destination
    message_id = reader.position
    reader.skip_nested_object()
    reader.skip_nested_object()  # original transaction
    reader.string()  # group
    reader.skip(4)
    reader.string()  # correlation id
    reader.skip(1 + 8 + 1)
    reader.skip_nested_object()  # reply to
    reader.skip(8)
    reader.string()  # type
    content = reader.block()
    reader.block()  # properties
    reader.skip_nested_object()  # data structure
    reader.skip_nested_object()  # target consumer
    reader.skip(1 + 4)
    reader.array()  # path of brokers
    reader.skip(8)
    reader.string()  # user
    reader.skip(2)
    reader.array()  # cluster
    reader.skip(16 + (version >= 10))
    if reader.position != len(frame):
        raise ValueError(len(frame) - reader.position)
    return StoredMessage(frame, version, destination, transaction, rest, message_id, content)


def event_id_of_message(frame: bytes) -> str:
    """Return the event id in the frame of an OpenWire message; empty without one.

    It is ``eventId`` in the JSON body of an agent's event.
    """
    if b"eventId" not in frame:
        return ""
    try:
        start, stop = parse_openwire_message(frame).content
        body = frame[start:stop]
        # The body of a text message begins with its length.
        event = parse_untrusted_json(body[body.index(b"{") :])
        identity = event.get("eventId")
    except (ValueError, AttributeError):
        return ""
    return identity if isinstance(identity, str) else ""
