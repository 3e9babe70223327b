"""Operations on the outbox within a transaction: accept, send, acknowledge, expire, re-queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from activemq_agent.errors import Full, Refused
from activemq_agent.identity import EventId, check_id, id_in
from activemq_agent.printable import counted
from activemq_agent.store.rows import UNREADABLE, Outgoing, Sent, checksum
from activemq_agent.store.schema import EVENT_COLUMNS
from activemq_agent.store.transaction import Transaction

Values = tuple[int, str, str, bytes, float, float]
EventRow = tuple[int, str, str, bytes, float, float, bytes]
"""A row of ``EVENT_COLUMNS``: place, event id, topic, payload, accepted, deadline, checksum."""

LONGEST_TOPIC = 65535


def check_event(topic: str, payload: bytes, event_id: str | None) -> str | None:
    """Return the caller's own event id, from the argument or the payload's ``eventId``; None if there is none.

    Raises Refused for a topic, payload or id that cannot be published.
    """
    size = len(topic.encode(errors="replace"))
    if not 0 < size <= LONGEST_TOPIC or any(c in topic for c in "+#\0") or not topic.isprintable():
        raise Refused(f"{topic[:80]!r} is no topic to publish to: 1 to {LONGEST_TOPIC} bytes, printable, no + and no #")
    if not isinstance(payload, bytes):
        raise Refused(f"a payload is bytes, not {type(payload).__name__}")
    inside = id_in(payload)
    if event_id is None:
        return inside
    if inside not in (None, event_id):
        raise Refused(f"the payload's eventId is {inside!r}, but id {event_id!r} was asked for: give one of them")
    return check_id(event_id)


def accept(transaction: Transaction, topic: str, payload: bytes, event_id: str | None, timeout: float | None) -> str:
    """Put an event into the outbox and return its event id; for an id that was accepted before nothing is stored.

    Raises Full when the outbox has no room, Refused for an id that the agent itself will give to a later event.
    """
    counters = transaction.counters
    if event_id is not None and _was_accepted(transaction, event_id):
        return event_id
    if not _has_room(transaction, size_of(topic, payload)):
        raise Full(
            f"the outbox is full ({counted(counters.outbox_rows, 'event')}, {counted(counters.outbox_bytes, 'byte')}): "
            "the event was not taken; try again when a broker is back"
        )
    if event_id is None:
        counters.seq += 1
        accepted_as = f"{counters.agent}:{counters.epoch}:{counters.seq}"
    else:
        accepted_as = event_id
        row = (event_id, transaction.now, checksum("accepted_ids", event_id, transaction.now))
        transaction.db.execute("INSERT INTO accepted_ids (event_id, at, sum) VALUES (?, ?, ?)", row)
    deadline = transaction.now + (transaction.limits.timeout if timeout is None else timeout)
    _put(transaction, accepted_as, topic, payload, transaction.now, deadline)
    transaction.record("accepted", event_id=accepted_as, topic=topic)
    return accepted_as


def _was_accepted(transaction: Transaction, event_id: str) -> bool:
    if transaction.db.execute("SELECT 1 FROM accepted_ids WHERE event_id = ?", (event_id,)).fetchone():
        return True
    try:
        own = EventId.parse(event_id)
    except ValueError:
        return False
    if (own.agent, str(own.epoch)) != (transaction.counters.agent, transaction.counters.epoch):
        return False
    if own.seq > transaction.counters.seq:
        raise Refused(f"{event_id} is an id that this agent will give to an event by itself: choose another")
    return True


def _put(transaction: Transaction, event_id: str, topic: str, payload: bytes, accepted: float, deadline: float) -> None:
    """Append an event to the outbox."""
    counters = transaction.counters
    counters.place += 1
    _insert(transaction, "outbox", (counters.place, event_id, topic, payload, accepted, deadline))


def size_of(topic: str, payload: bytes) -> int:
    """Return the bytes that an event or a message counts for: those of its topic and its payload."""
    return len(topic.encode()) + len(payload)


def with_checksum(
    table: str, place: int, event_id: str, topic: str, payload: bytes, accepted: float, deadline: float
) -> EventRow:
    """Return a row of a table of events, with its checksum."""
    values = (place, event_id, topic, payload, float(accepted), float(deadline))
    return (*values, checksum(table, *values))


def is_whole(table: str, row: EventRow) -> bool:
    """Return whether an event's row matches its checksum for this table."""
    try:
        return with_checksum(table, *row[:6]) == tuple(row)
    except UNREADABLE:
        return False


def outgoing(row: EventRow, attempts: int) -> Outgoing:
    """Return a row of the outbox as the object that the publisher is given."""
    return Outgoing(row[0], row[1], row[2], row[3], attempts)


def sent(transaction: Transaction, events: Sequence[Sent]) -> None:
    """Write a journal record for each event that was sent."""
    for event in events:
        row = transaction.db.execute("SELECT event_id, topic FROM outbox WHERE place = ?", (event.seq,)).fetchone()
        if row:
            transaction.record(
                "sent", event_id=row[0], topic=row[1], broker=event.broker, conn=event.conn, mid=event.mid
            )


def acknowledged(transaction: Transaction, places: Iterable[int], proved: bool, sent_as: dict[int, Sent]) -> None:
    """Process PUBACKs: delete events whose topic prefix is proved to work, keep the others as unconfirmed."""
    for place in places:
        for table in ("outbox", "expired"):
            event = _take(transaction, table, place)
            if event is not None:
                _puback(transaction, event, proved, sent_as.get(place))
                break


def _puback(transaction: Transaction, event: EventRow, proved: bool, wire: Sent | None) -> None:
    transaction.record(
        "acknowledged" if proved else "unconfirmed",
        event_id=event[1],
        topic=event[2],
        **({"broker": wire.broker, "conn": wire.conn, "mid": wire.mid} if wire else {}),
    )
    if not proved:
        _keep_unconfirmed(transaction, event, wire.conn if wire else 0)


def _take(transaction: Transaction, table: str, place: int) -> EventRow | None:
    """Delete and return a row of ``outbox``, ``expired`` or ``unconfirmed``; None if it is not there, or damaged."""
    row: EventRow | None = transaction.db.execute(
        f"SELECT {EVENT_COLUMNS} FROM {table} WHERE place = ?",  # noqa: S608 -- one of three names
        (place,),
    ).fetchone()
    if row is None or not is_whole(table, row):
        return None
    transaction.db.execute(f"DELETE FROM {table} WHERE place = ?", (place,))  # noqa: S608 -- the same
    _count(transaction, table, -1, row)
    return row


def _insert(transaction: Transaction, table: str, values: Values) -> None:
    row = with_checksum(table, *values)
    marks = "?, ?, ?, ?, ?, ?, ?"
    transaction.db.execute(f"INSERT INTO {table} ({EVENT_COLUMNS}) VALUES ({marks})", row)  # noqa: S608 -- one of three names
    _count(transaction, table, 1, row)


def _count(transaction: Transaction, table: str, sign: int, row: EventRow) -> None:
    size = sign * size_of(row[2], row[3])
    counters = transaction.counters.__dict__
    counters[f"{table}_rows"] += sign
    counters[f"{table}_bytes"] += size


def _keep_unconfirmed(transaction: Transaction, row: EventRow, conn: int) -> None:
    counters, limits = transaction.counters, transaction.limits
    _insert(transaction, "unconfirmed", row[:6])
    transaction.db.execute("UPDATE unconfirmed SET conn = ? WHERE place = ?", (conn, row[0]))
    # What has a PUBACK may go, and on a prefix that is never proved it has to: the oldest first.
    while counters.unconfirmed_rows > limits.unconfirmed_rows or counters.unconfirmed_bytes > limits.unconfirmed_bytes:
        oldest = transaction.db.execute("SELECT min(place) FROM unconfirmed").fetchone()[0]
        if _take(transaction, "unconfirmed", oldest) is None:
            break
        counters.unconfirmed_dropped += 1


def prove(transaction: Transaction, prefix: str, conn: int) -> int:
    """Delete the unconfirmed events below topic ``prefix`` that connection ``conn`` got acknowledged; return how many.

    Called when the prefix's canary (test message) came back, which confirms them.
    """
    confirmed = 0
    rows = transaction.db.execute("SELECT place, event_id, topic FROM unconfirmed WHERE conn = ?", (conn,)).fetchall()
    for place, event_id, topic in rows:
        below = topic == prefix or topic.startswith(prefix.rstrip("/") + "/") or prefix == ""
        if below and _take(transaction, "unconfirmed", place) is not None:
            transaction.record("acknowledged", event_id=event_id, topic=topic, conn=conn)
            confirmed += 1
    return confirmed


_SIZE = "length(CAST(topic AS BLOB)) + length(payload)"


def expire(transaction: Transaction) -> int:
    """Move events whose deadline is over from the outbox to the expired ones, or drop them; return how many.

    Without room among the expired ones, the rest stays in the outbox, unsent.
    """
    found = 0
    limits, counters = transaction.limits, transaction.counters
    due = transaction.db.execute(
        f"SELECT place, {_SIZE} FROM outbox WHERE deadline <= ? ORDER BY place",  # noqa: S608 -- a constant
        (transaction.now,),
    ).fetchall()
    for place, size in due:
        fits = counters.expired_rows < limits.expired_rows and counters.expired_bytes + size <= limits.expired_bytes
        if not (fits or limits.drop_expired):
            break
        row = _take(transaction, "outbox", place)
        if row is None:
            continue
        if not limits.drop_expired:
            _insert(transaction, "expired", row[:6])
        transaction.record("expired", event_id=row[1], topic=row[2], reason="dropped" if limits.drop_expired else None)
        found += 1
    return found


def requeue(transaction: Transaction, event_ids: Sequence[str] | None) -> int:
    """Put expired events back into the outbox with the same ids: all, or those named; return how many fitted.

    Unconfirmed events may be named too. Raises Refused, and re-queues nothing, for an id of neither kind.
    """
    rows = _kept_apart(transaction, "expired")
    if event_ids is not None:
        wanted = set(event_ids)
        rows = [row for row in rows + _kept_apart(transaction, "unconfirmed") if row[2] in wanted]
        missing = wanted - {row[2] for row in rows}
        if missing:
            raise Refused(f"neither expired nor unconfirmed: {', '.join(sorted(missing)[:5])}: nothing was re-queued")
    done = 0
    for table, place, _, size in rows:
        if not _has_room(transaction, size):
            break
        row = _take(transaction, table, place)
        if row is None:
            continue
        _put(transaction, row[1], row[2], row[3], transaction.now, transaction.now + (row[5] - row[4]))
        transaction.record("accepted", event_id=row[1], topic=row[2], reason="requeued")
        done += 1
    return done


def _kept_apart(transaction: Transaction, table: str) -> list[tuple[str, int, str, int]]:
    """Return (table, place, event id, size) of each row of ``expired`` or ``unconfirmed``, oldest first."""
    query = f"SELECT place, event_id, {_SIZE} FROM {table} ORDER BY place"  # noqa: S608 -- one of two names
    return [(table, *row) for row in transaction.db.execute(query)]


def _has_room(transaction: Transaction, size: int) -> bool:
    counters, limits = transaction.counters, transaction.limits
    return counters.outbox_rows < limits.outbox_rows and counters.outbox_bytes + size <= limits.outbox_bytes
