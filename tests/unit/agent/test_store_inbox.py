"""What the subscriber's side of the store promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_agent.agent_errors import AgentError, RequestRefusedError
from activemq_agent.store import InboxStorageOutcome, Store, StoreLimits
from activemq_agent.store.inbox import filter_matches
from tests.unit.agent.store_clock import open_store
from tests.unit.agent.store_clock import receive as receive_payload


def receive(store: Store, topic: str, event_id: str | None = None) -> InboxStorageOutcome:
    payload = json.dumps({"eventId": event_id} if event_id else {"x": 1}).encode()
    return receive_payload(store, topic, payload)


def run(store: Store, rx: int, *statements: str) -> None:
    store.queue_handled_record(rx, [(statement, ()) for statement in statements]).result()


def test_messages_are_pending_in_the_order_of_receipt(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(filters=("t/#",))) as store:
        for name in ("t/a", "t/b", "u", "t/a"):
            receive(store, name)
        assert [message.rx for message in store.pending_messages("t/#")] == [1, 2, 4]
        assert [message.rx for message in store.pending_messages("t/#", after=1)] == [2, 4]
        assert [message.rx for message in store.pending_messages("u", 1)] == [3]


def test_a_message_with_a_known_id_is_a_duplicate_before_and_after_handling(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert receive(store, "t", "e") == InboxStorageOutcome(1, "e")
        assert receive(store, "t", "e") == InboxStorageOutcome(0, "e", duplicate=True)
        store.record_handled(1)
        assert receive(store, "t", "e").duplicate
    with open_store(tmp_path) as store:
        assert receive(store, "t", "e").duplicate
        assert store.pending_messages("t") == []


def test_messages_without_id_are_never_taken_for_duplicates(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert [receive(store, "t").rx for _ in range(3)] == [1, 2, 3]
        assert [message.rx_id for message in store.pending_messages("t")] == [
            f"a1:{store.epoch}:rx{n}" for n in (1, 2, 3)
        ]


def test_each_filter_has_a_bound_of_its_own(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(topic_rows=2, filters=("slow/#", "fast/#"))) as store:
        assert not any(receive(store, f"slow/{n}").full for n in range(2))
        assert receive(store, "slow/3") == InboxStorageOutcome(0, None, full=True)
        assert not receive(store, "fast/1").full
        assert not receive(store, "elsewhere").full
        store.record_handled(1)
        assert not receive(store, "slow/3").full
        assert store.row_and_byte_counts().lanes == {"slow/#": 2, "fast/#": 1, "elsewhere": 1}


def test_the_inbox_is_bounded_by_rows_and_bytes_quarantined_ones_among_them(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(inbox_rows=2, inbox_bytes=30)) as store:
        assert receive(store, "t", "e" * 30).full
        receive(store, "t")
        receive(store, "u")
        store.quarantine(1, "poison")
        assert receive(store, "v").full


def test_a_duplicate_is_a_duplicate_even_if_there_is_no_room(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(inbox_rows=1)) as store:
        receive(store, "t", "e")
        assert receive(store, "t", "e").duplicate


def test_a_handled_message_never_runs_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        assert store.begin_handling_attempt(1) == 1
        store.record_handled(1)
        assert store.pending_messages("t") == []
        for again in (store.begin_handling_attempt, store.record_handled):
            with pytest.raises(RequestRefusedError, match="no longer contains the message"):
                again(1)


def test_a_message_that_was_being_handled_runs_again_and_says_which_attempt(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        store.begin_handling_attempt(1)
    with open_store(tmp_path) as store:
        assert [message.attempts for message in store.pending_messages("t")] == [1]
        assert store.begin_handling_attempt(1) == 2


def test_a_quarantined_message_is_passed_over_and_its_copy_is_a_duplicate(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        receive(store, "t", "f")
        store.quarantine(1, "poison")
        assert [message.event_id for message in store.pending_messages("t")] == ["f"]
        assert store.row_and_byte_counts().quarantined == 1
        assert receive(store, "t", "e").duplicate


def test_other_filters_after_a_restart_sort_the_inbox_anew(tmp_path: Path) -> None:
    with open_store(tmp_path, limits=StoreLimits(filters=("a/#",))) as store:
        receive(store, "a/x")
        receive(store, "b/x")
    with open_store(tmp_path, limits=StoreLimits(filters=("b/#", "+/x"))) as store:
        assert store.row_and_byte_counts().lanes == {"b/#": 1, "+/x": 1}
        assert [message.topic for message in store.pending_messages("+/x")] == ["a/x"]


def test_a_handlers_statements_take_effect_with_the_record_of_handling(tmp_path: Path) -> None:
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
def test_a_statement_that_fails_or_reaches_too_far_leaves_all_as_it_was(tmp_path: Path, statement: str) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        store.accept_event("t", b"x")
        with pytest.raises(AgentError):
            run(store, 1, "CREATE TABLE x_seen (name TEXT)", statement)
        assert [message.rx for message in store.pending_messages("t")] == [1]
        assert len(store.outgoing_events(9)) == 1
        assert store._reader.first_row("SELECT count(*) FROM sqlite_master WHERE name = 'x_seen'") == (0,)


def test_a_faulty_job_fails_alone(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        receive(store, "t", "e")
        before = [store.accept_event_later("t", b"1") for _ in range(5)]
        faulty = store._writer.submit(lambda turn: turn.db.execute("INSERT INTO nowhere VALUES (1)"))
        after = [store.accept_event_later("t", b"2") for _ in range(5)]
        ids = [future.result() for future in before + after]
        with pytest.raises(AgentError, match="nowhere"):
            faulty.result()
        assert [event.event_id for event in store.outgoing_events(99)] == ids
        assert [int(one.rpartition(":")[2]) for one in ids] == list(range(1, 11))


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("a/b", "a/b", True), ("a/b", "a", False), ("a", "a/b", False), ("a/#", "a", True), ("a/#", "a/b/c", True),
        ("a/#", "ab", False), ("#", "a/b", True), ("+", "a", True), ("+", "a/b", False), ("+/b", "a/b", True),
        ("a/+", "a/", True), ("a/+/c", "a/b/c", True), ("a/+/c", "a/c", False),
    ],
)  # fmt: skip
def test_filters_match_as_mqtt_says(topic_filter: str, topic: str, expected: bool) -> None:
    assert filter_matches(topic_filter, topic) is expected
