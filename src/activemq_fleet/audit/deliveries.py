"""Conclude from the records of agents' journals whether each event was delivered: see docs/verdicts.md.

It is done in two passes over records that come by event: the first learns what of each publisher has reached each
subscriber (``received_event_ranges_with_keys``), the second judges every event by that (``outcomes_with_deliveries``).
Memory is that of one event, and of what is learned: a few numbers for each publisher's epoch, topic and subscriber.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from activemq_fleet.audit import verdict_words as words
from activemq_fleet.audit.event_records import EventReceipt, EventWithJournalRecords, PublishedEvent
from activemq_fleet.audit.reached_ranges import (
    EventRange,
    Reach,
    SubscriberSubscriptions,
    TopicFilterSubscription,
    event_or_barrier_topic_prefix,
)
from activemq_fleet.audit.verdict_words import DeliveryVerdictWithReason, Verdict

_REASONS_WITHOUT_ACKNOWLEDGMENT = {
    "accepted": words.NEVER_ACKNOWLEDGED,
    "expired": words.EXPIRED,
    "dropped": words.DROPPED,
}
"""The reason why an event without acknowledgment did not arrive, by the event's last state."""


class Delivery(NamedTuple):
    """The delivery of one event to one subscriber.

    The subscriber should receive the event, or has received it.
    """

    event_id: str
    subscriber: str
    verdict: Verdict
    reason: str
    attempts: int


class EventOutcome(NamedTuple):
    """The outcome of delivering one event to all its subscribers, such as ``lost``.

    ``handled_by`` names the subscribers that handled the event, sorted.
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
    """The events of one publisher's epoch (lifetime of its store) that reached a subscriber, as ranges.

    ``eras``: extremes by era. ``topics`` and ``barriers``: by topic or prefix and by hole.
    """

    eras: dict[int, EventRange] = field(default_factory=dict)
    topics: dict[str, dict[int, EventRange]] = field(default_factory=dict)
    barriers: dict[str, dict[int, EventRange]] = field(default_factory=dict)

    def event_range_received_during(
        self, subscriber: SubscriberSubscriptions, subscription: TopicFilterSubscription
    ) -> EventRange:
        """Return the range of the publisher's events that the subscriber received during one of its subscriptions.

        The range is the smallest and the largest SEQ and position of these events. It is an empty EventRange if none
        reached the subscriber.
        """
        event_range = EventRange()
        begin = subscriber.subscription_change_count_before(subscription.begin)
        end = None if subscription.end is None else subscriber.subscription_change_count_before(subscription.end)
        for era, extremes in self.eras.items():
            if era > begin and (end is None or era <= end):
                event_range.extend_to_include_range(extremes)
        return event_range


class DeliveryJudge:
    """A judge of deliveries: it decides whether published events were delivered to their subscribers.

    It compares an event with other events and barriers (marker messages) of its publisher that arrived.
    """

    def __init__(
        self,
        subscribers: Mapping[str, SubscriberSubscriptions],
        missing: Mapping[str, int],
        reach: Reach,
        subscribed_before_events: Collection[str] = (),
    ) -> None:
        """``missing``: how many records of each agent are missing. ``reach``: that of all events.

        ``subscribed_before_events``: the subscribers that are known to have subscribed to all events before the first.
        """
        self._subscribed_before_events = frozenset(subscribed_before_events)
        self._missing_counts = missing
        self._streams: dict[tuple[str, str], dict[str, _Stream]] = {}
        for key, extremes in reach.items():
            name, agent, epoch = key.stream
            stream = self._streams.setdefault((agent, epoch), {}).setdefault(name, _Stream())
            if key.kind == "era":
                stream.eras[key.number] = extremes
            else:
                by_hole = stream.topics if key.kind == "topic" else stream.barriers
                by_hole.setdefault(key.name, {})[key.number] = extremes
        self._confirmed_subscriptions = {
            (publisher, name): [
                (
                    subscription.filter,
                    subscription.end is None,
                    stream.event_range_received_during(subscribers[name], subscription),
                )
                for subscription in subscribers[name].subscriptions
            ]
            for publisher, streams in self._streams.items()
            for name, stream in streams.items()
            if name in subscribers
        }

    def outcomes_with_deliveries(
        self, events: Iterable[EventWithJournalRecords]
    ) -> Iterator[tuple[EventOutcome | None, list[Delivery]]]:
        """Yield the delivery outcome of each published event, together with its deliveries to subscribers.

        The outcome is None for a barrier (a marker message of the publisher).
        """
        for event in events:
            deliveries = [
                self._delivery_of_receipt(event, receipt)
                for receipt in event.receipts
                if receipt.came and not receipt.is_barrier
            ]
            if event.is_barrier:
                yield None, deliveries
                continue
            deliveries += self._missed_deliveries(event)
            worst = min(deliveries, key=_severity_key, default=None)
            yield (
                EventOutcome(
                    event.event_id,
                    event.topic,
                    worst.verdict if worst else words.NO_SUBSCRIBER.verdict,
                    worst.reason if worst else words.NO_SUBSCRIBER.reason,
                    event.accepted_at,
                    min((receipt.handled_at for receipt in event.receipts if receipt.handled_at), default=None),
                    sorted(receipt.subscriber for receipt in event.receipts if receipt.handled),
                ),
                deliveries,
            )

    def _delivery_of_receipt(self, event: EventWithJournalRecords, receipt: EventReceipt) -> Delivery:
        """Return the delivery that a subscriber's receipt of an event shows.

        A gap before the receipt cannot hide a later handling.
        """
        if receipt.handled > 1:
            verdict, reason = DeliveryVerdictWithReason("duplicate", f"handled {receipt.handled} times")
        elif receipt.handled:
            verdict, reason = words.HANDLED
        elif receipt.quarantined:
            verdict, reason = words.QUARANTINED
        elif self._missing_counts.get(receipt.subscriber, 0) > receipt.open_hole:
            verdict, reason = words.SUBSCRIBER_GAP
        else:
            verdict, reason = words.NOT_HANDLED
        return Delivery(event.event_id, receipt.subscriber, verdict, reason, receipt.attempts)

    def _missed_deliveries(self, event: EventWithJournalRecords) -> Iterator[Delivery]:
        """Yield an event's deliveries to the subscribers that were expected to receive it, but have no record of it.

        Where several agents published the event, only the worst delivery to each subscriber is yielded.
        """
        receivers = {receipt.subscriber for receipt in event.receipts if receipt.came}
        worst_by_subscriber: dict[str, Delivery] = {}
        for copy in event.copies:
            streams = self._streams.get((copy.agent, copy.epoch), {})
            for name in streams.keys() | self._subscribed_before_events:
                stream = streams.get(name, _Stream())
                if copy.topic is not None and name not in receivers and self._is_expected(copy, name):
                    verdict, reason = self._verdict_on_absence(copy, copy.topic, name, stream)
                    delivery = Delivery(event.event_id, name, verdict, reason, 0)
                    worst_by_subscriber[name] = min(
                        worst_by_subscriber.get(name, delivery), delivery, key=_severity_key
                    )
        yield from worst_by_subscriber.values()

    def _is_expected(self, copy: PublishedEvent, name: str) -> bool:
        """Return whether a subscriber was subscribed to an event, as other events that it received show."""
        assert copy.topic is not None  # noqa: S101 -- for the type alone
        if name in self._subscribed_before_events:
            return True
        for topic_filter, is_open, received in self._confirmed_subscriptions.get(((copy.agent, copy.epoch), name), ()):
            if (
                received.has_earlier_event(copy)
                and (is_open or received.ends_at_or_after_event(copy))
                and topic_filter_matches(topic_filter, copy.topic)
            ):
                return True
        return False

    def _verdict_on_absence(
        self, copy: PublishedEvent, topic: str, name: str, stream: _Stream
    ) -> DeliveryVerdictWithReason:
        """Return the verdict on an event that did not reach a subscriber that was expected to receive it.

        Gaps that may hide its records take precedence.
        """
        if copy.last is None:
            return words.NO_ACCEPTANCE
        is_acked = copy.state in ("acknowledged", "unconfirmed")
        is_hidden = copy.state not in ("acknowledged", "dropped") and (
            self._missing_counts.get(copy.agent, 0) > copy.state_hole
        )
        if is_hidden or (is_acked and copy.state_hole > copy.last_hole):
            return words.PUBLISHER_GAP
        if is_acked and copy.is_sent_without_id:
            return words.SENT_WITHOUT_ID
        by_seq = copy.seq is not None and copy.first == copy.last
        barriers = stream.barriers.get(event_or_barrier_topic_prefix(topic), {})
        barrier_hole = _hole_before_later_barrier(barriers, (copy.seq if by_seq else None) or copy.last, by_seq=by_seq)
        missing = self._missing_counts.get(name, 0)
        low, high = _holes_around(stream.topics.get(topic, {}), copy, missing)
        if min(high, missing if barrier_hole is None else barrier_hole) > low:
            return words.SUBSCRIBER_GAP
        if is_acked and barrier_hole is None and missing > low:
            return words.SUBSCRIBER_GAP
        if not is_acked:
            return _REASONS_WITHOUT_ACKNOWLEDGMENT[copy.state]
        if barrier_hole is not None:
            return words.BARRIER_CAME
        # No journal records the acceptance of an arrived barrier, so it may be earlier or later than the event.
        is_odd = not by_seq and any(extremes.is_odd for extremes in barriers.values())
        return words.PUBLISHER_GAP if is_odd else words.NO_BARRIER


def _hole_before_later_barrier(barriers: Mapping[int, EventRange], at: int, *, by_seq: bool) -> int | None:
    """Return the number of records missing before the first later barrier that arrived; None without such a barrier."""
    later = [
        hole
        for hole, extremes in barriers.items()
        if hole >= 0 and (extremes.max_seq if by_seq else extremes.max_first) >= at
    ]
    return min(later, default=None)


def _holes_around(by_hole: Mapping[int, EventRange], copy: PublishedEvent, missing: int) -> tuple[int, int]:
    """Return the numbers of records missing before the two receipts that enclose an event's position."""
    if copy.first is None or copy.first != copy.last:
        return 0, missing
    low = max((hole for hole, event_range in by_hole.items() if event_range.min_first < copy.first), default=0)
    return low, min(
        (hole for hole, event_range in by_hole.items() if copy.first < event_range.max_first), default=missing
    )


def _severity_key(delivery: Delivery) -> tuple[int, str]:
    return words.WORST.index(delivery.verdict), delivery.reason


@lru_cache(1 << 14)
def topic_filter_matches(topic_filter: str, topic: str) -> bool:
    """Return whether an MQTT topic filter matches a topic.

    ``topic_filter`` is the filter; MQTT 3.1.1, section 4.7, defines the match.
    """
    filter_levels, topic_levels = topic_filter.split("/"), topic.split("/")
    if "#" in filter_levels:
        filter_levels = filter_levels[: filter_levels.index("#")]
        topic_levels, is_long = topic_levels[: len(filter_levels)], len(topic_levels) >= len(filter_levels)
        if not is_long:
            return False
    return len(filter_levels) == len(topic_levels) and all(
        filter_level in ("+", topic_level)
        for filter_level, topic_level in zip(filter_levels, topic_levels, strict=True)
    )
