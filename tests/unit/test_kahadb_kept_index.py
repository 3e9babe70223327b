"""Kept copy of an index and all later data files, which replaces an index that no broker can start with."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from activemq_fleet.node.fence.generation import copy_store_into_new_generation, hard_link_generation
from activemq_fleet.node.kahadb import index_keeper
from activemq_fleet.node.kahadb.index_keeper import IndexCopyError, IndexKeeper
from activemq_fleet.node.kahadb.index_pages import IndexPageError
from activemq_fleet.node.kahadb.indexed_subscriptions import subscriptions_in_index
from activemq_fleet.node.kahadb.journal import SUBSCRIPTION, TRACE, JournalEnd, read_journal_commands_and_set_tail
from activemq_fleet.node.kahadb.kept_index import KeptIndex
from activemq_fleet.node.kahadb.rebuild_risk import RebuildRefusedError, find_rebuild_risk
from activemq_fleet.node.kahadb.risk_records import RebuildRisk, read_newest_risk_records_of_store, record_rebuild_risk
from activemq_fleet.node.kahadb.store_repair import repair_killed_broker_stores
from tests.unit.kahadb_journals import (
    add_record,
    index_with_topics,
    remove_record,
    subscription_record,
    subscription_removal_record,
    write_data_file,
)

KEY = "reporting:daily"
USABLE = index_with_topics({"prices": [KEY]}, last_update=3)
UNUSABLE = index_with_topics({"prices": [KEY]}, last_update=1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with three data files and a usable index."""
    store = tmp_path / "store"
    write_data_file(store, subscription_record("prices", KEY), number=1)
    write_data_file(store, add_record("m1", "topic/prices"), add_record("m2", "topic/prices"), number=2)
    write_data_file(store, add_record("m3", "topic/prices"), number=3)
    (store / "db.data").write_bytes(USABLE)
    (store / "lock").touch()
    return store


@pytest.fixture
def keeper(store: Path) -> IndexKeeper:
    """Return a keeper that has made its first copy."""
    keeper = IndexKeeper(str(store))
    keeper.update_index_and_data_file_copies()
    assert KeptIndex(str(store)).is_complete()
    return keeper


def begin_and_remove_data_file(store: Path, keeper: IndexKeeper) -> None:
    """Begin a data file, remove the first data file, and leave an index that requires it, as a broker does."""
    write_data_file(store, add_record("m4", "topic/prices"), number=4)
    keeper.update_index_and_data_file_copies()
    (store / "db-1.log").unlink()
    (store / "db.data").write_bytes(UNUSABLE)
    keeper.update_index_and_data_file_copies()


def data_files(store: Path) -> list[str]:
    return sorted(path.name for path in store.glob("db-*.log"))


def repair(store: Path, *, accept_loss: bool = False) -> str:
    return " ".join(repair_killed_broker_stores(str(store), accept_loss=accept_loss))


def test_repair_replaces_index_that_requires_removed_file_with_kept_copy(store: Path, keeper: IndexKeeper) -> None:
    begin_and_remove_data_file(store, keeper)
    assert "The broker continues with a saved copy of the index" in repair(store)
    assert (store / "db.data").read_bytes() == USABLE
    assert data_files(store) == ["db-1.log", "db-2.log", "db-3.log", "db-4.log"]
    assert (store / "db.data.unusable").read_bytes() == UNUSABLE
    assert repair(store) == ""


def test_repair_replaces_removed_index_with_kept_copy(store: Path, keeper: IndexKeeper) -> None:
    begin_and_remove_data_file(store, keeper)
    (store / "db.data").unlink()
    repair(store)
    assert (store / "db.data").read_bytes() == USABLE


@pytest.mark.parametrize("make", [hard_link_generation, copy_store_into_new_generation])
def test_generation_has_kept_copy_in_place_of_unusable_index(store: Path, keeper: IndexKeeper, make: object) -> None:
    begin_and_remove_data_file(store, keeper)
    target = store.with_name("2-b")
    assert callable(make)
    copied = make(str(store), str(target))
    assert copied.has_index
    assert copied.restored
    assert not copied.risk
    assert (target / "db.data").read_bytes() == USABLE
    assert data_files(target) == ["db-1.log", "db-2.log", "db-3.log", "db-4.log"]


def test_generation_inherits_kept_index_and_data_files_as_hard_links(store: Path, keeper: IndexKeeper) -> None:
    write_data_file(store, add_record("m4", "topic/prices"), number=4)
    keeper.update_index_and_data_file_copies()
    (store / "db-1.log").unlink()
    target = store.with_name("2-b")
    hard_link_generation(str(store), str(target))
    assert KeptIndex(str(target)).is_complete()
    copies = [path / "kept-index/copy/db.data" for path in (store, target)]
    assert copies[0].stat().st_ino == copies[1].stat().st_ino
    (target / "db.data").write_bytes(UNUSABLE)
    repair(target)
    assert data_files(target) == ["db-1.log", "db-2.log", "db-3.log", "db-4.log"]


def test_generation_never_has_kept_file_that_is_still_in_store(store: Path, keeper: IndexKeeper) -> None:
    """A frozen broker may continue to write to the file that it has just begun. No other generation may contain it."""
    (store / "db-4.log").write_bytes(bytes(4096))
    keeper.update_index_and_data_file_copies()
    (store / "db.data").unlink()
    target = store.with_name("2-b")
    copy_store_into_new_generation(str(store), str(target))
    inodes = {path.stat().st_ino for path in target.rglob("*")}
    assert (store / "db-4.log").stat().st_ino not in inodes
    assert (store / "db-3.log").stat().st_ino not in inodes


@pytest.mark.parametrize("length", [1, 90, 105, 106, 107, 108, 109, 110, 300])
def test_restored_store_skips_subscription_that_cleanup_moved_after_messages(
    store: Path, keeper: IndexKeeper, length: int
) -> None:
    """A broker that reads the record again restarts the subscription, which loses its messages (AMQ-6131)."""
    key = "c:" + "n" * length
    (store / "db.data").write_bytes(index_with_topics({"prices": [key]}, last_update=3))
    assert KeptIndex(str(store)).try_copy_index()
    write_data_file(
        store,
        add_record("m4", "topic/prices"),
        subscription_record("prices", key),
        add_record("m5", "topic/prices"),
        number=4,
        checksum=True,
    )
    write_data_file(
        store,
        subscription_record("prices", "later:one"),
        subscription_removal_record("prices", key),
        subscription_record("prices", key),
        number=5,
    )
    sizes_before = [(path.name, path.stat().st_size) for path in sorted(store.glob("db-*.log"))]
    (store / "db.data").write_bytes(index_with_topics({"prices": [key]}, last_update=77))
    repair(store)
    journal_end = JournalEnd()
    commands = read_journal_commands_and_set_tail(str(store), journal_end, verify=True)
    records = [command for command in commands if command.kind in (SUBSCRIPTION, TRACE)]
    kinds = [(command.kind, command.subscription) for command in records if command.span[0] or command.kind]
    assert kinds == [
        (SUBSCRIPTION, KEY),
        (TRACE, ""),
        (SUBSCRIPTION, "later:one"),
        (SUBSCRIPTION, key),
        (SUBSCRIPTION, key),
    ]
    assert journal_end.damaged + journal_end.unread == 0
    assert [(path.name, path.stat().st_size) for path in sorted(store.glob("db-*.log"))] == sizes_before


def test_kept_copy_of_index_is_not_used_if_later_data_file_is_missing(store: Path, keeper: IndexKeeper) -> None:
    begin_and_remove_data_file(store, keeper)
    write_data_file(store, add_record("m6", "topic/prices"), number=6)
    with pytest.raises(RebuildRefusedError, match="no saved copy of the index exists"):
        repair(store)
    assert (store / "db.data").read_bytes() == UNUSABLE


def test_index_keeper_copies_again_if_later_data_file_is_missing(store: Path, keeper: IndexKeeper) -> None:
    write_data_file(store, add_record("m6", "topic/prices"), number=6)
    assert not KeptIndex(str(store)).is_complete()
    keeper._copy_attempted_at = float("-inf")
    keeper.update_index_and_data_file_copies()
    assert KeptIndex(str(store)).is_complete()


def test_kept_copy_of_index_of_other_data_files_is_not_used(store: Path, keeper: IndexKeeper) -> None:
    """A resync or a restored backup has replaced the data files."""
    begin_and_remove_data_file(store, keeper)
    for path in store.glob("db-*.log"):
        journal_content = path.read_bytes()
        path.unlink()
        path.write_bytes(journal_content)
    with pytest.raises(RebuildRefusedError):
        repair(store)
    keeper.update_index_and_data_file_copies()
    assert sorted(os.listdir(store / "kept-index/journal")) == data_files(store)


def remove_all_kept_files_before_next_copy(store: Path, keeper: IndexKeeper, number: int) -> None:
    """Begin a data file and remove all others between two checks; then remove the index before the next copy."""
    for path in store.glob("db-*.log"):
        path.unlink()
    write_data_file(store, add_record("m5", "topic/prices"), number=number)
    keeper._copy_attempt_seconds = 1000
    keeper.update_index_and_data_file_copies()
    (store / "db.data").unlink()


def test_kept_copy_names_subscriptions_after_broker_removed_all_kept_files(store: Path, keeper: IndexKeeper) -> None:
    """The data file ``db-4.log`` was created and removed between two checks, so that the copy cannot be restored."""
    remove_all_kept_files_before_next_copy(store, keeper, number=5)
    repair(store, accept_loss=True)
    (record,) = read_newest_risk_records_of_store(str(store))
    assert record.risk.rows_of_subscriptions_with_possible_loss() == [
        {"topic": "prices", "subscription": KEY, "messages": 1}
    ]


def test_kept_copy_is_restored_after_removal_of_all_kept_files_without_gap(store: Path, keeper: IndexKeeper) -> None:
    remove_all_kept_files_before_next_copy(store, keeper, number=4)
    repair(store)
    assert (store / "db.data").read_bytes() == USABLE
    assert data_files(store) == ["db-1.log", "db-2.log", "db-3.log", "db-4.log"]


def test_first_check_drops_kept_copy_of_store_without_common_data_file(store: Path, keeper: IndexKeeper) -> None:
    """The store was replaced while no broker ran, so that the copy belongs to another store."""
    remove_all_kept_files_before_next_copy(store, keeper, number=4)
    (store / "kept-index/journal/db-4.log").unlink()
    KeptIndex(str(store)).hard_link_data_files()
    assert os.listdir(store / "kept-index") == ["journal"]


def test_index_keeper_removes_old_files_that_newer_copy_does_not_require(
    store: Path, keeper: IndexKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_keeper, "REMOVED_BYTES", 0)
    monkeypatch.setattr(index_keeper, "COPY_SHARE", 0)
    (store / "db-1.log").unlink()
    for number in range(4):
        keeper.update_index_and_data_file_copies()
        (store / "db.data").write_bytes(USABLE[:4100] + bytes([number]) + USABLE[4101:])
    keeper.update_index_and_data_file_copies()
    assert sorted(os.listdir(store / "kept-index/journal")) == ["db-2.log", "db-3.log"]
    assert KeptIndex(str(store)).is_complete()


@pytest.mark.parametrize(
    ("setting", "limit", "reason"),
    [
        ("MAX_BYTES", 0, "the saved copy of the index of the store {} was removed to free disk space. Because"),
        ("FREE_SHARE", 1 << 50, "no copy of the index of the store {} is kept, because its file system has only"),
    ],
)
def test_index_keeper_removes_all_copies_at_space_limit_and_names_store(
    store: Path, keeper: IndexKeeper, monkeypatch: pytest.MonkeyPatch, setting: str, limit: int, reason: str
) -> None:
    monkeypatch.setattr(index_keeper, setting, limit)
    (store / "db-1.log").unlink()
    with pytest.raises(IndexCopyError, match=reason.format(store)):
        keeper.update_index_and_data_file_copies()
    assert not (store / "kept-index").exists()


def test_index_that_changes_during_copy_is_not_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = IndexKeeper(str(store))

    def write_to_index(seconds: float) -> None:
        with (store / "db.data").open("ab") as file:
            file.write(b"\0")

    monkeypatch.setattr(time, "sleep", write_to_index)
    keeper.update_index_and_data_file_copies()
    assert not KeptIndex(str(store)).is_complete()
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    keeper._copy_attempted_at = float("-inf")
    keeper.update_index_and_data_file_copies()
    assert KeptIndex(str(store)).is_complete()


def test_loss_of_subscriptions_is_refused_or_recorded_if_operator_accepts_it(store: Path) -> None:
    (store / "db-1.log").unlink()
    write_data_file(store, remove_record("m1", "topic/prices", KEY), number=4)
    (store / "db.data").write_bytes(UNUSABLE)
    files_before = {path.name: path.read_bytes() for path in store.glob("db*")}
    with pytest.raises(
        RebuildRefusedError, match=r"reporting:daily of topic://prices \(at most 2 messages\).*--accept-loss"
    ):
        repair(store)
    assert {path.name: path.read_bytes() for path in store.glob("db*")} == files_before
    assert "subscriptions may be lost" in repair(store, accept_loss=True)
    (record,) = read_newest_risk_records_of_store(str(store))
    assert record.risk.rows_of_subscriptions_with_possible_loss() == [
        {"topic": "prices", "subscription": KEY, "messages": 2}
    ]
    assert record.risk.is_complete
    assert not (store / "db.data").exists()
    assert repair(store, accept_loss=True).count("subscriptions may be lost") == 1
    assert len(read_newest_risk_records_of_store(str(store))) == 1


def test_messages_before_moved_subscription_record_are_at_risk(store: Path) -> None:
    (store / "db-1.log").unlink()
    (store / "db.data").write_bytes(index_with_topics({"prices": [KEY]}, last_update=1, version=6))
    write_data_file(store, subscription_record("prices", KEY), add_record("m4", "topic/prices"), number=4)
    assert find_rebuild_risk(str(store)).messages == {("prices", KEY): 3}


def test_no_subscription_is_at_risk_while_journal_has_all_its_files(store: Path) -> None:
    (store / "db.data").write_bytes(index_with_topics({"prices": [KEY]}, last_update=77, version=6))
    assert not find_rebuild_risk(str(store))
    assert "the broker builds a new one" in repair(store)


def test_all_messages_are_at_risk_if_broker_ignores_subscription_records(store: Path) -> None:
    """ActiveMQ 5.11.4 logs "ignoring add sub command during recovery replay"."""
    assert find_rebuild_risk(str(store)).messages == {("prices", KEY): 3}


def test_index_keeper_copies_again_once_index_has_another_subscription(store: Path, keeper: IndexKeeper) -> None:
    keeper._copy_attempt_seconds = 0
    index_bytes = index_with_topics({"prices": [KEY, "new:one"]}, last_update=3)
    (store / "db.data").write_bytes(index_bytes[:4100] + b"x" + index_bytes[4101:])
    keeper.update_index_and_data_file_copies()
    assert KeptIndex(str(store)).subscriptions_in_copy() == {("1:prices", KEY), ("1:prices", "new:one")}


def test_unknown_subscriptions_are_at_risk_if_index_cannot_be_read(store: Path) -> None:
    (store / "db-1.log").unlink()
    (store / "db.data").write_bytes(b"torn")
    risk = find_rebuild_risk(str(store))
    assert (dict(risk.messages), risk.is_complete) == ({("prices", ""): 3}, False)
    assert "unknown subscriptions of topic://prices" in risk.describe_subscriptions()


@pytest.mark.parametrize("size", [0, 100, 4096, 5000, 9000, 12000])
def test_truncated_kahadb_index_is_error(tmp_path: Path, size: int) -> None:
    path = tmp_path / "db.data"
    path.write_bytes(USABLE[:size])
    with pytest.raises(IndexPageError):
        subscriptions_in_index(str(path))


def test_error_about_overlong_integer_names_index(tmp_path: Path) -> None:
    path = tmp_path / "db.data"
    index_bytes = index_with_topics({"prices": [KEY]}, 1)
    size = index_bytes.index(KEY.encode()) + len(KEY) + 1  # after the byte that marks a leaf
    path.write_bytes(index_bytes[:size] + b"\xff" * 12 + index_bytes[size + 12 :])
    with pytest.raises(IndexPageError, match=r"^the index .*/db\.data is damaged \(.*: stop both nodes, and move"):
        subscriptions_in_index(str(path))


@pytest.mark.parametrize("version", [5, 6])
def test_durable_subscriptions_are_read_from_pages_of_kahadb_index(tmp_path: Path, version: int) -> None:
    path = tmp_path / "db.data"
    path.write_bytes(index_with_topics({"prices": [KEY, "b:c"], "empty": []}, 1, version))
    assert subscriptions_in_index(str(path)) == {("1:prices", KEY), ("1:prices", "b:c")}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '["a"]',
        "[" * 200_000,
        "{}",
        '{"subscriptions": [1], "time": 1, "store": "s", "complete": true, "more": 0}',
        '{"subscriptions": [{"topic": [], "subscription": "a:b", "messages": 1}], "time": 1, "store": "s", "more": 0}',
        '{"subscriptions": [], "time": 1e17, "store": "s", "complete": true, "more": 0}',
        '{"subscriptions": [], "time": NaN, "store": "s", "complete": true, "more": 0}',
        '{"subscriptions": [], "time": 1, "store": "s", "complete": true, "more": "x"}',
    ],
)
def test_invalid_record_of_subscriptions_at_risk_is_ignored(store: Path, content: str) -> None:
    path = record_rebuild_risk(str(store), "s", "", RebuildRisk({("prices\x1b", KEY): None}, is_complete=True))
    (store / "at-risk/1.json").write_text(content)
    os.mkfifo(store / "at-risk/3.json")
    (record,) = read_newest_risk_records_of_store(str(store))
    assert record.path == path
    assert (
        record.count_of_subscriptions_with_possible_loss,
        record.risk.rows_of_subscriptions_with_possible_loss()[0]["messages"],
    ) == (1, None)
    assert "\x1b" not in record.describe_risk()


def test_kept_files_are_dropped_if_store_is_replaced_while_index_is_closed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is standby in the same process does not have the index open."""
    pages = str(store / "db.data")
    kept = store / "kept-index/journal"
    reports: list[str] = []

    def open_paths(_pid: int) -> set[str]:
        step = next(steps)
        if step == 1:
            assert {path.name for path in kept.iterdir()} == {"db-1.log", "db-2.log", "db-3.log"}
            for path in store.glob("db-*.log"):
                path.unlink()
            write_data_file(store, add_record("m9", "topic/prices"), number=8)
            (store / "db.data").write_bytes(index_with_topics({"prices": [KEY]}, last_update=8))
        return set() if step == 1 else {pages}

    steps = iter(range(3))
    start_times = iter(["1", "1", "1", "1", ""])
    monkeypatch.setattr(index_keeper, "INTERVAL", 0)
    monkeypatch.setattr(index_keeper, "_open_file_paths", open_paths)
    monkeypatch.setattr(index_keeper, "_process_start_time", lambda _pid: next(start_times))
    index_keeper.keep_copies_of_store_indexes(str(store), 1, reports.append)
    assert reports == []
    assert {path.name for path in kept.iterdir()} == {"db-8.log"}
