"""The invariants of the connection's state machine: at random, at every interruption, and in a crowd."""

from __future__ import annotations

import copy
import heapq
import itertools
import random
import tracemalloc
from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from activemq_agent.connecting import (
    Action,
    AgentStartedEvent,
    AgentStoppingEvent,
    BrokerSelectionStateMachine,
    CanaryReceived,
    CloseConnection,
    ConnectionPolicy,
    Event,
    OpenConnection,
    ReportConnectionAlarmAction,
    ReportConnectionDownAction,
    ReportConnectionUpAction,
    SendCanary,
    TimePassedEvent,
)
from activemq_agent.connection_events import ConnackReceived, ConnectionEnded, TransportUp

POLICY = ConnectionPolicy()


def accepted(conn: int) -> ConnackReceived:
    return ConnackReceived(conn, None, False)


def denied(conn: int, reason: str) -> ConnackReceived:
    return ConnackReceived(conn, reason, True)


class Watcher:
    """Carries a machine out in its head and holds it to its word after every step."""

    def __init__(self, machine: BrokerSelectionStateMachine) -> None:
        self.machine = machine
        self.now = 0.0
        self.started = self.stopped = False
        self.open: int | None = None
        self.broker: int | None = None
        self.up = self.answered = False
        self.seen: set[int] = set()
        self.last: int | None = None  # the broker dialled before, in this walk
        self.heads: frozenset[int] = frozenset({0})  # where the next walk may begin
        self.walked: set[int] = set()

    def tell(self, event: Event) -> tuple[Action, ...]:
        before = copy.deepcopy(self.machine) if self.is_late(event) else None
        was_up, was_answered, broker = self.up, self.answered, self.broker
        actions = self.machine.process_event(event, self.now)
        if before is not None:
            assert actions == ()
            assert self.machine == before or isinstance(event, AgentStoppingEvent)
        self.started = self.started or isinstance(event, AgentStartedEvent)
        self.stopped = self.stopped or isinstance(event, AgentStoppingEvent)
        if isinstance(event, CanaryReceived) and event.conn == self.open and self.up and event.number == 1:
            self.answered = True
        lost = was_up and any(isinstance(action, ReportConnectionDownAction) for action in actions)
        if lost and broker is not None:
            unanswered = isinstance(event, TimePassedEvent) or (isinstance(event, ConnectionEnded) and event.silent)
            self.heads = frozenset({(broker + 1) % self.machine.brokers if unanswered or not was_answered else 0})
            self.walked = set()
        for action in actions:
            self.check(action)
        return actions

    def is_late(self, event: Event) -> bool:
        if self.stopped:
            return True
        return (
            not isinstance(event, AgentStartedEvent | AgentStoppingEvent | TimePassedEvent) and event.conn != self.open
        )

    def check(self, action: Action) -> None:
        match action:
            case OpenConnection():
                assert self.open is None, "dialled without having closed"
                assert action.conn not in self.seen, "a number was used twice"
                assert not self.stopped
                self.check_order(action.broker)
                self.seen.add(action.conn)
                self.open, self.broker, self.answered = action.conn, action.broker, False
            case CloseConnection():
                assert self.open == action.conn
                self.open = None
            case ReportConnectionUpAction():
                assert (self.open, self.broker, self.up) == (action.conn, action.broker, False)
                self.up = True
            case ReportConnectionDownAction():
                assert self.up
                self.up = False
            case SendCanary():
                assert self.up
                assert self.open == action.conn
            case ReportConnectionAlarmAction():
                assert action.reason

    def check_order(self, broker: int) -> None:
        if len(self.walked) == self.machine.brokers:
            self.walked, self.heads = set(), frozenset({0})
        if not self.walked:
            assert broker in self.heads, "a walk began in the middle of the list"
        else:
            assert self.last is not None
            assert broker == (self.last + 1) % self.machine.brokers, "the order of the list was left"
            assert broker not in self.walked
        self.walked.add(broker)
        self.last = broker

    def at_rest(self) -> None:
        due = self.machine.next_tick_time
        if self.started and not self.stopped:
            assert due is not None, "nothing is due and nothing will ever happen"
            assert due <= self.now + POLICY.refused_pause
        else:
            assert due is None
        assert not (self.up and self.open is None)


class AnyHistory(RuleBasedStateMachine):
    """Any order of events, true, late, repeated and made up."""

    @initialize(brokers=st.integers(1, 4), seed=st.integers(0, 2**16))
    def begin(self, brokers: int, seed: int) -> None:
        self.watcher = Watcher(BrokerSelectionStateMachine(brokers, POLICY, random.Random(seed).random))

    def some_conn(self, back: int) -> int:
        return max(self.watcher.seen, default=1) - back

    @rule()
    def start(self) -> None:
        self.watcher.tell(AgentStartedEvent())

    @rule(seconds=st.floats(0, 70))
    def time_passes(self, seconds: float) -> None:
        """The machine is told in time, as a caller that sleeps until ``due`` does."""
        end, last = self.watcher.now + seconds, None
        while (due := self.watcher.machine.next_tick_time) is not None and due <= end:
            self.watcher.now = max(self.watcher.now, due)
            assert (self.watcher.now, len(self.watcher.seen)) != last, "it spins"
            last = (self.watcher.now, len(self.watcher.seen))
            if not self.watcher.tell(TimePassedEvent()):
                assert self.watcher.machine.next_tick_time != due, "it spins"
        self.watcher.now = end

    @rule(seconds=st.floats(0, 300))
    def the_caller_oversleeps(self, seconds: float) -> None:
        self.watcher.now += seconds
        self.watcher.tell(TimePassedEvent())

    @rule(back=st.sampled_from([0, 0, 0, 1, 2, -1]))
    def accept(self, back: int) -> None:
        self.watcher.tell(accepted(self.some_conn(back)))

    @rule(back=st.sampled_from([0, 0, 0, 1, -1]))
    def open(self, back: int) -> None:
        self.watcher.tell(TransportUp(self.some_conn(back)))

    @rule(back=st.sampled_from([0, 0, 0, 1, -1]))
    def fail(self, back: int) -> None:
        self.watcher.tell(ConnectionEnded(self.some_conn(back), "refused"))

    @rule(back=st.sampled_from([0, 0, 1]))
    def deny(self, back: int) -> None:
        self.watcher.tell(denied(self.some_conn(back), "credentials"))

    @rule(back=st.sampled_from([0, 0, 0, 1, -1]), unanswered=st.booleans())
    def lose(self, back: int, unanswered: bool) -> None:
        self.watcher.tell(ConnectionEnded(self.some_conn(back), "reset", unanswered))

    @rule(back=st.sampled_from([0, 0, 0, 1]), number=st.sampled_from([1, 1, 2, 3, 0, 99]))
    def canary(self, back: int, number: int) -> None:
        self.watcher.tell(CanaryReceived(self.some_conn(back), number))

    @precondition(lambda self: len(self.watcher.seen) > 3)
    @rule()
    def stop(self) -> None:
        self.watcher.tell(AgentStoppingEvent())

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "watcher"):
            self.watcher.at_rest()


TestAnyHistory = AnyHistory.TestCase

STORY: tuple[Event | float, ...] = (
    *(
        AgentStartedEvent(),
        ConnectionEnded(1, "refused"),
        TransportUp(2),
        5.0,
        1.0,
        TransportUp(3),
        accepted(3),
        CanaryReceived(3, 1),
    ),
    *(15.0, CanaryReceived(3, 2), 15.0, CanaryReceived(3, 3), 2.0, ConnectionEnded(3, "reset"), TransportUp(4), 5.0),
    *(denied(5, "password"), 60.0, accepted(6), 5.0, 15.0, 5.0, 30.0),
)
"""A life with everything in it: refusals, silence, an outage, canaries lost, credentials."""


def told(watcher: Watcher, event: Event | float) -> None:
    if isinstance(event, float):
        watcher.now += event
        event = TimePassedEvent()
    watcher.tell(event)
    watcher.at_rest()


def interruptions(watcher: Watcher) -> list[Event | float]:
    conn = max(watcher.seen, default=1)
    found: list[Event | float] = [AgentStartedEvent(), AgentStoppingEvent(), 0.0, 0.1, 31.0, 1000.0]
    for number in (conn, conn - 1, conn + 1):
        found += [
            TransportUp(number),
            accepted(number),
            ConnectionEnded(number, "r"),
            denied(number, "d"),
            CanaryReceived(number, 1),
        ]
        found += [ConnectionEnded(number, "l"), ConnectionEnded(number, "l", True)]
    return found


def test_every_transition_may_be_interrupted_twice_by_anything() -> None:
    """At each point of a life, each two events that could come instead; then the machine connects again."""
    watcher = Watcher(BrokerSelectionStateMachine(2, POLICY, random.Random(1).random))
    replayed = 0
    for event in STORY:
        for first in interruptions(watcher):
            once = copy.deepcopy(watcher)
            told(once, first)
            for second in interruptions(once):
                twice = copy.deepcopy(once)
                told(twice, second)
                replayed += 1
                assert twice.stopped or connects(twice)
        told(watcher, event)
    assert replayed > 10_000


def connects(watcher: Watcher) -> bool:
    """Whether brokers that now accept are found: within a refusal's pause and a silent attempt each."""
    watcher.tell(AgentStartedEvent())
    end = watcher.now + 60 + 2 * 30 + 2 * 5
    while not watcher.up and watcher.now <= end:
        if watcher.open is not None:
            watcher.tell(accepted(watcher.open))
        else:
            assert watcher.machine.next_tick_time is not None
            watcher.now = max(watcher.now, watcher.machine.next_tick_time)
            watcher.tell(TimePassedEvent())
    return watcher.up


def fleet_outage(
    seed: int, policy: ConnectionPolicy = POLICY, *, agents: int = 50, seconds: float = 600.0
) -> list[float]:
    """When the agents of a fleet dial, in seconds since all lost both brokers at once; nobody listens."""
    draw, found = random.Random(seed), []
    queue: list[tuple[float, int]] = []
    machines = []
    for agent in range(agents):
        machine = BrokerSelectionStateMachine(2, policy, draw.random)
        machine.process_event(AgentStartedEvent(), -100.0)
        machine.process_event(accepted(1), -100.0)
        machine.process_event(CanaryReceived(1, 1), -100.0)
        machines.append(machine)
        pending = deque(machine.process_event(ConnectionEnded(1, "reset"), 0.0))
        found += refuse(machine, pending, 0.0)
        heapq.heappush(queue, (machine.next_tick_time or 0.0, agent))
    while queue[0][0] <= seconds:
        now, agent = heapq.heappop(queue)
        machine = machines[agent]
        found += refuse(machine, deque(machine.process_event(TimePassedEvent(), now)), now)
        heapq.heappush(queue, (machine.next_tick_time or 0.0, agent))
    return found


def refuse(machine: BrokerSelectionStateMachine, pending: deque[Action], now: float) -> list[float]:
    found = []
    while pending:
        action = pending.popleft()
        if isinstance(action, OpenConnection):
            found.append(now)
            pending.extend(machine.process_event(ConnectionEnded(action.conn, "refused"), now))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_fifty_agents_without_a_broker_make_at_most_ten_attempts_in_a_second(seed: int) -> None:
    seconds = Counter(int(second) for second in fleet_outage(seed) if second >= 30)
    assert max(seconds.values()) <= 10


def test_the_bound_of_ten_attempts_has_room_in_many_fleets() -> None:
    """100 fleets, with a short fast phase (what comes after it is the same): hardly one gets near ten.

    Of 2,000 fleets none held more than ten attempts in a second, and six held ten.
    """
    short = replace(POLICY, fast_phase=1.0)
    worst = Counter(
        max(Counter(int(s) for s in fleet_outage(seed, short) if s >= 1).values()) for seed in range(100, 200)
    )
    assert max(worst) <= 10, worst
    assert worst[10] + worst[9] <= 10, worst


def test_the_crowd_is_dense_in_the_fast_phase_and_thin_after_it() -> None:
    """Without this the test above could hold because nobody dials at all."""
    attempts = fleet_outage(1)
    fast, slow = [a for a in attempts if a < 30], [a for a in attempts if a >= 30]
    assert len(fast) > 50 * 2 * 25
    assert 50 * 570 / 30 <= len(slow) <= 50 * 570 / 28.5 + 50


def test_full_jitter_between_rounds_would_break_the_bound() -> None:
    """Why single attempts are paced, and why pauses at the cap have a floor: without both, attempts bunch."""
    draw, worst = random.Random(1), []
    for _ in range(10):
        found = Counter[int]()
        for _ in range(50):
            now = 30.0
            while now < 600:
                now += 30 * draw.random()
                found[int(now)] += 2
        worst.append(max(found.values()))
    assert min(worst) > 10


@pytest.mark.parametrize("hours", [24])
def test_a_day_without_brokers_takes_no_memory(hours: int) -> None:
    machine = BrokerSelectionStateMachine(2, POLICY, random.Random(1).random, itertools.count(1))
    machine.process_event(AgentStartedEvent(), 0.0)
    now, conn = 0.0, 1

    def fail_until(end: float) -> int:
        nonlocal now, conn
        attempts = 0
        pending = deque(machine.process_event(ConnectionEnded(conn, "refused"), now))
        while now < end:
            while pending:
                action = pending.popleft()
                if isinstance(action, OpenConnection):
                    conn, attempts = action.conn, attempts + 1
                    pending.extend(machine.process_event(ConnectionEnded(conn, "refused"), now))
            now = machine.next_tick_time or now
            pending.extend(machine.process_event(TimePassedEvent(), now))
        return attempts

    fail_until(3600)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    assert fail_until(3600.0 * hours) > 2800
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000
