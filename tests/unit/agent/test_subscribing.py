"""Messages that the subscriber stores, acknowledges and withholds, with a real inbox and a fake broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.agent_errors import AgentError
from activemq_agent.connection_events import MessageReceived, OversizedMessageReceived
from activemq_agent.store import InboxStorageOutcome, Store
from activemq_agent.subscribing import InboxSubscriber
from activemq_fleet.agent_topics import canary_topic
from tests.unit.agent.links import Clock, Conn, FakeBroker, RecordingLog, config, provide_benches


class Bench:
    """A subscriber with a store, a fake broker and a clock that tests advance."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.clock, self.broker, self.log = Clock(), FakeBroker(), RecordingLog()
        self.broker.refused_filters = set(options.pop("refuses", ()))
        self.config = config(**{"topics": ("a/#", "b/#"), **options})
        self.store = Store.open(directory, agent="host-1", limits=self.config.store_limits, synchronous="OFF")
        self.lanes: list[str] = []
        self.subscriber = InboxSubscriber(
            self.config,
            self.store,
            log=self.log,
            on_stored=self.lanes.append,
            open_session=self.broker.open,
            clock=self.clock,
            draw=lambda: 0.5,
        )
        self.subscriber.link.start()
        self.run_loop()

    def run_loop(self, seconds: float = 0.02) -> None:
        """Run the loop until the store has completed its jobs, and advance the clock after each run."""
        for _ in range(3):
            self.store.move_or_drop_expired_events()
            self.subscriber.link.queue_for_connection_loop(None)
            self.subscriber.run_once()
            self.clock.now += seconds

    def deliver(self, mid: int, payload: dict[str, Any] | bytes = b"x", topic: str = "a/E") -> None:
        conn = self.broker.last
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        conn.put(MessageReceived(conn.number, topic, body, 1, mid))

    def journal_records(self, kind: str) -> list[dict[str, Any]]:
        self.store.move_or_drop_expired_events()  # commits queued writes first
        lines = [line for record in self.store.oldest_journal_records(10**6) for line in record.line.splitlines()]
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    def inbox_payloads(self, topic_filter: str = "a/#") -> list[bytes]:
        return [message.payload for message in self.store.pending_messages(topic_filter, 10**6)]

    def handle_first(self, topic_filter: str = "a/#") -> None:
        self.store.record_handled(self.store.pending_messages(topic_filter, 1)[0].rx)

    @property
    def alarm(self) -> str:
        return self.subscriber.link.alarm or ""

    @property
    def conn(self) -> Conn:
        return self.broker.last


@pytest.fixture
def create_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    yield from provide_benches(Bench, tmp_path)


@pytest.fixture
def bench(create_bench: Callable[..., Bench]) -> Bench:
    return create_bench()


def test_each_topic_has_separate_subscription_that_is_recorded(bench: Bench) -> None:
    assert bench.conn.filters == [canary_topic("", "host-1-subscriber"), "a/#", "b/#"]
    assert [record["filters"] for record in bench.journal_records("subscribed")] == [["a/#"], ["b/#"]]
    assert bench.subscriber.granted == {"a/#", "b/#"}


def test_granted_wildcard_filter_has_canary_on_each_connection(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(topics=("a/#", "b/E", "c/+"), refuses=["c/+"])
    connection_canary, topic_canary = canary_topic("", "host-1-subscriber"), canary_topic("a", "host-1-subscriber")
    assert [topic for topic in bench.conn.canaries if topic != connection_canary] == [topic_canary]
    bench.conn.drop()
    for _ in range(5):
        bench.run_loop(1.0)
    assert len(bench.broker.conns) == 2
    assert [topic for topic in bench.conn.canaries if topic != connection_canary] == [topic_canary]


def test_refused_topic_is_logged_once_and_does_not_affect_other_topics(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(refuses=["a/#"])
    assert bench.subscriber.granted == {"b/#"}
    assert bench.subscriber.refused == {"a/#": "b1:1883"}
    bench.deliver(1, topic="b/E")
    bench.run_loop()
    assert bench.conn.acked == [1]
    for _ in range(130):
        bench.run_loop(1.0)
    refusals = [event for event in bench.log.events() if "rejects the subscription to the topic filter" in event]
    assert len(refusals) == 1


def test_refused_topic_is_subscribed_again_within_one_minute(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(refuses=["a/#"])
    bench.broker.refused_filters.clear()
    for _ in range(25):
        bench.run_loop(1.0)
    assert bench.subscriber.granted == {"a/#", "b/#"}
    assert bench.subscriber.refused == {}


def test_messages_are_stored_and_then_acknowledged_in_order(bench: Bench) -> None:
    for mid in range(1, 51):
        bench.deliver(mid, f"{mid}".encode())
    bench.run_loop()
    assert bench.inbox_payloads() == [f"{mid}".encode() for mid in range(1, 51)]
    assert bench.conn.acked == list(range(1, 51))
    assert bench.lanes == ["a/#"] * 50


def test_message_is_not_acknowledged_before_commit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome: Future[InboxStorageOutcome] = Future()
    monkeypatch.setattr(bench.store, "queue_message_for_inbox", lambda *_, **__: outcome)
    bench.deliver(1)
    bench.run_loop()
    assert bench.conn.acked == []
    outcome.set_result(InboxStorageOutcome(1, None))
    bench.run_loop()
    assert bench.conn.acked == [1]


def test_message_is_stored_and_acknowledged_after_failed_write_is_repeated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Future[InboxStorageOutcome]:
        failed: Future[InboxStorageOutcome] = Future()
        failed.set_exception(AgentError("the store cannot be written: disk full"))
        return failed

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "queue_message_for_inbox", fail)
        bench.deliver(1)
        bench.run_loop()
        assert bench.conn.acked == []
    bench.run_loop(1.0)
    bench.run_loop()
    assert bench.conn.acked == [1]
    assert bench.inbox_payloads() == [b"x"]


def test_event_received_twice_is_stored_once_and_acknowledged_twice(bench: Bench) -> None:
    bench.deliver(1, {"eventId": "p:1"})
    bench.deliver(2, {"eventId": "p:1"})
    bench.run_loop()
    assert len(bench.inbox_payloads()) == 1
    assert bench.conn.acked == [1, 2]
    assert (bench.subscriber.received, bench.subscriber.duplicates) == (1, 1)


def test_messages_of_full_topic_are_not_acknowledged_but_other_topics_are(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(topic_rows=2)
    for mid in range(1, 6):
        bench.deliver(mid, f"{mid}".encode())
    bench.deliver(6, topic="b/E")
    bench.run_loop()
    assert bench.conn.acked == [1, 2, 6]
    assert bench.subscriber.filters_with_full_inbox == ("a/#",)


def test_waiting_messages_are_stored_in_order_when_inbox_has_room(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(topic_rows=2)
    for mid in range(1, 6):
        bench.deliver(mid, f"{mid}".encode())
    bench.run_loop()
    handled_payloads = []
    for _ in range(5):
        handled_payloads.append(bench.inbox_payloads()[0])
        bench.handle_first()
        bench.run_loop(1.1)
    assert handled_payloads == [b"1", b"2", b"3", b"4", b"5"]
    assert bench.conn.acked == [1, 2, 3, 4, 5]
    assert bench.subscriber.filters_with_full_inbox == ()


def test_room_freed_between_two_messages_does_not_change_their_order(
    create_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = create_bench(topic_rows=1)
    bench.deliver(1, b"1")
    bench.run_loop()
    queue_message = bench.store.queue_message_for_inbox

    def queue_and_make_room(topic: str, payload: bytes, **options: Any) -> Future[InboxStorageOutcome]:
        future = queue_message(topic, payload, **options)
        if payload == b"2" and future.result().full:
            bench.handle_first()
        return future

    monkeypatch.setattr(bench.store, "queue_message_for_inbox", queue_and_make_room)
    bench.deliver(2, b"2")
    bench.deliver(3, b"3")
    bench.run_loop()
    bench.run_loop(1.1)
    assert bench.inbox_payloads() == [b"2"]
    assert bench.conn.acked == [1, 2]


def test_message_not_stored_before_connection_loss_is_received_again(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(topic_rows=1)
    bench.deliver(1, b"1")
    bench.deliver(2, b"2")
    bench.run_loop()
    earlier_connection = bench.conn
    bench.clock.now += 11
    earlier_connection.drop()
    for _ in range(20):
        bench.run_loop(0.5)
    assert bench.conn is not earlier_connection
    bench.handle_first()
    bench.deliver(1, b"2")
    bench.run_loop()
    assert bench.inbox_payloads() == [b"2"]
    assert earlier_connection.acked == [1]
    assert bench.conn.acked == [1]


def test_large_messages_for_full_topic_stay_on_broker_until_inbox_has_room(
    create_bench: Callable[..., Bench],
) -> None:
    bench = create_bench(topic_rows=1)
    large_payload = b"x" * (1 << 20)
    bench.deliver(1, b"first")
    bench.run_loop()
    for mid in range(2, 30):
        bench.deliver(mid, large_payload)
        bench.run_loop()
    bench.deliver(30, b"of the other filter", topic="b/E")
    bench.run_loop()
    assert bench.conn.acked == [1, 30]
    assert bench.subscriber.link.dropped.counts["no room in memory"] == 24
    first_connection = bench.conn
    for _ in range(60):
        if bench.inbox_payloads():
            bench.handle_first()
        bench.run_loop(1.0)
    assert bench.conn is not first_connection
    assert first_connection.acked == [1, 30, 2, 3, 4, 5]
    assert (
        bench.journal_records("connection_lost")[0]["reason"]
        == "the agent discarded unacknowledged messages, because its memory for received messages was full: it "
        "reconnects, and the broker sends these messages again"
    )


def test_alarm_is_raised_before_oversized_messages_stop_topic_filter(bench: Bench) -> None:
    """The broker stops a topic filter after 100 messages that the agent did not acknowledge."""
    for qos, count in ((0, 200), (1, 49)):
        for _ in range(count):
            bench.conn.put(OversizedMessageReceived(bench.conn.number, qos))
    bench.conn.put(OversizedMessageReceived(bench.conn.number - 1, 1))
    bench.run_loop()
    assert bench.alarm == ""
    bench.conn.put(OversizedMessageReceived(bench.conn.number, 1))
    bench.run_loop()
    alarm = bench.alarm
    assert alarm.startswith("the agent discarded 50 messages of the broker b1:1883 without an acknowledgement")
    assert alarm.endswith("or delete these messages on the broker, then restart the agent")
    records = [fields for event, fields in bench.log.records if event.startswith("messages of a topic filter stay on")]
    assert [fields["reason"] for fields in records] == [alarm]
    bench.clock.now += 40
    bench.conn.drop()
    for _ in range(10):
        bench.run_loop(0.5)
    assert bench.subscriber.link.connections == 2
    assert bench.alarm == ""


def test_alarm_is_raised_if_many_messages_cannot_be_processed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_agent.subscribing.is_barrier_topic", lambda topic: topic.fail())
    for mid in range(1, 51):
        bench.deliver(mid)
    bench.run_loop()
    assert bench.conn.acked == []
    assert "cannot be processed" in bench.alarm


def test_alarm_is_raised_by_first_message_of_filter_that_is_not_configured(bench: Bench) -> None:
    bench.conn.put(MessageReceived(bench.conn.number, "former/E", b"x", 0, 0))
    bench.run_loop()
    assert bench.alarm == ""
    for mid in (1, 2):
        bench.deliver(mid, topic="former/E")
    bench.run_loop()
    alarm = bench.alarm
    assert alarm.startswith("the broker b1:1883 sends messages on the topic 'former/E', which matches no topic filter")
    assert "the client id host-1" in alarm
    records = [fields for event, fields in bench.log.records if "no longer configured" in event]
    assert [fields["reason"] for fields in records] == [alarm]
    assert bench.conn.acked == []


def test_canaries_of_any_agent_are_acknowledged_and_dropped(bench: Bench) -> None:
    bench.deliver(1, topic=canary_topic("a", "some-other-host"))
    bench.run_loop()
    assert bench.conn.acked == [1]
    assert bench.inbox_payloads() == []


def test_barrier_messages_are_recorded_and_acknowledged_but_not_handled(bench: Bench) -> None:
    bench.deliver(1, {"eventId": "p:e:9"}, topic="a/__barrier__")
    bench.run_loop()
    assert [record["event_id"] for record in bench.journal_records("barrier")] == ["p:e:9"]
    assert bench.conn.acked == [1]
    assert bench.inbox_payloads() == []


def test_subscriber_keeps_connection_only_while_canaries_return(bench: Bench) -> None:
    for _ in range(60):
        bench.run_loop(1.0)
    assert bench.subscriber.link.connections == 1
    bench.broker.muted_topics.add(canary_topic("", "host-1-subscriber"))
    for _ in range(15):
        bench.run_loop(1.0)
    reason = (
        "the broker did not return 2 test messages (canaries) in a row within 5 s each: check whether the broker hangs"
    )
    assert bench.journal_records("connection_lost")[0]["reason"] == reason


def test_refused_canary_topic_does_not_close_connection(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(refuses=[canary_topic("", "host-1-subscriber")])
    for _ in range(60):
        bench.run_loop(1.0)
    assert bench.subscriber.link.connections == 1


def test_subscriber_stops_reconnecting_if_canaries_are_acknowledged_but_not_returned(
    create_bench: Callable[..., Bench],
) -> None:
    bench = create_bench()
    bench.broker.muted_topics.add(canary_topic("", "host-1-subscriber"))
    for _ in range(300):
        bench.run_loop(1.0)
    assert 2 <= bench.subscriber.link.connections <= 4


def test_stopped_subscriber_closes_connection_and_keeps_durable_session(bench: Bench) -> None:
    stop = threading.Event()
    stop.set()
    bench.subscriber.run(stop)
    assert bench.conn.closed
    assert bench.conn.filters[1:] == ["a/#", "b/#"]
