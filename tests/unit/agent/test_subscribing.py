"""What the subscriber stores, acknowledges and withholds, with a real inbox and a broker that is none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.connection_events import MessageReceived
from activemq_agent.store import InboxStorageOutcome, Store
from activemq_agent.subscribing import Subscriber
from activemq_fleet.agent_topics import canary_topic
from tests.unit.agent.links import Clock, Conn, FakeBroker, Quiet, benches, config


class Bench:
    def __init__(self, directory: Path, **options: Any) -> None:
        self.clock, self.broker, self.log = Clock(), FakeBroker(), Quiet()
        self.broker.refuses = set(options.pop("refuses", ()))
        self.config = config(**{"topics": ("a/#", "b/#"), **options})
        self.store = Store.open(directory, agent="host-1", limits=self.config.store_limits, synchronous="OFF")
        self.lanes: list[str] = []
        self.subscriber = Subscriber(
            self.config,
            self.store,
            log=self.log,
            on_stored=self.lanes.append,
            open_session=self.broker.open,
            clock=self.clock,
            draw=lambda: 0.5,
        )
        self.subscriber.link.start()
        self.turn()

    def turn(self, seconds: float = 0.02) -> None:
        """Let the loop turn until the store has answered."""
        for _ in range(3):
            self.store.expire_events()
            self.subscriber.link.queue_for_connection_loop(None)
            self.subscriber.run_once()
            self.clock.now += seconds

    def come(self, mid: int, payload: dict[str, Any] | bytes = b"x", topic: str = "a/E") -> None:
        conn = self.broker.last
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        conn.put(MessageReceived(conn.number, topic, body, 1, mid))

    def journal(self, kind: str) -> list[dict[str, Any]]:
        self.store.expire_events()  # whatever was written without waiting is committed before this
        lines = [line for record in self.store.oldest_journal_records(10**6) for line in record.line.splitlines()]
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    def inbox(self, topic_filter: str = "a/#") -> list[bytes]:
        return [message.payload for message in self.store.pending_messages(topic_filter, 10**6)]

    def handle_first(self, topic_filter: str = "a/#") -> None:
        self.store.record_handled(self.store.pending_messages(topic_filter, 1)[0].rx)

    @property
    def conn(self) -> Conn:
        return self.broker.last


@pytest.fixture
def bench_of(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    yield from benches(Bench, tmp_path)


@pytest.fixture
def bench(bench_of: Callable[..., Bench]) -> Bench:
    return bench_of()


def test_every_topic_is_asked_for_by_itself_and_noted_when_granted(bench: Bench) -> None:
    assert bench.conn.filters == [canary_topic("", "host-1-subscriber"), "a/#", "b/#"]
    assert [record["filters"] for record in bench.journal("subscribed")] == [["a/#"], ["b/#"]]
    assert bench.subscriber.granted == {"a/#", "b/#"}


def test_what_is_granted_with_wildcards_is_anchored_on_every_connection(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(topics=("a/#", "b/E", "c/+"), refuses=["c/+"])
    own, anchor = canary_topic("", "host-1-subscriber"), canary_topic("a", "host-1-subscriber")
    assert [topic for topic in bench.conn.canaries if topic != own] == [anchor]
    bench.conn.die()
    for _ in range(5):
        bench.turn(1.0)
    assert len(bench.broker.conns) == 2
    assert [topic for topic in bench.conn.canaries if topic != own] == [anchor]


def test_a_refused_topic_alarms_once_and_leaves_the_others_alone(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(refuses=["a/#"])
    assert bench.subscriber.granted == {"b/#"}
    assert bench.subscriber.refused == {"a/#": "b1:1883"}
    bench.come(1, topic="b/E")
    bench.turn()
    assert bench.conn.acked == [1]
    for _ in range(130):
        bench.turn(1.0)
    refusals = [event for event in bench.log.events() if "rejects the subscription to the topic filter" in event]
    assert len(refusals) == 1


def test_a_refused_topic_is_asked_for_again_every_minute(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(refuses=["a/#"])
    bench.broker.refuses.clear()
    for _ in range(25):
        bench.turn(1.0)
    assert bench.subscriber.granted == {"a/#", "b/#"}
    assert bench.subscriber.refused == {}


def test_messages_are_stored_then_acknowledged_in_their_order(bench: Bench) -> None:
    for mid in range(1, 51):
        bench.come(mid, f"{mid}".encode())
    bench.turn()
    assert bench.inbox() == [f"{mid}".encode() for mid in range(1, 51)]
    assert bench.conn.acked == list(range(1, 51))
    assert bench.lanes == ["a/#"] * 50


def test_nothing_is_acknowledged_before_its_commit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    promise: Future[InboxStorageOutcome] = Future()
    monkeypatch.setattr(bench.store, "queue_message_for_inbox", lambda *_, **__: promise)
    bench.come(1)
    bench.turn()
    assert bench.conn.acked == []
    promise.set_result(InboxStorageOutcome(1, None))
    bench.turn()
    assert bench.conn.acked == [1]


def test_a_disk_that_fails_withholds_the_acknowledgement_and_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Future[InboxStorageOutcome]:
        failed: Future[InboxStorageOutcome] = Future()
        failed.set_exception(AgentError("the store cannot be written: disk full"))
        return failed

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "queue_message_for_inbox", fail)
        bench.come(1)
        bench.turn()
        assert bench.conn.acked == []
    bench.turn(1.0)
    bench.turn()
    assert bench.conn.acked == [1]
    assert bench.inbox() == [b"x"]


def test_an_event_that_comes_twice_is_stored_once_and_acknowledged_twice(bench: Bench) -> None:
    bench.come(1, {"eventId": "p:1"})
    bench.come(2, {"eventId": "p:1"})
    bench.turn()
    assert len(bench.inbox()) == 1
    assert bench.conn.acked == [1, 2]
    assert (bench.subscriber.received, bench.subscriber.duplicates) == (1, 1)


def test_a_full_topic_is_not_acknowledged_and_stalls_only_itself(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(topic_rows=2)
    for mid in range(1, 6):
        bench.come(mid, f"{mid}".encode())
    bench.come(6, topic="b/E")
    bench.turn()
    assert bench.conn.acked == [1, 2, 6]
    assert bench.subscriber.filters_with_full_inbox == ("a/#",)


def test_what_found_no_room_is_stored_in_its_order_as_soon_as_there_is(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(topic_rows=2)
    for mid in range(1, 6):
        bench.come(mid, f"{mid}".encode())
    bench.turn()
    handled = []
    for _ in range(5):
        handled.append(bench.inbox()[0])
        bench.handle_first()
        bench.turn(1.1)
    assert handled == [b"1", b"2", b"3", b"4", b"5"]
    assert bench.conn.acked == [1, 2, 3, 4, 5]
    assert bench.subscriber.filters_with_full_inbox == ()


def test_room_that_is_made_between_two_messages_does_not_let_the_later_one_pass(
    bench_of: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(topic_rows=1)
    bench.come(1, b"1")
    bench.turn()
    take = bench.store.queue_message_for_inbox

    def make_room_after(topic: str, payload: bytes, **rest: Any) -> Future[InboxStorageOutcome]:
        future = take(topic, payload, **rest)
        if payload == b"2" and future.result().full:
            bench.handle_first()
        return future

    monkeypatch.setattr(bench.store, "queue_message_for_inbox", make_room_after)
    bench.come(2, b"2")
    bench.come(3, b"3")
    bench.turn()
    bench.turn(1.1)
    assert bench.inbox() == [b"2"]
    assert bench.conn.acked == [1, 2]


def test_after_a_loss_what_was_not_stored_is_forgotten_for_it_comes_again(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(topic_rows=1)
    bench.come(1, b"1")
    bench.come(2, b"2")
    bench.turn()
    old = bench.conn
    bench.clock.now += 11
    old.die()
    for _ in range(20):
        bench.turn(0.5)
    assert bench.conn is not old
    bench.handle_first()
    bench.come(1, b"2")
    bench.turn()
    assert bench.inbox() == [b"2"]
    assert old.acked == [1]
    assert bench.conn.acked == [1]


def test_large_messages_for_full_topic_stay_on_broker_until_there_is_room(
    bench_of: Callable[..., Bench],
) -> None:
    bench = bench_of(topic_rows=1)
    large = b"x" * (1 << 20)
    bench.come(1, b"first")
    bench.turn()
    for mid in range(2, 30):
        bench.come(mid, large)
        bench.turn()
    bench.come(30, b"of the other filter", topic="b/E")
    bench.turn()
    assert bench.conn.acked == [1, 30]
    assert bench.subscriber.link.dropped.counts["no room in memory"] == 24
    first = bench.conn
    for _ in range(60):
        if bench.inbox():
            bench.handle_first()
        bench.turn(1.0)
    assert bench.conn is not first
    assert first.acked == [1, 30, 2, 3, 4, 5]
    assert (
        bench.journal("connection_lost")[0]["reason"]
        == "the agent discarded unacknowledged messages, because its memory for received messages was full: it "
        "reconnects, and the broker sends these messages again"
    )


def test_canaries_of_any_agent_are_acknowledged_and_dropped(bench: Bench) -> None:
    bench.come(1, topic=canary_topic("a", "some-other-host"))
    bench.turn()
    assert bench.conn.acked == [1]
    assert bench.inbox() == []


def test_barriers_are_noted_acknowledged_and_not_handled(bench: Bench) -> None:
    bench.come(1, {"eventId": "p:e:9"}, topic="a/__barrier__")
    bench.turn()
    assert [record["event_id"] for record in bench.journal("barrier")] == ["p:e:9"]
    assert bench.conn.acked == [1]
    assert bench.inbox() == []


def test_the_canary_keeps_a_connection_and_its_silence_ends_it(bench: Bench) -> None:
    for _ in range(60):
        bench.turn(1.0)
    assert bench.subscriber.link.connections == 1
    bench.broker.mute.add(canary_topic("", "host-1-subscriber"))
    for _ in range(15):
        bench.turn(1.0)
    reason = (
        "the broker did not return 2 test messages (canaries) in a row within 5 s each: check whether the broker hangs"
    )
    assert bench.journal("connection_lost")[0]["reason"] == reason


def test_where_the_canarys_topic_is_refused_acknowledgements_have_to_do(bench_of: Callable[..., Bench]) -> None:
    bench = bench_of(refuses=[canary_topic("", "host-1-subscriber")])
    for _ in range(60):
        bench.turn(1.0)
    assert bench.subscriber.link.connections == 1


def test_acknowledged_canaries_suffice_after_two_connections_without_receipt(
    bench_of: Callable[..., Bench],
) -> None:
    bench = bench_of()
    bench.broker.mute.add(canary_topic("", "host-1-subscriber"))
    for _ in range(300):
        bench.turn(1.0)
    assert 2 <= bench.subscriber.link.connections <= 4


def test_stopping_ends_the_connection_and_keeps_the_durable_session(bench: Bench) -> None:
    stop = threading.Event()
    stop.set()
    bench.subscriber.run(stop)
    assert bench.conn.closed
    assert bench.conn.filters[1:] == ["a/#", "b/#"]
