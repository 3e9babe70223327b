"""Operations on the inbox within a transaction: receive a message, hand it to handlers, record it as handled."""

from __future__ import annotations

from activemq_agent.errors import Refused
from activemq_agent.identity import id_in
from activemq_agent.store.outbox import size_of
from activemq_agent.store.rows import UNREADABLE, Incoming, Receipt, checksum
from activemq_agent.store.transaction import Transaction

MESSAGE_COLUMNS = "rx, event_id, topic, payload, received, sum, attempts"
MessageWithChecksum = tuple[int, str | None, str, bytes, float, bytes]
MessageRow = tuple[int, str | None, str, bytes, float, bytes, int]
"""A row of ``inbox`` or ``quarantine``: rx, event id, topic, payload, received, checksum, attempts."""


def matches(topic_filter: str, topic: str) -> bool:
    """Return whether an MQTT filter matches a topic (MQTT 3.1.1, section 4.7; ``a/#`` matches ``a`` too)."""
    wanted = topic_filter.split("/")
    levels = topic.split("/", len(wanted))  # one more than is wanted: a topic may have 65,535
    for number, level in enumerate(wanted):
        if level == "#":
            return True
        if number >= len(levels) or level not in ("+", levels[number]):
            return False
    return len(wanted) == len(levels)


def lane_of(topic: str, filters: tuple[str, ...]) -> str:
    """Return a topic's lane, which has a bound of its own in the inbox: the first matching filter, else the topic."""
    return next((one for one in filters if matches(one, topic)), topic)


def received(
    transaction: Transaction, topic: str, payload: bytes, broker: str, conn: int, head: bool = True
) -> Receipt:
    """Store a message unless its event id is known or there is no room; the receipt returned says which.

    A lane that had no room takes nothing until its oldest message that was not stored is offered again with ``head``:
    a caller that has offered several at once would otherwise see a later message stored before an earlier one.
    """
    counters, limits = transaction.counters, transaction.limits
    event_id = id_in(payload)
    if event_id is not None and _is_known(transaction, event_id):
        transaction.record("duplicate", event_id=event_id, topic=topic, broker=broker, conn=conn)
        counters.duplicates += 1
        return Receipt(0, event_id, duplicate=True)
    size, lane = size_of(topic, payload), lane_of(topic, limits.filters)
    if head:
        counters.barred.discard(lane)
    if (
        lane in counters.barred
        or counters.inbox_rows + counters.quarantined >= limits.inbox_rows
        or counters.inbox_bytes + counters.quarantined_bytes + size > limits.inbox_bytes
        or counters.lanes[lane] >= limits.topic_rows
    ):
        counters.barred.add(lane)
        return Receipt(0, event_id, full=True)
    counters.rx += 1
    row = (*with_checksum("inbox", counters.rx, event_id, topic, payload, transaction.now), 0, lane)
    transaction.db.execute("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    counters.inbox_rows += 1
    counters.inbox_bytes += size
    counters.lanes[lane] += 1
    transaction.record(
        "received", topic=topic, broker=broker, conn=conn, **identity(transaction, counters.rx, event_id)
    )
    return Receipt(counters.rx, event_id)


def identity(transaction: Transaction, rx: int, event_id: str | None) -> dict[str, str]:
    """Return a message's identity for a journal record: ``event_id``, or ``rx_id`` for a message without an id."""
    return {"event_id": event_id} if event_id is not None else {"rx_id": transaction.counters.rx_id(rx)}


def _is_known(transaction: Transaction, event_id: str) -> bool:
    query = "SELECT 1 FROM inbox WHERE event_id = ? UNION ALL SELECT 1 FROM remembered WHERE event_id = ?"
    return transaction.db.execute(query, (event_id, event_id)).fetchone() is not None


def with_checksum(
    table: str, rx: int, event_id: str | None, topic: str, payload: bytes, received_at: float
) -> MessageWithChecksum:
    """Return the columns of a message's row in ``inbox`` or ``quarantine`` that never change, with their checksum."""
    values = (rx, event_id, topic, payload, float(received_at))
    return (*values, checksum(table, *values))


def is_whole(table: str, row: MessageRow) -> bool:
    """Return whether a message's row matches its checksum for this table; attempts are not covered."""
    try:
        return with_checksum(table, *row[:5]) == tuple(row[:6])
    except UNREADABLE:
        return False


def incoming(row: MessageRow, rx_id: str) -> Incoming:
    """Return a row of the inbox as the object that handlers are given."""
    return Incoming(row[0], row[1], rx_id, row[2], row[3], row[6])


def handling(transaction: Transaction, rx: int) -> int:
    """Record that a handler begins with a message; return which attempt it is, from 1.

    Raises Refused if the message is not in the inbox.
    """
    row = transaction.db.execute(
        "UPDATE inbox SET attempts = attempts + 1 WHERE rx = ? RETURNING attempts, event_id, topic", (rx,)
    ).fetchone()
    if row is None:
        raise Refused(f"message {rx} is not in the inbox: it was handled or quarantined")
    transaction.record("handling", topic=row[2], **identity(transaction, rx, row[1]))
    return int(row[0])


def handled(transaction: Transaction, rx: int) -> None:
    """Remove a message whose handlers have ended well and remember its event id, so that a copy counts as a duplicate.

    Raises Refused if the message is not in the inbox, or damaged.
    """
    row = _take(transaction, rx)
    transaction.record("handled", topic=row[2], **identity(transaction, rx, row[1]))
    _remember(transaction, row[1])


def quarantine(transaction: Transaction, rx: int, reason: str) -> None:
    """Move a message from the inbox to the quarantine for good, where people can look at it.

    A copy counts as a duplicate. Raises Refused if the message is not in the inbox, or damaged.
    """
    row = _take(transaction, rx)
    kept = (*with_checksum("quarantine", *row[:5]), row[6], reason)
    transaction.db.execute("INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kept)
    transaction.counters.quarantined += 1
    transaction.counters.quarantined_bytes += size_of(row[2], row[3])
    transaction.record("quarantined", topic=row[2], reason=reason, **identity(transaction, rx, row[1]))
    _remember(transaction, row[1])


def _take(transaction: Transaction, rx: int) -> MessageRow:
    found = transaction.db.execute(f"SELECT {MESSAGE_COLUMNS}, lane FROM inbox WHERE rx = ?", (rx,)).fetchone()  # noqa: S608
    if found is None:
        raise Refused(f"message {rx} is not in the inbox: it was handled or quarantined")
    row: MessageRow = found[:-1]
    if not is_whole("inbox", row):
        raise Refused(f"message {rx} is damaged on the disk: restart the agent, which sets it aside")
    transaction.db.execute("DELETE FROM inbox WHERE rx = ?", (rx,))
    counters, lane = transaction.counters, found[-1]
    counters.inbox_rows -= 1
    counters.inbox_bytes -= size_of(row[2], row[3])
    counters.lanes[lane] -= 1
    if not counters.lanes[lane]:
        del counters.lanes[lane]
    return row


def _remember(transaction: Transaction, event_id: str | None) -> None:
    if event_id is None:
        return
    values = (event_id, transaction.now)
    transaction.db.execute(
        "INSERT OR IGNORE INTO remembered (event_id, at, sum) VALUES (?, ?, ?)",
        (*values, checksum("remembered", *values)),
    )


FORGOTTEN_AT_ONCE = 2000


def forget(transaction: Transaction) -> int:
    """Delete ids older than ``limits.remember``, at most 2000 per table; return how many were deleted."""
    forgotten = 0
    for table in ("remembered", "accepted_ids"):
        rows = transaction.db.execute(
            f"SELECT n, event_id, at, sum FROM {table} ORDER BY n LIMIT {FORGOTTEN_AT_ONCE}"  # noqa: S608 -- constants
        ).fetchall()
        old = (
            n for n, *row in rows if row[1] <= transaction.now - transaction.limits.remember and known_id(table, *row)
        )
        last = max(old, default=None)
        if last is not None:
            cursor = transaction.db.execute(f"DELETE FROM {table} WHERE n <= ?", (last,))  # noqa: S608 -- the same
            forgotten += cursor.rowcount
    return forgotten


def known_id(table: str, event_id: str, at: float, found: bytes) -> bool:
    """Return whether a row of table ``remembered`` or ``accepted_ids`` (event ids) matches its checksum."""
    try:
        return checksum(table, event_id, float(at)) == found
    except UNREADABLE:
        return False
