"""Cases of the state machine of a connection. test_connecting_machine.py checks its invariants."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from activemq_agent.connecting import (
    Action,
    AgentStartedEvent,
    AgentStoppingEvent,
    BrokerSelectionStateMachine,
    CanaryReceived,
    CloseConnectionAction,
    ConnectionSettings,
    Event,
    OpenConnectionAction,
    ReportConnectionAlarmAction,
    ReportConnectionDownAction,
    ReportConnectionUpAction,
    SendCanaryAction,
    TimePassedEvent,
)
from activemq_agent.connection_events import ConnackReceived, ConnectionEnded, TransportUp


def accepting_connack(conn: int) -> ConnackReceived:
    return ConnackReceived(conn, None, False)


def denying_connack(conn: int, reason: str) -> ConnackReceived:
    return ConnackReceived(conn, reason, True)


class Bench:
    """A state machine with a simulated clock."""

    def __init__(self, brokers: int = 2, draw: Callable[[], float] = lambda: 0.5) -> None:
        self.now = 1000.0
        self.machine = BrokerSelectionStateMachine(brokers, ConnectionSettings(), draw)

    def process_event(self, event: Event) -> list[Action]:
        return list(self.machine.process_event(event, self.now))

    def wait(self, seconds: float | None = None) -> list[Action]:
        """Advance the clock by some seconds, or to the next due time, and return the actions of this time."""
        due = self.machine.next_tick_time
        assert due is not None
        end = due if seconds is None else self.now + seconds
        actions: list[Action] = []
        while (due := self.machine.next_tick_time) is not None and due <= end:
            self.now = max(self.now, due)
            actions += self.process_event(TimePassedEvent())
            if seconds is None:
                return actions
        self.now = end
        return actions

    def connect(self, broker: int = 0) -> int:
        """Connect to a broker of the list, after the earlier brokers refused, and return the connection."""
        actions = self.process_event(AgentStartedEvent())
        for _ in range(broker):
            actions = self.process_event(ConnectionEnded(connection_attempts(actions)[0].conn, "refused"))
        conn = connection_attempts(actions)[0].conn
        self.process_event(accepting_connack(conn))
        return conn

    def answer_canaries(self, conn: int, seconds: float = 11.0) -> None:
        """Let a connection answer every canary for a while."""
        self.answer_canary(conn)
        end = self.now + seconds
        while self.machine.next_tick_time is not None and self.machine.next_tick_time <= end:
            self.wait()
            self.answer_canary(conn)
        self.now = end

    def answer_canary(self, conn: int) -> None:
        connection = self.machine._connection
        assert connection is not None
        assert connection.conn == conn
        self.process_event(CanaryReceived(conn, connection.number))


def connection_attempts(actions: list[Action]) -> list[OpenConnectionAction]:
    return [action for action in actions if isinstance(action, OpenConnectionAction)]


def attempts_while_refused(bench: Bench, seconds: float, conn: int) -> list[tuple[float, int]]:
    """Return (seconds since the call, broker) of each attempt while no broker accepts connections."""
    began, attempts = bench.now, []
    actions = bench.process_event(ConnectionEnded(conn, "refused"))
    while bench.now - began < seconds:
        opened_connections = connection_attempts(actions)
        if opened_connections:
            attempts.append((bench.now - began, opened_connections[0].broker))
            actions = bench.process_event(ConnectionEnded(opened_connections[0].conn, "refused"))
        else:
            actions = bench.wait()
    return attempts


def test_first_connection_round_tries_brokers_in_order_without_pause() -> None:
    bench = Bench(3)
    assert bench.process_event(AgentStartedEvent()) == [OpenConnectionAction(0, 1)]
    assert bench.process_event(ConnectionEnded(1, "refused")) == [
        CloseConnectionAction(1, "refused"),
        OpenConnectionAction(1, 2),
    ]
    assert bench.process_event(ConnectionEnded(2, "refused")) == [
        CloseConnectionAction(2, "refused"),
        OpenConnectionAction(2, 3),
    ]
    assert bench.process_event(ConnectionEnded(3, "refused")) == [CloseConnectionAction(3, "refused")]
    assert connection_attempts(bench.wait())[0].broker == 0


def test_first_accepting_broker_is_used_and_receives_canary_immediately() -> None:
    bench = Bench()
    bench.process_event(AgentStartedEvent())
    bench.process_event(ConnectionEnded(1, "refused"))
    assert bench.process_event(accepting_connack(2)) == [ReportConnectionUpAction(1, 2), SendCanaryAction(2, 1)]


def test_broker_without_connack_is_left_after_5_seconds() -> None:
    bench = Bench()
    bench.process_event(AgentStartedEvent())
    bench.process_event(TransportUp(1))
    assert bench.machine.next_tick_time == bench.now + 5
    assert bench.wait() == [
        CloseConnectionAction(
            1,
            "the broker sent no CONNACK in 5 s after the agent's login: check the broker's process, and check that "
            "mb.urls in agent.conf names its MQTT port",
        ),
        OpenConnectionAction(1, 2),
    ]


def test_connack_of_abandoned_connection_attempt_is_ignored() -> None:
    bench = Bench()
    bench.process_event(AgentStartedEvent())
    bench.wait()
    assert bench.process_event(accepting_connack(1)) == []


def test_rejected_credentials_raise_alarm_and_pause_attempts_for_60_seconds() -> None:
    bench = Bench()
    bench.process_event(AgentStartedEvent())
    assert bench.process_event(denying_connack(1, "bad password")) == [
        CloseConnectionAction(1, "bad password"),
        ReportConnectionAlarmAction("bad password"),
    ]
    assert bench.machine.next_tick_time == bench.now + 60
    assert bench.wait(59) == []
    assert bench.wait(1) == [OpenConnectionAction(1, 2)]


def test_agent_tries_first_broker_without_pause_after_loss_of_working_connection() -> None:
    bench = Bench()
    conn = bench.connect(broker=1)
    bench.answer_canaries(conn)
    assert bench.process_event(ConnectionEnded(conn, "reset")) == [
        CloseConnectionAction(conn, "reset"),
        ReportConnectionDownAction(conn, "reset"),
        OpenConnectionAction(0, conn + 1),
    ]


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
def test_connection_rounds_of_fast_phase_are_200_ms_to_1_second_apart(draw: float) -> None:
    bench = Bench(draw=lambda: draw)
    conn = bench.connect()
    bench.answer_canaries(conn)
    bench.process_event(ConnectionEnded(conn, "reset"))
    round_starts = [second for second, broker in attempts_while_refused(bench, 29, conn + 1) if broker == 0]
    pauses = [later_start - earlier_start for earlier_start, later_start in itertools.pairwise(round_starts)]
    assert len(pauses) >= 28
    assert all(0.2 - 1e-9 <= pause <= 1.0 for pause in pauses)


def test_connection_attempts_after_fast_phase_are_at_most_30_seconds_apart() -> None:
    bench = Bench(draw=random.Random(7).random)
    conn = bench.connect()
    bench.answer_canaries(conn)
    bench.process_event(ConnectionEnded(conn, "reset"))
    late_attempts = [
        (second, broker) for second, broker in attempts_while_refused(bench, 3600, conn + 1) if second > 30
    ]
    pauses = [
        later_second - earlier_second for (earlier_second, _), (later_second, _) in itertools.pairwise(late_attempts)
    ]
    assert all(28.5 <= pause <= 30 for pause in pauses)
    assert [broker for _, broker in late_attempts[:6]] == [0, 1, 0, 1, 0, 1]
    assert len(late_attempts) >= 119


def test_pauses_between_attempts_after_start_grow_from_500_ms_to_30_seconds() -> None:
    bench = Bench(1, draw=lambda: 0.0)
    bench.process_event(AgentStartedEvent())
    seconds = [0.0, *(second for second, _ in attempts_while_refused(bench, 200, 1))]
    pauses = [later_attempt - earlier_attempt for earlier_attempt, later_attempt in itertools.pairwise(seconds)]
    assert pauses[:8] == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 28.5])


def test_canary_is_sent_every_15_seconds() -> None:
    bench = Bench()
    conn = bench.connect()
    began, sent = bench.now, []
    for _ in range(3):
        bench.answer_canary(conn)
        sent += [(bench.now - began, action) for action in bench.wait()]
    assert sent == [
        (15.0, SendCanaryAction(conn, 2)),
        (30.0, SendCanaryAction(conn, 3)),
        (45.0, SendCanaryAction(conn, 4)),
    ]


def test_two_consecutive_lost_canaries_close_connection() -> None:
    bench = Bench()
    conn = bench.connect()
    bench.answer_canaries(conn, 31)
    unanswered_since = bench.now
    actions: list[Action] = []
    while not any(isinstance(action, CloseConnectionAction) for action in actions):
        actions += bench.wait()
    assert [action for action in actions if isinstance(action, ReportConnectionDownAction)]
    assert bench.now - unanswered_since <= 15 + 15 + 5


def test_single_lost_canary_keeps_connection() -> None:
    bench = Bench()
    conn = bench.connect()
    for _ in range(5):
        assert bench.wait() == []  # the missed canary
        bench.wait()  # the next canary
        bench.answer_canary(conn)
        bench.wait()


def test_unresponsive_broker_is_not_tried_first_again() -> None:
    bench = Bench(3)
    conn = bench.connect(broker=1)
    bench.answer_canaries(conn)
    actions = bench.process_event(ConnectionEnded(conn, "the broker sent no PUBACK in 30 s", silent=True))
    assert connection_attempts(actions)[0].broker == 2


def test_connection_without_answered_canary_starts_no_fast_phase() -> None:
    bench = Bench()
    conn = bench.connect()
    actions = bench.process_event(ConnectionEnded(conn, "closed"))
    assert connection_attempts(actions) == []
    assert connection_attempts(bench.wait())[0].broker == 1


def test_agents_that_evict_each_other_reduce_connection_attempts() -> None:
    """Each connection works for 0.1 s before it is closed."""
    bench = Bench(1, draw=random.Random(3).random)
    conn = bench.connect()
    bench.answer_canaries(conn)
    began, attempts = bench.now, 0
    actions = bench.process_event(ConnectionEnded(conn, "evicted"))
    while bench.now - began < 600:
        for attempt in connection_attempts(actions):
            attempts += bench.now - began > 60
            bench.process_event(accepting_connack(attempt.conn))
            bench.answer_canary(attempt.conn)
            bench.now += 0.1
            bench.process_event(ConnectionEnded(attempt.conn, "evicted"))
        actions = bench.wait()
    assert attempts <= 540 / 28.5 + 1


def test_loss_of_first_connection_after_1_second_starts_fast_phase() -> None:
    bench = Bench(1)
    conn = bench.connect()
    bench.answer_canaries(conn, 1)
    assert connection_attempts(bench.process_event(ConnectionEnded(conn, "reset")))


def test_reconnection_pause_resets_only_after_connection_lasts_5_seconds() -> None:
    def pause_after(lifetime: float) -> float:
        bench = Bench(1)
        conn = bench.connect()
        bench.answer_canaries(conn, 1)
        bench.process_event(ConnectionEnded(conn, "reset"))
        attempts_while_refused(bench, 120, conn + 1)
        actions: list[Action] = []
        while not connection_attempts(actions):
            actions = bench.wait()
        conn = connection_attempts(actions)[0].conn
        bench.process_event(accepting_connack(conn))
        bench.answer_canaries(conn, lifetime)
        began = bench.now
        actions = bench.process_event(ConnectionEnded(conn, "reset"))
        while not connection_attempts(actions):
            actions = bench.wait()
        return bench.now - began

    assert pause_after(4) > 28
    assert pause_after(6) == 0


def test_agents_draw_new_random_delays_after_each_fast_phase() -> None:
    """Agents that kept their earlier delays would all connect again in the same second."""
    first_late_attempts = set()
    for seed in range(10):
        bench = Bench(1, draw=random.Random(seed).random)
        conn = bench.connect()
        for _ in range(2):
            bench.answer_canaries(conn)
            bench.process_event(ConnectionEnded(conn, "reset"))
            attempts_after_fast_phase = [
                second for second, _ in attempts_while_refused(bench, 100, conn + 1) if second > 30
            ]
            actions: list[Action] = []
            while not connection_attempts(actions):
                actions = bench.wait()
            conn = connection_attempts(actions)[0].conn
            bench.process_event(accepting_connack(conn))
        first_late_attempts.add(round(attempts_after_fast_phase[0]))
    assert len(first_late_attempts) > 5
    assert max(first_late_attempts) - min(first_late_attempts) > 10


def test_frozen_broker_extends_fast_phase_by_bounded_time() -> None:
    bench = Bench(draw=random.Random(5).random)
    conn = bench.connect()
    bench.answer_canaries(conn)
    began = bench.now
    actions = bench.process_event(ConnectionEnded(conn, "canaries", silent=True))
    round_starts: list[float] = []
    while bench.now - began < 300:
        for attempt in connection_attempts(actions):
            if attempt.broker == 0:
                round_starts.append(bench.now - began)
                bench.process_event(TransportUp(attempt.conn))  # the broker sends nothing else
                actions = []
            else:
                actions = bench.process_event(ConnectionEnded(attempt.conn, "refused"))
                break
        else:
            actions = bench.wait()
    pauses = [
        later_start - earlier_start
        for earlier_start, later_start in itertools.pairwise(round_starts)
        if later_start <= 120
    ]
    assert len(pauses) > 15
    assert max(pauses) < 6.1
    assert len([second for second in round_starts if second > 126]) < 5


def test_host_without_tcp_response_does_not_extend_fast_phase() -> None:
    bench = Bench(1)
    conn = bench.connect()
    bench.answer_canaries(conn)
    began = bench.now
    bench.process_event(ConnectionEnded(conn, "reset"))
    while bench.now - began < 40:
        bench.wait()
    assert bench.machine._fast_until == began + 30


def test_stopped_state_machine_closes_connection_and_ignores_later_events() -> None:
    bench = Bench()
    conn = bench.connect()
    assert bench.process_event(AgentStoppingEvent()) == [
        CloseConnectionAction(conn, "stopped"),
        ReportConnectionDownAction(conn, "stopped"),
    ]
    assert bench.machine.next_tick_time is None
    later_events: list[Event] = [
        AgentStartedEvent(),
        AgentStoppingEvent(),
        TimePassedEvent(),
        accepting_connack(conn),
        ConnectionEnded(conn, "reset"),
        CanaryReceived(conn, 1),
    ]
    assert [bench.process_event(event) for event in later_events] == [[]] * len(later_events)


def test_connection_state_machine_without_brokers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        BrokerSelectionStateMachine(0, ConnectionSettings(), random.random)
