"""What the state machine of a connection does, case by case. Its invariants: test_connecting_machine.py."""

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


def accepted(conn: int) -> ConnackReceived:
    return ConnackReceived(conn, None, False)


def denied(conn: int, reason: str) -> ConnackReceived:
    return ConnackReceived(conn, reason, True)


class Bench:
    """A machine with its clock, and what it wants done."""

    def __init__(self, brokers: int = 2, draw: Callable[[], float] = lambda: 0.5) -> None:
        self.now = 1000.0
        self.machine = BrokerSelectionStateMachine(brokers, ConnectionPolicy(), draw)

    def tell(self, event: Event) -> list[Action]:
        return list(self.machine.process_event(event, self.now))

    def wait(self, seconds: float | None = None) -> list[Action]:
        """Let time pass, as far as something is due or so many seconds; what is done on the way."""
        due = self.machine.next_tick_time
        assert due is not None
        end = due if seconds is None else self.now + seconds
        done: list[Action] = []
        while (due := self.machine.next_tick_time) is not None and due <= end:
            self.now = max(self.now, due)
            done += self.tell(TimePassedEvent())
            if seconds is None:
                return done
        self.now = end
        return done

    def up(self, broker: int = 0) -> int:
        """A connection to a broker, the first dialled being the head of the list."""
        done = self.tell(AgentStartedEvent())
        for _ in range(broker):
            done = self.tell(ConnectionEnded(dialled(done)[0].conn, "refused"))
        conn = dialled(done)[0].conn
        self.tell(accepted(conn))
        return conn

    def work(self, conn: int, seconds: float = 11.0) -> None:
        """Let a connection answer every canary for a while."""
        self.answer(conn)
        end = self.now + seconds
        while self.machine.next_tick_time is not None and self.machine.next_tick_time <= end:
            self.wait()
            self.answer(conn)
        self.now = end

    def answer(self, conn: int) -> None:
        connection = self.machine._connection
        assert connection is not None
        assert connection.conn == conn
        self.tell(CanaryReceived(conn, connection.number))


def dialled(actions: list[Action]) -> list[OpenConnection]:
    return [action for action in actions if isinstance(action, OpenConnection)]


def refuse_for(bench: Bench, seconds: float, conn: int) -> list[tuple[float, int]]:
    """(second since the call, broker) of every attempt while nobody listens anywhere."""
    began, found = bench.now, []
    done = bench.tell(ConnectionEnded(conn, "refused"))
    while bench.now - began < seconds:
        attempts = dialled(done)
        if attempts:
            found.append((bench.now - began, attempts[0].broker))
            done = bench.tell(ConnectionEnded(attempts[0].conn, "refused"))
        else:
            done = bench.wait()
    return found


def test_the_first_walk_dials_the_list_in_order_and_at_once() -> None:
    bench = Bench(3)
    assert bench.tell(AgentStartedEvent()) == [OpenConnection(0, 1)]
    assert bench.tell(ConnectionEnded(1, "refused")) == [CloseConnection(1, "refused"), OpenConnection(1, 2)]
    assert bench.tell(ConnectionEnded(2, "refused")) == [CloseConnection(2, "refused"), OpenConnection(2, 3)]
    assert bench.tell(ConnectionEnded(3, "refused")) == [CloseConnection(3, "refused")]
    assert dialled(bench.wait())[0].broker == 0


def test_the_first_broker_that_accepts_wins_and_gets_a_canary_at_once() -> None:
    bench = Bench()
    bench.tell(AgentStartedEvent())
    bench.tell(ConnectionEnded(1, "refused"))
    assert bench.tell(accepted(2)) == [ReportConnectionUpAction(1, 2), SendCanary(2, 1)]


def test_a_broker_that_says_nothing_is_left_after_five_seconds() -> None:
    bench = Bench()
    bench.tell(AgentStartedEvent())
    bench.tell(TransportUp(1))
    assert bench.machine.next_tick_time == bench.now + 5
    assert bench.wait() == [
        CloseConnection(
            1,
            "the broker sent no CONNACK in 5 s after the agent's login: check the broker's process, and check that "
            "mb.urls in agent.conf names its MQTT port",
        ),
        OpenConnection(1, 2),
    ]


def test_an_answer_after_the_attempt_was_given_up_changes_nothing() -> None:
    bench = Bench()
    bench.tell(AgentStartedEvent())
    bench.wait()
    assert bench.tell(accepted(1)) == []


def test_refused_credentials_raise_an_alarm_and_wait_a_minute() -> None:
    bench = Bench()
    bench.tell(AgentStartedEvent())
    assert bench.tell(denied(1, "bad password")) == [
        CloseConnection(1, "bad password"),
        ReportConnectionAlarmAction("bad password"),
    ]
    assert bench.machine.next_tick_time == bench.now + 60
    assert bench.wait(59) == []
    assert bench.wait(1) == [OpenConnection(1, 2)]


def test_after_a_working_connection_the_walk_begins_at_once_at_the_head_of_the_list() -> None:
    bench = Bench()
    conn = bench.up(broker=1)
    bench.work(conn)
    assert bench.tell(ConnectionEnded(conn, "reset")) == [
        CloseConnection(conn, "reset"),
        ReportConnectionDownAction(conn, "reset"),
        OpenConnection(0, conn + 1),
    ]


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
def test_for_thirty_seconds_rounds_are_a_fifth_to_one_second_apart(draw: float) -> None:
    bench = Bench(draw=lambda: draw)
    conn = bench.up()
    bench.work(conn)
    bench.tell(ConnectionEnded(conn, "reset"))
    heads = [second for second, broker in refuse_for(bench, 29, conn + 1) if broker == 0]
    pauses = [after - before for before, after in itertools.pairwise(heads)]
    assert len(pauses) >= 28
    assert all(0.2 - 1e-9 <= pause <= 1.0 for pause in pauses)


def test_attempts_after_fast_phase_are_at_most_thirty_seconds_apart() -> None:
    bench = Bench(draw=random.Random(7).random)
    conn = bench.up()
    bench.work(conn)
    bench.tell(ConnectionEnded(conn, "reset"))
    late = [(second, broker) for second, broker in refuse_for(bench, 3600, conn + 1) if second > 30]
    pauses = [after - before for (before, _), (after, _) in itertools.pairwise(late)]
    assert all(28.5 <= pause <= 30 for pause in pauses)
    assert [broker for _, broker in late[:6]] == [0, 1, 0, 1, 0, 1]
    assert len(late) >= 119


def test_at_the_start_pauses_grow_from_half_a_second_to_thirty() -> None:
    bench = Bench(1, draw=lambda: 0.0)
    bench.tell(AgentStartedEvent())
    seconds = [0.0, *(second for second, _ in refuse_for(bench, 200, 1))]
    pauses = [after - before for before, after in itertools.pairwise(seconds)]
    assert pauses[:8] == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 28.5])


def test_a_canary_goes_out_every_fifteen_seconds() -> None:
    bench = Bench()
    conn = bench.up()
    began, sent = bench.now, []
    for _ in range(3):
        bench.answer(conn)
        sent += [(bench.now - began, action) for action in bench.wait()]
    assert sent == [(15.0, SendCanary(conn, 2)), (30.0, SendCanary(conn, 3)), (45.0, SendCanary(conn, 4))]


def test_two_canaries_in_a_row_that_do_not_come_back_end_the_connection() -> None:
    bench = Bench()
    conn = bench.up()
    bench.work(conn, 31)
    silent_since = bench.now
    done: list[Action] = []
    while not any(isinstance(action, CloseConnection) for action in done):
        done += bench.wait()
    assert [action for action in done if isinstance(action, ReportConnectionDownAction)]
    assert bench.now - silent_since <= 15 + 15 + 5


def test_one_missed_canary_is_forgiven_when_the_next_comes_back() -> None:
    bench = Bench()
    conn = bench.up()
    for _ in range(5):
        assert bench.wait() == []  # the miss
        bench.wait()  # the next canary
        bench.answer(conn)
        bench.wait()


def test_a_broker_that_went_silent_is_not_the_first_to_be_dialled_again() -> None:
    bench = Bench(3)
    conn = bench.up(broker=1)
    bench.work(conn)
    done = bench.tell(ConnectionEnded(conn, "the broker sent no PUBACK in 30 s", silent=True))
    assert dialled(done)[0].broker == 2


def test_a_connection_that_never_worked_does_not_start_the_fast_phase() -> None:
    bench = Bench()
    conn = bench.up()
    done = bench.tell(ConnectionEnded(conn, "closed"))
    assert dialled(done) == []
    assert dialled(bench.wait())[0].broker == 1


def test_two_agents_that_evict_each_other_slow_down() -> None:
    """Each connection works for a moment, and is taken away again."""
    bench = Bench(1, draw=random.Random(3).random)
    conn = bench.up()
    bench.work(conn)
    began, attempts = bench.now, 0
    done = bench.tell(ConnectionEnded(conn, "evicted"))
    while bench.now - began < 600:
        for dial in dialled(done):
            attempts += bench.now - began > 60
            bench.tell(accepted(dial.conn))
            bench.answer(dial.conn)
            bench.now += 0.1
            bench.tell(ConnectionEnded(dial.conn, "evicted"))
        done = bench.wait()
    assert attempts <= 540 / 28.5 + 1


def test_the_first_connection_that_is_lost_soon_is_followed_by_a_fast_phase_too() -> None:
    bench = Bench(1)
    conn = bench.up()
    bench.work(conn, 1)
    assert dialled(bench.tell(ConnectionEnded(conn, "reset")))


def test_after_one_of_those_growth_is_forgotten_only_after_five_stable_seconds() -> None:
    def pause_after(lived: float) -> float:
        bench = Bench(1)
        conn = bench.up()
        bench.work(conn, 1)
        bench.tell(ConnectionEnded(conn, "reset"))
        refuse_for(bench, 120, conn + 1)
        done: list[Action] = []
        while not dialled(done):
            done = bench.wait()
        conn = dialled(done)[0].conn
        bench.tell(accepted(conn))
        bench.work(conn, lived)
        began = bench.now
        done = bench.tell(ConnectionEnded(conn, "reset"))
        while not dialled(done):
            done = bench.wait()
        return bench.now - began

    assert pause_after(4) > 28
    assert pause_after(6) == 0


def test_agents_spread_anew_after_every_fast_phase() -> None:
    """Else those that had their place before would all come back in the same second."""
    pauses = set()
    for seed in range(10):
        bench = Bench(1, draw=random.Random(seed).random)
        conn = bench.up()
        for _ in range(2):
            bench.work(conn)
            bench.tell(ConnectionEnded(conn, "reset"))
            late = [second for second, _ in refuse_for(bench, 100, conn + 1) if second > 30]
            done: list[Action] = []
            while not dialled(done):
                done = bench.wait()
            conn = dialled(done)[0].conn
            bench.tell(accepted(conn))
        pauses.add(round(late[0]))
    assert len(pauses) > 5
    assert max(pauses) - min(pauses) > 10


def test_frozen_broker_extends_fast_phase_by_bounded_time() -> None:
    bench = Bench(draw=random.Random(5).random)
    conn = bench.up()
    bench.work(conn)
    began = bench.now
    done = bench.tell(ConnectionEnded(conn, "canaries", silent=True))
    rounds: list[float] = []
    while bench.now - began < 300:
        for dial in dialled(done):
            if dial.broker == 0:
                rounds.append(bench.now - began)
                bench.tell(TransportUp(dial.conn))  # and not a word more
                done = []
            else:
                done = bench.tell(ConnectionEnded(dial.conn, "refused"))
                break
        else:
            done = bench.wait()
    pauses = [after - before for before, after in itertools.pairwise(rounds) if after <= 120]
    assert len(pauses) > 15
    assert max(pauses) < 6.1
    assert len([second for second in rounds if second > 126]) < 5


def test_a_machine_that_is_powered_off_does_not_make_the_fast_phase_longer() -> None:
    bench = Bench(1)
    conn = bench.up()
    bench.work(conn)
    began = bench.now
    bench.tell(ConnectionEnded(conn, "reset"))
    while bench.now - began < 40:
        bench.wait()
    assert bench.machine._fast_until == began + 30


def test_stopping_closes_what_is_open_and_is_the_end() -> None:
    bench = Bench()
    conn = bench.up()
    assert bench.tell(AgentStoppingEvent()) == [
        CloseConnection(conn, "stopped"),
        ReportConnectionDownAction(conn, "stopped"),
    ]
    assert bench.machine.next_tick_time is None
    late: list[Event] = [
        AgentStartedEvent(),
        AgentStoppingEvent(),
        TimePassedEvent(),
        accepted(conn),
        ConnectionEnded(conn, "reset"),
        CanaryReceived(conn, 1),
    ]
    assert [bench.tell(event) for event in late] == [[]] * len(late)


def test_a_machine_without_brokers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        BrokerSelectionStateMachine(0, ConnectionPolicy(), random.random)
