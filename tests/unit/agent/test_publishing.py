"""What the publisher sends, keeps and forgets, with a real outbox and a broker that is none."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.connection_events import PubackReceived
from activemq_agent.publishing import MOST_PREFIXES, Publisher
from activemq_agent.store import Store
from activemq_fleet.agent_topics import canary_topic
from tests.unit.agent.links import Clock, FakeBroker, Quiet, benches, config


class Bench:
    def __init__(self, directory: Path, **options: Any) -> None:
        self.clock, self.broker, self.log = Clock(), FakeBroker(), Quiet()
        self.config = config(**options)
        self.store = Store.open(directory, agent="host-1", limits=self.config.store_limits, synchronous="OFF")
        self.publisher = Publisher(
            self.config,
            self.store,
            log=self.log,
            open_session=self.broker.open,
            clock=self.clock,
            draw=lambda: 0.5,
        )
        self.publisher.link.start()

    def accept(self, count: int = 1, topic: str = "a/b/E") -> list[str]:
        accepted_ids = [self.store.accept_event(topic, json.dumps({"n": n}).encode()) for n in range(count)]
        self.publisher.wake()
        return accepted_ids

    def turn(self, times: int = 5, seconds: float = 0.02) -> None:
        """Let the loop turn, with a little time between."""
        for _ in range(times):
            self.publisher.wake()  # so that no turn waits
            self.publisher.run_once()
            self.clock.now += seconds
        self.publisher._wait_recorded()

    def empty(self, step: float = 0.02) -> None:
        """Let the loop turn until the outbox is empty."""
        for _ in range(500):
            self.turn(1, step)
            if not self.rows:
                return

    def journal(self, kind: str) -> list[dict[str, Any]]:
        self.store.expire_events()  # whatever was written without waiting is committed before this
        lines = [line for record in self.store.oldest_journal_records(10**6) for line in record.line.splitlines()]
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    @property
    def rows(self) -> int:
        return self.store.row_and_byte_counts().outbox_rows


@pytest.fixture
def bench_of(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    yield from benches(Bench, tmp_path)


@pytest.fixture
def bench(bench_of: Callable[..., Bench]) -> Bench:
    return bench_of()


def test_events_go_out_in_order_with_their_ids_and_leave_the_outbox(bench: Bench) -> None:
    ids = bench.accept(300)
    bench.empty()
    assert [json.loads(payload)["eventId"] for payload in bench.broker.ids()] == ids
    assert bench.rows == 0
    assert [record["event_id"] for record in bench.journal("acknowledged")] == ids


def test_the_journal_says_where_and_as_what_an_event_was_sent(bench: Bench) -> None:
    bench.accept()
    bench.turn()
    (record,) = bench.journal("sent")
    (mid, _, _) = bench.broker.last.published[0]
    assert (record["broker"], record["conn"], record["mid"]) == ("b1:1883", 1, mid)


def test_no_more_than_the_window_is_on_the_wire(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(publisher_window=7)
    bench.broker.acknowledges = False
    bench.accept(30)
    bench.turn()
    assert len(bench.broker.last.published) == 7
    bench.broker.last.put(PubackReceived(1, bench.broker.last.published[0][0]))
    bench.turn()
    assert len(bench.broker.last.published) == 8


def test_after_connection_loss_only_unacknowledged_events_are_sent_again_in_order(bench: Bench) -> None:
    ids = bench.accept(10)
    bench.broker.acknowledges = False
    bench.turn()
    first = bench.broker.last
    for mid, _, _ in first.published[:4]:
        first.put(PubackReceived(first.number, mid))
    bench.turn()
    bench.broker.acknowledges = True
    bench.clock.now += 11
    first.die()
    bench.turn(100)
    assert bench.broker.last is not first
    assert [json.loads(payload)["eventId"] for _, _, payload in bench.broker.last.published] == ids[4:]
    assert bench.rows == 0


def test_acknowledgements_of_a_connection_that_is_over_count_for_nothing(bench: Bench) -> None:
    bench.broker.acknowledges = False
    bench.accept(3)
    bench.turn()
    old = bench.broker.last
    old.die()
    bench.turn(100, 0.5)
    assert bench.broker.last is not old
    for mid, _, _ in old.published:
        old.put(PubackReceived(old.number, mid))
    bench.turn()
    assert bench.rows == 3


def test_a_row_is_kept_until_its_prefix_has_made_the_round_trip(bench: Bench) -> None:
    topic = canary_topic("a/b", "host-1")
    bench.broker.mute.add(topic)
    bench.accept(2)
    bench.turn()
    assert bench.rows == 2
    bench.broker.mute.clear()
    conn = bench.broker.last
    conn.publish(topic, bench.publisher._prefixes["a/b"].canary)
    bench.turn()
    assert bench.rows == 0
    assert len(bench.journal("acknowledged")) == 2


def test_on_a_prefix_whose_canary_does_not_come_back_events_are_kept_as_unconfirmed(bench: Bench) -> None:
    bench.broker.mute.add(canary_topic("a/b", "host-1"))
    ids = bench.accept(2)
    bench.turn(300, 0.02)
    counts = bench.store.row_and_byte_counts()
    assert (counts.outbox_rows, counts.unconfirmed) == (0, 2)
    assert [record["event_id"] for record in bench.journal("unconfirmed")] == ids
    assert bench.journal("acknowledged") == []
    assert bench.publisher.unproved_topic_prefixes == ("a/b",)
    text = "the agent cannot confirm the delivery of events below the topic 'a/b': let "
    assert any(event.startswith(text) for event in bench.log.events())


def test_a_refused_canary_subscription_decides_at_once(bench: Bench) -> None:
    bench.broker.refuses.add(canary_topic("a/b", "host-1"))
    bench.accept(2)
    bench.turn()
    assert bench.store.row_and_byte_counts().unconfirmed == 2


def test_one_prefix_without_proof_leaves_the_others_alone(bench: Bench) -> None:
    bench.broker.refuses.add(canary_topic("a/b", "host-1"))
    bench.accept(2)
    proved = bench.accept(2, topic="c/d/E")
    bench.turn()
    assert [record["event_id"] for record in bench.journal("acknowledged")] == proved
    assert bench.store.row_and_byte_counts().unconfirmed == 2


def test_a_canary_that_comes_late_confirms_what_was_kept(bench: Bench) -> None:
    topic = canary_topic("a/b", "host-1")
    bench.broker.mute.add(topic)
    bench.accept(2)
    bench.turn(300, 0.02)
    bench.broker.mute.clear()
    bench.turn(70, 1.0)
    assert bench.store.row_and_byte_counts().unconfirmed == 0
    assert len(bench.journal("acknowledged")) == 2
    assert bench.publisher.unproved_topic_prefixes == ()


def test_a_canary_of_an_earlier_connection_proves_nothing(bench: Bench) -> None:
    topic = canary_topic("a/b", "host-1")
    bench.accept()
    bench.turn()
    stale = bench.publisher._prefixes["a/b"].canary
    bench.broker.last.die()
    bench.broker.mute.add(topic)
    bench.turn(60, 0.5)
    bench.accept()
    bench.turn()
    bench.broker.mute.clear()
    bench.broker.last.publish(topic, stale)
    bench.turn()
    assert bench.rows == 1


def test_a_broker_that_does_not_acknowledge_for_thirty_seconds_is_left(bench: Bench) -> None:
    bench.broker.acknowledges = False
    bench.accept()
    bench.turn()
    first = bench.broker.last
    bench.turn(32, 1.0)
    assert first.closed
    assert bench.journal("connection_lost")[0]["reason"] == "the broker sent no PUBACK in 30 s"
    assert bench.publisher.link.broker == "b2:1883"
    assert len(bench.broker.last.published) == 1


def test_why_no_broker_can_be_reached_is_logged_once_and_kept_until_one_is(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of()
    bench.broker.accepts = False
    bench.turn(1)
    bench.broker.last.die()
    bench.turn(50, 1.0)
    assert len(bench.broker.conns) > 3, "it dials on"
    failures = [
        fields for event, fields in bench.log.said if event.startswith("the agent cannot connect to the broker")
    ]
    assert failures == [{"broker": name, "reason": "no server listens"} for name in bench.publisher.link.names]
    assert bench.publisher.link.failure_reasons == dict.fromkeys(bench.publisher.link.names, "no server listens")
    bench.broker.accepts = True
    bench.turn(50, 1.0)
    assert bench.publisher.link.broker in bench.publisher.link.names
    assert bench.publisher.link.failure_reasons == {}


def test_expired_events_are_not_sent(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(publisher_timeout=2.0)
    bench.turn(1)
    bench.broker.accepts = False
    bench.broker.last.die()
    bench.turn(1)
    bench.accept(3)
    bench.turn()
    time.sleep(2.1)
    bench.store.expire_events()
    bench.broker.accepts = True
    fresh = bench.accept(1)
    bench.turn(100, 0.5)
    assert [json.loads(payload)["eventId"] for payload in bench.broker.ids()] == fresh
    assert bench.store.row_and_byte_counts().expired == 3


def test_rows_that_were_read_and_could_not_be_sent_are_read_again_before_they_are(
    bench_of: Callable[..., Bench],
) -> None:
    """Else an event that expired behind a full window would go out all the same."""
    bench = bench_of(publisher_window=2, publisher_timeout=2.0)
    bench.broker.acknowledges = False
    bench.accept(3)
    bench.turn()
    bench.publisher._buffer.extend(bench.store.outgoing_events(1, bench.publisher._after))
    time.sleep(2.1)
    bench.store.expire_events()
    bench.clock.now += 1
    for mid, _, _ in list(bench.broker.last.published):
        bench.broker.last.put(PubackReceived(1, mid))
    bench.turn()
    assert len(bench.broker.last.published) == 2


def test_payloads_without_an_object_go_out_unchanged_unless_an_envelope_is_asked_for(
    bench_of: Callable[..., Bench],
) -> None:
    plain, wrapped = bench_of(), bench_of(publisher_envelope=True)
    for bench in (plain, wrapped):
        bench.store.accept_event("a/b/E", b"text")
        bench.turn()
    assert plain.broker.ids() == ["text"]
    assert json.loads(wrapped.broker.ids()[0])["payload"] == "text"


def test_barriers_go_out_on_every_prefix_after_what_was_accepted_before(bench: Bench) -> None:
    bench.accept(2)
    bench.accept(2, topic="c/E")
    bench.turn()
    ids = bench.publisher.add_barriers_to_outbox()
    bench.turn()
    topics = [topic for _, topic, _ in bench.broker.last.published]
    assert topics[4:] == ["a/b/__barrier__/host-1", "c/__barrier__/host-1"]
    assert [record["event_id"] for record in bench.journal("barrier")] == ids
    assert bench.rows == 0


def test_barriers_go_out_every_minute_when_asked(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(barrier=True)
    bench.accept()
    bench.turn(150, 1.0)
    assert len(bench.journal("barrier")) == 2


def test_prefixes_are_remembered_up_to_a_bound(bench: Bench) -> None:
    for number in range(MOST_PREFIXES + 20):
        bench.store.accept_event(f"tenant/{number}/E", b"{}")
    bench.empty()
    assert len(bench.publisher._prefixes) == MOST_PREFIXES
    assert len(bench.broker.last.filters) <= MOST_PREFIXES + 1
    assert bench.rows == 0


def test_stopping_leaves_what_is_not_acknowledged_in_the_outbox(bench: Bench) -> None:
    bench.broker.acknowledges = False
    bench.accept(3)
    bench.turn()
    stop = threading.Event()
    stop.set()
    bench.publisher.run(stop)
    assert bench.broker.last.closed
    assert bench.rows == 3


def test_copies_after_a_loss_are_at_most_window_and_what_the_disk_has_not_forgotten(
    bench_of: Callable[..., Bench],
) -> None:
    bench = bench_of(publisher_window=10)
    bench.accept(200)
    for _ in range(8):
        bench.publisher.wake()
        bench.publisher.run_once()
        bench.clock.now += 0.001
    bench.clock.now += 11
    bench.broker.last.die()
    bench.empty()
    assert bench.rows == 0
    assert bench.publisher.sent - 200 <= 20
