"""Check before a start of a broker whether the end of its store's journal is missing."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.fence.store_inspection import inspect_store_journal
from activemq_fleet.node.kahadb import journal, journal_end_check
from activemq_fleet.node.kahadb.incomplete_batch import (
    describe_incomplete_batch_not_copied,
    has_incomplete_last_batch,
    remove_incomplete_batch_at_journal_end,
)
from activemq_fleet.node.kahadb.index_pages import PageFile
from activemq_fleet.node.kahadb.journal import read_data_file_commands
from activemq_fleet.node.kahadb.journal_end_check import check_journal_end_against_index, describe_missing_journal_end
from activemq_fleet.node.kahadb.store_repair import repair_killed_broker_stores
from tests.unit.kahadb_journals import (
    add_record,
    hold_store_lock,
    index_page,
    index_with_messages,
    index_with_topics,
    write_data_file,
)

VERSIONS = (3, 4, 5, 6, 7)
QUEUES = ("more", "work")


def repair(store: Path) -> str:
    return " ".join(repair_killed_broker_stores(str(store), accept_loss=False))


def record_offsets(store: Path, number: int) -> list[int]:
    return [command.span[0] for command in read_data_file_commands(str(store / f"db-{number}.log"), 0)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with 2 data files, each with 2 messages of ``more`` and of ``work``, without an index."""
    for number in (1, 2):
        records = [add_record(f"{queue}{index}", queue) for queue in QUEUES for index in range(2)]
        write_data_file(tmp_path, *records, number=number, each=1, checksum=True)
    return tmp_path


def write_index(store: Path, version: int = 7) -> None:
    offsets = {number: record_offsets(store, number) for number in (1, 2)}
    positions = {
        queue: [(number, offsets[number][2 * at + index]) for number in (1, 2) for index in range(2)]
        for at, queue in enumerate(QUEUES)
    }
    (store / "db.data").write_bytes(index_with_messages((2, offsets[2][-1]), positions, version))


@pytest.mark.parametrize("version", VERSIONS)
def test_complete_journal_has_every_last_record_of_index(store: Path, version: int) -> None:
    write_index(store, version)
    check = check_journal_end_against_index(str(store))
    assert (check.missing, check.messages, check.checked, check.is_complete) == (None, {}, 2, True)
    assert describe_missing_journal_end(str(store)) == ""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", [1, 2])
@pytest.mark.parametrize("record", range(4))
@pytest.mark.parametrize("reserved", [0, 4096])
def test_end_check_finds_same_messages_as_store_inspection(
    store: Path, version: int, file: int, record: int, reserved: int
) -> None:
    write_index(store, version)
    path = store / f"db-{file}.log"
    # A batch begins 28 bytes before its first record.
    end = record_offsets(store, file)[record] - 28 if reserved else record_offsets(store, file)[record] + 3
    path.write_bytes(path.read_bytes()[:end] + bytes(reserved))
    cut_off = inspect_store_journal(str(store)).cut_off
    check = check_journal_end_against_index(str(store))
    assert cut_off is not None
    assert check.messages == cut_off.messages
    assert check.missing == (cut_off.file, cut_off.offset)


@pytest.mark.parametrize(("removed", "messages"), [(1, {}), (2, {"0:more": 2, "0:work": 2})])
def test_missing_last_data_file_is_reported_and_earlier_one_is_not(
    store: Path, removed: int, messages: dict[str, int]
) -> None:
    """A broker up to 5.13 removes a data file before it writes the index."""
    write_index(store)
    (store / f"db-{removed}.log").unlink()
    assert check_journal_end_against_index(str(store)).messages == messages


def test_position_in_page_0_without_record_is_reported(store: Path) -> None:
    (store / "db.data").write_bytes(index_with_messages((2, record_offsets(store, 2)[-1]), {}))
    offset = record_offsets(store, 2)[-1]
    os.truncate(store / "db-2.log", offset)
    assert check_journal_end_against_index(str(store)).missing == (2, offset)
    assert "The store lost the last records." in describe_missing_journal_end(str(store))


def test_description_names_position_and_destinations_with_most_messages(store: Path) -> None:
    write_index(store)
    last = record_offsets(store, 2)[-1]
    os.truncate(store / "db-2.log", record_offsets(store, 2)[1])
    text = describe_missing_journal_end(str(store))
    assert f"refers to a record at byte {last} of db-2.log that the journal does not have" in text
    assert "these messages in the index: queue://work (2 messages), queue://more (1 message). Later" in text


def test_check_that_takes_too_long_reports_number_of_compared_destinations(store: Path) -> None:
    write_index(store)
    text = describe_missing_journal_end(str(store), max_seconds=-1)
    assert text.startswith(f"the comparison of the index of the store {store} with the store journal was stopped after")
    assert "no missing record in the first 0 destinations. " in text


def test_unreadable_index_is_reported_and_missing_index_is_not(store: Path) -> None:
    assert describe_missing_journal_end(str(store)) == ""
    (store / "db.data").write_bytes(b"\xa5" * 8192)
    text = describe_missing_journal_end(str(store))
    assert "cannot be read (incomplete page 0)" in text
    assert "move db.data, db.redo and db.free to another directory. The next start then restores the copy" in text


def test_check_of_many_data_files_opens_few_of_them_at_a_time(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_end_check, "_MAX_OPEN_FILES", 1)
    write_index(store)
    assert check_journal_end_against_index(str(store)).missing is None


def test_repair_reports_cut_off_journal_unless_broker_holds_lock(store: Path) -> None:
    write_index(store)
    os.truncate(store / "db-2.log", record_offsets(store, 2)[1])
    assert "the end of the journal of the store" in repair(store)
    with hold_store_lock(store):
        assert repair(store) == ""


def test_repair_removes_cut_batch_unless_broker_holds_lock(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, add_record("m1"), add_record("m2"), each=1, reserved=0)
    complete = path.read_bytes()
    (tmp_path / "db.data").write_bytes(index_with_messages((1, 28), {"work": [(1, 28)]}, version=3))
    os.truncate(path, len(complete) - 3)
    with hold_store_lock(tmp_path):
        assert repair(tmp_path) == ""
    assert f"therefore removed this batch, from byte {len(complete) // 2} on," in repair(tmp_path)
    removed_batch = path.with_name("db-1.log.removed-batch").read_bytes()
    assert path.read_bytes() == complete[: len(complete) // 2]
    assert path.read_bytes() + removed_batch == complete[:-3]
    assert repair(tmp_path) == ""


def test_remedy_for_cut_batch_does_not_overwrite_records_after_start(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, add_record("m1"), add_record("m2"), each=1, reserved=0)
    os.truncate(path, path.stat().st_size - 3)
    for text in (
        describe_incomplete_batch_not_copied(str(tmp_path)),
        remove_incomplete_batch_at_journal_end(str(tmp_path)),
    ):
        assert "do not replace the data file in this store, because brokers append new records to it" in text
        assert "restore the copy of the whole store to a different directory" in text


def test_removal_of_cut_batch_keeps_it_in_hard_links(tmp_path: Path) -> None:
    path = write_data_file(tmp_path / "store", add_record("m1"), add_record("m2"), each=1, reserved=0)
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size - 3)
    cut = path.read_bytes()
    link = tmp_path / "link"
    os.link(path, link)
    assert "therefore removed this batch, from byte" in remove_incomplete_batch_at_journal_end(str(path.parent))
    assert link.read_bytes() == cut
    assert path.read_bytes() == cut[: (len(cut) + 3) // 2]
    assert path.stat().st_mode & 0o777 == 0o600


def test_repair_and_inspection_agree_on_cut_batch_before_empty_data_file(tmp_path: Path) -> None:
    path = write_data_file(tmp_path, add_record("m1"), add_record("m2"), each=1, reserved=0)
    os.truncate(path, path.stat().st_size - 3)
    cut = path.read_bytes()
    assert has_incomplete_last_batch(str(tmp_path)) is inspect_store_journal(str(tmp_path)).is_last_batch_cut is True
    (tmp_path / "db-2.log").touch()
    assert has_incomplete_last_batch(str(tmp_path)) is inspect_store_journal(str(tmp_path)).is_last_batch_cut is False
    assert repair(tmp_path) == ""
    assert path.read_bytes() == cut


@pytest.mark.parametrize("error", [PermissionError("denied"), NodeError("untrusted link")])
def test_check_that_fails_is_described_and_does_not_prevent_start(
    store: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_unused: object) -> None:
        raise error

    monkeypatch.setattr(journal_end_check, "check_journal_end_against_index", fail)
    text = f"the end of the journal of the store {store} was not checked: {error}"
    assert describe_missing_journal_end(str(store)) == text
    write_index(store)
    assert repair(store) == text
    monkeypatch.setattr(journal, "start_offset_of_truncated_last_batch", fail)
    assert describe_incomplete_batch_not_copied(str(store)) == text


@pytest.mark.parametrize("error", [FileNotFoundError("removed"), NodeError("untrusted link")])
def test_error_of_check_without_lock_is_ignored_while_broker_holds_lock(
    store: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_path: str) -> None:
        raise error

    write_index(store)
    monkeypatch.setattr(journal, "start_offset_of_truncated_last_batch", fail)
    with hold_store_lock(store):
        assert repair(store) == ""


@pytest.mark.parametrize("below", [None, (1, 5), (2, 0), (2, 7), (3, 1)])
def test_positions_are_walked_backwards_from_any_bound(tmp_path: Path, below: tuple[int, int] | None) -> None:
    """The separator (2, 0) of the branch is not a key of a leaf: a broker has removed its message."""
    leaves = [[(1, 2), (1, 9)], [(1, 20), (1, 30)], [(2, 7)], [(3, 0), (3, 1)]]
    separators = [(1, 20), (2, 0), (3, 0)]

    def node(keys: list[tuple[int, int]], rest: bytes) -> bytes:
        return struct.pack(">H", len(keys)) + b"".join(struct.pack(">ii", *key) for key in keys) + rest

    branch = node(separators, b"\1" + struct.pack(">4q", 1, 2, 3, 4))
    pages = [branch, *(node(leaf, b"\0" + bytes(8 * len(leaf) + 8)) for leaf in leaves)]
    path = tmp_path / "db.data"
    path.write_bytes(bytes(4096) + b"".join(map(index_page, pages)))
    expected = [key for leaf in leaves for key in leaf][::-1]
    with PageFile(str(path)) as opened:
        walk = opened.walk_position_keys_backwards(0, struct.Struct(">ii"))
        walked = [next(walk)]
        if below is not None:
            walked.append(walk.send(below))
            expected = [expected[0], *(key for key in expected if key < below)]
        walked += walk
    assert walked == expected


def test_index_of_more_trees_and_pages_than_one_page_holds_is_read(tmp_path: Path) -> None:
    topics = {f"t{number:02}": ["k"] for number in range(20)}
    (tmp_path / "db.data").write_bytes(index_with_topics(topics, last_update=1))
    write_data_file(tmp_path, add_record("m1"))
    assert check_journal_end_against_index(str(tmp_path)).checked == 20
