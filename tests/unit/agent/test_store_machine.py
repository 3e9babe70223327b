"""The store compared with a simple model, through any sequence of calls, restarts, crashes and reboots."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from activemq_agent.agent_errors import OutboxFullError, RequestRefusedError
from activemq_agent.store import InboxStorageOutcome, SentEvent, Store, StoreLimits
from tests.unit.agent.store_clock import SimulatedClock, acknowledge, open_store, pending_messages_of_all_lanes, receive

# A few calls reach each of these limits.
LIMITS = StoreLimits(
    outbox_rows=4, expired_rows=2, unconfirmed_rows=2, inbox_rows=4, topic_rows=2, filters=("a/#",), timeout=100,
    remember=10_000,
)  # fmt: skip
TOPICS = st.sampled_from(["a", "a/b", "a/b/d", "c"])
IDS = st.sampled_from(["e1", "e2", None])


class Connection:
    """A connection of the model: no other one is equal to it, whatever their numbers are."""


@dataclass(frozen=True)
class Canary:
    """A canary of the model that the broker accepted, and that has not returned to the agent yet.

    The broker checked the permission for ``prefix`` when it accepted the canary. So it proves that the broker accepted
    those events that need the same permission and that it received later on the same connection, and no others.
    """

    prefix: tuple[str, ...]
    sent_at: int
    last_place: int
    connection: Connection

    def proves(self, event: Event) -> bool:
        levels = tuple(event.topic.split("/"))
        has_same_permission = (levels[:-1] or levels) == self.prefix
        return has_same_permission and event.connection is self.connection and event.sent_at > self.sent_at


@dataclass
class Event:
    """An accepted event of the model."""

    event_id: str
    topic: str
    payload: bytes
    deadline: float
    timeout: float
    place: int
    sent_at: int = 0
    connection: Connection | None = None


@dataclass
class Model:
    """The expected state of the store, in plain lists."""

    outbox: list[Event] = field(default_factory=list)
    expired: list[Event] = field(default_factory=list)
    unconfirmed: list[Event] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    inbox: list[tuple[int, str | None, str]] = field(default_factory=list)
    quarantined: int = 0
    attempts: dict[int, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    handled: set[int] = field(default_factory=set)
    seq: int = 0
    place: int = 0
    rx: int = 0
    jseq: int = 0

    def lane(self, topic: str) -> list[int]:
        filter_lane = [rx for rx, _, message_topic in self.inbox if (message_topic[0] == "a") == (topic[0] == "a")]
        return [rx for rx, _, message_topic in self.inbox if message_topic == topic] if topic[0] != "a" else filter_lane


class StoreMachine(RuleBasedStateMachine):
    """A state machine whose rules call the store, and whose invariants compare all readable rows with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="store-machine"))
        self.directory = self.base / "0"
        self.copies = 0
        self.clock = SimulatedClock()
        self.model = Model()
        self.conn = 1
        self.start_connection(1)
        self.steps = 0
        self.store: Store = open_store(self.directory, self.clock, LIMITS)
        self.epoch = self.store.epoch

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.base)

    def start_connection(self, number: int) -> None:
        """Start a connection; the numbers of connections begin with 1 in each run of the agent."""
        self.conn, self.connection, self.last_place = number, Connection(), 0
        self.canaries: list[Canary] = []

    # Rules of the publisher

    @rule(topic=TOPICS, event_id=IDS, timeout=st.sampled_from([None, 1.0, 50.0]))
    def accept(self, topic: str, event_id: str | None, timeout: float | None) -> None:
        model, payload = self.model, b"payload %d" % self.model.place
        try:
            accepted_id = self.store.accept_event(topic, payload, event_id=event_id, timeout=timeout)
        except OutboxFullError:
            assert len(model.outbox) == LIMITS.outbox_rows
            assert event_id not in model.accepted
            return
        if event_id in model.accepted:
            assert accepted_id == event_id
            return
        assert len(model.outbox) < LIMITS.outbox_rows
        model.seq += event_id is None
        model.place += 1
        model.jseq += 1
        assert accepted_id == (event_id or f"a1:{self.epoch}:{model.seq}")
        if event_id is not None:
            model.accepted.add(event_id)
        event_timeout = LIMITS.timeout if timeout is None else timeout
        model.outbox.append(
            Event(accepted_id, topic, payload, self.clock.seconds + event_timeout, event_timeout, model.place)
        )

    @rule(data=st.data(), proved=st.booleans())
    def send_and_acknowledge(self, data: st.DataObject, proved: bool) -> None:
        model = self.model
        unexpired = [event for event in model.outbox if event.deadline > self.clock.seconds]
        unsent = [event for event in unexpired if event.place > self.last_place]  # a connection sends events in order
        chosen = data.draw(st.lists(st.sampled_from(unsent), unique_by=id)) if unsent else []
        chosen.sort(key=lambda event: event.place)
        sent_events = [SentEvent(event.place, self.conn, 1, "b") for event in chosen]
        self.store.queue_journal_records_for_sent_events(sent_events).result()
        acknowledge(self.store, *[event.place for event in chosen], proved=proved, conn=self.conn)
        model.jseq += 2 * len(chosen)
        for event in chosen:
            self.steps += 1
            event.sent_at, event.connection, self.last_place = self.steps, self.connection, event.place
            model.outbox.remove(event)
            if not proved:
                model.unconfirmed.append(event)
                model.unconfirmed.sort(key=lambda event: event.place)
                dropped = model.unconfirmed[: -LIMITS.unconfirmed_rows]
                model.accepted -= {event.event_id for event in dropped}
                del model.unconfirmed[: -LIMITS.unconfirmed_rows]

    @rule()
    def connect(self) -> None:
        self.start_connection(self.conn + 1)

    @rule(prefix=st.sampled_from([("a",), ("c",), ("a", "b")]))
    def send_canary(self, prefix: tuple[str, ...]) -> None:
        self.steps += 1
        self.canaries.append(Canary(prefix, self.steps, self.last_place, self.connection))

    @precondition(lambda self: self.canaries)
    @rule(data=st.data())
    def receive_canary(self, data: st.DataObject) -> None:
        canary = data.draw(st.sampled_from(self.canaries))
        proved = [event for event in self.model.unconfirmed if canary.proves(event)]
        confirmed = self.store.confirm_and_delete_events_below_prefix(
            "/".join(canary.prefix), self.conn, canary.last_place
        )
        assert confirmed == len(proved)
        self.model.unconfirmed = [event for event in self.model.unconfirmed if event not in proved]
        self.model.jseq += len(proved)

    @rule(seconds=st.sampled_from([1.0, 49.0, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.pass_time(seconds)

    @rule()
    def expire(self) -> None:
        model = self.model
        due = self.due_events()
        due = due[: LIMITS.expired_rows - len(model.expired)]
        assert self.store.move_or_drop_expired_events() == len(due)
        model.outbox = [event for event in model.outbox if event not in due]
        model.expired = sorted(model.expired + due, key=lambda event: event.place)
        model.jseq += len(due)

    def due_events(self) -> list[Event]:
        """Return the events of the outbox that are past their deadline, in the order in which they expire."""
        due = [event for event in self.model.outbox if event.deadline <= self.clock.seconds]
        return sorted(due, key=lambda event: (event.deadline, event.place))

    @rule()
    def requeue(self) -> None:
        model = self.model
        fitting = model.expired[: LIMITS.outbox_rows - len(model.outbox)]
        requeued = fitting + self.due_events()
        assert self.store.requeue_expired_events() == len(requeued)
        model.expired = model.expired[len(fitting) :]
        model.outbox = [event for event in model.outbox if event not in requeued]
        for event in requeued:
            model.place += 1
            event.place, event.deadline = model.place, self.clock.seconds + event.timeout
        model.outbox += requeued
        model.jseq += len(requeued)

    # Rules of the subscriber

    @rule(topic=TOPICS, event_id=IDS)
    def receive(self, topic: str, event_id: str | None) -> None:
        model = self.model
        payload = json.dumps({"eventId": event_id} if event_id else {}).encode()
        outcome = receive(self.store, topic, payload, conn=self.conn)
        full = len(model.inbox) + model.quarantined >= LIMITS.inbox_rows or len(model.lane(topic)) >= LIMITS.topic_rows
        if event_id in model.known:
            assert outcome == InboxStorageOutcome(0, event_id, duplicate=True)
        elif full:
            assert outcome == InboxStorageOutcome(0, event_id, full=True)
            return
        else:
            model.rx += 1
            assert outcome == InboxStorageOutcome(model.rx, event_id)
            model.inbox.append((model.rx, event_id, topic))
            model.known |= {event_id} if event_id else set()
        model.jseq += 1

    @precondition(lambda self: self.model.inbox)
    @rule(data=st.data(), end=st.sampled_from(["handled", "quarantine", "crash", "failed", "stopped"]))
    def handle(self, data: st.DataObject, end: str) -> None:
        model = self.model
        message = data.draw(st.sampled_from(model.inbox))
        rx = message[0]
        model.attempts[rx] = model.attempts.get(rx, 0) + 1
        assert self.store.begin_handling_attempt(rx) == model.attempts[rx]
        model.jseq += 1
        if end == "crash":
            self.crash()
        elif end == "stopped":
            self.store.withdraw_interrupted_attempt(rx)
            model.attempts[rx] = max(1, model.attempts[rx] - 1)
        elif end != "failed":
            if end == "handled":
                self.store.record_handled(rx)
            else:
                self.store.quarantine(rx, "reason")
                model.quarantined += 1
            model.jseq += 1
            model.handled.add(rx)
            model.inbox.remove(message)

    @precondition(lambda self: self.model.handled)
    @rule(data=st.data())
    def retry_handled_message(self, data: st.DataObject) -> None:
        rx = data.draw(st.sampled_from(sorted(self.model.handled)))
        try:
            self.store.begin_handling_attempt(rx)
        except RequestRefusedError:
            return
        raise AssertionError(f"the store starts the handled message {rx} again")

    # Rules of restarts

    @rule(reboot=st.booleans(), takes=st.sampled_from([0.0, 30.0]))
    def restart(self, reboot: bool, takes: float) -> None:
        self.store.close()
        self.clock.reboot(takes) if reboot else self.clock.pass_time(takes)
        self.store = open_store(self.directory, self.clock, LIMITS)
        self.start_connection(1)

    @rule()
    def crash(self) -> None:
        """Continue with a copy of the files that are on the disk now."""
        self.copies += 1
        copy = self.base / str(self.copies)
        shutil.copytree(self.directory, copy)
        self.store.close()
        shutil.rmtree(self.directory)
        self.directory = copy
        self.store = open_store(self.directory, self.clock, LIMITS)
        self.start_connection(1)

    # Invariants

    @invariant()
    def store_matches_model(self) -> None:
        model = self.model
        unexpired = [event for event in model.outbox if event.deadline > self.clock.seconds]
        assert [
            (event.seq, event.event_id, event.topic, event.payload) for event in self.store.outgoing_events(100)
        ] == [(event.place, event.event_id, event.topic, event.payload) for event in unexpired]
        assert [
            (message.rx, message.event_id, message.topic, message.attempts)
            for message in pending_messages_of_all_lanes(self.store)
        ] == [(*message, model.attempts.get(message[0], 0)) for message in model.inbox]
        counts = self.store.row_and_byte_counts()
        assert counts.outbox_rows == len(model.outbox)
        assert counts.outbox_bytes == sum(len(event.topic) + len(event.payload) for event in model.outbox)
        assert (counts.expired, counts.unconfirmed) == (len(model.expired), len(model.unconfirmed))
        assert (counts.inbox_rows, counts.quarantined) == (len(model.inbox), model.quarantined)
        assert self.store.epoch == self.epoch
        assert self.store.damage is None

    @invariant()
    def journal_numbers_are_consecutive(self) -> None:
        numbers = [json.loads(record.line)["jseq"] for record in self.store.oldest_journal_records(10_000)]
        assert numbers == list(range(1, self.model.jseq + 1))


# Each step opens and reads files: it needs fewer examples than a test that only computes.
StoreMachine.TestCase.settings = settings(
    max_examples=max(10, settings().max_examples // 4), stateful_step_count=40, deadline=None
)
test_agent_store_matches_model_after_any_sequence_of_calls = StoreMachine.TestCase


STEPS = [("event", "a/E"), ("event", "a/b/E"), ("canary", "a"), ("canary", "a/b"), ("return", ""), ("connect", "")]


@given(
    steps=st.lists(st.sampled_from([*STEPS, ("return", ""), ("restart", "")]), min_size=3, max_size=12),
    data=st.data(),
)
def test_canary_confirms_only_events_that_it_proves(steps: list[tuple[str, str]], data: st.DataObject) -> None:
    """The events are acknowledged and unconfirmed; ``return`` receives any earlier canary of the connection."""
    conn, connection, unconfirmed = 1, Connection(), list[Event]()
    canaries: list[Canary] = []
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(Path(directory))
        for number, (kind, topic) in enumerate(steps):
            last_place = max((event.place for event in unconfirmed if event.connection is connection), default=0)
            if kind == "event":
                event_id = store.accept_event(topic, b"{}")
                (outgoing,) = store.outgoing_events(2)
                acknowledge(store, outgoing.seq, proved=False, conn=conn)
                unconfirmed.append(Event(event_id, topic, b"{}", 0, 0, outgoing.seq, number, connection))
            elif kind == "canary":
                canaries.append(Canary(tuple(topic.split("/")), number, last_place, connection))
            elif kind == "return" and canaries:
                canary = data.draw(st.sampled_from(canaries))
                proved = [event for event in unconfirmed if canary.proves(event)]
                confirmed = store.confirm_and_delete_events_below_prefix(
                    "/".join(canary.prefix), conn, canary.last_place
                )
                assert confirmed == len(proved)
                unconfirmed = [event for event in unconfirmed if event not in proved]
            elif kind in ("connect", "restart"):
                conn, connection, canaries = conn + 1, Connection(), []
                if kind == "restart":
                    conn = 1
                    store.close()
                    store = open_store(Path(directory))
        assert store.requeue_expired_events([event.event_id for event in unconfirmed]) == len(unconfirmed)
        store.close()
