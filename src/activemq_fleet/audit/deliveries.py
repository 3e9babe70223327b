"""Conclude from the records of agents' journals whether each event was delivered: see docs/verdicts.md.

It is done in two passes over records that come by event: the first learns what of each publisher has reached each
subscriber (``reached_ranges``), the second judges every event by that (``outcomes_of``). Memory is that of one event,
and of what is learned: a few numbers for each publisher's epoch, topic and subscriber.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from activemq_fleet.audit import verdict_words as words
from activemq_fleet.audit.event_records import Event, PublishedEvent, Receipt
from activemq_fleet.audit.reached_ranges import EventRange, Reach, Subscriber, Subscription, proved_prefix

Verdict = Literal["lost", "stuck", "indeterminate", "duplicate", "delivered"]


class Delivery(NamedTuple):
    """The delivery of an event to one subscriber, who should receive it or has received it."""

    event_id: str
    subscriber: str
    verdict: Verdict
    reason: str
    attempts: int


class Outcome(NamedTuple):
    """The verdict on an event over all its subscribers; ``handled_by`` names the subscribers
    that handled it, sorted.
    """

    event_id: str
    topic: str | None
    verdict: Verdict
    reason: str
    accepted: datetime | None
    handled: datetime | None
    handled_by: list[str]


@dataclass(frozen=True, slots=True)
class _Stream:
    """What has reached a subscriber of one publisher's epoch.

    ``eras``: extremes by era. ``topics`` and ``barriers``: by topic or prefix and by hole.
    """

    eras: dict[int, EventRange] = field(default_factory=dict)
    topics: dict[str, dict[int, EventRange]] = field(default_factory=dict)
    barriers: dict[str, dict[int, EventRange]] = field(default_factory=dict)

    def during(self, subscriber: Subscriber, subscription: Subscription) -> EventRange:
        """Return the smallest and largest SEQ and position of the events that arrived during a subscription."""
        found = EventRange()
        begin = subscriber.changes_before(subscription.begin)
        end = None if subscription.end is None else subscriber.changes_before(subscription.end)
        for era, extremes in self.eras.items():
            if era > begin and (end is None or era <= end):
                found.merge(extremes)
        return found


class Judge:
    """A judge of events' delivery: compares each event with other events and barriers of its publisher that arrived."""

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
        """Yield for each event its outcome (None for a barrier) and its deliveries to subscribers."""
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
            if came.begins_before(copy) and (is_open or came.reaches(copy)) and filter_matches(wanted, copy.topic):
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
        barriers = stream.barriers.get(proved_prefix(topic), {})
        barrier_hole = _hole_of_later(barriers, (copy.seq if by_seq else None) or copy.last, by_seq=by_seq)
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


def _hole_of_later(barriers: Mapping[int, EventRange], at: int, *, by_seq: bool) -> int | None:
    """Return what was missing before the first barrier that came and is later than an event; None without one."""
    later = [
        hole
        for hole, extremes in barriers.items()
        if hole >= 0 and (extremes.max_seq if by_seq else extremes.max_first) >= at
    ]
    return min(later, default=None)


def _bounds(by_hole: Mapping[int, EventRange], copy: PublishedEvent, missing: int) -> tuple[int, int]:
    """Return what was missing before the receipts between which this one would stand."""
    if copy.first is None or copy.first != copy.last:
        return 0, missing
    low = max((hole for hole, one in by_hole.items() if one.min_first < copy.first), default=0)
    return low, min((hole for hole, one in by_hole.items() if copy.first < one.max_first), default=missing)


def _verdict_of(reason: str) -> Verdict:
    if reason in (words.DROPPED, words.BARRIER_CAME):
        return "lost"
    return "stuck" if reason in (words.NEVER_ACKNOWLEDGED, words.EXPIRED, words.NO_BARRIER) else "indeterminate"


def _gravity(unit: Delivery) -> tuple[int, str]:
    return words.WORST.index(unit.verdict), unit.reason


@lru_cache(1 << 14)
def filter_matches(wanted: str, topic: str) -> bool:
    """Return whether the MQTT topic filter ``wanted`` matches a topic (MQTT 3.1.1, section 4.7)."""
    filters, levels = wanted.split("/"), topic.split("/")
    if "#" in filters:
        filters = filters[: filters.index("#")]
        levels, is_long = levels[: len(filters)], len(levels) >= len(filters)
        if not is_long:
            return False
    return len(filters) == len(levels) and all(one in ("+", level) for one, level in zip(filters, levels, strict=True))
