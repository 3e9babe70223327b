"""Group the records of agents' journals by event: what publishers wrote about it, and what subscribers wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby

from activemq_fleet.agent_topics import is_barrier_topic
from activemq_fleet.audit import verdict_words as words
from activemq_fleet.audit.journals import EventRecordWithJournalPosition, parse_event_id

_PUBLISHED = frozenset(words.PUBLISHING)
_RECEIVED = frozenset((*words.RECEIVING, "barrier"))
_STATES = frozenset(("accepted", "acknowledged", "unconfirmed", "expired"))


@dataclass(slots=True)
class PublishedEvent:
    """An event that an agent published, as the agent's journal shows it.

    It has the positions of its records in the journal. ``seq`` is None for an id that a caller chose. ``first`` and
    ``last``: the positions at which the event was accepted, and accepted again; ``state``: the last known one. The
    holes are the missing records before ``last`` and before the newest record. ``is_sent_without_id``: the agent sent
    the event at least once in a payload that does not carry the event id. An agent that an event's id names, and whose
    journal does not mention the event, has a copy without further values.
    """

    agent: str
    epoch: str
    seq: int | None
    topic: str | None
    first: int | None = None
    last: int | None = None
    last_hole: int = 0
    state: str = ""
    state_hole: int = 0
    is_sent_without_id: bool = False

    @property
    def is_accepted_once_by_publishing_agent(self) -> bool:
        """Whether the agent that publishes the event accepted it from its application exactly once.

        The order of events that an agent accepted again is not promised.
        """
        return self.first is not None and self.first == self.last


@dataclass(slots=True)
class EventReceipt:
    """The receipt of one event by one subscriber.

    It is a summary of the event's records in the subscriber's journal. ``came``: the number of records, barriers left
    out. ``place``: the position of the first record. ``received_hole``: the number of missing records before the first
    receipt, None without a receipt; ``open_hole``: the same before the last record that left the event unhandled.
    """

    subscriber: str
    place: int
    topic: str | None = None
    came: int = 0
    handled: int = 0
    quarantined: int = 0
    attempts: int = 0
    received_hole: int | None = None
    open_hole: int = 0
    handled_at: datetime | None = None
    is_barrier: bool = False


@dataclass(slots=True)
class EventWithJournalRecords:
    """An event with the records about it in the event journals of all agents.

    ``topic`` is the publisher's, else the subscribers'.
    """

    event_id: str
    topic: str | None
    is_barrier: bool
    accepted_at: datetime | None
    copies: list[PublishedEvent]
    receipts: list[EventReceipt]


def events_from_records(records: Iterable[EventRecordWithJournalPosition]) -> Iterator[EventWithJournalRecords]:
    """Yield the events that records of agents' event journals describe.

    The records must be ordered by event id; the records of one event may come in any order.
    """
    for event_id, records_of_event in groupby(records, key=lambda record: record.event_id):
        yield _build_event(event_id, list(records_of_event))


def _build_event(event_id: str, records: list[EventRecordWithJournalPosition]) -> EventWithJournalRecords:
    parts_of_id = parse_event_id(event_id)
    published, received = (
        dict[str, list[EventRecordWithJournalPosition]](),
        dict[str, list[EventRecordWithJournalPosition]](),
    )
    for record in sorted(records, key=lambda record: (record.agent, record.place)):
        if record.is_sent or record.kind in _PUBLISHED:
            published.setdefault(record.agent, []).append(record)
        elif record.kind in _RECEIVED:
            received.setdefault(record.agent, []).append(record)
    copies = [_build_copy(agent, agent_records, parts_of_id) for agent, agent_records in published.items()]
    receipts = [_build_receipt(agent, agent_records) for agent, agent_records in received.items()]
    topic = _first_topic(copy.topic for copy in copies) or _first_topic(receipt.topic for receipt in receipts)
    if parts_of_id and parts_of_id[0] not in published:
        copies.append(PublishedEvent(*parts_of_id, topic=topic))
    for copy in copies:
        copy.topic = copy.topic or topic
    return EventWithJournalRecords(
        event_id,
        topic,
        is_barrier=any(receipt.is_barrier for receipt in receipts)
        or any(
            record.is_sent or _is_barrier(record.topic)
            for agent_records in published.values()
            for record in agent_records
        ),
        accepted_at=min(
            (r.ts for agent_records in published.values() for r in agent_records if r.kind == "accepted" and r.ts),
            default=None,
        ),
        copies=copies,
        receipts=receipts,
    )


def _build_copy(
    agent: str, records: Sequence[EventRecordWithJournalPosition], parts_of_id: tuple[str, str, int] | None
) -> PublishedEvent:
    accepted = [record for record in records if record.kind == "accepted"]
    # Publishers without an outbox record only that they sent a barrier, not that they accepted it.
    acceptance_records = accepted or [record for record in records if record.is_sent]
    states = [record for record in records if record.kind in _STATES]
    is_named_by_id = parts_of_id is not None and parts_of_id[0] == agent
    copy = PublishedEvent(
        agent,
        parts_of_id[1]
        if parts_of_id and is_named_by_id
        else accepted[0].epoch
        if accepted
        else min(record.epoch for record in records),
        parts_of_id[2] if parts_of_id and is_named_by_id else None,
        _first_topic(record.topic for record in accepted) or _first_topic(record.topic for record in records),
        first=acceptance_records[0].place if acceptance_records else None,
        is_sent_without_id=any(record.reason == words.WITHOUT_ID for record in records),
    )
    if accepted:
        copy.last, copy.last_hole = accepted[-1].place, accepted[-1].hole
    if states:
        last = states[-1]
        copy.state = "dropped" if last.kind == "expired" and last.reason == "dropped" else last.kind
        copy.state_hole = last.hole
    return copy


def _build_receipt(subscriber: str, records: Sequence[EventRecordWithJournalPosition]) -> EventReceipt:
    receipt = EventReceipt(subscriber, records[0].place, _first_topic(record.topic for record in records))
    for record in records:
        kind = record.kind
        receipt.came += kind != "barrier"
        receipt.handled += kind == "handled"
        receipt.quarantined += kind == "quarantined"
        receipt.attempts += kind == "handling"
        receipt.is_barrier |= kind == "barrier" or _is_barrier(record.topic)
        if kind in ("received", "barrier") and receipt.received_hole is None:
            receipt.received_hole = record.hole
        if kind in ("received", "handling"):
            receipt.open_hole = record.hole
        if kind == "handled" and record.ts is not None:
            receipt.handled_at = min(receipt.handled_at or record.ts, record.ts)
    return receipt


@lru_cache(1 << 12)
def _is_barrier(topic: str | None) -> bool:
    return topic is not None and is_barrier_topic(topic)


def _first_topic(topics: Iterable[str | None]) -> str | None:
    """Return the least topic of the records about an event, so that their order does not matter."""
    return min((topic for topic in topics if topic is not None), default=None)
