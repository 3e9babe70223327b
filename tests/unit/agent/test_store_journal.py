"""The journal: a record with each change of state, gapless."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from activemq_agent.store import SentEvent, Store, StoreLimits
from tests.unit.agent.store_clock import SimulatedClock, accept_all, acknowledge, open_store, receive


def journal(store: Store) -> list[dict[str, Any]]:
    return [json.loads(record.line) for record in store.oldest_journal_records(100_000)]


def test_the_way_of_an_event_is_told(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        event_id = store.accept_event("t", b"x")
        wire = SentEvent(1, 3, 77, "h:1883")
        store.queue_journal_records_for_sent_events([wire]).result()
        store.queue_removal_of_acknowledged_events([wire], is_delivery_proved=True).result()
        assert [record["kind"] for record in journal(store)] == ["accepted", "sent", "acknowledged"]
        common = {"v": 1, "agent": "a1", "epoch": store.epoch, "event_id": event_id, "topic": "t"}
        told = {"broker": "h:1883", "conn": 3, "mid": 77}
        for record, extra in zip(journal(store), ({}, told, told), strict=True):
            del record["kind"], record["jseq"], record["ts"]
            assert record == {**common, **extra}


def test_the_way_of_messages_is_told(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for payload in (b'{"eventId":"e"}', b"text", b'{"eventId":"e"}'):
            receive(store, "t", payload, conn=2)
        store.begin_handling_attempt(1)
        store.record_handled(1)
        store.quarantine(2, "poison")
        told = [(record["kind"], record.get("event_id"), record.get("rx_id")) for record in journal(store)]
        rx_id = f"a1:{store.epoch}:rx2"
        assert told == [
            ("received", "e", None), ("received", None, rx_id), ("duplicate", "e", None),
            ("handling", "e", None), ("handled", "e", None), ("quarantined", None, rx_id),
        ]  # fmt: skip
        assert journal(store)[-1]["reason"] == "poison"


def test_unconfirmed_expired_and_requeued_events_are_told(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(timeout=5)) as store:
        accept_all(store, [("a", b"x"), ("b", b"x")])
        acknowledge(store, 1, proved=False, conn=1)
        store.confirm_events_below_topic_prefix("a", 1)
        clock.pass_time(5)
        store.expire_events()
        store.requeue_expired_events()
        assert [record["kind"] for record in journal(store)[2:]] == [
            "unconfirmed", "acknowledged", "expired", "accepted",
        ]  # fmt: skip
        assert journal(store)[-1]["reason"] == "requeued"


def test_notes_are_told_without_what_does_not_apply(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.write_journal_record("subscribed", filters=["a/#"], broker="b", conn=1, reason=None)
        [record] = journal(store)
        assert record["filters"] == ["a/#"]
        assert "reason" not in record


def test_times_are_utc_with_microseconds(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.write_journal_record("started")
        assert re.fullmatch(r"2026-01-01T00:16:40\.000000Z", journal(store)[0]["ts"])


def test_records_are_numbered_without_gaps_across_restarts_and_exports(tmp_path: Path) -> None:
    numbers: list[int] = []
    for _ in range(3):
        with open_store(tmp_path) as store:
            accept_all(store, [("t", b"x")] * 150)
            store.write_journal_record("stopped")
            records = store.oldest_journal_records(1000)
            numbers += [json.loads(record.line)["jseq"] for record in records]
            store.delete_exported_journal_records(records[-1].position)
            assert store.oldest_journal_records(1000) == []
    assert numbers == list(range(1, 454))


def test_what_is_refused_is_not_told(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(outbox_rows=1, inbox_rows=0)) as store:
        store.accept_event("t", b"x", event_id="e")
        store.accept_event("t", b"x", event_id="e")
        refused = store.accept_event_later("t", b"y")
        assert refused.exception() is not None
        receive(store, "t", b"x")
        assert [record["kind"] for record in journal(store)] == ["accepted"]


def test_a_row_that_was_altered_is_left_out_and_those_behind_it_are_not(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for _ in range(3):
            store.write_journal_record("started")
        alter = "UPDATE journal SET lines = replace(lines, 'started', 'stopped') WHERE position < 3"
        store._writer.submit(lambda turn: turn.db.execute(alter)).result()
        assert [json.loads(record.line)["jseq"] for record in store.oldest_journal_records(1)] == [3]
        assert store.row_and_byte_counts().damaged == 2
