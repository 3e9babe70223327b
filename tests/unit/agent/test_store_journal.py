"""The event journal: a record of each change of state, with consecutive numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from activemq_agent.store import SentEvent, Store, StoreLimits
from tests.unit.agent.store_clock import SimulatedClock, accept_all, acknowledge, open_store, receive


def journal_records(store: Store) -> list[dict[str, Any]]:
    return [json.loads(record.line) for record in store.oldest_journal_records(100_000)]


def test_event_journal_contains_each_state_of_published_event(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        event_id = store.accept_event("t", b"x")
        sent_event = SentEvent(1, 3, 77, "h:1883")
        store.queue_journal_records_for_sent_events([sent_event]).result()
        store.queue_removal_of_acknowledged_events([sent_event], is_delivery_proved=True).result()
        assert [record["kind"] for record in journal_records(store)] == ["accepted", "sent", "acknowledged"]
        common = {"v": 1, "agent": "a1", "epoch": store.epoch, "event_id": event_id, "topic": "t"}
        connection_fields = {"broker": "h:1883", "conn": 3, "mid": 77}
        for record, state_fields in zip(
            journal_records(store), ({}, connection_fields, connection_fields), strict=True
        ):
            del record["kind"], record["jseq"], record["ts"]
            assert record == {**common, **state_fields}


def test_event_journal_contains_each_state_of_received_message(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for payload in (b'{"eventId":"e"}', b"text", b'{"eventId":"e"}'):
            receive(store, "t", payload, conn=2)
        store.begin_handling_attempt(1)
        store.record_handled(1)
        store.quarantine(2, "poison")
        states = [(record["kind"], record.get("event_id"), record.get("rx_id")) for record in journal_records(store)]
        rx_id = f"a1:{store.epoch}:rx2"
        assert states == [
            ("received", "e", None), ("received", None, rx_id), ("duplicate", "e", None),
            ("handling", "e", None), ("handled", "e", None), ("quarantined", None, rx_id),
        ]  # fmt: skip
        assert journal_records(store)[-1]["reason"] == "poison"


def test_event_journal_contains_unconfirmed_expired_and_requeued_events(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock, StoreLimits(timeout=5)) as store:
        accept_all(store, [("a", b"x"), ("b", b"x")])
        acknowledge(store, 1, proved=False, conn=1)
        store.confirm_and_delete_events_below_prefix("a", 1)
        clock.pass_time(5)
        store.move_or_drop_expired_events()
        store.requeue_expired_events()
        assert [record["kind"] for record in journal_records(store)[2:]] == [
            "unconfirmed", "acknowledged", "expired", "accepted",
        ]  # fmt: skip
        assert journal_records(store)[-1]["reason"] == "requeued"


def test_event_journal_record_omits_fields_without_value(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.write_journal_record("subscribed", filters=["a/#"], broker="b", conn=1, reason=None)
        [record] = journal_records(store)
        assert record["filters"] == ["a/#"]
        assert "reason" not in record


def test_times_in_event_journal_are_utc_with_microseconds(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.write_journal_record("started")
        assert re.fullmatch(r"2026-01-01T00:16:40\.000000Z", journal_records(store)[0]["ts"])


def test_event_journal_record_numbers_are_consecutive_across_restarts_and_exports(tmp_path: Path) -> None:
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


def test_event_journal_omits_refused_events_and_messages(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(outbox_rows=1, inbox_rows=0)) as store:
        store.accept_event("t", b"x", event_id="e")
        store.accept_event("t", b"x", event_id="e")
        refused = store.accept_event_later("t", b"y")
        assert refused.exception() is not None
        receive(store, "t", b"x")
        assert [record["kind"] for record in journal_records(store)] == ["accepted"]


def test_event_journal_omits_altered_records_and_returns_later_record(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for _ in range(3):
            store.write_journal_record("started")
        alter = "UPDATE journal SET lines = replace(lines, 'started', 'stopped') WHERE position < 3"
        store._writer.submit(lambda turn: turn.db.execute(alter)).result()
        assert [json.loads(record.line)["jseq"] for record in store.oldest_journal_records(1)] == [3]
        assert store.row_and_byte_counts().damaged == 2
