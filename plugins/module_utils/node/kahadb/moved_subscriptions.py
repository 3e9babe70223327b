# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Prevents that a broker which continues from an older index applies moved records of durable subscriptions.

A cleanup of 5.9 to 5.13.0 writes the record of a subscription again at the end of the journal, although messages wait
for it (AMQ-6131). When a broker reads the second record, it creates the subscription again and loses the waiting
messages (MessageDatabase.updateIndex of a KahaSubscriptionCommand). A known subscription is never created a second
time, so such a record is replaced by a trace, which brokers skip. The first record stays in force.
"""

from __future__ import annotations

import os
import struct
import zlib

from ..files import disk
from ..protocols import encode_varint
from . import journal

_CONTROL = struct.Struct(">iB11siq")
_RECORD = struct.Struct(">iB")
_SHORTEST_FIELD = 2


def replace_moved_subscriptions_by_trace_records(
    store: str, start: tuple[int, int], known_subscriptions: set[tuple[str, str]]
) -> int:
    """Replace repeated subscription records in a kahaDB journal with trace records, and return their number.

    Brokers skip trace records. A cleanup of kahaDB writes the record of a subscription again at the end of the store
    journal; without the replacement, a broker that reads it loses the messages that wait for the subscription.

    ``start`` is the data file and the offset from which the broker reads; ``known_subscriptions`` are the (destination,
    key) pairs of the subscriptions of its index. A data file with such a record is replaced by a new file, so that hard
    links to the old file keep their content. Raises OSError.
    """
    present = set(known_subscriptions)
    number, offset = start
    replaced = 0
    names = sorted(filter(journal.FILE.fullmatch, os.listdir(store)), key=journal.data_file_number)
    for name in names:
        if journal.data_file_number(name) < number:
            continue
        path = os.path.join(store, name)
        skipped_until = offset if journal.data_file_number(name) == number else -1
        moved = []
        kinds = (journal.SUBSCRIPTION, journal.REMOVE_DESTINATION)
        for command in journal.read_data_file_commands(path, 0, kinds=kinds):
            if command.span[0] <= skipped_until:
                continue
            pair = command.destination, command.subscription
            if command.kind == journal.REMOVE_DESTINATION:
                present = {subscription for subscription in present if subscription[0] != command.destination}
            elif not command.info:
                present.discard(pair)
            elif pair in present:
                moved.append(command.span)
            else:
                present.add(pair)
        if moved:
            _replace_by_traces(path, moved)
            replaced += len(moved)
    return replaced


def _replace_by_traces(path: str, spans: list[tuple[int, int]]) -> None:
    with open(path, "rb") as file:
        content = bytearray(file.read())
        mode = os.fstat(file.fileno()).st_mode & 0o777
    for start, stop in spans:
        content[start + _RECORD.size : stop] = _encode_trace(stop - start - _RECORD.size)
    at = 0
    while at + _CONTROL.size <= len(content):
        length, kind, magic, size, checksum = _CONTROL.unpack_from(content, at)
        body = at + _CONTROL.size
        if (length, kind) != (_CONTROL.size, 2) or size < 0 or body + size > len(content):
            break
        if checksum and any(body <= start < body + size for start, _unused in spans):
            checksum = zlib.adler32(content[body : body + size])
            _CONTROL.pack_into(content, at, length, kind, magic, size, checksum)
        at = body + size
    disk.replace_file(path, bytes(content), mode)


def _encode_trace(size: int) -> bytes:
    """Return the command of a kahaDB trace record with a length: kind, and a framed message with one or two texts."""
    frame = size - 1
    for prefix in range(1, 5):
        body = frame - prefix
        if body >= _SHORTEST_FIELD and len(encode_varint(body)) == prefix:
            return bytes([journal.TRACE]) + encode_varint(body) + _encode_text_fields(body)
    raise ValueError(size)


def _encode_text_fields(size: int) -> bytes:
    """Return protobuf text fields that fill ``size`` bytes: one field, or two if one field cannot have the size."""
    for prefix in range(1, 5):
        text = size - 1 - prefix
        if text >= 0 and len(encode_varint(text)) == prefix:
            return bytes([1 << 3 | 2]) + encode_varint(text) + b" " * text
    return bytes([1 << 3 | 2, 0]) + _encode_text_fields(size - _SHORTEST_FIELD)
