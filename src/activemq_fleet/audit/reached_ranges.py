"""Find which events of each publisher reached each subscriber, as the smallest and largest of each set."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple

from activemq_fleet.agent_topics import topic_without_last_level
from activemq_fleet.audit.event_records import EventReceipt, EventWithJournalRecords, PublishedEvent
from activemq_fleet.audit.journals import AgentSubscriptionChange

Stream = tuple[str, str, str]
"""A subscriber, and the agent and epoch that published: what one publisher has sent to one subscriber."""
NOTHING = 1 << 62
"""The smallest of no positions; the largest of none is -1."""


@dataclass(slots=True)
class EventRange:
    """The smallest and largest sequence number, and journal position, of a range of one publisher's events.

    An empty range has NOTHING and -1. The sequence number is SEQ; the position is that of the acceptance in the event
    journal of the publishing agent. ``is_odd``: the acceptance of one of the events is not known.
    """

    min_seq: int = NOTHING
    max_seq: int = -1
    min_first: int = NOTHING
    max_first: int = -1
    is_odd: bool = False

    def include_event(self, event: PublishedEvent) -> None:
        """Extend a range of sequence numbers of one publisher's events so that it includes an event."""
        if event.seq is not None:
            self.min_seq, self.max_seq = min(self.min_seq, event.seq), max(self.max_seq, event.seq)
        if event.first is None:
            self.is_odd = True
        else:
            self.min_first, self.max_first = min(self.min_first, event.first), max(self.max_first, event.first)

    def extend_to_include_range(self, other: EventRange) -> None:
        """Extend a range of sequence numbers of one publisher's events so that it includes another range."""
        self.min_seq, self.max_seq = min(self.min_seq, other.min_seq), max(self.max_seq, other.max_seq)
        self.min_first, self.max_first = min(self.min_first, other.min_first), max(self.max_first, other.max_first)
        self.is_odd |= other.is_odd

    def has_earlier_event(self, event: PublishedEvent) -> bool:
        """Return whether a range of one publisher's events has an earlier event than a given one.

        Events are compared by SEQ or by the order of their acceptance.
        """
        by_seq = event.seq is not None and self.min_seq < event.seq
        return by_seq or (event.first is not None and self.min_first < event.first)

    def ends_at_or_after_event(self, event: PublishedEvent) -> bool:
        """Return whether a range of one publisher's events ends at or after a given event.

        Events are compared by SEQ or by the order of their acceptance.
        """
        by_seq = event.seq is not None and self.max_seq >= event.seq
        return by_seq or (event.first is not None and self.max_first >= event.first)


class ReceivedEventRangeKey(NamedTuple):
    """The key of a range of received events: the publisher's epoch, the subscriber, and the scope, such as a topic.

    An epoch is the lifetime of the publisher's store; ``stream`` is the epoch and the subscriber. A range consists of
    the receipts between two changes of the subscriptions (``kind`` is ``era``), of the receipts on a topic (``topic``),
    or of the barriers, which are marker messages, of a topic prefix (``barrier``). ``name`` is the topic or prefix. For
    ``era``, ``number`` counts the changes before; else it counts the missing records before, -1 where unknown.
    """

    kind: Literal["era", "topic", "barrier"]
    stream: Stream
    name: str
    number: int


Reach = dict[ReceivedEventRangeKey, EventRange]


@dataclass(frozen=True, slots=True)
class TopicFilterSubscription:
    """A subscription of a subscriber to a topic filter.

    It lasts from one journal position to another. ``end`` is None while the subscription lasts.
    """

    filter: str
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class SubscriberSubscriptions:
    """All subscriptions of one subscriber to MQTT topics.

    ``changes`` are the sorted journal positions at which any of them began or ended.
    """

    subscriptions: list[TopicFilterSubscription]
    changes: list[int]

    def subscription_change_count_before(self, position: int) -> int:
        """Return how often a subscriber's subscriptions changed before a position in the subscriber's journal."""
        return bisect_left(self.changes, position)


def subscriptions_by_subscriber_name(changes: Iterable[AgentSubscriptionChange]) -> dict[str, SubscriberSubscriptions]:
    """Return the subscriptions of each subscriber, by its name, from the records that it subscribed or unsubscribed.

    A filter that is subscribed again continues its subscription.
    """
    subscribers: dict[str, SubscriberSubscriptions] = {}
    in_order = sorted(changes, key=lambda change: (change.subscriber, change.filter, change.place))
    for name, agent_changes in groupby(in_order, key=lambda change: change.subscriber):
        subscriptions, places = list[TopicFilterSubscription](), set[int]()
        for topic_filter, filter_changes in groupby(agent_changes, key=lambda change: change.filter):
            begin: int | None = None
            for change in filter_changes:
                if change.is_subscribed == (begin is not None):
                    continue
                places.add(change.place)
                if begin is not None:
                    subscriptions.append(TopicFilterSubscription(topic_filter, begin, change.place))
                begin = change.place if change.is_subscribed else None
            if begin is not None:
                subscriptions.append(TopicFilterSubscription(topic_filter, begin, None))
        subscribers[name] = SubscriberSubscriptions(subscriptions, sorted(places))
    return subscribers


def received_event_ranges_with_keys(
    events: Iterable[EventWithJournalRecords],
    subscribers: Mapping[str, SubscriberSubscriptions],
    missing: Mapping[str, int],
) -> Iterator[tuple[ReceivedEventRangeKey, EventRange]]:
    """Yield (ReceivedEventRangeKey, EventRange) for each range of a publisher's events that reached a subscriber.

    The key has the publisher's epoch, the subscriber and the kind of range. An epoch is the lifetime of the publisher's
    store. ``missing``: the number of missing records by agent. Extremes of parts of the events add up to those of all.
    """
    reach: Reach = {}
    for event in events:
        for receipt in event.receipts:
            for copy in event.copies:
                stream = receipt.subscriber, copy.agent, copy.epoch
                for key in _range_keys(event, receipt, copy, stream, subscribers, missing):
                    reach.setdefault(key, EventRange()).include_event(copy)
    yield from reach.items()


def _range_keys(
    event: EventWithJournalRecords,
    receipt: EventReceipt,
    copy: PublishedEvent,
    stream: Stream,
    subscribers: Mapping[str, SubscriberSubscriptions],
    missing: Mapping[str, int],
) -> Iterator[ReceivedEventRangeKey]:
    """Yield the keys of the event ranges to which a received event belongs."""
    if subscriber := subscribers.get(receipt.subscriber):
        yield ReceivedEventRangeKey("era", stream, "", subscriber.subscription_change_count_before(receipt.place))
    hole = receipt.received_hole
    if receipt.is_barrier:
        # An event that arrived on a topic other than the accepted one is forged, and is not counted.
        if event.is_barrier and receipt.topic == copy.topic and copy.topic is not None:
            yield ReceivedEventRangeKey(
                "barrier", stream, event_or_barrier_topic_prefix(copy.topic), -1 if hole is None else hole
            )
    # If no event is missing, the position of an event between two receipts is not required.
    elif (
        hole is not None
        and copy.topic is not None
        and missing.get(receipt.subscriber)
        and copy.is_accepted_once_by_publishing_agent
    ):
        yield ReceivedEventRangeKey("topic", stream, copy.topic, hole)


@lru_cache(1 << 12)
def event_or_barrier_topic_prefix(topic: str) -> str:
    """Return the prefix of an event's or a barrier's MQTT topic; events and their barriers have the same prefix.

    It is the topic without its last level, and without the level ``__barrier__`` before it. A barrier marks that all
    earlier events were sent.
    """
    return topic_without_last_level(topic)
