"""Guarantees of the store for the publisher."""

from __future__ import annotations

import contextlib
import json
import math
import time
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from activemq_agent.agent_errors import AgentError, OutboxFullError, RequestRefusedError
from activemq_agent.agent_topics import barrier_topic, canary_topic
from activemq_agent.store import SentEvent, Store, StoreLimits, outbox
from activemq_agent.store.transaction import Transaction
from tests.unit.agent.store_clock import SimulatedClock, accept_all, acknowledge, open_store


def outgoing_ids(store: Store) -> list[str]:
    return [event.event_id for event in store.outgoing_events(1000)]


def test_accepted_events_are_outgoing_in_order_of_acceptance(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accepted_ids = [store.accept_event("t", b"%d" % number) for number in range(30)]
        assert outgoing_ids(store) == accepted_ids
        assert [event.payload for event in store.outgoing_events(1000)] == [b"%d" % number for number in range(30)]
        assert accepted_ids == [f"a1:{store.epoch}:{number}" for number in range(1, 31)]


def test_outgoing_events_start_after_given_place_of_outbox(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("t", b"x")] * 10)
        first_events = store.outgoing_events(4)
        assert [event.seq for event in store.outgoing_events(100, after=first_events[-1].seq)] == [5, 6, 7, 8, 9, 10]


def test_numbers_in_event_ids_continue_after_restart_with_empty_outbox(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.accept_event("t", b"x")
        acknowledge(store, 1, proved=True)
        epoch = store.epoch
    with open_store(tmp_path) as store:
        assert store.accept_event("t", b"y") == f"a1:{epoch}:2"


def test_store_accepts_event_with_id_of_caller_once(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.accept_event("t", b"x", event_id="mine") == "mine"
        assert store.accept_event("t", b"again", event_id="mine") == "mine"
        assert [event.payload for event in store.outgoing_events(9)] == [b"x"]


def test_event_with_id_of_acknowledged_event_is_not_accepted_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.accept_event("t", b"x", event_id="mine")
        acknowledge(store, 1, proved=True)
        store.accept_event("t", b"x", event_id="mine")
        assert outgoing_ids(store) == []


def test_event_id_in_payload_is_id_of_caller(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.accept_event("t", b'{"eventId":"mine"}') == "mine"
        with pytest.raises(RequestRefusedError, match="use the same id for both"):
            store.accept_event("t", b'{"eventId":"mine"}', event_id="other")


def test_event_with_id_assigned_by_store_is_not_accepted_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assigned_id = store.accept_event("t", b"x")
        assert store.accept_event("t", b"x", event_id=assigned_id) == assigned_id
        with pytest.raises(RequestRefusedError, match="choose a different id"):
            store.accept_event("t", b"x", event_id=f"a1:{store.epoch}:2")
        assert outgoing_ids(store) == [assigned_id]


@pytest.mark.parametrize("topic", ["", "a/#", "a/+/b", "a\0b", "x" * 65536])
def test_store_refuses_event_with_invalid_topic(tmp_path: Path, topic: str) -> None:
    with open_store(tmp_path) as store, pytest.raises(RequestRefusedError, match="is not a topic"):
        store.accept_event(topic, b"x")


@pytest.mark.parametrize("rest", ["", "/e"])
def test_topic_is_accepted_only_if_test_messages_can_be_sent_for_it(tmp_path: Path, rest: str) -> None:
    with open_store(tmp_path) as store:
        for length in range(65500, 65536 - len(rest)):
            prefix = "ä" + "x" * (length - 2)
            fits = max(len(topic(prefix, "a1").encode()) for topic in (canary_topic, barrier_topic)) <= 65535
            with contextlib.nullcontext() if fits else pytest.raises(RequestRefusedError, match=r" to 65520 bytes$"):
                store.accept_event(prefix + rest, b"x")
        longest_prefix = max((event.topic for event in store.outgoing_events(99)), key=len).removesuffix(rest)
        assert len(longest_prefix.encode()) == 65520
        store.accept_event(barrier_topic(longest_prefix, "a1"), b"{}")
        store.accept_event("a/" + "x" * 65533, b"x")


@pytest.mark.parametrize("timeout", [0, -1.0, math.inf, math.nan, 10**400])
def test_event_timeout_that_agent_conf_does_not_accept_is_refused(tmp_path: Path, timeout: float) -> None:
    with (
        open_store(tmp_path) as store,
        pytest.raises(RequestRefusedError, match=r"of the event is not valid: write a number of seconds above 0$"),
    ):
        store.accept_event("t", b"x", timeout=timeout)


def test_full_outbox_refuses_event_and_keeps_accepted_events(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(outbox_rows=3)) as store:
        accepted_ids = accept_all(store, [("t", b"x")] * 3)
        with pytest.raises(OutboxFullError, match="the event was rejected"):
            store.accept_event("t", b"y")
        assert outgoing_ids(store) == accepted_ids
        acknowledge(store, 2, proved=True)
        assert store.accept_event("t", b"y") == f"a1:{store.epoch}:4"


def test_outbox_is_limited_by_bytes(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(outbox_bytes=20)) as store:
        store.accept_event("t", b"x" * 10)
        with pytest.raises(OutboxFullError):
            store.accept_event("t", b"x" * 9)
        store.accept_event("t", b"x" * 8)
        assert store.row_and_byte_counts().outbox_bytes == 20


def test_simultaneous_callers_get_different_event_ids(tmp_path: Path) -> None:
    event_ids: list[str] = []
    barrier = Barrier(20)

    def accept_events(store: Store) -> None:
        barrier.wait()
        event_ids.extend(store.accept_event("t", b"x") for _ in range(20))

    with open_store(tmp_path) as store:
        threads = [Thread(target=accept_events, args=(store,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(event_ids) == sorted(outgoing_ids(store))
        assert len(set(event_ids)) == 400


def test_event_with_proved_acknowledgement_is_removed_from_outbox(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("t", b"x")] * 3)
        acknowledge(store, 1, 3, proved=True)
        assert [event.seq for event in store.outgoing_events(9)] == [2]


def test_event_with_unproved_acknowledgement_is_kept_until_canary_proves_its_topic(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        accept_all(store, [("a/x", b"x"), ("ab/x", b"x"), ("a", b"x"), ("a/y", b"x")])
        acknowledge(store, 1, 2, 3, proved=False, conn=7)
        acknowledge(store, 4, proved=False, conn=6)
        assert (store.outgoing_events(9), store.row_and_byte_counts().unconfirmed) == ([], 4)
        assert store.confirm_and_delete_events_below_prefix("a", 7) == 2
        assert store.row_and_byte_counts().unconfirmed == 2


def test_canary_confirms_no_event_with_more_topic_levels(tmp_path: Path) -> None:
    """The permission for ``a/*`` lets the canary of ``a`` return, but not events of ``a/b/*`` be accepted."""
    with open_store(tmp_path) as store:
        event_ids = accept_all(store, [("a/E", b"x"), ("a/b/E", b"x")])
        acknowledge(store, 1, 2, proved=False, conn=1)
        assert store.confirm_and_delete_events_below_prefix("a", 1) == 1
        assert store.requeue_expired_events([event_ids[1]]) == 1


def test_canary_confirms_no_event_that_was_sent_before_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        event_ids = accept_all(store, [("a/E", b"x")] * 3)
        acknowledge(store, 1, 2, 3, proved=False, conn=1)
        assert store.confirm_and_delete_events_below_prefix("a", 1, after=2) == 1
        assert store.requeue_expired_events(event_ids[:2]) == 2


def test_canary_confirms_no_event_of_earlier_run_on_connection_with_same_number(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        event_id = store.accept_event("a/E", b"x")
        acknowledge(store, 1, proved=False, conn=1)
    with open_store(tmp_path) as store:
        assert store.confirm_and_delete_events_below_prefix("a", 1) == 0
        assert store.damage is None
        assert store.requeue_expired_events([event_id]) == 1


def test_unconfirmed_events_are_limited_and_dropped_ones_are_counted(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(unconfirmed_rows=2)) as store:
        accept_all(store, [("t", b"x")] * 5)
        acknowledge(store, 1, 2, 3, 4, 5, proved=False)
        assert (store.row_and_byte_counts().unconfirmed, store.row_and_byte_counts().unconfirmed_dropped) == (2, 3)


def test_dropped_unconfirmed_event_is_accepted_again_with_same_id(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(unconfirmed_rows=1)) as store:
        for event_id in ("dropped", "kept"):
            store.accept_event("t", b"x", event_id=event_id)
        acknowledge(store, 1, 2, proved=False)
        for event_id in ("dropped", "kept"):
            assert store.accept_event("t", b"again", event_id=event_id) == event_id
        assert outgoing_ids(store) == ["dropped"]


def test_expired_event_is_kept_separately_and_requeued_with_same_id(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        accepted_ids = [store.accept_event("t", b"x", timeout=10), store.accept_event("t", b"y", timeout=30)]
        clock.pass_time(10)
        assert outgoing_ids(store) == accepted_ids[1:], (
            "an expired event must not be outgoing before move_or_drop_expired_events() runs"
        )
        assert (store.move_or_drop_expired_events(), store.row_and_byte_counts().expired) == (1, 1)
        assert store.requeue_expired_events([accepted_ids[0]]) == 1
        assert outgoing_ids(store) == [accepted_ids[1], accepted_ids[0]]
        clock.pass_time(10)
        assert (store.move_or_drop_expired_events(), outgoing_ids(store)) == (1, [accepted_ids[1]])


def test_requeue_refuses_unknown_event_id(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, pytest.raises(RequestRefusedError, match="no event was sent again"):
        store.requeue_expired_events(["no"])


def test_expired_events_above_limit_stay_unsent_in_outbox(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(expired_rows=1, outbox_rows=3, timeout=5)) as store:
        accept_all(store, [("t", b"x")] * 3)
        clock.pass_time(6)
        assert (
            store.move_or_drop_expired_events(),
            store.row_and_byte_counts().outbox_rows,
            store.outgoing_events(9),
        ) == (1, 2, [])
        store.accept_event("t", b"x")
        with pytest.raises(OutboxFullError):
            store.accept_event("t", b"x")


def test_outbox_full_of_expired_events_without_room_is_usable_after_requeue(tmp_path: Path) -> None:
    """An outage fills the outbox with events that expire, after as many as possible are kept as expired."""
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(expired_rows=1, outbox_rows=3, timeout=5)) as store:
        kept_id, *due_ids = accept_all(store, [("t", b"x")] * 3)
        clock.pass_time(6)
        store.move_or_drop_expired_events()
        due_ids.append(store.accept_event("t", b"x"))
        clock.pass_time(6)
        assert (store.move_or_drop_expired_events(), store.outgoing_events(9)) == (0, [])
        with pytest.raises(OutboxFullError, match=r"requeue --all when a broker is connected, and then publish"):
            store.accept_event("t", b"x")
        assert store.requeue_expired_events([due_ids[1]]) == 1
        assert outgoing_ids(store) == [due_ids[1]]
        assert store.requeue_expired_events() == 2
        assert outgoing_ids(store) == [due_ids[1], due_ids[0], due_ids[2]]
        with pytest.raises(OutboxFullError, match="publish it again after the agent has connected to a broker"):
            store.accept_event("t", b"x")
        acknowledge(store, *[event.seq for event in store.outgoing_events(9)], proved=True)
        assert store.requeue_expired_events() == 1
        assert outgoing_ids(store) == [kept_id]


def test_requeue_of_all_expired_events_is_split_into_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "REQUEUED_AT_ONCE", 3)
    monkeypatch.setattr(outbox, "REQUEUED_BYTES_AT_ONCE", 3)
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(expired_rows=5, timeout=5)) as store:
        accepted_ids = accept_all(store, [("t", b"x")] * 10)
        clock.pass_time(6)
        store.move_or_drop_expired_events()
        assert store.requeue_expired_events() == 10
        assert outgoing_ids(store) == accepted_ids


def test_expired_events_without_room_are_not_all_read_at_each_check(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(expired_rows=1, timeout=5)) as store:
        accept_all(store, [("t", b"x")] * 2000)
        clock.pass_time(6)
        store.move_or_drop_expired_events()
        steps: list[None] = []
        for database in (store._writer._db, store._reader._db):
            database.set_progress_handler(lambda: steps.append(None), 100)
        assert (store.move_or_drop_expired_events(), store.outgoing_events(9)) == (0, [])
        assert len(steps) < 20, "100 instructions of SQLite are a step: both checks read a few rows, not 2,000"


def test_requeue_is_limited_by_free_rows_of_outbox(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(outbox_rows=2, timeout=5)) as store:
        accept_all(store, [("t", b"x")] * 2)
        clock.pass_time(6)
        store.move_or_drop_expired_events()
        store.accept_event("t", b"y")
        assert (store.requeue_expired_events(), store.row_and_byte_counts().expired) == (1, 1)


def test_option_drop_expired_drops_expired_event_and_records_reason(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(drop_expired=True)) as store:
        store.accept_event("t", b"x", timeout=1)
        clock.pass_time(2)
        assert (
            store.move_or_drop_expired_events(),
            store.row_and_byte_counts().expired,
            store.row_and_byte_counts().outbox_rows,
        ) == (1, 0, 0)
        assert '"reason":"dropped"' in store.oldest_journal_records(99)[-1].line


@pytest.mark.parametrize("expired_rows", [0, 10])
def test_expired_barrier_is_dropped(tmp_path: Path, expired_rows: int) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(timeout=5, expired_rows=expired_rows)) as store:
        store.accept_event(barrier_topic("a", "a1"), b"{}")
        clock.pass_time(6)
        assert store.move_or_drop_expired_events() == 1
        assert (store.row_and_byte_counts().outbox_rows, store.row_and_byte_counts().expired) == (0, 0)
        assert '"reason":"dropped"' in store.oldest_journal_records(99)[-1].line


def accept_events_with_barriers_behind_them(store: Store, clock: SimulatedClock) -> list[str]:
    """Accept two events and then barriers, of which all but one event have no room after their deadline."""
    event_ids = accept_all(store, [("t", b"x")] * 2 + [(barrier_topic("a", "a1"), b"{}")] * 20)[:2]
    clock.pass_time(61)
    store.move_or_drop_expired_events()
    return event_ids


def test_requeue_drops_expired_barriers_behind_event_without_room(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(timeout=5, expired_rows=1)) as store:
        event_ids = accept_events_with_barriers_behind_them(store, clock)
        assert store.requeue_expired_events() == 2
        assert sorted(outgoing_ids(store)) == event_ids


def test_expired_barriers_behind_event_without_room_are_dropped_automatically(tmp_path: Path) -> None:
    clock = SimulatedClock()
    limits = StoreLimits(timeout=5, expired_rows=1)
    with Store.open(tmp_path, agent="a1", limits=limits, clock=clock, synchronous="OFF", sweep=0.01) as store:
        accept_events_with_barriers_behind_them(store, clock)
        end = time.monotonic() + 20
        while store.row_and_byte_counts().outbox_rows > 1 and time.monotonic() < end:
            time.sleep(0.01)
        assert (store.row_and_byte_counts().outbox_rows, store.row_and_byte_counts().expired) == (1, 1)


def test_barriers_that_earlier_release_kept_are_deleted_when_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier releases kept expired and unconfirmed barriers, and each counted as an event to alert on."""
    clock = SimulatedClock()
    with monkeypatch.context() as earlier_release, open_store(tmp_path, clock, StoreLimits(timeout=5)) as store:
        earlier_release.setattr(outbox, "is_barrier_topic", lambda topic: False)
        events = [(barrier_topic("a", "a1"), b"{}"), ("a/__barrier__", b"{}"), ("a/E", b"x")]
        accept_all(store, events)
        acknowledge(store, 1, 2, 3, proved=False)
        accept_all(store, events)
        clock.pass_time(6)
        store.move_or_drop_expired_events()
        assert (store.row_and_byte_counts().expired, store.row_and_byte_counts().unconfirmed) == (3, 3)
    with open_store(tmp_path, clock) as store:
        assert (store.row_and_byte_counts().expired, store.row_and_byte_counts().unconfirmed) == (1, 1)
        assert store.requeue_expired_events() == 1
        assert [event.topic for event in store.outgoing_events(9)] == ["a/E"]


def test_barrier_with_unproved_acknowledgement_is_not_kept(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.accept_event(barrier_topic("a", "a1"), b"{}")
        acknowledge(store, 1, proved=False)
        assert (store.row_and_byte_counts().outbox_rows, store.row_and_byte_counts().unconfirmed) == (0, 0)
        assert '"unconfirmed"' in store.oldest_journal_records(99)[-1].line


@pytest.mark.parametrize("is_proved", [False, True])
def test_journal_record_of_acknowledged_event_shows_that_it_was_sent_without_id(
    tmp_path: Path, is_proved: bool
) -> None:
    """The record ``sent`` is missing after a failed write, or after the event expired before it was written."""
    with open_store(tmp_path) as store:
        accept_all(store, [("t", b"{}"), ("t", b"text")])
        places = [event.seq for event in store.outgoing_events(9)]
        store.queue_removal_of_acknowledged_events(
            [SentEvent(place, 1, 1, "b", has_id) for place, has_id in zip(places, (True, False), strict=True)],
            is_proved,
        ).result()
        records = [json.loads(line) for row in store.oldest_journal_records(99) for line in row.line.splitlines()]
        kind = "acknowledged" if is_proved else "unconfirmed"
        assert [record.get("reason") for record in records if record["kind"] == kind] == [None, "without id"]


def test_dropped_expired_event_is_accepted_again_with_same_id(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(drop_expired=True)) as store:
        store.accept_event("t", b"x", event_id="mine", timeout=1)
        clock.pass_time(2)
        store.move_or_drop_expired_events()
        assert store.accept_event("t", b"again", event_id="mine") == "mine"
        assert [event.payload for event in store.outgoing_events(9)] == [b"again"]


def test_expired_event_is_removed_after_late_acknowledgement(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        store.accept_event("t", b"x", timeout=1)
        clock.pass_time(2)
        store.move_or_drop_expired_events()
        acknowledge(store, 1, proved=True)
        assert store.row_and_byte_counts().expired == 0


def test_store_detects_expiry_automatically_within_seconds(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a1", synchronous="OFF") as store:
        store.accept_event("t", b"x", timeout=0.1)
        began = time.monotonic()
        while not store.row_and_byte_counts().expired and time.monotonic() - began < 30:
            time.sleep(0.01)
        [expired_record] = [
            json.loads(record.line) for record in store.oldest_journal_records(9) if '"expired"' in record.line
        ]
        accepted_record = json.loads(store.oldest_journal_records(1)[0].line)
        delay = datetime.fromisoformat(expired_record["ts"]) - datetime.fromisoformat(accepted_record["ts"])
        assert delay < timedelta(seconds=15)


def test_age_of_oldest_outbox_event_is_elapsed_time(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as store:
        assert store.row_and_byte_counts().oldest_age is None
        store.accept_event("t", b"x")
        clock.pass_time(12.5)
        assert store.row_and_byte_counts().oldest_age == pytest.approx(12.5)


def test_second_agent_with_same_state_directory_is_refused_by_store(tmp_path: Path) -> None:
    with open_store(tmp_path), pytest.raises(AgentError, match="another agent"):
        open_store(tmp_path)
    open_store(tmp_path).close()


def test_agent_refuses_store_of_another_agent(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with pytest.raises(AgentError, match="belongs to the agent 'a1'"):
        Store.open(tmp_path, agent="a2")


def test_closed_agent_store_refuses_event(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(AgentError, match="closed"):
        store.accept_event("t", b"x")


def test_counts_of_agent_store_omit_uncommitted_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted, resume = Event(), Event()
    move_or_delete_acknowledged_events = outbox.move_or_delete_acknowledged_events

    def remove_and_wait(transaction: Transaction, *arguments: Any) -> None:
        move_or_delete_acknowledged_events(transaction, *arguments)
        deleted.set()
        assert resume.wait(10)

    with open_store(tmp_path) as store:
        store.accept_event("instance/status/E", b"{}")
        monkeypatch.setattr(outbox, "move_or_delete_acknowledged_events", remove_and_wait)
        future = store.queue_removal_of_acknowledged_events([SentEvent(1, 1, 1, "b")], is_delivery_proved=False)
        assert deleted.wait(10)
        counts_before_commit = store.row_and_byte_counts()
        resume.set()
        future.result()

        assert (counts_before_commit.outbox_rows, counts_before_commit.unconfirmed) == (1, 0)
        assert (store.row_and_byte_counts().outbox_rows, store.row_and_byte_counts().unconfirmed) == (0, 1)
