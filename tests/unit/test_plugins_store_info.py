"""What a store of 5.5 holds, read from its journal, and what a log says of a pure broker's runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.activemq.fleet.plugins.modules import store_info
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.node.kahadb import journal, messages
from activemq_fleet.node.log import pure_log
from tests.log_reading import logger_of
from tests.unit.kahadb_journals import (
    LOADED,
    add,
    audit,
    batch,
    commit,
    drop,
    remove,
    rollback,
    subscribe,
    trace,
    unsubscribe,
    write,
)


def look(store: Path, *records: bytes, **more: Any) -> dict[str, Any]:
    write(store, *records, **more)
    found: dict[str, Any] = messages.read_store_content_hashes(str(store))
    return found


def kinds(store: Path) -> list[tuple[int, str, str]]:
    return [(c.kind, c.destination, c.message) for c in journal.read_journal_commands(str(store), journal.JournalEnd())]


def test_every_record_is_read_with_what_it_is_about(tmp_path: Path) -> None:
    write(tmp_path, trace(), add("m1"), audit(), remove("m1"), add("m2", "topic/news"))
    assert kinds(tmp_path) == [
        (0, "", LOADED),
        (1, "0:work", "m1"),
        (8, "", ""),
        (2, "0:work", "m1"),
        (1, "1:news", "m2"),
    ]


def test_data_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        write(tmp_path, add(f"m{number}"), number=number)
    assert [message for _, _, message in kinds(tmp_path)] == ["m2", "m9", "m10"]


def test_a_message_is_there_until_it_is_removed(tmp_path: Path) -> None:
    assert look(tmp_path, add("m1"), add("m2"), remove("m1"))["messages"] == 1


def test_one_message_on_two_queues_is_two(tmp_path: Path) -> None:
    assert look(tmp_path, add("m1", "a"), add("m1", "b"), remove("m1", "a"))["messages"] == 1


def test_a_message_of_a_topic_is_there_for_each_subscription(tmp_path: Path) -> None:
    records = [subscribe("news", "one"), subscribe("news", "two"), add("m1", "topic/news")]
    assert look(tmp_path, *records)["messages"] == 4
    assert look(tmp_path, *records, remove("m1", "topic/news", "one"))["messages"] == 3


def test_a_subscription_that_has_ended_holds_no_message_of_later(tmp_path: Path) -> None:
    found = look(tmp_path, subscribe("news", "one"), unsubscribe("news", "one"), add("m1", "topic/news"))
    assert found["messages"] == 0


def test_a_transaction_counts_once_it_is_committed(tmp_path: Path) -> None:
    begun = [add("m1"), add("m2", transaction=7), remove("m1", transaction=7)]
    open_one = look(tmp_path, *begun)["state"]
    assert look(tmp_path, *begun, rollback(7))["state"] == open_one == look(tmp_path, add("m1"))["state"]
    assert look(tmp_path, *begun, commit(7))["state"] == look(tmp_path, add("m2"))["state"]


def test_a_queue_that_is_removed_takes_its_messages_along(tmp_path: Path) -> None:
    assert look(tmp_path, add("m1", "a"), add("m1", "b"), drop("a"))["messages"] == 1


def test_stores_that_hold_the_same_are_equal_however_they_came_to_it(tmp_path: Path) -> None:
    one = look(tmp_path / "a", trace(), add("m1"), add("m2"), remove("m1"), audit())
    two = look(tmp_path / "b", add("m2"), trace("LOADED another day"))
    assert one["state"] == two["state"]
    assert one["order"] != two["order"]


def test_a_record_that_a_killed_broker_left_half_is_not_damage(tmp_path: Path) -> None:
    path = write(tmp_path, add("m1"), add("m2"), reserved=0, each=1)
    path.write_bytes(path.read_bytes()[:-5])
    found = messages.read_store_content_hashes(str(tmp_path))
    assert (found["messages"], found["damaged"]) == (1, 0)


def test_damage_between_two_batches_is_told(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").write_bytes(batch(add("m1")) + b"\x07 rubbish " + batch(add("m2")))
    found = messages.read_store_content_hashes(str(tmp_path))
    assert (found["messages"], found["damaged"]) == (2, 1)


def test_a_file_that_ends_early_is_damage_when_another_follows(tmp_path: Path) -> None:
    path = write(tmp_path, add("m1"), add("m2"), reserved=0, each=1)
    path.write_bytes(path.read_bytes()[:-5])
    write(tmp_path, add("m3"), number=2)
    assert messages.read_store_content_hashes(str(tmp_path))["damaged"] == 1


def test_no_store_is_an_empty_one(tmp_path: Path) -> None:
    found = messages.read_store_content_hashes(str(tmp_path / "nowhere"))
    assert (found["files"], found["messages"]) == ([], 0)


def test_only_the_newest_records_are_told_of_a_huge_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "LIMIT", 3)
    found = look(tmp_path, *(add(f"m{number}") for number in range(8)), *(remove(f"m{number}") for number in range(7)))
    assert found["whole"] is False
    assert found["records"] == 15


@given(data=st.binary(max_size=200), cut=st.integers(min_value=0, max_value=400))
def test_no_bytes_whatever_stop_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int) -> None:
    store = tmp_path_factory.mktemp("store")
    sound = batch(add("m1"), remove("m1", subscription="s", transaction=3), subscribe("news", "one"))
    (store / "db-1.log").write_bytes(sound[:cut] + data + sound[cut:])
    messages.read_store_content_hashes(str(store))
    list(journal.read_journal_commands(str(store), journal.JournalEnd()))


LINE = "{moment},100 | {level:<5} | {message} | {logger} | main\n"


def log(path: Path, *records: tuple[str, str], name: str = "activemq.log") -> None:
    path.mkdir(exist_ok=True)
    text = "".join(
        LINE.format(moment=moment, level="INFO", message=message, logger=logger_of(message))
        for moment, message in records
    )
    (path / name).write_text(text + "java.io.EOFException\n\tat java.lang.Thread\n")


BEGAN = "Using Persistence Adapter: KahaDBPersistenceAdapter[/x]"
ESTABLISHED = "Slave connection between vm://b#0 and tcp://a/10.0.0.1:61618 has been established."


def test_a_slave_that_lost_its_master_has_served(tmp_path: Path) -> None:
    log(
        tmp_path,
        ("2026-11-21 13:46:33", BEGAN),
        ("2026-11-21 13:46:34", ESTABLISHED),
        ("2026-11-21 13:46:34", "ActiveMQ JMS Message Broker (b, ID:b-1-2-3:4) started"),
        ("2026-11-21 13:50:00", "Master Failed - starting all connectors"),
    )
    assert pure_log.read_pure_master_slave_runs(str(tmp_path)) == [
        {"began": "2026-11-21 13:46:33", "started": True, "attached": 0, "established": True, "served": True}
    ]


def test_client_that_names_itself_like_a_start_begins_no_run(tmp_path: Path) -> None:
    thread = "ActiveMQ Transport: tcp:///127.0.0.1:47178@61616"
    text = f"2026-11-21 13:46:33,001 | INFO  | {BEGAN} | org.apache.activemq.broker.BrokerService | {thread}\n"
    (tmp_path / "activemq.log").write_text(text)
    assert pure_log.read_pure_master_slave_runs(str(tmp_path)) == []


def test_runs_are_followed_across_logs_that_were_rolled(tmp_path: Path) -> None:
    log(tmp_path, ("2026-11-21 09:00:00", BEGAN), ("2026-11-21 09:00:01", ESTABLISHED), name="activemq.log.1")
    log(
        tmp_path,
        ("2026-11-21 10:00:00", "Failed to start network bridge: java.net.ConnectException: Connection refused"),
        ("2026-11-21 11:00:00", BEGAN),
        ("2026-11-21 11:00:01", "Active Slave Broker b is attached"),
    )
    runs = pure_log.read_pure_master_slave_runs(str(tmp_path))
    assert [run["began"] for run in runs] == ["2026-11-21 09:00:00", "2026-11-21 11:00:00"]
    assert [run["served"] for run in runs] == [True, False]
    assert [run["attached"] for run in runs] == [0, 1]


def test_a_run_whose_beginning_is_gone_is_told_as_such(tmp_path: Path) -> None:
    log(tmp_path, ("2026-11-21 13:46:34", ESTABLISHED))
    assert pure_log.read_pure_master_slave_runs(str(tmp_path))[0]["began"] == ""


def test_the_module_tells_of_lock_log_and_store_without_touching_them(tmp_path: Path) -> None:
    base = tmp_path / "activemq"
    store = base / "data" / "kahadb"
    write(store, trace(), add("m1"))
    log(base / "data", ("2026-11-21 13:46:33", BEGAN))
    before = sorted(os.listdir(store))
    found = store_info.gather_store_and_run_facts(str(base), str(store), read_journal=True)
    assert (found["exists"], found["locked"], found["pid"], found["unfinished"]) == (True, False, None, False)
    assert (found["messages"], found["loads"], len(found["runs"])) == (1, [LOADED], 1)
    assert sorted(os.listdir(store)) == before


def test_a_store_that_is_not_read_is_told_as_such(tmp_path: Path) -> None:
    found = store_info.gather_store_and_run_facts(str(tmp_path), str(tmp_path / "kahadb"), read_journal=False)
    assert (found["seen"], found["messages"]) == (False, None)
