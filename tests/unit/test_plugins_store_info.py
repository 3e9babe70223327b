"""The contents of a store of 5.5, read from its journal, and the runs of a pure broker, read from its log."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.activemq.fleet.plugins.modules import store_info
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.node.kahadb import content_hashes, journal
from activemq_fleet.node.log import pure_log
from tests.log_reading import logger_of
from tests.unit.kahadb_journals import (
    LOADED,
    add_record,
    audit_record,
    commit_record,
    destination_removal_record,
    index_with_messages,
    record_batch,
    remove_record,
    rollback_record,
    subscription_record,
    subscription_removal_record,
    trace_record,
    write_data_file,
)


def store_contents(store: Path, *records: bytes, **options: Any) -> dict[str, Any]:
    """Write the journal of a store, and return the contents of the store."""
    write_data_file(store, *records, **options)
    contents: dict[str, Any] = content_hashes.compute_message_and_subscription_hashes(str(store))
    return contents


def commands_of(store: Path) -> list[tuple[int, str, str]]:
    return [
        (command.kind, command.destination, command.message)
        for command in journal.read_journal_commands_and_set_tail(str(store), journal.JournalEnd())
    ]


def test_commands_of_store_journal_have_kind_destination_and_message(tmp_path: Path) -> None:
    write_data_file(
        tmp_path, trace_record(), add_record("m1"), audit_record(), remove_record("m1"), add_record("m2", "topic/news")
    )
    assert commands_of(tmp_path) == [
        (0, "", LOADED),
        (1, "0:work", "m1"),
        (8, "", ""),
        (2, "0:work", "m1"),
        (1, "1:news", "m2"),
    ]


def test_data_files_are_read_in_numerical_order(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        write_data_file(tmp_path, add_record(f"m{number}"), number=number)
    assert [message for _, _, message in commands_of(tmp_path)] == ["m2", "m9", "m10"]


def test_removed_message_of_store_is_not_counted(tmp_path: Path) -> None:
    assert store_contents(tmp_path, add_record("m1"), add_record("m2"), remove_record("m1"))["messages"] == 1


def test_message_of_store_on_two_queues_is_counted_per_queue(tmp_path: Path) -> None:
    assert (
        store_contents(tmp_path, add_record("m1", "a"), add_record("m1", "b"), remove_record("m1", "a"))["messages"]
        == 1
    )


def test_topic_message_of_store_is_counted_per_subscription(tmp_path: Path) -> None:
    records = [subscription_record("news", "one"), subscription_record("news", "two"), add_record("m1", "topic/news")]
    assert store_contents(tmp_path, *records)["messages"] == 4
    assert store_contents(tmp_path, *records, remove_record("m1", "topic/news", "one"))["messages"] == 3


def test_ended_subscription_gets_no_later_message(tmp_path: Path) -> None:
    store_hashes = store_contents(
        tmp_path,
        subscription_record("news", "one"),
        subscription_removal_record("news", "one"),
        add_record("m1", "topic/news"),
    )
    assert store_hashes["messages"] == 0


def test_messages_of_transaction_in_store_count_only_after_commit(tmp_path: Path) -> None:
    records = [add_record("m1"), add_record("m2", transaction=7), remove_record("m1", transaction=7)]
    open_state = store_contents(tmp_path, *records)["state"]
    assert store_contents(tmp_path, *records, rollback_record(7))["state"] == open_state
    assert store_contents(tmp_path, add_record("m1"))["state"] == open_state
    assert (
        store_contents(tmp_path, *records, commit_record(7))["state"]
        == store_contents(tmp_path, add_record("m2"))["state"]
    )


def test_removal_of_queue_removes_its_messages(tmp_path: Path) -> None:
    assert (
        store_contents(tmp_path, add_record("m1", "a"), add_record("m1", "b"), destination_removal_record("a"))[
            "messages"
        ]
        == 1
    )


def test_stores_with_same_messages_have_same_state_hash(tmp_path: Path) -> None:
    first_store = store_contents(
        tmp_path / "a", trace_record(), add_record("m1"), add_record("m2"), remove_record("m1"), audit_record()
    )
    second_store = store_contents(tmp_path / "b", add_record("m2"), trace_record("LOADED another day"))
    assert first_store["state"] == second_store["state"]
    assert first_store["order"] != second_store["order"]


def test_incomplete_last_record_of_store_journal_is_no_damage(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, add_record("m1"), add_record("m2"), reserved=0, each=1)
    path.write_bytes(path.read_bytes()[:-5])
    store_hashes = content_hashes.compute_message_and_subscription_hashes(str(tmp_path))
    assert (store_hashes["messages"], store_hashes["damaged"]) == (1, 0)


def test_damage_between_batches_of_store_journal_is_counted(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").write_bytes(
        record_batch(add_record("m1")) + b"\x07 rubbish " + record_batch(add_record("m2"))
    )
    store_hashes = content_hashes.compute_message_and_subscription_hashes(str(tmp_path))
    assert (store_hashes["messages"], store_hashes["damaged"]) == (2, 1)


def test_truncated_journal_file_before_another_file_is_damage(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, add_record("m1"), add_record("m2"), reserved=0, each=1)
    path.write_bytes(path.read_bytes()[:-5])
    write_data_file(tmp_path, add_record("m3"), number=2)
    assert content_hashes.compute_message_and_subscription_hashes(str(tmp_path))["damaged"] == 1


@pytest.mark.parametrize(("number", "damaged"), [(1, 0), (2, 1)])
def test_journal_without_record_to_which_index_refers_is_damage(tmp_path: Path, number: int, damaged: int) -> None:
    write_data_file(tmp_path, add_record("m1"))
    (tmp_path / "db.data").write_bytes(index_with_messages((1, 28), {"work": [(number, 28)]}, version=3))
    assert content_hashes.compute_message_and_subscription_hashes(str(tmp_path))["damaged"] == damaged


def test_unreadable_index_of_store_is_damage(tmp_path: Path) -> None:
    write_data_file(tmp_path, add_record("m1"))
    (tmp_path / "db.data").write_bytes(b"\xa5" * 8192)
    assert content_hashes.compute_message_and_subscription_hashes(str(tmp_path))["damaged"] == 1


def test_missing_store_has_no_files_and_messages(tmp_path: Path) -> None:
    store_hashes = content_hashes.compute_message_and_subscription_hashes(str(tmp_path / "nowhere"))
    assert (store_hashes["files"], store_hashes["messages"]) == ([], 0)


def test_store_above_limit_is_reported_as_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_hashes, "LIMIT", 3)
    store_hashes = store_contents(
        tmp_path,
        *(add_record(f"m{number}") for number in range(8)),
        *(remove_record(f"m{number}") for number in range(7)),
    )
    assert store_hashes["whole"] is False
    assert store_hashes["records"] == 15


@given(inserted=st.binary(max_size=200), cut=st.integers(min_value=0, max_value=400))
def test_journal_reader_accepts_arbitrary_bytes(
    tmp_path_factory: pytest.TempPathFactory, inserted: bytes, cut: int
) -> None:
    store = tmp_path_factory.mktemp("store")
    journal_bytes = record_batch(
        add_record("m1"), remove_record("m1", subscription="s", transaction=3), subscription_record("news", "one")
    )
    (store / "db-1.log").write_bytes(journal_bytes[:cut] + inserted + journal_bytes[cut:])
    content_hashes.compute_message_and_subscription_hashes(str(store))
    list(journal.read_journal_commands_and_set_tail(str(store), journal.JournalEnd()))


LINE = "{moment},100 | {level:<5} | {message} | {logger} | main\n"


def write_log(path: Path, *records: tuple[str, str], name: str = "activemq.log") -> None:
    path.mkdir(exist_ok=True)
    log_text = "".join(
        LINE.format(moment=moment, level="INFO", message=message, logger=logger_of(message))
        for moment, message in records
    )
    (path / name).write_text(log_text + "java.io.EOFException\n\tat java.lang.Thread\n")


STARTED = "Using Persistence Adapter: KahaDBPersistenceAdapter[/x]"
ESTABLISHED = "Slave connection between vm://b#0 and tcp://a/10.0.0.1:61618 has been established."


def test_slave_that_lost_its_master_has_served(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        ("2026-11-21 13:46:33", STARTED),
        ("2026-11-21 13:46:34", ESTABLISHED),
        ("2026-11-21 13:46:34", "ActiveMQ JMS Message Broker (b, ID:b-1-2-3:4) started"),
        ("2026-11-21 13:50:00", "Master Failed - starting all connectors"),
    )
    assert pure_log.read_pure_master_slave_runs(str(tmp_path)) == [
        {"began": "2026-11-21 13:46:33", "started": True, "attached": 0, "established": True, "served": True}
    ]


def test_start_message_of_transport_thread_begins_no_run(tmp_path: Path) -> None:
    thread = "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616"
    log_record = f"2026-11-21 13:46:33,001 | INFO  | {STARTED} | org.apache.activemq.broker.BrokerService | {thread}\n"
    (tmp_path / "activemq.log").write_text(log_record)
    assert pure_log.read_pure_master_slave_runs(str(tmp_path)) == []


def test_runs_of_pure_broker_are_read_across_rolled_logs(tmp_path: Path) -> None:
    write_log(tmp_path, ("2026-11-21 09:00:00", STARTED), ("2026-11-21 09:00:01", ESTABLISHED), name="activemq.log.1")
    write_log(
        tmp_path,
        ("2026-11-21 10:00:00", "Failed to start network bridge: java.net.ConnectException: Connection refused"),
        ("2026-11-21 11:00:00", STARTED),
        ("2026-11-21 11:00:01", "Active Slave Broker b is attached"),
    )
    runs = pure_log.read_pure_master_slave_runs(str(tmp_path))
    assert [run["began"] for run in runs] == ["2026-11-21 09:00:00", "2026-11-21 11:00:00"]
    assert [run["served"] for run in runs] == [True, False]
    assert [run["attached"] for run in runs] == [0, 1]


def test_run_of_pure_broker_without_logged_start_has_empty_start_time(tmp_path: Path) -> None:
    write_log(tmp_path, ("2026-11-21 13:46:34", ESTABLISHED))
    assert pure_log.read_pure_master_slave_runs(str(tmp_path))[0]["began"] == ""


def test_module_store_info_reports_lock_log_and_store_and_changes_no_file(tmp_path: Path) -> None:
    base = tmp_path / "activemq"
    store = base / "data" / "kahadb"
    write_data_file(store, trace_record(), add_record("m1"))
    write_log(base / "data", ("2026-11-21 13:46:33", STARTED))
    names_before = sorted(os.listdir(store))
    facts = store_info.gather_store_and_run_facts(str(base), str(store), read_journal=True)
    assert (facts["exists"], facts["locked"], facts["pid"], facts["unfinished"]) == (True, False, None, False)
    assert (facts["messages"], facts["loads"], len(facts["runs"])) == (1, [LOADED], 1)
    assert sorted(os.listdir(store)) == names_before


def test_free_space_of_module_store_info_includes_interrupted_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    part = tmp_path / "kahadb.resync-0123456789abcdef" / "db-1.log.part"
    part.parent.mkdir()
    part.write_bytes(b"x" * 10000)
    facts = store_info.gather_store_and_run_facts(str(tmp_path), str(tmp_path / "kahadb"), read_journal=False)
    assert facts["free"] == (1 << 30) + part.stat().st_blocks * 512


def test_store_that_is_not_read_has_unknown_contents(tmp_path: Path) -> None:
    facts = store_info.gather_store_and_run_facts(str(tmp_path), str(tmp_path / "kahadb"), read_journal=False)
    assert (facts["seen"], facts["messages"]) == (False, None)
