"""Publish the events of the outbox to the broker, in their order, and delete them once they are acknowledged.

ActiveMQ also acknowledges messages that it rejects (for a missing right or a full store), so a PUBACK alone proves
nothing. So the publisher subscribes to a canary topic, ``PREFIX/__canary__/AGENT``, for each topic prefix that it uses
on a connection, and sends a canary (a test message) to it. Until the canary is received, acknowledged events of that
prefix stay in the outbox. If the canary is not received in time, the events are kept separately as unconfirmed.
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

from activemq_agent.agent_connection import AgentConnection, ConnectionDependencies
from activemq_agent.agent_errors import AgentError
from activemq_agent.agent_topics import LARGEST_CANARY, barrier_topic, canary_topic, topic_without_last_level
from activemq_agent.connecting import ReportConnectionDownAction, ReportConnectionUpAction
from activemq_agent.connection_events import MessageReceived, PubackReceived, SubackReceived
from activemq_agent.identity import add_event_id
from activemq_agent.logs import LogInterface
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
ASK_AGAIN = 60.0
"""Seconds after which the canary of an unproved prefix is sent again."""
MOST_PREFIXES = 256
"""Largest number of topic prefixes that are remembered and subscribed to; the longest unused one is dropped first."""
BARRIER_EVERY = 60.0
DELETE_BATCH = 500
"""Largest number of acknowledged events that wait for deletion; after a crash they are sent again, as is the window."""

_WAKE = object()


_Fate = Literal["sent", "proved", "unproved"]
"""What became of an event: it was sent, or acknowledged on a topic prefix that is proved or is not."""


@dataclass(slots=True)
class _Prefix:
    """The state of a topic prefix on the publisher's current connection: whether delivery on it is proved.

    ``held``: acknowledged events that wait for the canary, a test message that proves delivery. ``canary`` is the
    payload that has to come back: random, so that only a receiver of it can send it.
    """

    state: Literal["asked", "proved", "unproved"]
    asked_at: float
    canary: bytes = field(default_factory=lambda: secrets.token_hex(16).encode())
    held: list[SentEvent] = field(default_factory=list)


class _Flying(NamedTuple):
    """An event that was sent at time ``at``, and whose acknowledgement (PUBACK) has not arrived."""

    sent: SentEvent
    prefix: _Prefix
    at: float


class Publisher:
    """A publisher of an agent, which sends the events in the store's outbox to the broker.

    One thread calls ``run``; other methods and counters are for any thread. At most ``config.publisher_window`` events
    wait for their PUBACK or their prefix's canary, and ``DELETE_BATCH`` acknowledged events for their deletion. Raises
    ConfigError for TLS files that cannot be used.
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
        """Time of the loop's last turn, by ``clock``."""
        self._config, self._store, self._log, self._clock = config, store, log, clock
        self.link = AgentConnection(config, "publisher", store=store, log=log, clock=clock, **dependencies)
        self._used: dict[str, None] = {}  # prefixes since the start, for barriers
        self._woken = False
        self._up = False
        self._reset()
        self._unrecorded: dict[_Fate, list[SentEvent]] = {"sent": [], "proved": [], "unproved": []}
        self._since = 0.0  # when the first of these came
        self._recording: deque[tuple[Future[None], _Fate, list[SentEvent]]] = deque()  # what the store must record
        self._disk_since: float | None = None  # when the disk refused last, until it has taken something
        self._barrier_at = clock() + BARRIER_EVERY
        self._asked_at = clock()

    def _reset(self) -> None:
        """Reset the state of one connection, so that the outbox is read from its beginning again."""
        self._flying: dict[int, _Flying] = {}
        self._prefixes: dict[str, _Prefix] = {}
        self._prefix_of_canary: dict[str, str] = {}  # prefix by canary topic
        self._subscribing: dict[int, str] = {}  # prefix by packet number
        self._held = 0
        self._buffer: deque[OutgoingEvent] = deque()
        self._after = 0
        self._read_at = 0.0
        self._look_at = 0.0  # when to read the outbox again without a wake-up

    @property
    def unproved_topic_prefixes(self) -> tuple[str, ...]:
        """The topic prefixes on which delivery is not proved, because no canary of the agent came back.

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
        for prefix in list(self._used):
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
        self._wait_recorded()

    def run_once(self) -> None:
        """Run one iteration of the loop that publishes an agent's events.

        It processes connection events, sends events of the outbox, and records what was sent.
        """
        for event in self.link.run_once_and_yield_events(FLUSH if any(self._unrecorded.values()) else POLL):
            self.link.handle_or_drop_event(event, self._handle)
        now = self.last_loop_start = self._clock()
        if self._up and self._is_answered(now):
            self._ask_again(now)
            self._send(now)
        self._record(force=False)
        if self._config.barrier and now >= self._barrier_at:
            self._barrier_at = now + BARRIER_EVERY
            with contextlib.suppress(AgentError):  # a full outbox: its events are what matters
                self.add_barriers_to_outbox()

    # -- what happened ----------------------------------------------------------------------------

    def _handle(self, event: object) -> None:
        match event:
            case PubackReceived():
                self._acknowledged(event.mid)
            case MessageReceived():
                self._process_received_message(event)
            case SubackReceived():
                prefix = self._subscribing.pop(event.mid, None)
                if prefix is not None and event.refused:
                    topic = canary_topic(prefix, self._config.agent)
                    self._give_up_on(prefix, f"the broker rejects the subscription to the agent's test topic {topic}")
            case ReportConnectionUpAction():
                self._wait_recorded()  # what is acknowledged must be gone before the outbox is read again
                self._reset()
                self._up = True
            case ReportConnectionDownAction():
                self._up = False
                self._reset()
            case _ if event is _WAKE:
                self._woken, self._look_at = False, 0.0

    def _acknowledged(self, mid: int) -> None:
        flying = self._flying.pop(mid, None)
        if flying is None:
            return
        self.acknowledged += 1
        prefix = flying.prefix
        if prefix.state == "asked":
            prefix.held.append(flying.sent)
            self._held += 1
        else:
            self._note(prefix.state, [flying.sent])

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
            self._record(force=True)
            self._store.confirm_events_below_topic_prefix(name, self.link.conn)
        self._decide(prefix, "proved")

    def _give_up_on(self, name: str, reason: str, remedy: str = "") -> None:
        prefix = self._prefixes.get(name)
        if prefix is None or prefix.state != "asked":
            return
        permission = (
            f"let {self._config.login_user_description} write the topics of these events, and read and write "
            f"{canary_topic(name, self._config.agent)}, in the broker's ACL"
        )
        self._log.warning(
            f"the agent cannot confirm the delivery of events below the topic {name!r}: {remedy or permission}",
            prefix=name,
            broker=self.link.broker,
            reason=reason,
        )
        self._decide(prefix, "unproved")

    def _decide(self, prefix: _Prefix, state: Literal["proved", "unproved"]) -> None:
        """Set the state of a topic prefix, and record the acknowledged events that waited for its canary."""
        prefix.state = state
        self._held -= len(prefix.held)
        self._note(state, prefix.held)
        prefix.held = []

    def _is_answered(self, now: float) -> bool:
        """Return whether the broker sends PUBACKs within ``puback_timeout``; give up the connection if not."""
        oldest = next(iter(self._flying.values()), None)
        if oldest is None or now - oldest.at < self._config.policy.puback_timeout:
            return True
        self._up = False
        self.link.switch_to_next_broker(f"the broker sent no PUBACK in {self._config.policy.puback_timeout:g} s")
        return False

    # -- prefixes ---------------------------------------------------------------------------------

    def _send_first_canary(self, name: str, now: float) -> _Prefix:
        """Send a canary on a topic prefix before the first event on it, and return the prefix's new state."""
        while len(self._prefixes) >= MOST_PREFIXES:
            self._forget(next(iter(self._prefixes)))
        prefix = self._prefixes[name] = _Prefix("asked", now)
        self._used[name] = None
        while len(self._used) > MOST_PREFIXES:
            del self._used[next(iter(self._used))]
        self._prefix_of_canary[canary_topic(name, self._config.agent)] = name
        self._send_canary(name)
        return prefix

    def _send_canary(self, name: str) -> None:
        session, topic = self.link.session, canary_topic(name, self._config.agent)
        if session is not None:
            mid = session.subscribe(topic, 1)
            if mid is not None:
                self._subscribing[mid] = name
            session.publish(topic, self._prefixes[name].canary)

    def _forget(self, name: str) -> None:
        """Drop the state of a prefix to make room; acknowledged events that wait for its canary become unconfirmed."""
        self._give_up_on(
            name,
            f"the agent publishes events with more than {MOST_PREFIXES} topic prefixes, but can test the delivery for "
            f"only {MOST_PREFIXES} prefixes at a time",
            f"publish events with at most {MOST_PREFIXES} topic prefixes (topics without their last level)",
        )
        del self._prefixes[name]
        topic = canary_topic(name, self._config.agent)
        self._prefix_of_canary.pop(topic, None)
        if self.link.session is not None:
            self.link.session.unsubscribe(topic)

    def _ask_again(self, now: float) -> None:
        if now - self._asked_at < 1.0:
            return
        self._asked_at = now
        for name, prefix in list(self._prefixes.items()):
            if prefix.state == "asked" and now - prefix.asked_at >= ANSWER:
                topic = canary_topic(name, self._config.agent)
                self._give_up_on(
                    name, f"the broker did not return the agent's test message on the topic {topic} within {ANSWER:g} s"
                )
            elif prefix.state == "unproved" and now - prefix.asked_at >= ASK_AGAIN:
                prefix.asked_at = now
                self._send_canary(name)

    # -- what is to be sent -----------------------------------------------------------------------

    def _send(self, now: float) -> None:
        session, broker = self.link.session, self.link.broker
        if session is None or broker is None:
            return
        recording = sum(len(events) for _, fate, events in self._recording if fate != "sent")
        if recording + self._unrecorded_acknowledgements() > DELETE_BATCH:
            self._record(force=False)
            if self._recording:
                self._recording[0][0].add_done_callback(lambda _: self.wake())
            return
        while len(self._flying) + self._held < self._config.publisher_window and self._has_rows(now):
            row = self._buffer[0]
            name = topic_without_last_level(row.topic)
            prefix = self._prefixes.get(name) or self._send_first_canary(name, now)
            mid = session.publish(row.topic, add_event_id(row.payload, row.event_id, self._config.publisher_envelope))
            if mid is None:
                return  # the connection is going: its end is in the queue
            self._buffer.popleft()
            sent = SentEvent(row.seq, self.link.conn, mid, broker)
            self._flying[mid] = _Flying(sent, prefix, now)
            self.sent += 1
            self._note("sent", [sent])

    def _has_rows(self, now: float) -> bool:
        """Return whether events of the outbox are buffered for sending; read the outbox if necessary.

        Events that were read more than ``FRESH`` seconds ago are read again.
        """
        if self._buffer and now - self._read_at > FRESH:
            self._after = self._buffer[0].seq - 1
            self._buffer.clear()
            self._look_at = 0.0
        if not self._buffer and now >= self._look_at:
            limit = self._config.publisher_window
            self._buffer.extend(self._store.outgoing_events(limit, self._after))
            self._read_at = now
            if self._buffer:
                self._after = self._buffer[-1].seq
            if len(self._buffer) < limit:
                self._look_at = now + POLL
        return bool(self._buffer)

    # -- what is to be recorded -------------------------------------------------------------------

    def _note(self, fate: _Fate, events: list[SentEvent]) -> None:
        """Remember that events were sent or acknowledged until the next batch is recorded in the store."""
        if not any(self._unrecorded.values()):
            self._since = self._clock()
        self._unrecorded[fate] += events

    def _unrecorded_acknowledgements(self) -> int:
        return len(self._unrecorded["proved"]) + len(self._unrecorded["unproved"])

    def _record(self, *, force: bool) -> None:
        """Record sent and acknowledged events in the agent's store, in batches unless ``force``.

        Nothing is handed over for a second after the disk has refused, unless ``force``.
        """
        while self._recording and self._recording[0][0].done():
            self._recorded(*self._recording.popleft())
        now, many = self._clock(), self._unrecorded_acknowledgements() >= DELETE_BATCH // 2
        refused_lately = self._disk_since is not None and now - self._disk_since < 1.0
        if not force and (refused_lately or not (many or now - self._since >= FLUSH)):
            return
        for fate, events in self._unrecorded.items():
            if events:
                self._unrecorded[fate] = []
                store = self._store
                future = (
                    store.queue_journal_records_for_sent_events(events)
                    if fate == "sent"
                    else store.queue_removal_of_acknowledged_events(events, fate == "proved")
                )
                self._recording.append((future, fate, events))

    def _recorded(self, future: Future[None], fate: _Fate, events: list[SentEvent]) -> None:
        """Process the store's answer about recorded events.

        Acknowledgements that the disk refused are recorded later.
        """
        try:
            future.result()
            self._disk_since = None
        except AgentError as error:
            if self._disk_since is None:
                self._log.error(
                    "the agent cannot record in its store which events the broker acknowledged, for the reason "
                    "in the field `reason`, and tries again. Check the disk of the directory state.directory",
                    reason=str(error),
                )
            self._disk_since = self._clock()
            if fate != "sent":
                self._unrecorded[fate] = events + self._unrecorded[fate]

    def _wait_recorded(self) -> None:
        """Record all sent and acknowledged events in the agent's store, and wait for its answers."""
        self._record(force=True)
        while self._recording:
            self._recorded(*self._recording.popleft())
