"""Operations on the inbox within a transaction: receive a message, hand it to handlers, record it as handled."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from activemq_agent.agent_errors import RequestRefusedError, error_with_type
from activemq_agent.payload_envelope import event_id_in
from activemq_agent.store.rows import InboxStorageOutcome, has_valid_checksum, size_in_bytes
from activemq_agent.store.schema import ID_TABLES, is_machine_failure
from activemq_agent.store.transaction import Transaction

HANDLER_TABLES = "x_"
"""Prefix of handlers' tables and indexes; their statements cannot touch the store's own tables."""
FORGOTTEN_AT_ONCE = 2000

_READ_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_WRITE_ACTIONS = {
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_REINDEX,
}  # fmt: skip
_WRITABLE_PREFIXES = (HANDLER_TABLES, "sqlite_master", "sqlite_autoindex_x_")

Statement = tuple[str, Sequence[Any]]
"""An SQL statement and its values."""


class HandlerStatementError(Exception):
    """An error in an SQL statement, or its values, that a message handler queued; the whole transaction is rolled back.

    The text is the type and the text of the original error.
    """


def filter_matches(topic_filter: str, topic: str) -> bool:
    """Return whether an MQTT topic filter matches a topic.

    The rules are those of MQTT 3.1.1, section 4.7; ``a/#`` matches ``a`` too.
    """
    filter_levels = topic_filter.split("/")
    topic_levels = topic.split("/", len(filter_levels))  # at most one more than the filter has: a topic may have 65,535
    for number, level in enumerate(filter_levels):
        if level == "#":
            return True
        if number >= len(topic_levels) or level not in ("+", topic_levels[number]):
            return False
    return len(filter_levels) == len(topic_levels)


def lane_name_of_topic(topic: str, filters: tuple[str, ...]) -> str:
    """Return the name of the lane of a topic: the part of an agent's inbox in which messages of the topic are stored.

    The name is the first of ``filters`` that matches the topic, or the topic if none matches. A lane has a limit.
    """
    return next((topic_filter for topic_filter in filters if filter_matches(topic_filter, topic)), topic)


def store_message_and_return_outcome(
    transaction: Transaction, topic: str, payload: bytes, broker: str, conn: int, head: bool = True
) -> InboxStorageOutcome:
    """Store a received message in an agent's inbox, and return the outcome: stored, duplicate or full (not stored).

    ``head`` is true if no older message of the same lane is still being stored. A lane that was full accepts no message
    until its oldest message that was not stored is offered again with ``head``: otherwise a later one of several
    offered messages could be stored before an earlier one.
    """
    counters, limits = transaction.counters, transaction.limits
    event_id = event_id_in(payload)
    if event_id is not None and _is_known(transaction, event_id):
        transaction.add_journal_record("duplicate", event_id=event_id, topic=topic, broker=broker, conn=conn)
        counters.duplicates += 1
        return InboxStorageOutcome(0, event_id, duplicate=True)
    size, lane = size_in_bytes(topic, payload), lane_name_of_topic(topic, limits.filters)
    if head:
        counters.barred.discard(lane)
    if (
        lane in counters.barred
        or counters.rows["inbox"] + counters.rows["quarantine"] >= limits.inbox_rows
        or counters.sizes["inbox"] + counters.sizes["quarantine"] + size > limits.inbox_bytes
        or counters.lanes[lane] >= limits.topic_rows
    ):
        counters.barred.add(lane)
        return InboxStorageOutcome(0, event_id, full=True)
    counters.rx += 1
    transaction.insert_and_count_row("inbox", (counters.rx, event_id, topic, payload, transaction.now), 0, lane)
    counters.lanes[lane] += 1
    _add_message_record(transaction, "received", counters.rx, event_id, topic, broker=broker, conn=conn)
    return InboxStorageOutcome(counters.rx, event_id)


def _is_known(transaction: Transaction, event_id: str) -> bool:
    query = "SELECT 1 FROM inbox WHERE event_id = ? UNION ALL SELECT 1 FROM remembered WHERE event_id = ?"
    return transaction.db.execute(query, (event_id, event_id)).fetchone() is not None


def _add_message_record(
    transaction: Transaction, kind: str, rx: int, event_id: str | None, topic: str, **fields: Any
) -> None:
    """Write a journal record of a received message, with its ``rx_id`` if it has no event id."""
    rx_id = transaction.counters.make_received_message_id(rx) if event_id is None else None
    transaction.add_journal_record(kind, topic=topic, **fields, event_id=event_id, rx_id=rx_id)


def begin_handling_attempt(transaction: Transaction, inbox_position: int) -> int:
    """Begin an attempt to handle a message of an agent's inbox, and return the attempt's number.

    The number is recorded. The first is 1. Raises RequestRefusedError if the message is not in the inbox.
    """
    row = transaction.db.execute(
        "UPDATE inbox SET attempts = attempts + 1 WHERE rx = ? RETURNING attempts, event_id, topic", (inbox_position,)
    ).fetchone()
    if row is None:
        raise _missing_message_error(inbox_position)
    _add_message_record(transaction, "handling", inbox_position, row[1], row[2])
    return int(row[0])


def withdraw_interrupted_attempt(transaction: Transaction, rx: int) -> None:
    """Withdraw the last attempt to handle a message of an agent's inbox, because the agent's stop interrupted it.

    So restarts of the agent do not quarantine the message, unless ``handler.attempts`` is 1: one attempt stays
    recorded, because the handler may have had effects, and its next run is not the first. This does nothing if the
    message is not in the inbox.
    """
    transaction.db.execute("UPDATE inbox SET attempts = max(1, attempts - 1) WHERE rx = ?", (rx,))


def record_handled(transaction: Transaction, rx: int, statements: Sequence[Statement] = ()) -> None:
    """Record that a message of an agent's inbox was handled.

    The message is removed from the inbox. Remembers its event id, and runs the SQL statements of its handlers. A copy
    of the message counts as a duplicate from now on. Raises RequestRefusedError if the message is not in the inbox, or
    damaged, HandlerStatementError for a statement that is wrong, has a value that SQLite cannot store, or touches other
    tables than those that begin with ``x_``, sqlite3.Error for a failure of the machine.
    """
    row = _take_message(transaction, rx)
    _add_message_record(transaction, "handled", rx, row[1], row[2])
    _remember_event_id(transaction, row[1])
    if statements:
        transaction.db.set_authorizer(_authorize_statement)
        try:
            for sql, values in statements:
                transaction.db.execute(sql, values)
        except BaseException as error:  # the values are of handlers and messages: their conversion can raise any error
            if isinstance(error, sqlite3.Error) and is_machine_failure(error):
                raise
            raise HandlerStatementError(error_with_type(error)) from error
        finally:
            transaction.db.set_authorizer(None)


def _authorize_statement(action: int, name: str | None, *_: str | None) -> int:
    if action in _READ_ACTIONS:
        return sqlite3.SQLITE_OK
    if action in _WRITE_ACTIONS and name is not None and name.startswith(_WRITABLE_PREFIXES):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def quarantine_message(transaction: Transaction, rx: int, reason: str) -> None:
    """Move a message that could not be handled from an agent's inbox to the quarantine, where it is kept.

    The message is never handled again. An operator can inspect it there. A copy counts as a duplicate. Raises
    RequestRefusedError if the message is not in the inbox, or damaged.
    """
    reason = reason.encode(errors="backslashreplace").decode()  # an error of a handler may contain surrogates
    row = _take_message(transaction, rx)
    transaction.insert_and_count_row("quarantine", row[:5], row[6], reason)
    _add_message_record(transaction, "quarantined", rx, row[1], row[2], reason=reason)
    _remember_event_id(transaction, row[1])


def _take_message(transaction: Transaction, rx: int) -> tuple[Any, ...]:
    row = transaction.take_row("inbox", rx)
    if row is None:
        raise _missing_message_error(rx)
    lanes, lane = transaction.counters.lanes, row[7]
    lanes[lane] -= 1
    if not lanes[lane]:
        del lanes[lane]
    return row


def _missing_message_error(rx: int) -> RequestRefusedError:
    return RequestRefusedError(
        f"the agent's inbox no longer contains the message with number {rx}: the agent handled or quarantined this "
        "message, or found it damaged on disk. If the agent's log reports a damaged store, follow the hint of that "
        "log record. Otherwise, no action is required"
    )


def _remember_event_id(transaction: Transaction, event_id: str | None) -> None:
    if event_id is not None:
        transaction.insert_and_count_row("remembered", (event_id, transaction.now))


def delete_old_event_ids(transaction: Transaction) -> int:
    """Delete old event ids that an agent remembers to recognize duplicates, and return their number.

    They are older than ``limits.remember``; at most 2000 per table are deleted.
    """
    deleted = 0
    for table in ID_TABLES:
        rows = transaction.db.execute(
            f"SELECT n, event_id, at, sum FROM {table} ORDER BY n LIMIT {FORGOTTEN_AT_ONCE}"  # noqa: S608 -- constants
        ).fetchall()
        expired_until = transaction.now - transaction.limits.remember
        last = max((row[0] for row in rows if has_valid_checksum(table, row) and row[2] <= expired_until), default=None)
        if last is not None:
            cursor = transaction.db.execute(f"DELETE FROM {table} WHERE n <= ?", (last,))  # noqa: S608 -- the same
            deleted += cursor.rowcount
    return deleted
