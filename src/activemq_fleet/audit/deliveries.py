"""Conclude from the records of agents' journals what became of every event: see docs/verdicts.md.

It is done in two passes over records that come by event: the first learns what of each publisher has reached each
subscriber (``reached_ranges``), the second judges every event by that (``outcomes_of``). Memory is that of one event,
and of what is learned: a few numbers for each publisher's epoch, topic and subscriber.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple

from activemq_fleet.audit import verdict_words as words
from activemq_fleet.audit.journals import OrderedRecord, SubscriptionChange, id_parts

Verdict = Literal["lost", "stuck", "indeterminate", "duplicate", "delivered"]
Stream = tuple[str, str, str]
"""A subscriber, and the agent and epoch that published: what one publisher has sent to one subscriber."""

_BARRIER = re.compile(words.BARRIER_TOPIC)
_PREFIX = re.compile("(?<=.)(/__barrier__)?/[^/]*$", re.DOTALL)
_PUBLISHED = frozenset(words.PUBLISHING)
_RECEIVED = frozenset((*words.RECEIVING, "barrier"))
_STATES = frozenset(("accepted", "acknowledged", "unconfirmed", "expired"))


class Delivery(NamedTuple):
    """A delivery to be judged: an event and a subscriber that was to get it, or got it."""

    event_id: str
    subscriber: str
    verdict: Verdict
    reason: str
    attempts: int


class Outcome(NamedTuple):
    """The verdict on an event; ``handled_by`` are the subscribers that handled the event, sorted."""

    event_id: str
    topic: str | None
    verdict: Verdict
    reason: str
    accepted: datetime | None
    handled: datetime | None
    handled_by: list[str]


@dataclass(slots=True)
class PublishedEvent:
    """An event as one agent publishes it, and its position among that agent's events.

    ``seq`` is None for an id that a caller chose. ``first`` and ``last``: the positions at which the event was
    accepted, and accepted again; ``state``: the last known one. The holes are the missing records before ``last`` and
    before the newest record. An agent that an event's id names, and whose journal does not mention the event, has a
    copy without further values.
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


@dataclass(slots=True)
class Receipt:
    """The records of one event in one subscriber's journal.

    ``came``: the number of records, barriers left out. ``place``: the position of the first record. ``received_hole``:
    the number of missing records before the first receipt, None without a receipt; ``open_hole``: the same before the
    last record that left the event unhandled.
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
class Event:
    """All records of one event. ``topic`` is the publishers' topic, or the subscribers' where no publisher's journal
    has it.
    """

    event_id: str
    topic: str | None
    is_barrier: bool
    accepted_at: datetime | None
    copies: list[PublishedEvent]
    receipts: list[Receipt]


@dataclass(slots=True)
class EventRange:
    """The smallest and largest SEQ and acceptance position of a set of events; None where no event has one.

    ``is_odd``: the acceptance of one of the events is not known.
    """

    min_seq: int | None = None
    max_seq: int | None = None
    min_first: int | None = None
    max_first: int | None = None
    is_odd: bool = False

    def add(self, other: EventRange | PublishedEvent) -> None:
        """Widen the extremes by other extremes, or by those of a copy."""
        if isinstance(other, PublishedEvent):
            other = EventRange(other.seq, other.seq, other.first, other.first, other.first is None)
        self.min_seq, self.max_seq = _least(self.min_seq, other.min_seq), _most(self.max_seq, other.max_seq)
        self.min_first, self.max_first = _least(self.min_first, other.min_first), _most(self.max_first, other.max_first)
        self.is_odd |= other.is_odd


class RangeKey(NamedTuple):
    """The set of events whose extremes are kept, by publisher's epoch and subscriber.

    ``era``: receipts between two changes of the subscriptions; ``number`` counts the changes before. ``topic``:
    receipts on a topic; ``barrier``: barriers of a prefix; there ``number`` counts the missing records before them, -1
    where unknown.
    """

    kind: Literal["era", "topic", "barrier"]
    stream: Stream
    name: str
    number: int


Reach = dict[RangeKey, EventRange]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber's filter; ``begin`` and ``end`` are positions in his journal, ``end`` is None while the filter is
    granted.
    """

    filter: str
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscriber's subscriptions, and the sorted positions at which any of them began or ended."""

    subscriptions: list[Subscription]
    changes: list[int]

    def era(self, place: int) -> int:
        """Return the number of changes of the subscriptions before a position."""
        return bisect_left(self.changes, place)


def subscribers_of(changes: Iterable[SubscriptionChange]) -> dict[str, Subscriber]:
    """Return all subscribers by name. A filter that is granted again continues the same durable subscription."""
    found: dict[str, Subscriber] = {}
    in_order = sorted(changes, key=lambda one: (one.subscriber, one.filter, one.place))
    for name, of_agent in groupby(in_order, key=lambda one: one.subscriber):
        subscriptions, places = list[Subscription](), set[int]()
        for wanted, of_filter in groupby(of_agent, key=lambda one: one.filter):
            begin: int | None = None
            for change in of_filter:
                if change.is_subscribed == (begin is not None):
                    continue
                places.add(change.place)
                if begin is not None:
                    subscriptions.append(Subscription(wanted, begin, change.place))
                begin = change.place if change.is_subscribed else None
            if begin is not None:
                subscriptions.append(Subscription(wanted, begin, None))
        found[name] = Subscriber(subscriptions, sorted(places))
    return found


# -- events ----------------------------------------------------------------------------------------


def events_of(records: Iterable[OrderedRecord]) -> Iterator[Event]:
    """Yield events with their records; records come ordered by event id, those of one event in any order."""
    for event_id, mine in groupby(records, key=lambda record: record.event_id):
        yield _event(event_id, list(mine))


def _event(event_id: str, records: list[OrderedRecord]) -> Event:
    own = id_parts(event_id)
    published, received = dict[str, list[OrderedRecord]](), dict[str, list[OrderedRecord]]()
    for record in sorted(records, key=lambda record: (record.agent, record.place)):
        if record.is_sent or record.kind in _PUBLISHED:
            published.setdefault(record.agent, []).append(record)
        elif record.kind in _RECEIVED:
            received.setdefault(record.agent, []).append(record)
    copies = [_copy(agent, mine, own) for agent, mine in published.items()]
    receipts = [_receipt(agent, mine) for agent, mine in received.items()]
    topic = _first(copy.topic for copy in copies) or _first(receipt.topic for receipt in receipts)
    if own and own[0] not in published:
        copies.append(PublishedEvent(*own, topic=topic))
    for copy in copies:
        copy.topic = copy.topic or topic
    return Event(
        event_id,
        topic,
        is_barrier=any(receipt.is_barrier for receipt in receipts)
        or any(record.is_sent or _is_barrier(record.topic) for mine in published.values() for record in mine),
        accepted_at=min(
            (r.ts for mine in published.values() for r in mine if r.kind == "accepted" and r.ts), default=None
        ),
        copies=copies,
        receipts=receipts,
    )


def _copy(agent: str, records: Sequence[OrderedRecord], own: tuple[str, str, int] | None) -> PublishedEvent:
    accepted = [record for record in records if record.kind == "accepted"]
    # Barriers of those who publish by other means than an agent's outbox are not accepted, only told of.
    taken = accepted or [record for record in records if record.is_sent]
    states = [record for record in records if record.kind in _STATES]
    is_own = own is not None and own[0] == agent
    copy = PublishedEvent(
        agent,
        own[1] if own and is_own else accepted[0].epoch if accepted else min(record.epoch for record in records),
        own[2] if own and is_own else None,
        _first(record.topic for record in accepted) or _first(record.topic for record in records),
        first=taken[0].place if taken else None,
    )
    if accepted:
        copy.last, copy.last_hole = accepted[-1].place, accepted[-1].hole
    if states:
        last = states[-1]
        copy.state = "dropped" if last.kind == "expired" and last.reason == "dropped" else last.kind
        copy.state_hole = last.hole
    return copy


def _receipt(subscriber: str, records: Sequence[OrderedRecord]) -> Receipt:
    receipt = Receipt(subscriber, records[0].place, _first(record.topic for record in records))
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
    return topic is not None and _BARRIER.search(topic) is not None


@lru_cache(1 << 12)
def _prefix(topic: str) -> str:
    """The prefix that an event's topic is proved by, or that a barrier's proves: all but the last level."""
    return _PREFIX.sub("", topic)


def _first(topics: Iterable[str | None]) -> str | None:
    """The least topic: of several it is always the same one."""
    return min((topic for topic in topics if topic is not None), default=None)


# -- what has reached whom -------------------------------------------------------------------------


def reached_ranges(
    events: Iterable[Event], subscribers: Mapping[str, Subscriber], missing: Mapping[str, int]
) -> Iterator[tuple[RangeKey, EventRange]]:
    """Yield the events of each publisher's epoch that reached each subscriber, as extremes.

    ``missing``: the number of missing records by agent. Extremes of parts of the events add up to those of all.
    """
    reach: Reach = {}
    for event in events:
        for receipt in event.receipts:
            for copy in event.copies:
                stream = receipt.subscriber, copy.agent, copy.epoch
                for key in _reached(event, receipt, copy, stream, subscribers, missing):
                    reach.setdefault(key, EventRange()).add(copy)
    yield from reach.items()


def _reached(
    event: Event,
    receipt: Receipt,
    copy: PublishedEvent,
    stream: Stream,
    subscribers: Mapping[str, Subscriber],
    missing: Mapping[str, int],
) -> Iterator[RangeKey]:
    if subscriber := subscribers.get(receipt.subscriber):
        yield RangeKey("era", stream, "", subscriber.era(receipt.place))
    hole = receipt.received_hole
    if receipt.is_barrier:
        # One that came on another topic than it was accepted for is forged, and none.
        if event.is_barrier and receipt.topic == copy.topic and copy.topic is not None:
            yield RangeKey("barrier", stream, _prefix(copy.topic), -1 if hole is None else hole)
    # Where nothing is missing nobody asks between which receipts an event would stand.
    elif hole is not None and copy.topic is not None and missing.get(receipt.subscriber) and _is_plain(copy):
        yield RangeKey("topic", stream, copy.topic, hole)


def _is_plain(copy: PublishedEvent) -> bool:
    """Whether it was accepted once: of events that were taken again the order at first receipt is not promised."""
    return copy.first is not None and copy.first == copy.last


# -- verdicts --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stream:
    """What has reached a subscriber of one publisher's epoch.

    ``eras``: extremes by era. ``topics`` and ``barriers``: by topic or prefix and by hole.
    """

    eras: dict[int, EventRange] = field(default_factory=dict)
    topics: dict[str, dict[int, EventRange]] = field(default_factory=dict)
    barriers: dict[str, dict[int, EventRange]] = field(default_factory=dict)

    def during(self, subscriber: Subscriber, subscription: Subscription) -> EventRange:
        """Return the extremes of the events that arrived during a subscription."""
        found = EventRange()
        begin = subscriber.era(subscription.begin)
        end = None if subscription.end is None else subscriber.era(subscription.end)
        for era, extremes in self.eras.items():
            if era > begin and (end is None or era <= end):
                found.add(extremes)
        return found


class Judge:
    """Judges events by the events before and after them that reached their subscribers."""

    def __init__(
        self,
        subscribers: Mapping[str, Subscriber],
        missing: Mapping[str, int],
        reach: Reach,
        subscribed_before_events: Collection[str] = (),
    ) -> None:
        """``missing``: how many records of each agent are missing. ``reach``: that of all events.

        ``subscribed_before_events``: the subscribers that are known to have subscribed to all events before the first.
        """
        self._subscribed_before_events = frozenset(subscribed_before_events)
        self._missing = missing
        self._streams: dict[tuple[str, str], dict[str, _Stream]] = {}
        for key, extremes in reach.items():
            name, agent, epoch = key.stream
            stream = self._streams.setdefault((agent, epoch), {}).setdefault(name, _Stream())
            if key.kind == "era":
                stream.eras[key.number] = extremes
            else:
                by_hole = stream.topics if key.kind == "topic" else stream.barriers
                by_hole.setdefault(key.name, {})[key.number] = extremes
        self._lasting = {
            (publisher, name): [
                (one.filter, one.end is None, stream.during(subscribers[name], one))
                for one in subscribers[name].subscriptions
            ]
            for publisher, streams in self._streams.items()
            for name, stream in streams.items()
            if name in subscribers
        }

    def outcomes_of(self, events: Iterable[Event]) -> Iterator[tuple[Outcome | None, list[Delivery]]]:
        """Yield the outcome of each event (None for a barrier) and its deliveries."""
        for event in events:
            units = [self._by_receipt(event, one) for one in event.receipts if one.came and not one.is_barrier]
            if event.is_barrier:
                yield None, units
                continue
            units += self._missed(event)
            worst = min(units, key=_gravity, default=None)
            yield (
                Outcome(
                    event.event_id,
                    event.topic,
                    worst.verdict if worst else "indeterminate",
                    worst.reason if worst else words.NOBODY,
                    event.accepted_at,
                    min((one.handled_at for one in event.receipts if one.handled_at), default=None),
                    sorted(one.subscriber for one in event.receipts if one.handled),
                ),
                units,
            )

    def _by_receipt(self, event: Event, receipt: Receipt) -> Delivery:
        """Judge by the subscriber's own records. A gap before a receipt cannot hide that it was handled later."""
        verdict: Verdict
        if receipt.handled > 1:
            verdict, reason = "duplicate", f"handled {receipt.handled} times"
        elif receipt.handled:
            verdict, reason = "delivered", words.HANDLED
        elif receipt.quarantined:
            verdict, reason = "delivered", words.QUARANTINED
        elif self._missing.get(receipt.subscriber, 0) > receipt.open_hole:
            verdict, reason = "indeterminate", words.SUBSCRIBER_GAP
        else:
            verdict, reason = "stuck", words.NOT_HANDLED
        return Delivery(event.event_id, receipt.subscriber, verdict, reason, receipt.attempts)

    def _missed(self, event: Event) -> Iterator[Delivery]:
        """Yield the units of subscribers that were to get the event and have no record of it.

        Of an event that several agents publish the worst counts, as long as nothing of it has come.
        """
        has_it = {receipt.subscriber for receipt in event.receipts if receipt.came}
        found: dict[str, Delivery] = {}
        for copy in event.copies:
            streams = self._streams.get((copy.agent, copy.epoch), {})
            for name in streams.keys() | self._subscribed_before_events:
                stream = streams.get(name, _Stream())
                if copy.topic is not None and name not in has_it and self._is_expected(copy, name):
                    reason = self._reason(copy, copy.topic, name, stream)
                    unit = Delivery(event.event_id, name, _verdict_of(reason), reason, 0)
                    found[name] = min(found.get(name, unit), unit, key=_gravity)
        yield from found.values()

    def _is_expected(self, copy: PublishedEvent, name: str) -> bool:
        """Whether something earlier of the epoch came while a subscription to the topic lasted, or lasted no longer."""
        assert copy.topic is not None  # noqa: S101 -- for the type alone
        if name in self._subscribed_before_events:
            return True
        for wanted, is_open, came in self._lasting.get(((copy.agent, copy.epoch), name), ()):
            is_earlier = _is_below(came.min_seq, copy.seq) or _is_below(came.min_first, copy.first)
            is_later = _is_above(came.max_seq, copy.seq) or _is_above(came.max_first, copy.first)
            if is_earlier and (is_open or is_later) and matches(wanted, copy.topic):
                return True
        return False

    def _reason(self, copy: PublishedEvent, topic: str, name: str, stream: _Stream) -> str:
        """Say why an expected event is not there. What records that are missing may hide is said first."""
        if copy.last is None:
            return words.NO_ACCEPTANCE
        is_acked = copy.state in ("acknowledged", "unconfirmed")
        is_hidden = copy.state not in ("acknowledged", "dropped") and (
            self._missing.get(copy.agent, 0) > copy.state_hole
        )
        if is_hidden or (is_acked and copy.state_hole > copy.last_hole):
            return words.PUBLISHER_GAP
        by_seq = copy.seq is not None and copy.first == copy.last
        barriers = stream.barriers.get(_prefix(topic), {})
        barrier_hole = _hole_of_later(barriers, copy.seq if by_seq else copy.last, by_seq=by_seq)
        missing = self._missing.get(name, 0)
        low, high = _bounds(stream.topics.get(topic, {}), copy, missing)
        if min(high, missing if barrier_hole is None else barrier_hole) > low:
            return words.SUBSCRIBER_GAP
        if is_acked and barrier_hole is None and missing > low:
            return words.SUBSCRIBER_GAP
        if not is_acked:
            return {"accepted": words.NEVER_ACKNOWLEDGED, "expired": words.EXPIRED, "dropped": words.DROPPED}[
                copy.state
            ]
        if barrier_hole is not None:
            return words.BARRIER_CAME
        # A barrier that came, and of whose acceptance nothing is known, may have been earlier or later.
        is_odd = not by_seq and any(extremes.is_odd for extremes in barriers.values())
        return words.PUBLISHER_GAP if is_odd else words.NO_BARRIER


def _hole_of_later(barriers: Mapping[int, EventRange], at: int | None, *, by_seq: bool) -> int | None:
    """Return what was missing before the first barrier that came and is later than an event; None without one."""
    later = [
        hole
        for hole, extremes in barriers.items()
        if hole >= 0 and _is_above(extremes.max_seq if by_seq else extremes.max_first, at)
    ]
    return min(later, default=None)


def _bounds(by_hole: Mapping[int, EventRange], copy: PublishedEvent, missing: int) -> tuple[int, int]:
    """Return what was missing before the receipts between which this one would stand."""
    if not _is_plain(copy):
        return 0, missing
    low = max((hole for hole, one in by_hole.items() if _is_below(one.min_first, copy.first)), default=0)
    later = (
        hole for hole, one in by_hole.items() if one.max_first is not None and _is_below(copy.first, one.max_first)
    )
    return low, min(later, default=missing)


def _verdict_of(reason: str) -> Verdict:
    if reason in (words.DROPPED, words.BARRIER_CAME):
        return "lost"
    return "stuck" if reason in (words.NEVER_ACKNOWLEDGED, words.EXPIRED, words.NO_BARRIER) else "indeterminate"


def _gravity(unit: Delivery) -> tuple[int, str]:
    return words.WORST.index(unit.verdict), unit.reason


@lru_cache(1 << 14)
def matches(wanted: str, topic: str) -> bool:
    """Return whether a filter matches a topic (MQTT 3.1.1, section 4.7)."""
    filters, levels = wanted.split("/"), topic.split("/")
    if "#" in filters:
        filters = filters[: filters.index("#")]
        levels, is_long = levels[: len(filters)], len(levels) >= len(filters)
        if not is_long:
            return False
    return len(filters) == len(levels) and all(one in ("+", level) for one, level in zip(filters, levels, strict=True))


def _is_below(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def _is_above(one: int | None, other: int | None) -> bool:
    """Whether one is as large as the other, or larger."""
    return one is not None and other is not None and one >= other


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
