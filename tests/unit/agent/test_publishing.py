"""Events that the publisher sends, keeps and deletes, with a real outbox and a fake broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.connection_events import PubackReceived
from activemq_agent.publishing import LARGEST_BATCH, MAX_PREFIXES, Publisher
from activemq_agent.store import Store
from activemq_fleet.agent_topics import canary_topic
from tests.unit.agent.links import Clock, FakeBroker, RecordingLog, config, provide_benches


class Bench:
    """A publisher with a store, a fake broker and a clock that tests advance."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.clock, self.broker, self.log = Clock(), FakeBroker(), RecordingLog()
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

    def run_loop(self, times: int = 5, seconds: float = 0.02) -> None:
        """Run the loop several times, and advance the clock after each run."""
        for _ in range(times):
            self.publisher.wake()  # no run of the loop waits
            self.publisher.run_once()
            self.clock.now += seconds
        self.publisher._wait_until_recorded()

    def run_until_outbox_is_empty(self, step: float = 0.02) -> None:
        """Run the loop until the outbox is empty."""
        for _ in range(500):
            self.run_loop(1, step)
            if not self.rows:
                return

    def journal_records(self, kind: str) -> list[dict[str, Any]]:
        self.store.move_or_drop_expired_events()  # commits queued writes first
        lines = [line for record in self.store.oldest_journal_records(10**6) for line in record.line.splitlines()]
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    @property
    def rows(self) -> int:
        return self.store.row_and_byte_counts().outbox_rows


@pytest.fixture
def create_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    yield from provide_benches(Bench, tmp_path)


@pytest.fixture
def bench(create_bench: Callable[..., Bench]) -> Bench:
    return create_bench()


def test_publisher_sends_events_in_order_with_ids_and_empties_outbox(bench: Bench) -> None:
    ids = bench.accept(300)
    bench.run_until_outbox_is_empty()
    assert [json.loads(payload)["eventId"] for payload in bench.broker.sent_payloads()] == ids
    assert bench.rows == 0
    assert [record["event_id"] for record in bench.journal_records("acknowledged")] == ids


def test_journal_record_of_sent_event_contains_broker_connection_and_mid(bench: Bench) -> None:
    bench.accept()
    bench.run_loop()
    (record,) = bench.journal_records("sent")
    (mid, _, _) = bench.broker.last.published[0]
    assert (record["broker"], record["conn"], record["mid"]) == ("b1:1883", 1, mid)


@pytest.mark.parametrize("is_envelope_used", [False, True])
def test_journal_record_of_event_that_is_sent_without_id_has_that_reason(
    create_bench: Callable[..., Bench], is_envelope_used: bool
) -> None:
    bench = create_bench(publisher_envelope=is_envelope_used)
    accepted = {
        bench.store.accept_event("a/b/E", payload, event_id=event_id): has_id
        for payload, event_id, has_id in (
            (b'{"n":1}', None, True),
            (b'{"eventId":"own"}', None, True),
            (b'{"n":2}', "chosen", True),
            (b'{"eventId":4711}', None, False),
            (b"text", None, is_envelope_used),
            (b"[1,2]", "of-list", is_envelope_used),
            (b'\xef\xbb\xbf{"n":3}', None, is_envelope_used),
        )
    }
    bench.run_loop()
    records = bench.journal_records("sent")
    assert {record["event_id"]: record.get("reason") for record in records} == {
        event_id: None if has_id else "without id" for event_id, has_id in accepted.items()
    }


def test_number_of_unacknowledged_events_is_limited_to_window(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(publisher_window=7)
    bench.broker.acknowledges = False
    bench.accept(30)
    bench.run_loop()
    assert len(bench.broker.last.published) == 7
    bench.broker.last.put(PubackReceived(1, bench.broker.last.published[0][0]))
    bench.run_loop()
    assert len(bench.broker.last.published) == 8


def test_bytes_of_unacknowledged_events_and_of_read_events_are_limited(bench: Bench) -> None:
    """A window of large events would otherwise exceed the memory that the service unit permits."""
    bench.broker.acknowledges = False
    payload = b"x" * (1 << 20)
    for _ in range(20):
        bench.store.accept_event("a/b/E", payload)
    bench.run_loop()
    connection = bench.broker.last
    assert len(connection.published) == LARGEST_BATCH >> 20
    assert sum(len(event.payload) for event in bench.publisher._buffer) < LARGEST_BATCH
    connection.put(PubackReceived(1, connection.published[0][0]))
    bench.run_loop()
    assert len(connection.published) == (LARGEST_BATCH >> 20) + 1
    for _ in range(3):
        for mid, _, _ in list(connection.published):
            connection.put(PubackReceived(1, mid))
        bench.run_loop()
    assert len(connection.published) == 20
    assert bench.rows == 0


def test_event_above_limit_of_bytes_is_sent_alone(bench: Bench) -> None:
    for _ in range(3):
        bench.store.accept_event("a/b/E", b"x" * (LARGEST_BATCH + 1))
    bench.broker.acknowledges = False
    for count in (1, 2, 3):
        bench.run_loop()
        assert len(bench.broker.last.published) == count
        bench.broker.last.put(PubackReceived(1, bench.broker.last.published[-1][0]))
    bench.run_loop()
    assert bench.rows == 0


def test_after_connection_loss_only_unacknowledged_events_are_sent_again_in_order(bench: Bench) -> None:
    ids = bench.accept(10)
    bench.broker.acknowledges = False
    bench.run_loop()
    first_connection = bench.broker.last
    for mid, _, _ in first_connection.published[:4]:
        first_connection.put(PubackReceived(first_connection.number, mid))
    bench.run_loop()
    bench.broker.acknowledges = True
    bench.clock.now += 11
    first_connection.drop()
    bench.run_loop(100)
    assert bench.broker.last is not first_connection
    assert [json.loads(payload)["eventId"] for _, _, payload in bench.broker.last.published] == ids[4:]
    assert bench.rows == 0


def test_acknowledgements_of_earlier_connection_are_ignored(bench: Bench) -> None:
    bench.broker.acknowledges = False
    bench.accept(3)
    bench.run_loop()
    earlier_connection = bench.broker.last
    earlier_connection.drop()
    bench.run_loop(100, 0.5)
    assert bench.broker.last is not earlier_connection
    for mid, _, _ in earlier_connection.published:
        earlier_connection.put(PubackReceived(earlier_connection.number, mid))
    bench.run_loop()
    assert bench.rows == 3


def test_event_stays_in_outbox_until_canary_of_its_topic_prefix_returns(bench: Bench) -> None:
    topic = canary_topic("a/b", "host-1")
    bench.broker.muted_topics.add(topic)
    bench.accept(2)
    bench.run_loop()
    assert bench.rows == 2
    bench.broker.muted_topics.clear()
    conn = bench.broker.last
    conn.publish(topic, bench.publisher._prefixes["a/b"].canary)
    bench.run_loop()
    assert bench.rows == 0
    assert len(bench.journal_records("acknowledged")) == 2


def test_events_are_unconfirmed_if_canary_of_their_prefix_does_not_return(bench: Bench) -> None:
    bench.broker.muted_topics.add(canary_topic("a/b", "host-1"))
    ids = bench.accept(2)
    bench.run_loop(300, 0.02)
    counts = bench.store.row_and_byte_counts()
    assert (counts.outbox_rows, counts.unconfirmed) == (0, 2)
    assert [record["event_id"] for record in bench.journal_records("unconfirmed")] == ids
    assert bench.journal_records("acknowledged") == []
    assert bench.publisher.topic_prefixes_without_received_canary == ("a/b",)
    warning = "the agent cannot confirm the delivery of events below the topic 'a/b': let "
    (text,) = [event for event in bench.log.events() if event.startswith(warning)]
    assert text.endswith(
        "send the events that stay unconfirmed again with activemq-agent requeue ID… (the ids are in the records "
        '"kind":"unconfirmed" of the event journal, agent/*.jsonl in the directory state.directory)'
    )


def test_events_are_unconfirmed_immediately_if_canary_subscription_is_refused(bench: Bench) -> None:
    bench.broker.refused_filters.add(canary_topic("a/b", "host-1"))
    bench.accept(2)
    bench.run_loop()
    assert bench.store.row_and_byte_counts().unconfirmed == 2


def test_topic_prefix_without_canary_does_not_affect_other_prefixes(bench: Bench) -> None:
    bench.broker.refused_filters.add(canary_topic("a/b", "host-1"))
    bench.accept(2)
    confirmed_ids = bench.accept(2, topic="c/d/E")
    bench.run_loop()
    assert [record["event_id"] for record in bench.journal_records("acknowledged")] == confirmed_ids
    assert bench.store.row_and_byte_counts().unconfirmed == 2


def test_late_canary_confirms_unconfirmed_events(bench: Bench) -> None:
    """The canary was sent before the events, so the broker has accepted them, too."""
    topic = canary_topic("a/b", "host-1")
    bench.broker.muted_topics.add(topic)
    bench.accept(2)
    bench.run_loop(300, 0.02)
    assert bench.store.row_and_byte_counts().unconfirmed == 2
    bench.broker.muted_topics.clear()
    bench.broker.last.publish(topic, bench.publisher._prefixes["a/b"].canary)
    bench.run_loop()
    assert bench.store.row_and_byte_counts().unconfirmed == 0
    assert len(bench.journal_records("acknowledged")) == 2
    assert bench.publisher.topic_prefixes_without_received_canary == ()


def test_retried_canary_confirms_only_events_that_were_sent_after_it(bench: Bench) -> None:
    """The broker rejected the first events, and later received the permission, which lets the retried canary return."""
    topic = canary_topic("a/b", "host-1")
    bench.broker.muted_topics.add(topic)
    rejected_ids = bench.accept(2)
    bench.run_loop(300, 0.02)
    first_canary = bench.publisher._prefixes["a/b"].canary
    bench.run_loop(58, 1.0)
    retried_canary = bench.publisher._prefixes["a/b"].canary
    assert retried_canary != first_canary, "a canary that was sent again has the payload of the first one"
    ids_after_retry = bench.accept(2)
    bench.run_loop()
    assert bench.store.row_and_byte_counts().unconfirmed == 4
    bench.broker.muted_topics.clear()
    bench.broker.last.publish(topic, first_canary)
    bench.run_loop()
    assert bench.store.row_and_byte_counts().unconfirmed == 4
    bench.broker.last.publish(topic, retried_canary)
    bench.run_loop()
    assert bench.publisher.topic_prefixes_without_received_canary == ()
    assert [record["event_id"] for record in bench.journal_records("acknowledged")] == ids_after_retry
    assert bench.store.requeue_expired_events(rejected_ids) == 2
    bench.run_loop()
    assert [record["event_id"] for record in bench.journal_records("acknowledged")] == ids_after_retry + rejected_ids


def test_event_acknowledged_after_retried_canary_returned_stays_unconfirmed(bench: Bench) -> None:
    topic = canary_topic("a/b", "host-1")
    bench.broker.muted_topics.add(topic)
    bench.accept()
    bench.run_loop(270, 0.02)
    bench.run_loop(50, 1.0)
    bench.broker.acknowledges = False
    bench.accept()
    bench.run_loop()
    bench.broker.muted_topics.clear()
    bench.run_loop(20, 1.0)
    assert bench.publisher.topic_prefixes_without_received_canary == ()
    bench.broker.last.put(PubackReceived(1, bench.broker.last.published[-1][0]))
    bench.run_loop()
    assert bench.journal_records("acknowledged") == []
    assert bench.store.row_and_byte_counts().unconfirmed == 2


def test_canary_of_prefix_confirms_no_event_of_longer_prefix(bench: Bench) -> None:
    topics = [canary_topic(prefix, "host-1") for prefix in ("a", "a/b")]
    bench.broker.muted_topics.update(topics)
    (event_id,) = bench.accept(topic="a/E")
    bench.accept(topic="a/b/E")
    bench.run_loop(300, 0.02)
    bench.broker.muted_topics.remove(topics[0])
    bench.broker.last.publish(topics[0], bench.publisher._prefixes["a"].canary)
    bench.run_loop()
    assert bench.publisher.topic_prefixes_without_received_canary == ("a/b",)
    assert [record["event_id"] for record in bench.journal_records("acknowledged")] == [event_id]
    assert bench.store.row_and_byte_counts().unconfirmed == 1


def test_canary_of_earlier_connection_confirms_no_event(bench: Bench) -> None:
    topic = canary_topic("a/b", "host-1")
    bench.accept()
    bench.run_loop()
    stale_canary = bench.publisher._prefixes["a/b"].canary
    bench.broker.last.drop()
    bench.broker.muted_topics.add(topic)
    bench.run_loop(60, 0.5)
    bench.accept()
    bench.run_loop()
    bench.broker.muted_topics.clear()
    bench.broker.last.publish(topic, stale_canary)
    bench.run_loop()
    assert bench.rows == 1


def test_publisher_leaves_broker_that_sends_no_acknowledgement_in_30_seconds(bench: Bench) -> None:
    bench.broker.acknowledges = False
    bench.accept()
    bench.run_loop()
    first_connection = bench.broker.last
    bench.run_loop(32, 1.0)
    assert first_connection.closed
    assert bench.journal_records("connection_lost")[0]["reason"] == "the broker sent no PUBACK in 30 s"
    assert bench.publisher.link.broker == "b2:1883"
    assert len(bench.broker.last.published) == 1


def test_connection_failure_is_logged_once_and_reported_until_connected(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench()
    bench.broker.accepts = False
    bench.run_loop(1)
    bench.broker.last.drop()
    bench.run_loop(50, 1.0)
    assert len(bench.broker.conns) > 3, "the publisher stopped its attempts to connect"
    failures = [
        fields for event, fields in bench.log.records if event.startswith("the agent cannot connect to the broker")
    ]
    assert failures == [{"broker": name, "reason": "no server listens"} for name in bench.publisher.link.names]
    assert bench.publisher.link.failure_reasons == dict.fromkeys(bench.publisher.link.names, "no server listens")
    bench.broker.accepts = True
    bench.run_loop(50, 1.0)
    assert bench.publisher.link.broker in bench.publisher.link.names
    assert bench.publisher.link.failure_reasons == {}


def test_expired_events_are_not_sent(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(publisher_timeout=2.0)
    bench.run_loop(1)
    bench.broker.accepts = False
    bench.broker.last.drop()
    bench.run_loop(1)
    bench.accept(3)
    bench.run_loop()
    time.sleep(2.1)
    bench.store.move_or_drop_expired_events()
    bench.broker.accepts = True
    new_ids = bench.accept(1)
    bench.run_loop(100, 0.5)
    assert [json.loads(payload)["eventId"] for payload in bench.broker.sent_payloads()] == new_ids
    assert bench.store.row_and_byte_counts().expired == 3


def test_event_that_expires_while_window_is_full_is_not_sent(
    create_bench: Callable[..., Bench],
) -> None:
    """The publisher reads buffered rows again before it sends them, because they may have expired."""
    bench = create_bench(publisher_window=2, publisher_timeout=2.0)
    bench.broker.acknowledges = False
    bench.accept(3)
    bench.run_loop()
    bench.publisher._buffer.extend(bench.store.outgoing_events(1, bench.publisher._last_read_seq))
    time.sleep(2.1)
    bench.store.move_or_drop_expired_events()
    bench.clock.now += 1
    for mid, _, _ in list(bench.broker.last.published):
        bench.broker.last.put(PubackReceived(1, mid))
    bench.run_loop()
    assert len(bench.broker.last.published) == 2


def test_payload_that_is_no_json_object_is_sent_unchanged_without_envelope(
    create_bench: Callable[..., Bench],
) -> None:
    plain, wrapped = create_bench(), create_bench(publisher_envelope=True)
    for bench in (plain, wrapped):
        bench.store.accept_event("a/b/E", b"text")
        bench.run_loop()
    assert plain.broker.sent_payloads() == ["text"]
    assert json.loads(wrapped.broker.sent_payloads()[0])["payload"] == "text"


def test_barrier_messages_are_sent_on_each_topic_prefix_after_earlier_events(bench: Bench) -> None:
    bench.accept(2)
    bench.accept(2, topic="c/E")
    bench.run_loop()
    ids = bench.publisher.add_barriers_to_outbox()
    bench.run_loop()
    topics = [topic for _, topic, _ in bench.broker.last.published]
    assert topics[4:] == ["a/b/__barrier__/host-1", "c/__barrier__/host-1"]
    assert [record["event_id"] for record in bench.journal_records("barrier")] == ids
    assert bench.rows == 0


def test_barrier_messages_are_sent_every_minute_if_enabled(create_bench: Callable[..., Bench]) -> None:
    bench = create_bench(barrier=True)
    bench.accept()
    bench.run_loop(150, 1.0)
    assert len(bench.journal_records("barrier")) == 2


def test_number_of_topic_prefixes_that_publisher_remembers_is_bounded(bench: Bench) -> None:
    for number in range(MAX_PREFIXES + 20):
        bench.store.accept_event(f"tenant/{number}/E", b"{}")
    bench.run_until_outbox_is_empty()
    assert len(bench.publisher._prefixes) == MAX_PREFIXES
    assert len(bench.broker.last.filters) <= MAX_PREFIXES + 1
    assert bench.rows == 0


def test_unacknowledged_events_stay_in_outbox_after_stop(bench: Bench) -> None:
    bench.broker.acknowledges = False
    bench.accept(3)
    bench.run_loop()
    stop = threading.Event()
    stop.set()
    bench.publisher.run(stop)
    assert bench.broker.last.closed
    assert bench.rows == 3


def test_events_sent_again_after_connection_loss_are_at_most_twice_window(
    create_bench: Callable[..., Bench],
) -> None:
    bench = create_bench(publisher_window=10)
    bench.accept(200)
    for _ in range(8):
        bench.publisher.wake()
        bench.publisher.run_once()
        bench.clock.now += 0.001
    bench.clock.now += 11
    bench.broker.last.drop()
    bench.run_until_outbox_is_empty()
    assert bench.rows == 0
    assert bench.publisher.sent - 200 <= 20
