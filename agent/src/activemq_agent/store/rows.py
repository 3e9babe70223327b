"""Defines the objects that the store takes and returns, and the checksum of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from activemq_agent.store.schema import CHECKED

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The limits of an agent's store: numbers of messages and bytes, and seconds.

    Bytes are those of topics and payloads.

    ``timeout``: how long an event may wait in the outbox; then it is kept separately as expired, or dropped with
    ``drop_expired``. ``filters``: the subscriber's topic filters. Each filter is a lane (a part) of the inbox, which
    holds at most ``topic_rows`` messages, and so is each topic that no filter matches. Quarantined messages count for
    the inbox, but for no lane. ``remember``: how long ids are kept after handling, or after acceptance for ids that
    callers chose.
    """

    outbox_rows: int = 1_000_000
    outbox_bytes: int = 512 * MIB
    expired_rows: int = 100_000
    expired_bytes: int = 64 * MIB
    unconfirmed_rows: int = 100_000
    unconfirmed_bytes: int = 64 * MIB
    inbox_rows: int = 1_000_000
    inbox_bytes: int = 512 * MIB
    topic_rows: int = 100_000
    filters: tuple[str, ...] = ()
    timeout: float = 900.0
    drop_expired: bool = False
    remember: float = 7 * 86400.0


class OutgoingEvent(NamedTuple):
    """An outgoing event of an agent, which is in the outbox to be sent.

    ``seq`` is its place in the outbox, which orders sending. It is not the SEQ of the id: ids of callers have no SEQ,
    and a re-queued event has a new place.
    """

    seq: int
    event_id: str
    topic: str
    payload: bytes


class IncomingMessage(NamedTuple):
    """An incoming message of an agent, which is in the inbox to be handled.

    ``rx`` is its place in the inbox, ``rx_id`` names it if it has no id, ``attempts`` is how often a handler was begun.
    """

    rx: int
    event_id: str | None
    rx_id: str
    topic: str
    payload: bytes
    attempts: int


class SentEvent(NamedTuple):
    """An event of an agent's outbox that was sent, with its connection, MQTT packet id and broker.

    ``seq`` is its position in the outbox. ``has_id``: whether the sent payload carries the event id.
    """

    seq: int
    conn: int
    mid: int
    broker: str
    has_id: bool = True


class InboxStorageOutcome(NamedTuple):
    """The outcome of storing a received message in an agent's inbox: stored, stored before, or no room for it.

    ``rx`` is its position in the inbox, 0 if it was not stored. A ``duplicate`` was stored before and may be
    acknowledged; a message that found the inbox ``full`` must not be.
    """

    rx: int
    event_id: str | None
    duplicate: bool = False
    full: bool = False


class JsonJournalRecord(NamedTuple):
    """A record of an agent's event journal: one line of JSON about an event or a connection.

    The record has a position, and is exported to a file. The position only grows.
    """

    position: int
    line: str


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The counts of rows and bytes in an agent's store.

    ``oldest_age``: elapsed seconds of the oldest event, None if there is none. ``duplicates`` and
    ``unconfirmed_dropped`` count since the store was opened, as does ``damaged``: rows that failed their checksum when
    they were read. ``lanes``: messages that wait to be handled, by lane of the inbox.
    """

    outbox_rows: int
    outbox_bytes: int
    oldest_age: float | None
    expired: int
    expired_bytes: int
    unconfirmed: int
    unconfirmed_bytes: int
    unconfirmed_dropped: int
    inbox_rows: int
    inbox_bytes: int
    quarantined: int
    duplicates: int
    remembered: int
    journal_rows: int
    damaged: int
    lanes: dict[str, int] = field(default_factory=dict)


def compute_row_checksum(table_name: str, *row_values: str | bytes | float | None) -> bytes:
    """Compute the checksum of one row in an agent's store from the row's given values: eight bytes (BLAKE2b).

    It is also over the name of the table, and over the type and length of each value.
    """
    digest = hashlib.blake2b(table_name.encode(), digest_size=8)
    for value in row_values:
        if isinstance(value, bytes):
            data, type_mark = value, b"b"
        elif isinstance(value, str):
            data, type_mark = value.encode(), b"s"
        else:
            data, type_mark = repr(value).encode(), b"n"
        digest.update(b"%b%d:" % (type_mark, len(data)))
        digest.update(data)
    return digest.digest()


def has_valid_checksum(table: str, row: Sequence[Any]) -> bool:
    """Return whether a row of an agent's store has a valid checksum.

    ``row`` has all its columns.
    """
    checked = CHECKED[table]
    return bool(compute_row_checksum(table, *row[checked]) == row[checked.stop])


def size_in_bytes(topic: str, payload: bytes) -> int:
    """Return the size of an event or message in bytes, that of its topic and its payload."""
    return len(topic.encode()) + len(payload)
