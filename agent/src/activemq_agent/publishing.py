"""Publish the events of the outbox to the broker, in their order, and delete them once they are acknowledged.

ActiveMQ also acknowledges messages that it rejects (for a missing right or a full store), so a PUBACK alone proves
nothing. So the publisher subscribes to a canary topic, ``PREFIX/__canary__/AGENT``, for each topic prefix that it uses
on a connection, and sends a canary (a test message) to it. Until the canary is received, acknowledged events of that
prefix stay in the outbox. If the canary is not received in time, the events are kept separately as unconfirmed.

A canary confirms only events with its prefix that were sent after it on the same connection. A prefix without a
received canary gets a new canary every minute. It confirms none of the events that were sent before it, because the
broker may have rejected these for a permission that was granted later: they stay unconfirmed.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Unpack

from activemq_agent.agent_connection import AgentMqttConnection, ConnectionDependencies
from activemq_agent.agent_errors import AgentError
from activemq_agent.agent_topics import LARGEST_CANARY, barrier_topic, canary_topic, topic_without_last_level
from activemq_agent.connecting import ReportConnectionDownAction, ReportConnectionUpAction
from activemq_agent.connection_events import MessageReceived, PubackReceived, SubackReceived
from activemq_agent.logs import LogInterface
from activemq_agent.payload_envelope import add_event_id, event_id_in
from activemq_agent.store import OutgoingEvent, SentEvent

if TYPE_CHECKING:
    from activemq_agent.config import Config
    from activemq_agent.store import Store

POLL = 0.25
"""Seconds after which an idle publisher reads the outbox again."""
FRESH = 0.5
"""Largest number of seconds between reading an event and sending it, so that expiry is noticed within 1 s."""
FLUSH = 0.05
"""Seconds that records of what was sent and acknowledged may wait to share a transaction."""
ANSWER = 5.0
"""Seconds within which the canary of a topic prefix must be received."""
CANARY_RETRY_INTERVAL = 60.0
"""Seconds after which the canary of an unproved prefix is sent again."""
MAX_PREFIXES = 256
"""Largest number of topic prefixes that are remembered and subscribed to; the longest unused one is dropped first."""
BARRIER_EVERY = 60.0
LARGEST_BATCH = 8 << 20
"""Bytes of events that are read ahead, and of events that wait for their PUBACK (twice in memory, in paho-mqtt); one
event may exceed each limit. The unit limits the agent's memory."""
DELETE_BATCH = 500
"""Largest number of acknowledged events that wait for deletion; after a crash they are sent again, as is the window."""

_WAKE = object()


_EventOutcome = Literal["sent", "proved", "unproved"]
"""The outcome of an event: it was sent, or acknowledged on a topic prefix whose delivery is proved or unproved."""


@dataclass(slots=True)
class _PrefixState:
    """The state of a topic prefix on the publisher's current connection: whether delivery on it is proved.

    ``held``: acknowledged events that wait for the canary, a test message that proves delivery. ``canary`` is the
    payload of the last canary, which must return: it is random, so that only a client that received it can send it.
    ``last_place_before_canary``: position in the outbox of the last event that was sent before this canary.
    """

    state: Literal["pending", "proved", "unproved"]
    canary_sent_at: float
    canary: bytes = b""
    last_place_before_canary: int = 0
    held: list[SentEvent] = field(default_factory=list)


class _UnacknowledgedEvent(NamedTuple):
    """An event that was sent at time ``sent_at``, and whose acknowledgement (PUBACK) has not arrived.

    ``size``: bytes of the payload that was sent.
    """

    sent: SentEvent
    prefix: _PrefixState
    sent_at: float
    size: int


class Publisher:
    """A publisher of an agent, which sends the events in the store's outbox to the broker.

    One thread calls ``run``; other methods and counters are for any thread. At most ``config.publisher_window`` events
    wait for their PUBACK or their prefix's canary, and ``DELETE_BATCH`` acknowledged events for their deletion. Events
    that wait for their PUBACK have at most ``LARGEST_BATCH`` bytes, not counting the last one. Raises ConfigError for
    TLS files that cannot be used.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        *,
        log: LogInterface,
        clock: Callable[[], float] = time.monotonic,
        **dependencies: Unpack[ConnectionDependencies],
    ) -> None:
        self.acknowledged = 0
        """Number of events that brokers acknowledged since the start."""
        self.sent = 0
        """Number of events sent since the start, including repeated ones."""
        self.last_loop_start = clock()
        """Time of the loop's last iteration, by ``clock``."""
        self._config, self._store, self._log, self._clock = config, store, log, clock
        self.link = AgentMqttConnection(config, "publisher", store=store, log=log, clock=clock, **dependencies)
        self._used_prefixes: dict[str, None] = {}  # prefixes used since the start, for barriers
        self._woken = False
        self._is_connected = False
        self._reset_connection_state()
        self._unrecorded: dict[_EventOutcome, list[SentEvent]] = {"sent": [], "proved": [], "unproved": []}
        self._unrecorded_since = 0.0  # when the first of these events was added
        # The requests to the store that are not done.
        self._recording: deque[tuple[Future[None], _EventOutcome, list[SentEvent]]] = deque()
        self._disk_failed_at: float | None = None  # time of the last failed write; None after a successful one
        self._barrier_at = clock() + BARRIER_EVERY
        self._prefixes_checked_at = clock()

    def _reset_connection_state(self) -> None:
        """Reset the state of one connection, so that the outbox is read from its beginning again."""
        self._unacknowledged: dict[int, _UnacknowledgedEvent] = {}
        self._unacknowledged_bytes = 0
        self._prefixes: dict[str, _PrefixState] = {}
        self._prefix_of_canary: dict[str, str] = {}  # prefix by canary topic
        self._subscribing: dict[int, str] = {}  # prefix by packet number
        self._held_count = 0
        self._buffer: deque[OutgoingEvent] = deque()
        self._last_read_seq = 0
        self._last_sent_place = 0
        self._read_at = 0.0
        self._next_read_at = 0.0  # when to read the outbox again without a wake-up

    @property
    def topic_prefixes_without_received_canary(self) -> tuple[str, ...]:
        """The topic prefixes for which delivery is not proved, because the agent did not receive its own test message.

        A canary is a test message of the agent to itself. Events with these prefixes stay unconfirmed.
        """
        return tuple(name for name, prefix in list(self._prefixes.items()) if prefix.state == "unproved")

    def wake(self) -> None:
        """Wake the thread that publishes an agent's events, so that it sends new ones immediately.

        Call this after events were added to the outbox, from any thread.
        """
        if not self._woken:
            self._woken = True
            self.link.queue_for_connection_loop(_WAKE)

    def add_barriers_to_outbox(self) -> list[str]:
        """Add barriers (messages that mark the end of all earlier events) to the agent's outbox.

        There is one for each topic prefix. Returns their event ids. Raises OutboxFullError when the outbox is full.
        """
        event_ids = []
        for prefix in list(self._used_prefixes):
            topic = barrier_topic(prefix, self._config.agent)
            event_id = self._store.accept_event(topic, b"{}")
            self._store.write_journal_record("barrier", event_id=event_id, topic=topic)
            event_ids.append(event_id)
        self.wake()
        return event_ids

    def run(self, stop: threading.Event) -> None:
        """Run the loop that publishes an agent's events until ``stop`` is set.

        The connection is then closed; unacknowledged events stay in the outbox.
        """
        self._store.on_outgoing = self.wake
        self.link.start()
        while not stop.is_set():
            self.run_once()
        self.link.stop()
        self._wait_until_recorded()

    def run_once(self) -> None:
        """Run one iteration of the loop that publishes an agent's events.

        It processes connection events, sends events of the outbox, and records what was sent.
        """
        for event in self.link.run_once_and_yield_events(FLUSH if any(self._unrecorded.values()) else POLL):
            self.link.handle_event_or_drop_on_error(event, self._process_event)
        now = self.last_loop_start = self._clock()
        if self._is_connected and self._are_pubacks_in_time(now):
            self._check_canaries(now)
            self._send_events(now)
        self._record_events(force=False)
        if self._config.barrier and now >= self._barrier_at:
            self._barrier_at = now + BARRIER_EVERY
            with contextlib.suppress(AgentError):  # a full outbox: its events take precedence over barriers
                self.add_barriers_to_outbox()

    # -- events of the connection -----------------------------------------------------------------

    def _process_event(self, event: object) -> None:
        match event:
            case PubackReceived():
                self._process_puback(event.mid)
            case MessageReceived():
                self._process_received_message(event)
            case SubackReceived():
                prefix = self._subscribing.pop(event.mid, None)
                if prefix is not None and event.refused:
                    topic = canary_topic(prefix, self._config.agent)
                    self._mark_unproved(
                        prefix, f"the broker rejects the subscription to the agent's test topic {topic}"
                    )
            case ReportConnectionUpAction():
                self._wait_until_recorded()  # acknowledged events must be removed before the outbox is read again
                self._reset_connection_state()
                self._is_connected = True
            case ReportConnectionDownAction():
                self._is_connected = False
                self._reset_connection_state()
            case _ if event is _WAKE:
                self._woken, self._next_read_at = False, 0.0

    def _process_puback(self, mid: int) -> None:
        unacknowledged = self._unacknowledged.pop(mid, None)
        if unacknowledged is None:
            return
        self.acknowledged += 1
        self._unacknowledged_bytes -= unacknowledged.size
        sent, prefix = unacknowledged.sent, unacknowledged.prefix
        if prefix.state == "pending":
            prefix.held.append(sent)
            self._held_count += 1
        else:
            is_proved = prefix.state == "proved" and sent.seq > prefix.last_place_before_canary
            self._queue_for_recording("proved" if is_proved else "unproved", [sent])

    def _process_received_message(self, message: MessageReceived) -> None:
        """Process a message that the publisher received: its canary proves a topic prefix; drop other messages."""
        self.link.acknowledge(message)
        name = self._prefix_of_canary.get(message.topic)
        prefix = self._prefixes.get(name) if name is not None else None
        if name is None or prefix is None:
            self.link.dropped.count_dropped_message("topic without subscription", topic=message.topic)
            return
        if len(message.payload) > LARGEST_CANARY or message.payload != prefix.canary:
            self.link.dropped.count_dropped_message("test message (canary) of another sender", topic=message.topic)
            return
        if prefix.state == "unproved":
            self._record_events(force=True)
            self._store.confirm_and_delete_events_below_prefix(name, self.link.conn, prefix.last_place_before_canary)
        self._set_prefix_state(prefix, "proved")

    def _mark_unproved(self, name: str, reason: str, remedy: str = "") -> None:
        prefix = self._prefixes.get(name)
        if prefix is None or prefix.state != "pending":
            return
        permission = (
            f"let {self._config.login_user_description} write the topics of these events, and read and write "
            f"{canary_topic(name, self._config.agent)}, in the broker's ACL"
        )
        self._log.warning(
            f"the agent cannot confirm the delivery of events below the topic {name!r}: {remedy or permission}. "
            "Then send the events that stay unconfirmed again with activemq-agent requeue ID… (the ids are in the "
            'records "kind":"unconfirmed" of the event journal, agent/*.jsonl in the directory state.directory)',
            prefix=name,
            broker=self.link.broker,
            reason=reason,
        )
        self._set_prefix_state(prefix, "unproved")

    def _set_prefix_state(self, prefix: _PrefixState, state: Literal["proved", "unproved"]) -> None:
        """Set the state of a topic prefix, and record the acknowledged events that waited for its canary."""
        prefix.state = state
        self._held_count -= len(prefix.held)
        self._queue_for_recording(state, prefix.held)
        prefix.held = []

    def _are_pubacks_in_time(self, now: float) -> bool:
        """Return whether the broker sends PUBACKs within ``puback_timeout``; give up the connection if not."""
        oldest = next(iter(self._unacknowledged.values()), None)
        if oldest is None or now - oldest.sent_at < self._config.policy.puback_timeout:
            return True
        self._is_connected = False
        self.link.switch_to_next_broker(f"the broker sent no PUBACK in {self._config.policy.puback_timeout:g} s")
        return False

    # -- prefixes ---------------------------------------------------------------------------------

    def _send_first_canary(self, name: str, now: float) -> _PrefixState:
        """Send a canary on a topic prefix before the first event on it, and return the prefix's new state."""
        while len(self._prefixes) >= MAX_PREFIXES:
            self._drop_prefix(next(iter(self._prefixes)))
        prefix = self._prefixes[name] = _PrefixState("pending", now)
        self._used_prefixes[name] = None
        while len(self._used_prefixes) > MAX_PREFIXES:
            del self._used_prefixes[next(iter(self._used_prefixes))]
        self._prefix_of_canary[canary_topic(name, self._config.agent)] = name
        self._send_canary(name)
        return prefix

    def _send_canary(self, name: str) -> None:
        """Send a new canary on a topic prefix. An earlier one proves nothing any more."""
        session, topic = self.link.session, canary_topic(name, self._config.agent)
        prefix = self._prefixes[name]
        prefix.canary, prefix.last_place_before_canary = secrets.token_hex(16).encode(), self._last_sent_place
        if session is not None:
            mid = session.subscribe(topic, 1)
            if mid is not None:
                self._subscribing[mid] = name
            session.publish(topic, prefix.canary)

    def _drop_prefix(self, name: str) -> None:
        """Drop the state of a prefix to make room; acknowledged events that wait for its canary become unconfirmed."""
        self._mark_unproved(
            name,
            f"the agent publishes events with more than {MAX_PREFIXES} topic prefixes, but can test the delivery for "
            f"only {MAX_PREFIXES} prefixes at a time",
            f"publish events with at most {MAX_PREFIXES} topic prefixes (topics without their last level)",
        )
        del self._prefixes[name]
        topic = canary_topic(name, self._config.agent)
        self._prefix_of_canary.pop(topic, None)
        if self.link.session is not None:
            self.link.session.unsubscribe(topic)

    def _check_canaries(self, now: float) -> None:
        if now - self._prefixes_checked_at < 1.0:
            return
        self._prefixes_checked_at = now
        for name, prefix in list(self._prefixes.items()):
            if prefix.state == "pending" and now - prefix.canary_sent_at >= ANSWER:
                topic = canary_topic(name, self._config.agent)
                self._mark_unproved(
                    name, f"the broker did not return the agent's test message on the topic {topic} within {ANSWER:g} s"
                )
            elif prefix.state == "unproved" and now - prefix.canary_sent_at >= CANARY_RETRY_INTERVAL:
                prefix.canary_sent_at = now
                self._send_canary(name)

    # -- sending ----------------------------------------------------------------------------------

    def _send_events(self, now: float) -> None:
        session, broker = self.link.session, self.link.broker
        if session is None or broker is None:
            return
        recording = sum(len(events) for _, outcome, events in self._recording if outcome != "sent")
        if recording + self._unrecorded_acknowledgements() > DELETE_BATCH:
            self._record_events(force=False)
            if self._recording:
                self._recording[0][0].add_done_callback(lambda _: self.wake())
            return
        while self._has_room_in_window() and self._has_events(now):
            row = self._buffer[0]
            name = topic_without_last_level(row.topic)
            prefix = self._prefixes.get(name) or self._send_first_canary(name, now)
            payload = add_event_id(row.payload, row.event_id, self._config.publisher_envelope)
            mid = session.publish(row.topic, payload)
            if mid is None:
                return  # the connection ends: the event is in the queue
            self._buffer.popleft()
            self._last_sent_place = row.seq
            has_id = payload is not row.payload or event_id_in(payload) == row.event_id
            sent = SentEvent(row.seq, self.link.conn, mid, broker, has_id)
            self._unacknowledged[mid] = _UnacknowledgedEvent(sent, prefix, now, len(payload))
            self._unacknowledged_bytes += len(payload)
            self.sent += 1
            self._queue_for_recording("sent", [sent])

    def _has_room_in_window(self) -> bool:
        """Return whether another event may be sent before the broker acknowledges earlier ones."""
        waiting = len(self._unacknowledged) + self._held_count
        return waiting < self._config.publisher_window and self._unacknowledged_bytes < LARGEST_BATCH

    def _has_events(self, now: float) -> bool:
        """Return whether events of the outbox are buffered for sending; read the outbox if necessary.

        Events that were read more than ``FRESH`` seconds ago are read again.
        """
        if self._buffer and now - self._read_at > FRESH:
            self._last_read_seq = self._buffer[0].seq - 1
            self._buffer.clear()
            self._next_read_at = 0.0
        if not self._buffer and now >= self._next_read_at:
            limit = self._config.publisher_window
            self._buffer.extend(self._store.outgoing_events(limit, self._last_read_seq, LARGEST_BATCH))
            self._read_at = now
            if self._buffer:
                self._last_read_seq = self._buffer[-1].seq
            else:
                self._next_read_at = now + POLL
        return bool(self._buffer)

    # -- recording --------------------------------------------------------------------------------

    def _queue_for_recording(self, outcome: _EventOutcome, events: list[SentEvent]) -> None:
        """Remember that events were sent or acknowledged until the next batch is recorded in the store."""
        if not any(self._unrecorded.values()):
            self._unrecorded_since = self._clock()
        self._unrecorded[outcome] += events

    def _unrecorded_acknowledgements(self) -> int:
        return len(self._unrecorded["proved"]) + len(self._unrecorded["unproved"])

    def _record_events(self, *, force: bool) -> None:
        """Record sent and acknowledged events in the agent's store, in batches unless ``force``.

        After an error of the disk, nothing is handed over for one second, unless ``force``.
        """
        while self._recording and self._recording[0][0].done():
            self._process_recording_result(*self._recording.popleft())
        now, is_batch_full = self._clock(), self._unrecorded_acknowledgements() >= DELETE_BATCH // 2
        failed_recently = self._disk_failed_at is not None and now - self._disk_failed_at < 1.0
        if not force and (failed_recently or not (is_batch_full or now - self._unrecorded_since >= FLUSH)):
            return
        for outcome, events in self._unrecorded.items():
            if events:
                self._unrecorded[outcome] = []
                store = self._store
                future = (
                    store.queue_journal_records_for_sent_events(events)
                    if outcome == "sent"
                    else store.queue_removal_of_acknowledged_events(events, outcome == "proved")
                )
                self._recording.append((future, outcome, events))

    def _process_recording_result(self, future: Future[None], outcome: _EventOutcome, events: list[SentEvent]) -> None:
        """Process the store's answer about recorded events.

        Acknowledgements that could not be written are recorded later.
        """
        try:
            future.result()
            self._disk_failed_at = None
        except AgentError as error:
            if self._disk_failed_at is None:
                self._log.error(
                    "the agent cannot record in its store which events the broker acknowledged, for the reason "
                    "in the field `reason`, and tries again. Check the disk of the directory state.directory",
                    reason=str(error),
                )
            self._disk_failed_at = self._clock()
            if outcome != "sent":
                self._unrecorded[outcome] = events + self._unrecorded[outcome]

    def _wait_until_recorded(self) -> None:
        """Record all sent and acknowledged events in the agent's store, and wait for its answers."""
        self._record_events(force=True)
        while self._recording:
            self._process_recording_result(*self._recording.popleft())
