"""Guarantees of the store for the subscriber."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from activemq_agent.agent_errors import AgentError, RequestRefusedError
from activemq_agent.store import InboxStorageOutcome, Store, StoreLimits
from activemq_agent.store.inbox import HandlerStatementError, filter_matches
from tests.unit.agent.store_clock import open_store
from tests.unit.agent.store_clock import receive as receive_payload


def receive(store: Store, topic: str, event_id: str | None = None) -> InboxStorageOutcome:
    payload = json.dumps({"eventId": event_id} if event_id else {"x": 1}).encode()
    return receive_payload(store, topic, payload)


def record_handled_with(store: Store, rx: int, *statements: str) -> None:
    store.queue_handled_record(rx, [(statement, ()) for statement in statements]).result()


def test_messages_in_inbox_are_pending_in_order_of_receipt(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(filters=("t/#",))) as store:
        for name in ("t/a", "t/b", "u", "t/a"):
            receive(store, name)
        assert [message.rx for message in store.pending_messages("t/#")] == [1, 2, 4]
        assert [message.rx for message in store.pending_messages("t/#", after=1)] == [2, 4]
        assert [message.rx for message in store.pending_messages("u", 1)] == [3]


def test_message_with_known_event_id_is_duplicate_before_and_after_handling(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert receive(store, "t", "e") == InboxStorageOutcome(1, "e")
        assert receive(store, "t", "e") == InboxStorageOutcome(0, "e", duplicate=True)
        store.record_handled(1)
        assert receive(store, "t", "e").duplicate
    with open_store(tmp_path) as store:
        assert receive(store, "t", "e").duplicate
        assert store.pending_messages("t") == []


def test_messages_without_event_id_are_never_duplicates(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert [receive(store, "t").rx for _ in range(3)] == [1, 2, 3]
        assert [message.rx_id for message in store.pending_messages("t")] == [
            f"a1:{store.epoch}:rx{n}" for n in (1, 2, 3)
        ]


def test_each_topic_filter_has_separate_limit_of_inbox_rows(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(topic_rows=2, filters=("slow/#", "fast/#"))) as store:
        assert not any(receive(store, f"slow/{n}").full for n in range(2))
        assert receive(store, "slow/3") == InboxStorageOutcome(0, None, full=True)
        assert not receive(store, "fast/1").full
        assert not receive(store, "elsewhere").full
        store.record_handled(1)
        assert not receive(store, "slow/3").full
        assert store.row_and_byte_counts().lanes == {"slow/#": 2, "fast/#": 1, "elsewhere": 1}


def test_inbox_is_limited_by_rows_and_bytes_including_quarantined_messages(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(inbox_rows=2, inbox_bytes=30)) as store:
        assert receive(store, "t", "e" * 30).full
        receive(store, "t")
        receive(store, "u")
        store.quarantine(1, "poison")
        assert receive(store, "v").full


def test_duplicate_is_detected_even_if_inbox_is_full(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(inbox_rows=1)) as store:
        receive(store, "t", "e")
        assert receive(store, "t", "e").duplicate


def test_handled_message_is_not_pending_and_refuses_further_attempts(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        assert store.begin_handling_attempt(1) == 1
        store.record_handled(1)
        assert store.pending_messages("t") == []
        for record_attempt in (store.begin_handling_attempt, store.record_handled):
            with pytest.raises(RequestRefusedError, match="no longer contains the message"):
                record_attempt(1)


def test_interrupted_message_is_pending_again_with_next_attempt_number(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        store.begin_handling_attempt(1)
    with open_store(tmp_path) as store:
        assert [message.attempts for message in store.pending_messages("t")] == [1]
        assert store.begin_handling_attempt(1) == 2


def test_quarantined_message_is_skipped_and_its_copy_is_duplicate(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        receive(store, "t", "f")
        store.quarantine(1, "poison")
        assert [message.event_id for message in store.pending_messages("t")] == ["f"]
        assert store.row_and_byte_counts().quarantined == 1
        assert receive(store, "t", "e").duplicate


def test_changed_topic_filters_assign_stored_messages_again_after_restart(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(filters=("a/#",))) as store:
        receive(store, "a/x")
        receive(store, "b/x")
    with open_store(tmp_path, limits=StoreLimits(filters=("b/#", "+/x"))) as store:
        assert store.row_and_byte_counts().lanes == {"b/#": 1, "+/x": 1}
        assert [message.topic for message in store.pending_messages("+/x")] == ["a/x"]


def test_sql_statements_of_handler_are_committed_with_record_of_handling(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        table = ("CREATE TABLE x_seen (name TEXT PRIMARY KEY)", ())
        store.queue_handled_record(1, [table, ("INSERT INTO x_seen VALUES (?)", ("e",))]).result()
        assert store._reader.first_row("SELECT name FROM x_seen") == ("e",)
        assert store.pending_messages("t") == []


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO x_absent VALUES (1)", "DELETE FROM outbox", "PRAGMA synchronous = OFF", "COMMIT", "DROP TABLE inbox"],
)
def test_failing_or_forbidden_sql_statement_of_handler_leaves_store_unchanged(tmp_path: Path, statement: str) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        store.accept_event("t", b"x")
        with pytest.raises(HandlerStatementError):
            record_handled_with(store, 1, "CREATE TABLE x_seen (name TEXT)", statement)
        assert [message.rx for message in store.pending_messages("t")] == [1]
        assert len(store.outgoing_events(9)) == 1
        assert store._reader.first_row("SELECT count(*) FROM sqlite_master WHERE name = 'x_seen'") == (0,)


@pytest.mark.parametrize("value", [1 << 63, "\ud800", [1], object()])
def test_value_of_handler_that_sqlite_cannot_store_fails_only_its_record(tmp_path: Path, value: Any) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t")
        receive(store, "t")
        table = ("CREATE TABLE x_seen (name)", ())
        failing_record = store.queue_handled_record(1, [table, ("INSERT INTO x_seen VALUES (?)", (value,))])
        other_record = store.queue_handled_record(2, [table, ("INSERT INTO x_seen VALUES (?)", (2,))])
        with pytest.raises(HandlerStatementError, match=r"^\w+Error: "):
            failing_record.result()
        other_record.result()
        assert [message.rx for message in store.pending_messages("t")] == [1]
        assert store._reader.first_row("SELECT group_concat(name) FROM x_seen") == ("2",)


def test_failing_write_of_agent_store_does_not_affect_other_writes(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        earlier_writes = [store.accept_event_later("t", b"1") for _ in range(5)]
        failing_write = store._writer.submit(lambda turn: turn.db.execute("INSERT INTO nowhere VALUES (1)"))
        later_writes = [store.accept_event_later("t", b"2") for _ in range(5)]
        ids = [future.result() for future in earlier_writes + later_writes]
        with pytest.raises(AgentError, match="nowhere"):
            failing_write.result()
        assert [event.event_id for event in store.outgoing_events(99)] == ids
        assert [int(event_id.rpartition(":")[2]) for event_id in ids] == list(range(1, 11))


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("a/b", "a/b", True), ("a/b", "a", False), ("a", "a/b", False), ("a/#", "a", True), ("a/#", "a/b/c", True),
        ("a/#", "ab", False), ("#", "a/b", True), ("+", "a", True), ("+", "a/b", False), ("+/b", "a/b", True),
        ("a/+", "a/", True), ("a/+/c", "a/b/c", True), ("a/+/c", "a/c", False),
    ],
)  # fmt: skip
def test_topic_filters_of_agent_match_topics_according_to_mqtt(topic_filter: str, topic: str, expected: bool) -> None:
    assert filter_matches(topic_filter, topic) is expected
