"""Operations on the outbox within a transaction: accept, send, acknowledge, expire, re-queue."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing

from activemq_agent.agent_errors import OutboxFullError, RequestRefusedError
from activemq_agent.agent_topics import BARRIER, barrier_topic, is_barrier_topic, topic_without_last_level
from activemq_agent.payload_envelope import event_id_in, validated_event_id
from activemq_agent.printable import count_with_noun
from activemq_agent.store.rows import SentEvent, size_in_bytes
from activemq_agent.store.transaction import Transaction

LONGEST_TOPIC = 65535
EXPIRED_AT_ONCE = 10_000
"""Largest number of events that expire in one transaction."""
REQUEUED_AT_ONCE = 1000
"""Largest number of events that are re-queued in one transaction, unless they are named by their ids."""
REQUEUED_BYTES_AT_ONCE = 8 << 20
"""Bytes of re-queued events after which their transaction ends, so that other callers do not wait for long."""

_SEQ = re.compile(r"[1-9][0-9]*")
_SIZE = "length(CAST(topic AS BLOB)) + length(payload)"


def event_id_chosen_by_publisher(topic: str, payload: bytes, event_id: str | None, agent: str) -> str | None:
    """Return the event id that the publisher chose for an event; None if it chose none.

    It is an argument or the payload's ``eventId``. Raises RequestRefusedError for a topic, payload or id that the agent
    with the name ``agent`` cannot publish.
    """
    size = len(topic.encode(errors="replace"))
    if not 0 < size <= LONGEST_TOPIC or any(c in topic for c in "+#\0") or not topic.isprintable():
        raise RequestRefusedError(
            f"{topic[:80]!r} is not a topic to which events can be published: use 1 to {LONGEST_TOPIC} bytes of "
            "printable characters without + and #"
        )
    prefix = topic_without_last_level(topic)
    excess = len(barrier_topic(prefix, agent).encode()) - LONGEST_TOPIC  # the topic of a canary is shorter
    if excess > 0:
        raise RequestRefusedError(
            f"the topic {topic[:80]!r} of the event is too long, because the topics of the agent's test messages for "
            f"it must not have more than {LONGEST_TOPIC} bytes: shorten the topic without its last level to "
            f"{len(prefix.encode()) - excess} bytes"
        )
    if not isinstance(payload, bytes):
        raise RequestRefusedError(f"the payload of the event has the type {type(payload).__name__}: pass bytes")
    payload_id = event_id_in(payload)
    if event_id is None:
        return payload_id
    if payload_id not in (None, event_id):
        raise RequestRefusedError(
            f"the payload has the eventId {payload_id!r}, but the request has the id {event_id!r}: use the same id "
            "for both"
        )
    return validated_event_id(event_id)


def is_valid_event_timeout(timeout: float) -> bool:
    """Return whether a number of seconds can be the timeout of an event: it is above 0 and finite.

    An integer may be too large for the arithmetic of times.
    """
    try:
        return 0 < float(timeout) < math.inf
    except OverflowError:
        return False


def accept_event(
    transaction: Transaction, topic: str, payload: bytes, event_id: str | None, timeout: float | None
) -> str:
    """Accept an event into an agent's outbox, and return its event id.

    An event whose id is known already is not stored again. Raises OutboxFullError when the outbox has no room,
    RequestRefusedError for an id that the agent itself will give to a later event.
    """
    counters = transaction.counters
    if event_id is not None and _was_accepted(transaction, event_id):
        return event_id
    if not _has_room(transaction, size_in_bytes(topic, payload)):
        rows, size = (
            count_with_noun(counters.rows["outbox"], "event"),
            count_with_noun(counters.sizes["outbox"], "byte"),
        )
        remedy = (
            "some of these events have expired, and the agent has no room to keep more expired events separately. Send "
            "them again with activemq-agent requeue --all when a broker is connected, and then publish this event again"
            if _has_expired_events_without_room(transaction)
            else "publish it again after the agent has connected to a broker"
        )
        raise OutboxFullError(
            f"the event was rejected, because the agent's outbox of unsent events is full ({rows}, {size}): {remedy}"
        )
    if event_id is None:
        counters.seq += 1
        event_id = f"{counters.agent}:{counters.epoch}:{counters.seq}"
    else:
        transaction.insert_and_count_row("accepted_ids", (event_id, transaction.now))
    _append_event(transaction, event_id, topic, payload, transaction.limits.timeout if timeout is None else timeout)
    return event_id


def _was_accepted(transaction: Transaction, event_id: str) -> bool:
    if transaction.db.execute("SELECT 1 FROM accepted_ids WHERE event_id = ?", (event_id,)).fetchone():
        return True
    counters = transaction.counters
    prefix, seq = f"{counters.agent}:{counters.epoch}:", event_id.rpartition(":")[2]
    if event_id != prefix + seq or not _SEQ.fullmatch(seq):
        return False
    if int(seq) > counters.seq:
        raise RequestRefusedError(
            f"the event id {event_id} is reserved, because this agent will assign it automatically: choose a different "
            "id"
        )
    return True


def _forget_accepted_id(transaction: Transaction, event_id: str) -> None:
    """Forget the id of an event that was dropped, so that its publisher can publish it again with this id."""
    transaction.db.execute("DELETE FROM accepted_ids WHERE event_id = ?", (event_id,))


def _append_event(
    transaction: Transaction, event_id: str, topic: str, payload: bytes, timeout: float, reason: str | None = None
) -> None:
    """Append an event to an agent's outbox, to expire after ``timeout`` seconds, and record it as accepted."""
    transaction.counters.place += 1
    deadline = transaction.now + timeout
    event = (transaction.counters.place, event_id, topic, payload, transaction.now, deadline)
    transaction.insert_and_count_row("outbox", event)
    transaction.add_journal_record("accepted", event_id=event_id, topic=topic, reason=reason)


def journal_sent_events(transaction: Transaction, events: Sequence[SentEvent]) -> None:
    """Write a record to the agent's event journal for each event of the outbox that was sent."""
    for event in events:
        row = transaction.db.execute("SELECT event_id, topic FROM outbox WHERE place = ?", (event.seq,)).fetchone()
        if row:
            _journal_sent_event(transaction, "sent", event, *row)


def _journal_sent_event(transaction: Transaction, kind: str, event: SentEvent, event_id: str, topic: str) -> None:
    """Add a record about an event that was sent to an agent's event journal.

    Each of these records shows whether the event was sent without its id, because others can be missing: after a failed
    write, the record ``sent`` is not written again.
    """
    transaction.add_journal_record(
        kind, event_id=event_id, topic=topic, broker=event.broker, conn=event.conn, mid=event.mid,
        reason=None if event.has_id else "without id",
    )  # fmt: skip


def move_or_delete_acknowledged_events(
    transaction: Transaction, events: Sequence[SentEvent], is_delivery_proved: bool
) -> None:
    """Remove acknowledged events from an agent's outbox; delete them if delivery is proved, else keep them unconfirmed.

    Delivery is proved if a canary (a test message) of their topic prefix came back to the agent. Unconfirmed events are
    kept separately, within their limits. Barriers (marker messages of the agent) are not kept: new ones are sent.
    """
    for event in events:
        row = transaction.take_row("outbox", event.seq) or transaction.take_row("expired", event.seq)
        if row is None:
            continue
        kind = "acknowledged" if is_delivery_proved else "unconfirmed"
        _journal_sent_event(transaction, kind, event, row[1], row[2])
        if not is_delivery_proved and not is_barrier_topic(row[2]):
            transaction.insert_and_count_row("unconfirmed", row[:6], event.conn)
            _delete_excess_unconfirmed(transaction)


def _delete_excess_unconfirmed(transaction: Transaction) -> None:
    """Delete the oldest unconfirmed events of an agent above their limit.

    On a topic prefix that is never proved they would accumulate.
    """
    counters, limits = transaction.counters, transaction.limits
    while (
        counters.rows["unconfirmed"] > limits.unconfirmed_rows
        or counters.sizes["unconfirmed"] > limits.unconfirmed_bytes
    ):
        oldest = transaction.db.execute("SELECT min(place) FROM unconfirmed").fetchone()[0]
        row = transaction.take_row("unconfirmed", oldest)
        if row is None:
            break
        _forget_accepted_id(transaction, row[1])
        counters.unconfirmed_dropped += 1


def confirm_and_delete_events_below_prefix(
    transaction: Transaction, topic_prefix: str, conn: int, after: int = 0
) -> int:
    """Delete an agent's unconfirmed events with a topic prefix, because they are delivered; return their number.

    Called when the prefix's canary (a test message of the agent to itself) came back. The canary confirms the events
    that were sent after it on its connection ``conn``, that is, those with a position in the outbox greater than
    ``after``, and whose topic without its last level is ``topic_prefix``. They were acknowledged, but unconfirmed:
    ActiveMQ also acknowledges messages that it rejects. Events that were sent before the canary, or whose topics have
    more levels, may have been rejected for a permission that was granted later, or that is still missing.
    """
    confirmed = 0
    rows = transaction.db.execute(
        "SELECT place, event_id, topic FROM unconfirmed WHERE conn = ? AND place > ?", (conn, after)
    ).fetchall()
    for place, event_id, topic in rows:
        has_prefix = topic_without_last_level(topic) == topic_prefix
        if has_prefix and transaction.take_row("unconfirmed", place) is not None:
            transaction.add_journal_record("acknowledged", event_id=event_id, topic=topic, conn=conn)
            confirmed += 1
    return confirmed


def move_or_drop_expired_events(transaction: Transaction) -> int:
    """Take the events that are past their deadline out of an agent's outbox, and return their number.

    These are at most ``EXPIRED_AT_ONCE`` events, those with the earliest deadlines. They are dropped if the limit
    ``drop_expired`` is set, else kept as expired. Without room among the expired ones, the rest stays in the outbox,
    unsent. Barriers (marker messages of the agent) are dropped: the agent sends new ones. Those behind an event without
    room are left to ``delete_unsent_barriers``.
    """
    expired = 0
    for place in _places_of_events_to_expire(transaction, EXPIRED_AT_ONCE):
        row = transaction.take_row("outbox", place)
        if row is None:
            continue
        is_dropped = _is_dropped_when_expired(transaction, row[2])
        if is_dropped:
            _forget_accepted_id(transaction, row[1])
        else:
            transaction.insert_and_count_row("expired", row[:6])
        transaction.add_journal_record(
            "expired", event_id=row[1], topic=row[2], reason="dropped" if is_dropped else None
        )
        expired += 1
    return expired


def delete_unsent_barriers(transaction: Transaction, tables: Sequence[str]) -> None:
    """Delete the barriers (marker messages of the agent) among its events that it does not send, in the given tables.

    They are those past their deadline in ``outbox``, also behind events that cannot be kept as expired, and those that
    earlier releases kept in ``expired`` and ``unconfirmed``. Reads all these events.
    """
    for table in tables:
        condition = "deadline <= :now AND" if table == "outbox" else ""
        events = transaction.db.execute(
            f"SELECT place, topic FROM {table} WHERE {condition} instr(topic, :level)",  # noqa: S608 -- names of the schema
            {"now": transaction.now, "level": BARRIER},
        ).fetchall()
        for place in [place for place, topic in events if is_barrier_topic(topic)]:
            row = transaction.take_row(table, place)
            if row is not None and table == "outbox":
                transaction.add_journal_record("expired", event_id=row[1], topic=row[2], reason="dropped")


def _places_of_events_to_expire(transaction: Transaction, limit: int) -> list[int]:
    """Return the places of the events of an outbox that are past their deadline, as many as can be kept as expired."""
    limits, counters = transaction.limits, transaction.counters
    rows, size = counters.rows["expired"], counters.sizes["expired"]
    places: list[int] = []
    with closing(_query_unsent_events(transaction, "outbox", limit)) as due_events:
        for place, _, event_size, topic in due_events:
            if not _is_dropped_when_expired(transaction, topic):
                rows, size = rows + 1, size + event_size
                if rows > limits.expired_rows or size > limits.expired_bytes:
                    break
            places.append(place)
    return places


def _is_dropped_when_expired(transaction: Transaction, topic: str) -> bool:
    return transaction.limits.drop_expired or is_barrier_topic(topic)


def _has_expired_events_without_room(transaction: Transaction) -> bool:
    """Return whether an outbox has events past their deadline that cannot be kept as expired."""
    with closing(_query_unsent_events(transaction, "outbox", 1)) as due_events:
        is_due = due_events.fetchone() is not None
    return is_due and not _places_of_events_to_expire(transaction, 1)


def requeue_some_expired_events(transaction: Transaction, last_place: int) -> int:
    """Queue some expired events of an agent again, to be sent, and return their number: 0 when none is left to queue.

    These are expired events that are kept separately, the oldest first, as many as the outbox has room for; after them
    those that are still in the outbox, because they cannot be kept separately. Events after ``last_place`` are left
    out: it is the last place at the time of the first call, so that repeated calls queue no event twice.
    """
    for table in ("expired", "outbox"):
        events = _query_unsent_events(transaction, table, REQUEUED_AT_ONCE, last_place).fetchall()
        requeued = _requeue_events(transaction, [(table, *event) for event in events], REQUEUED_BYTES_AT_ONCE)
        if requeued:
            return requeued
    return 0


def requeue_events(transaction: Transaction, event_ids: Sequence[str]) -> int:
    """Queue the expired or unconfirmed events of an agent with the given ids again, and return their number.

    These are as many as the outbox has room for. Raises RequestRefusedError, and re-queues nothing, for an id of
    neither kind.
    """
    requested_ids = set(event_ids)
    rows: list[tuple[str, int, str, int, str]] = []
    for table in ("outbox", "expired", "unconfirmed"):
        with closing(_query_unsent_events(transaction, table)) as events:
            rows += [(table, *event) for event in events if event[1] in requested_ids]
    missing = requested_ids - {row[2] for row in rows}
    if missing:
        raise RequestRefusedError(
            "no event was sent again, because these ids are not the id of an expired or unconfirmed event of the "
            f"agent: {', '.join(sorted(missing)[:5])}. Correct or remove them"
        )
    return _requeue_events(transaction, rows)


def _query_unsent_events(
    transaction: Transaction, table: str, limit: int = -1, last_place: int | None = None
) -> sqlite3.Cursor:
    """Query place, event id, size and topic of events that the agent does not send, oldest first.

    They are those in the table ``expired`` or ``unconfirmed``, or those past their deadline in ``outbox``, in the order
    of their deadlines. There is no limit if ``limit`` is negative.
    """
    # The plus keeps SQLite from reading the outbox in the order of places.
    condition, order = ("deadline <= :now", "deadline, place") if table == "outbox" else ("true", "place")
    return transaction.db.execute(
        f"SELECT place, event_id, {_SIZE}, topic FROM {table} "  # noqa: S608 -- names of the schema
        f"WHERE {condition} AND +place <= :last_place ORDER BY {order} LIMIT :limit",
        {
            "now": transaction.now,
            "last_place": transaction.counters.place if last_place is None else last_place,
            "limit": limit,
        },
    )


def _requeue_events(
    transaction: Transaction, events: Iterable[tuple[str, int, str, int, str]], most_bytes: float = math.inf
) -> int:
    """Queue events of an agent again, each with its table, place, id, size and topic, and return their number.

    Ends when ``most_bytes`` are reached, and when a kept event has no room. An event of the outbox needs no room.
    """
    requeued = queued_bytes = 0
    for table, place, _, size, _ in events:
        if queued_bytes >= most_bytes or (table != "outbox" and not _has_room(transaction, size)):
            break
        row = transaction.take_row(table, place)
        if row is not None:
            _, event_id, topic, payload, accepted, deadline = row[:6]
            _append_event(transaction, event_id, topic, payload, deadline - accepted, reason="requeued")
            requeued, queued_bytes = requeued + 1, queued_bytes + size
    return requeued


def _has_room(transaction: Transaction, size: int) -> bool:
    counters, limits = transaction.counters, transaction.limits
    return counters.rows["outbox"] < limits.outbox_rows and counters.sizes["outbox"] + size <= limits.outbox_bytes
