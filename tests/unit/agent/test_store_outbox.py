"""What the publisher's side of the store promises."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from activemq_agent.agent_errors import AgentError, OutboxFullError, RequestRefusedError
from activemq_agent.store import SentEvent, Store, StoreLimits, outbox
from activemq_agent.store.transaction import Transaction
from tests.unit.agent.store_clock import SimulatedClock, accept_all, acknowledge, open_store


def ids(store: Store) -> list[str]:
    return [event.event_id for event in store.outgoing_events(1000)]


def test_accepted_events_are_outgoing_in_the_order_of_acceptance(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accepted = [store.accept_event("t", b"%d" % number) for number in range(30)]
        assert ids(store) == accepted
        assert [event.payload for event in store.outgoing_events(1000)] == [b"%d" % number for number in range(30)]
        assert accepted == [f"a1:{store.epoch}:{number}" for number in range(1, 31)]


def test_outgoing_goes_on_after_a_place(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("t", b"x")] * 10)
        first = store.outgoing_events(4)
        assert [event.seq for event in store.outgoing_events(100, after=first[-1].seq)] == [5, 6, 7, 8, 9, 10]


def test_numbers_go_on_after_a_restart_even_if_nothing_is_left(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.accept_event("t", b"x")
        acknowledge(store, 1, proved=True)
        epoch = store.epoch
    with open_store(tmp_path) as store:
        assert store.accept_event("t", b"y") == f"a1:{epoch}:2"


def test_an_id_of_the_caller_is_accepted_once(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.accept_event("t", b"x", event_id="mine") == "mine"
        assert store.accept_event("t", b"again", event_id="mine") == "mine"
        assert [event.payload for event in store.outgoing_events(9)] == [b"x"]


def test_an_id_of_the_caller_is_known_after_it_was_acknowledged(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.accept_event("t", b"x", event_id="mine")
        acknowledge(store, 1, proved=True)
        store.accept_event("t", b"x", event_id="mine")
        assert ids(store) == []


def test_an_id_in_the_payload_is_the_callers(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.accept_event("t", b'{"eventId":"mine"}') == "mine"
        with pytest.raises(RequestRefusedError, match="use the same id for both"):
            store.accept_event("t", b'{"eventId":"mine"}', event_id="other")


def test_an_id_that_the_store_gave_is_known(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        given = store.accept_event("t", b"x")
        assert store.accept_event("t", b"x", event_id=given) == given
        with pytest.raises(RequestRefusedError, match="choose a different id"):
            store.accept_event("t", b"x", event_id=f"a1:{store.epoch}:2")
        assert ids(store) == [given]


@pytest.mark.parametrize("topic", ["", "a/#", "a/+/b", "a\0b", "x" * 65536])
def test_a_topic_that_cannot_be_published_to_is_refused(tmp_path: Path, topic: str) -> None:
    with open_store(tmp_path) as store, pytest.raises(RequestRefusedError, match="is not a topic"):
        store.accept_event(topic, b"x")


def test_a_full_outbox_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(outbox_rows=3)) as store:
        accepted = accept_all(store, [("t", b"x")] * 3)
        with pytest.raises(OutboxFullError, match="the event was rejected"):
            store.accept_event("t", b"y")
        assert ids(store) == accepted
        acknowledge(store, 2, proved=True)
        assert store.accept_event("t", b"y") == f"a1:{store.epoch}:4"


def test_an_outbox_is_full_by_bytes_too(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(outbox_bytes=20)) as store:
        store.accept_event("t", b"x" * 10)
        with pytest.raises(OutboxFullError):
            store.accept_event("t", b"x" * 9)
        store.accept_event("t", b"x" * 8)
        assert store.row_and_byte_counts().outbox_bytes == 20


def test_callers_at_once_each_get_an_id_of_their_own(tmp_path: Path) -> None:
    got: list[str] = []
    together = Barrier(20)

    def call(store: Store) -> None:
        together.wait()
        got.extend(store.accept_event("t", b"x") for _ in range(20))

    with open_store(tmp_path) as store:
        threads = [Thread(target=call, args=(store,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == sorted(ids(store))
        assert len(set(got)) == 400


def test_a_proved_acknowledgement_forgets_the_event(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("t", b"x")] * 3)
        acknowledge(store, 1, 3, proved=True)
        assert [event.seq for event in store.outgoing_events(9)] == [2]


def test_an_unproved_acknowledgement_keeps_the_event_until_its_prefix_is_proved(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("a/x", b"x"), ("ab/x", b"x"), ("a", b"x"), ("a/y", b"x")])
        acknowledge(store, 1, 2, 3, proved=False, conn=7)
        acknowledge(store, 4, proved=False, conn=6)
        assert (store.outgoing_events(9), store.row_and_byte_counts().unconfirmed) == ([], 4)
        assert store.confirm_events_below_topic_prefix("a", 7) == 2
        assert store.row_and_byte_counts().unconfirmed == 2


def test_unconfirmed_events_are_bounded_and_those_dropped_are_counted(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(unconfirmed_rows=2)) as store:
        accept_all(store, [("t", b"x")] * 5)
        acknowledge(store, 1, 2, 3, 4, 5, proved=False)
        assert (store.row_and_byte_counts().unconfirmed, store.row_and_byte_counts().unconfirmed_dropped) == (2, 3)


def test_an_expired_event_is_kept_apart_and_requeued_with_its_id(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        accepted = [store.accept_event("t", b"x", timeout=10), store.accept_event("t", b"y", timeout=30)]
        clock.pass_time(10)
        assert ids(store) == accepted[1:], "expired, though nobody has looked yet"
        assert (store.expire_events(), store.row_and_byte_counts().expired) == (1, 1)
        assert store.requeue_expired_events([accepted[0]]) == 1
        assert ids(store) == [accepted[1], accepted[0]]
        clock.pass_time(10)
        assert (store.expire_events(), ids(store)) == (1, [accepted[1]])


def test_requeue_refuses_an_id_that_is_not_kept(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, pytest.raises(RequestRefusedError, match="no event was sent again"):
        store.requeue_expired_events(["no"])


def test_expired_events_without_room_apart_stay_unsent_in_the_outbox(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(expired_rows=1, outbox_rows=3, timeout=5)) as store:
        accept_all(store, [("t", b"x")] * 3)
        clock.pass_time(6)
        assert (store.expire_events(), store.row_and_byte_counts().outbox_rows, store.outgoing_events(9)) == (1, 2, [])
        store.accept_event("t", b"x")
        with pytest.raises(OutboxFullError):
            store.accept_event("t", b"x")


def test_requeue_takes_as_many_as_fit(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(outbox_rows=2, timeout=5)) as store:
        accept_all(store, [("t", b"x")] * 2)
        clock.pass_time(6)
        store.expire_events()
        store.accept_event("t", b"y")
        assert (store.requeue_expired_events(), store.row_and_byte_counts().expired) == (1, 1)


def test_drop_expired_drops_and_says_so(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(drop_expired=True)) as store:
        store.accept_event("t", b"x", timeout=1)
        clock.pass_time(2)
        assert (
            store.expire_events(),
            store.row_and_byte_counts().expired,
            store.row_and_byte_counts().outbox_rows,
        ) == (1, 0, 0)
        assert '"reason":"dropped"' in store.oldest_journal_records(99)[-1].line


def test_an_expired_event_that_is_acknowledged_after_all_is_forgotten(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        store.accept_event("t", b"x", timeout=1)
        clock.pass_time(2)
        store.expire_events()
        acknowledge(store, 1, proved=True)
        assert store.row_and_byte_counts().expired == 0


def test_expiry_is_noticed_soon_without_being_asked(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a1", synchronous="OFF") as store:
        store.accept_event("t", b"x", timeout=0.1)
        began = time.monotonic()
        while not store.row_and_byte_counts().expired and time.monotonic() - began < 30:
            time.sleep(0.01)
        [due] = [json.loads(record.line) for record in store.oldest_journal_records(9) if '"expired"' in record.line]
        accepted = json.loads(store.oldest_journal_records(1)[0].line)
        late = datetime.fromisoformat(due["ts"]) - datetime.fromisoformat(accepted["ts"])
        assert late < timedelta(seconds=15)


def test_the_age_of_the_oldest_event_is_elapsed_time(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        assert store.row_and_byte_counts().oldest_age is None
        store.accept_event("t", b"x")
        clock.pass_time(12.5)
        assert store.row_and_byte_counts().oldest_age == pytest.approx(12.5)


def test_a_second_agent_is_kept_out_of_the_state_directory(tmp_path: Path) -> None:
    with open_store(tmp_path), pytest.raises(AgentError, match="another agent"):
        open_store(tmp_path)
    open_store(tmp_path).close()


def test_a_store_of_another_agent_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with pytest.raises(AgentError, match="belongs to the agent 'a1'"):
        Store.open(tmp_path, agent="a2")


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(AgentError, match="closed"):
        store.accept_event("t", b"x")


def test_what_is_not_yet_on_the_disk_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted, go_on = Event(), Event()
    acknowledged = outbox.remove_acknowledged_events

    def hold(transaction: Transaction, *arguments: Any) -> None:
        acknowledged(transaction, *arguments)
        deleted.set()
        assert go_on.wait(10)

    with open_store(tmp_path) as store:
        store.accept_event("instance/status/E", b"{}")
        monkeypatch.setattr(outbox, "remove_acknowledged_events", hold)
        future = store.queue_removal_of_acknowledged_events([SentEvent(1, 1, 1, "b")], is_delivery_proved=False)
        assert deleted.wait(10)
        during = store.row_and_byte_counts()
        go_on.set()
        future.result()

        assert (during.outbox_rows, during.unconfirmed) == (1, 0)
        assert (store.row_and_byte_counts().outbox_rows, store.row_and_byte_counts().unconfirmed) == (0, 1)
