"""Receive messages from the broker: store each message in the inbox, then acknowledge it; handlers run later.

One durable session (QoS 1, stable client id) has subscriptions to all topics of the configuration. The agent sends a
canary (a test message) to a topic below each filter with wildcards, because the broker keeps a durable subscription
only with an existing topic. A message is acknowledged after its commit. When the limit of a topic filter is reached,
its messages are kept in memory without an acknowledgement. The broker then stops after 100 messages (its prefetch for
a durable subscription) and still delivers the messages of other filters. Messages that are too large for memory are
dropped; the broker delivers them again over a new connection, which the agent opens once there is room.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from activemq_agent.agent_connection import AgentMqttConnection, ConnectionDependencies
from activemq_agent.agent_errors import AgentError
from activemq_agent.agent_topics import (
    LARGEST_BARRIER,
    canary_topic_matching,
    is_barrier_topic,
    is_barrier_topic_of,
    is_canary_topic,
)
from activemq_agent.connecting import ReportConnectionDownAction, ReportConnectionUpAction
from activemq_agent.connection_events import MessageReceived, SubackReceived
from activemq_agent.logs import LogInterface
from activemq_agent.payload_envelope import event_id_in
from activemq_agent.store import InboxStorageOutcome
from activemq_agent.store.inbox import lane_name_of_topic

if TYPE_CHECKING:
    from activemq_agent.config import Config
    from activemq_agent.store import Store

IDLE = 0.5
"""Seconds after which the loop of an idle subscriber runs again."""
TRY_AGAIN = 1.0
"""Seconds until a message that found no room is offered to the store again."""
RESUBSCRIBE_INTERVAL = 60.0
"""Seconds until the agent subscribes again to a refused topic."""
WAITING_BYTES = 8 << 20
"""Bytes of messages that wait in memory because their topics are full, over all topic filters."""
RENEW_AFTER = 30.0
"""Seconds that a connection lasts at least before it is renewed for messages that were left with the broker."""


@dataclass(slots=True)
class _Lane:
    """The received messages of one topic filter that are not stored yet, oldest first."""

    unstored: deque[MessageReceived] = field(default_factory=deque)
    offered_count: int = 0  # number of these messages that were passed to the store
    full: bool = False
    retry_at: float = 0.0
    size: int = 0  # bytes of the unstored messages
    has_dropped: bool = False  # messages of this connection were dropped, and so are all later ones


class InboxSubscriber:
    """A subscriber of an agent, which stores received messages in the store's inbox.

    ``run`` is for one thread, the counters for any thread. ``on_stored`` is called, in that thread, with the lane (the
    topic filter) of each new message. Raises ConfigError for TLS files that cannot be used.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        *,
        log: LogInterface,
        on_stored: Callable[[str], None] = lambda _lane: None,
        clock: Callable[[], float] = time.monotonic,
        **dependencies: Unpack[ConnectionDependencies],
    ) -> None:
        self.received = 0
        """Messages stored since the start."""
        self.duplicates = 0
        """Number of received duplicates: the store already contained their ids."""
        self.refused: dict[str, str] = {}
        """Topic filters that were refused, each with the broker (``host:port``) that refused it last."""
        self.granted: set[str] = set()
        """Topic filters that are subscribed to on the current connection."""
        self.last_loop_start = clock()
        """Time of the loop's last iteration, by ``clock``."""
        self._config, self._store, self._log, self._clock = config, store, log, clock
        self._on_stored = on_stored
        self.link = AgentMqttConnection(config, "subscriber", store=store, log=log, clock=clock, **dependencies)
        self._pending_filters: dict[int, str] = {}  # filter by packet number
        self._lanes: dict[str, _Lane] = {}
        self._resubscribe_at: float | None = None
        self._connected_at = 0.0

    @property
    def filters_with_full_inbox(self) -> tuple[str, ...]:
        """The topic filters whose part of the agent's inbox is full.

        Their messages stay at the broker.
        """
        return tuple(name for name, lane in list(self._lanes.items()) if lane.full)

    def run(self, stop: threading.Event) -> None:
        """Run the loop that receives an agent's messages until ``stop`` is set.

        The connection is then closed; the durable session stays on the broker.
        """
        self.link.start()
        while not stop.is_set():
            self.run_once()
        self.link.stop()

    def run_once(self) -> None:
        """Run one iteration of the loop that receives an agent's messages.

        It processes connection events, stores messages, and subscribes again to refused topics.
        """
        for event in self.link.run_once_and_yield_events(IDLE):
            self.link.handle_event_or_drop_on_error(event, self._process_event)
        now = self.last_loop_start = self._clock()
        for lane in self._lanes.values():
            if lane.full and lane.offered_count == 0 and now >= lane.retry_at:
                lane.full = False
                self._offer_to_store(lane)
        if self._resubscribe_at is not None and now >= self._resubscribe_at:
            self._resubscribe_at = None
            self._subscribe_to_filters(sorted(self.refused))
        if now - self._connected_at >= RENEW_AFTER and any(
            lane.has_dropped and not lane.unstored for lane in self._lanes.values()
        ):
            self.link.reconnect_to_first_broker(
                "the agent discarded unacknowledged messages, because its memory for received messages was full: it "
                "reconnects, and the broker sends these messages again"
            )

    def _process_event(self, event: object) -> None:
        match event:
            case MessageReceived():
                self._process_message(event)
            case partial():
                event()
            case SubackReceived():
                self._process_suback(event)
            case ReportConnectionUpAction():
                self._connected_at = self._clock()
                self._subscribe_to_filters([*self._config.topics])
            case ReportConnectionDownAction():
                self._drop_unstored_messages()

    def _drop_unstored_messages(self) -> None:
        """Drop received messages that are not stored.

        They were never acknowledged, so the broker delivers them again.
        """
        self._pending_filters.clear()
        self._lanes.clear()
        self.granted.clear()
        self._resubscribe_at = None

    # -- subscriptions ----------------------------------------------------------------------------

    def _subscribe_to_filters(self, filters: list[str]) -> None:
        """Subscribe to topic filters, each by a separate SUBSCRIBE.

        So a refused filter does not hide the answer for the others.
        """
        session = self.link.session
        for topic_filter in filters:
            mid = session.subscribe(topic_filter, 1) if session is not None else None
            if mid is not None:
                self._pending_filters[mid] = topic_filter

    def _process_suback(self, event: SubackReceived) -> None:
        topic_filter = self._pending_filters.pop(event.mid, None)
        if topic_filter is None:
            return
        broker, conn = self.link.broker, event.conn
        if event.refused:
            if topic_filter not in self.refused:
                self._log.error(
                    f"the broker {broker} rejects the subscription to the topic filter {topic_filter}: let "
                    f"{self._config.login_user_description} read these topics in the broker's ACL",
                    topic=topic_filter,
                    broker=broker,
                )
            self.refused[topic_filter] = broker or ""
            self._resubscribe_at = self._clock() + RESUBSCRIBE_INTERVAL
            return
        self.refused.pop(topic_filter, None)
        self.granted.add(topic_filter)
        self._store.queue_journal_record("subscribed", filters=[topic_filter], broker=broker, conn=conn)
        self._log.info("subscribed", topic=topic_filter, broker=broker, conn=conn)
        topic_for_canary = canary_topic_matching(topic_filter, f"{self._config.agent}-subscriber")
        if topic_for_canary is not None and self.link.session is not None:
            self.link.session.publish(topic_for_canary, b"subscribed")

    # -- messages ---------------------------------------------------------------------------------

    def _process_message(self, message: MessageReceived) -> None:
        if is_canary_topic(message.topic):
            self.link.acknowledge(message)
            return
        if is_barrier_topic(message.topic):
            self._process_barrier(message)
            return
        name = lane_name_of_topic(message.topic, self._config.topics)
        if name not in self._config.topics:
            # Not acknowledged, so that a subscription that is no longer configured keeps its messages at the broker.
            self.link.dropped.count_dropped_message("topic without subscription", topic=message.topic)
            if message.qos:
                self.link.raise_alarm_about_removed_filter(message.topic)
            return
        lane = self._lanes.setdefault(name, _Lane())
        if lane.has_dropped or (lane.full and lane.size >= WAITING_BYTES // len(self._config.topics)):
            lane.has_dropped = True
            self.link.dropped.count_dropped_message("no room in memory", topic=message.topic)
            return
        lane.size += len(message.payload)
        lane.unstored.append(message)
        if not lane.full:
            self._offer_to_store(lane)

    def _process_barrier(self, message: MessageReceived) -> None:
        event_id = event_id_in(message.payload) if len(message.payload) <= LARGEST_BARRIER else None
        if event_id is None or not is_barrier_topic_of(message.topic, event_id.rsplit(":", 2)[0]):
            self.link.dropped.count_dropped_message("barrier (test message) of another sender", topic=message.topic)
            self.link.acknowledge(message)
            return
        future = self._store.queue_journal_record(
            "barrier", event_id=event_id, topic=message.topic, broker=self.link.broker, conn=message.conn
        )
        self._call_when_done(future, self._acknowledge_barrier, message)

    def _offer_to_store(self, lane: _Lane) -> None:
        """Hand the waiting messages of a topic filter over to the store, unless they already were."""
        for message in itertools.islice(lane.unstored, lane.offered_count, None):
            head, lane.offered_count = lane.offered_count == 0, lane.offered_count + 1
            try:
                future = self._store.queue_message_for_inbox(
                    message.topic, message.payload, broker=self.link.broker or "", conn=message.conn, head=head
                )
            except AgentError as error:
                future = Future()
                future.set_exception(error)
            self._call_when_done(future, self._process_storage_outcome, message)

    def _call_when_done(
        self, future: Future[Any], handle: Callable[[MessageReceived, Future[Any]], None], message: MessageReceived
    ) -> None:
        """Call ``handle`` in the subscriber's thread when the store has answered."""
        future.add_done_callback(lambda done: self.link.queue_for_connection_loop(partial(handle, message, done)))

    def _process_storage_outcome(self, message: MessageReceived, future: Future[InboxStorageOutcome]) -> None:
        """Process the store's answer for a received message.

        Answers come in the order in which messages were offered.
        """
        name = lane_name_of_topic(message.topic, self._config.topics)
        lane = self._lanes.get(name)
        if message.conn != self.link.conn or lane is None:
            return  # its connection ended, and the broker delivers the message again
        outcome = self._storage_outcome(future)
        lane.offered_count -= 1
        if outcome is None or outcome.full:
            if not lane.full:
                if outcome is None:
                    reason, remedy = "the disk rejects writes", "check the disk of state.directory"
                else:
                    reason, remedy = "the limit of the inbox is reached", "check the handlers of these messages"
                self._log.warning(
                    f"the agent leaves the messages of the topic filter {name} on the broker, because {reason}: "
                    f"{remedy}",
                    topic=name,
                )
            lane.full, lane.retry_at = True, self._clock() + TRY_AGAIN
            return
        lane.size -= len(message.payload)
        lane.unstored.remove(message)  # it is the first one, unless earlier ones could not be written
        self.link.acknowledge(message)
        if outcome.duplicate:
            self.duplicates += 1
        else:
            self.received += 1
            self._on_stored(name)

    def _storage_outcome(self, future: Future[InboxStorageOutcome]) -> InboxStorageOutcome | None:
        """Return the outcome of storing a message, or None if the store could not write."""
        try:
            return future.result()
        except AgentError as error:
            self._log.error(
                "the agent cannot store a received message, for the reason in the field `reason`, so the broker "
                "keeps it. Check the disk of state.directory",
                reason=str(error),
            )
            return None

    def _acknowledge_barrier(self, message: MessageReceived, future: Future[None]) -> None:
        """Acknowledge a barrier whose journal record is written."""
        if message.conn == self.link.conn and future.exception() is None:
            self.link.acknowledge(message)
