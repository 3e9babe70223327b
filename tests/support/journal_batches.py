"""Batches of a store's journal."""

from __future__ import annotations

import struct
import zlib

from activemq_fleet.node.kahadb.journal import ADD

_CONTROL = struct.Struct(">iB11siq")


def journal_batch(*records: bytes, checksum: bool = True) -> bytes:
    body = b"".join(struct.pack(">iB", 5 + len(record), 1) + record for record in records)
    return _CONTROL.pack(_CONTROL.size, 2, b"WRITE BATCH", len(body), zlib.adler32(body) if checksum else 0) + body


def message_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def add_command(message: str) -> bytes:
    """Return the record of a message of the queue ``q``."""
    command = message_field(2, bytes([1 << 3, 0]) + message_field(2, b"q")) + message_field(3, message.encode())
    return bytes([ADD, len(command)]) + command
