"""``activemq-fleet store inspect``: comparison of a store's index with the end of its journal."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.fence.store_inspection import inspect_store_journal
from activemq_fleet.node.kahadb import journal
from activemq_fleet.node.kahadb.index import INDEX, describe_unusable_index, missing_journal_file_names
from activemq_fleet.node.kahadb.index_pages import read_text_key
from activemq_fleet.node.kahadb.indexed_messages import read_journal_positions_in_index
from activemq_fleet.node.kahadb.indexed_subscriptions import subscriptions_in_index
from activemq_fleet.node.kahadb.journal import JournalCommand, JournalEnd, read_data_file_commands
from tests.support.store_inspections import inspect_store
from tests.unit.kahadb_journals import (
    add_record,
    index_with_messages,
    index_with_topics,
    record_batch,
    redo_content,
    write_data_file,
)

NO_LOSS = "no acknowledged message is lost"
VERSIONS = (3, 4, 5, 6, 7)
"""Versions of the index of 5.5, 5.8, 5.9, 5.12 and 5.16."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with three messages of the queue ``work`` and two of the queue ``more``, without an index."""
    records = [add_record(f"m{number}") for number in range(3)]
    records += [add_record(f"n{number}", "more") for number in range(2)]
    write_data_file(tmp_path, *records, each=1, checksum=True)
    return tmp_path


def record_offsets(store: Path) -> list[int]:
    return [command.span[0] for command in read_data_file_commands(str(store / "db-1.log"), 0)]


def write_index(store: Path, version: int = 7) -> bytes:
    """Write the index of all messages in the store, and return it."""
    positions = [(1, offset) for offset in record_offsets(store)]
    index = index_with_messages(positions[-1], {"more": positions[3:], "work": positions[:3]}, version)
    (store / "db.data").write_bytes(index)
    return index


def cut_journal(store: Path, record: int) -> int:
    """Cut the journal off inside of a record; return the offset at which the records then end."""
    offsets = record_offsets(store)
    path = store / "db-1.log"
    path.write_bytes(path.read_bytes()[: offsets[record] + 3])
    return offsets[record] - 28


@pytest.mark.parametrize("version", VERSIONS)
def test_index_that_agrees_with_journal_is_no_damage(store: Path, version: int) -> None:
    write_index(store, version)
    exit_code, report = inspect_store(store)
    assert exit_code == 0
    assert report.endswith("no damage was found\n")
    assert inspect_store_journal(str(store)).reading.state == "read"


def test_name_of_destination_in_modified_utf_8_is_read() -> None:
    # Java writes the surrogates of a character above 65535 separately, and the character 0 as two bytes.
    content = b"\xed\xa0\xbd\xed\xb8\x80\xc0\x80"
    assert read_text_key(len(content).to_bytes(2, "big") + content, 0) == ("\N{GRINNING FACE}\0", 2 + len(content))


def test_pipe_with_name_of_index_file_does_not_block(store: Path) -> None:
    write_index(store)
    os.mkfifo(store / "db.free")
    assert read_journal_positions_in_index(str(store)).state == "read"


@pytest.mark.parametrize("version", VERSIONS)
def test_inspection_counts_messages_of_index_after_end_of_cut_off_journal(store: Path, version: int) -> None:
    write_index(store, version)
    last = record_offsets(store)[-1]
    end = cut_journal(store, 2)
    exit_code, report = inspect_store(store)
    assert exit_code == 1
    assert f"at byte {last} of db-1.log, but the records of this file end at byte {end}\n" in report
    assert "    lost: queue://more  2 messages in the index\n    lost: queue://work  1 message in the index\n" in report
    assert NO_LOSS not in report
    assert "no damage was found" not in report


def test_inspection_reports_emptied_journal(store: Path) -> None:
    write_index(store)
    (store / "db-1.log").write_bytes(b"")
    exit_code, report_json = inspect_store(store, "--format", "json")
    report = json.loads(report_json)
    assert (exit_code, report["is_damaged"], report["cut_off"]["end"]) == (1, True, 0)
    assert [row["messages"] for row in report["cut_off"]["messages"]] == [2, 3]


def test_inspection_reports_missing_last_data_file(store: Path) -> None:
    (store / "db.data").write_bytes(index_with_messages((2, 28), {"work": [(2, 28)]}))
    assert inspect_store(store)[0] == 1
    assert inspect_store_journal(str(store)).cut_off is not None


def test_data_file_that_broker_removed_before_last_one_is_no_damage(store: Path) -> None:
    write_data_file(store, add_record("m9"), number=3)
    (store / "db.data").write_bytes(index_with_messages((3, 28), {"work": [(2, 28), (3, 28)]}))
    assert inspect_store(store)[0] == 0


def test_inspection_reports_cut_off_file_before_last_one(store: Path) -> None:
    write_index(store)
    cut_journal(store, 4)
    write_data_file(store, add_record("m9"), number=2)
    cut_off = inspect_store_journal(str(store)).cut_off
    assert cut_off is not None
    assert (cut_off.file, cut_off.messages) == (1, {"0:more": 1})


def test_index_without_messages_shows_cut_off_journal_by_last_update(store: Path) -> None:
    (store / "db.data").write_bytes(index_with_messages((1, record_offsets(store)[-1]), {}))
    cut_journal(store, 4)
    exit_code, report = inspect_store(store)
    assert exit_code == 1
    assert "DAMAGED: the end of the store journal is missing" in report


def test_torn_last_record_of_killed_broker_is_no_damage(store: Path) -> None:
    index = write_index(store)
    records = add_record("m0"), add_record("m1")
    path = write_data_file(store, *records, number=2, each=1, reserved=0, checksum=True)
    path.write_bytes(path.read_bytes()[:-3])
    (store / "db.data").write_bytes(index)
    exit_code, report = inspect_store(store)
    assert exit_code == 0
    assert NO_LOSS in report


@pytest.mark.parametrize(("missing_bytes", "is_damaged"), [(3, True), (len(add_record("m1")), True), (4096, False)])
def test_last_data_file_that_ends_inside_batch_without_checksum_is_damaged(
    store: Path, missing_bytes: int, is_damaged: bool
) -> None:
    """Brokers up to 5.8 write no checksums, and do not start with such a file (java.io.EOFException)."""
    records = add_record("m0"), add_record("m1")
    path = write_data_file(store, *records, number=2, each=1)
    complete = path.read_bytes()
    path.write_bytes(complete[:-missing_bytes] if missing_bytes == 4096 else complete[: -4096 - missing_bytes])
    start = len(record_batch(records[0]))
    exit_code, report = inspect_store(store)
    assert exit_code == is_damaged
    assert (f"inside of its last batch of records, which begins at byte {start} " in report) == is_damaged
    assert ("no damage was found" in report) != is_damaged
    os.truncate(path, start)
    assert inspect_store(store)[0] == 0


@pytest.mark.parametrize("content", [None, b"", bytes(4096)])
def test_inspection_claims_nothing_about_lost_messages_without_index(store: Path, content: bytes | None) -> None:
    if content is not None:
        (store / "db.data").write_bytes(content)
    cut_journal(store, 2)
    exit_code, report = inspect_store(store)
    assert exit_code == 0
    assert NO_LOSS not in report
    assert "Without the index, the command does not detect whether complete records after it are missing" in report


@pytest.mark.parametrize("kept", [4096 + 4096, 0])
def test_inspection_reports_unreadable_index(store: Path, kept: int) -> None:
    index = write_index(store)
    (store / "db.data").write_bytes(index[:kept] + b"\xa5" * (len(index) - kept))
    cut_journal(store, 2)
    exit_code, report = inspect_store(store)
    assert exit_code == 1
    assert "DAMAGED: the store's index db.data cannot be read (" in report
    assert NO_LOSS not in report
    assert "the store journal is not damaged" in report


def test_index_with_repeated_page_is_unreadable(store: Path) -> None:
    index = bytearray(write_index(store))
    at = index.index(b"0:work") + len(b"0:work") + 1
    assert index[at + 15] == 2
    index[at + 41 + 8 + 15] = 2
    (store / "db.data").write_bytes(index)
    assert read_journal_positions_in_index(str(store)).problem == "repeated page 2"


def test_index_with_cycle_of_pages_of_one_record_is_unreadable(store: Path) -> None:
    index = bytearray(write_index(store))
    at = 4096 * 3
    index[at : at + 17] = struct.pack(">Bqq", 1, 7, 2)
    (store / "db.data").write_bytes(index)
    assert read_journal_positions_in_index(str(store)).problem == "repeated page 2"


@pytest.mark.parametrize("number", [-1, 3000, 1 << 45, 1 << 62])
def test_index_that_refers_to_page_outside_of_file_is_unreadable(store: Path, number: int) -> None:
    index = bytearray(write_index(store))
    at = index.index(b"0:work") + len(b"0:work") + 1
    index[at + 8 : at + 16] = number.to_bytes(8, "big", signed=True)
    (store / "db.data").write_bytes(index)
    assert read_journal_positions_in_index(str(store)).problem == f"incomplete page {number}"


@pytest.mark.parametrize("closed", [False, True])
def test_pages_in_redo_file_replace_those_of_index_that_was_not_closed(store: Path, closed: bool) -> None:
    index = write_index(store)
    (store / "db.redo").write_bytes(redo_content(index))
    header = f"\ncleanShutdown={str(closed).lower()}\n".encode().ljust(4096, b"\0")
    (store / "db.data").write_bytes(header + bytes(len(index) - 4096))
    assert read_journal_positions_in_index(str(store)).state == ("damaged" if closed else "read")


@pytest.mark.parametrize(
    ("in_pages", "in_redo", "closed", "lacking"),
    [(7, 1, False, ()), (7, 1, True, ("db-7.log",)), (1, 7, False, ("db-7.log",)), (1, 7, True, ())],
)
def test_required_data_files_are_those_of_index_after_restoring_pages(
    store: Path, in_pages: int, in_redo: int, closed: bool, lacking: tuple[str, ...]
) -> None:
    """A broker restores the pages of db.redo before it reads which data files its index requires."""
    header = f"\ncleanShutdown={str(closed).lower()}\n".encode().ljust(4096, b"\0")
    (store / "db.data").write_bytes(header + index_with_messages((in_pages, 0), {})[4096:])
    (store / "db.redo").write_bytes(redo_content(index_with_messages((in_redo, 0), {})))
    assert missing_journal_file_names(str(store)) == lacking
    assert (describe_unusable_index(str(store)) == "") == (not lacking)


def test_index_whose_page_0_no_complete_redo_file_restores_is_unusable(store: Path) -> None:
    index = write_index(store)
    (store / "db.data").write_bytes(bytes(len(index)))
    (store / "db.redo").write_bytes(redo_content(index)[:-1])
    assert "is incomplete or missing" in describe_unusable_index(str(store))
    (store / "db.redo").write_bytes(redo_content(index))
    assert describe_unusable_index(str(store)) == ""


def test_subscriptions_are_read_from_index_after_restoring_pages(tmp_path: Path) -> None:
    index = index_with_topics({"prices": ["old:key"]}, last_update=1)
    restored = index_with_topics({"prices": ["new:key"]}, last_update=1)
    for suffix in ("", ".unusable"):
        (tmp_path / f"db.data{suffix}").write_bytes(index)
        (tmp_path / f"db.redo{suffix}").write_bytes(redo_content(restored))
        assert subscriptions_in_index(str(tmp_path / f"db.data{suffix}")) == {("1:prices", "new:key")}


def test_redo_file_with_more_than_65536_pages_replaces_pages_of_index(store: Path) -> None:
    page_size, count = 512, (1 << 16) + 1
    root = index_with_messages((7, 0), {})[4096 : 4096 + page_size]
    pages = root + bytes((count - 1) * page_size)
    head = struct.pack(">qqi", 7, zlib.adler32(pages), count).ljust(4096, b"\0")
    entries = (struct.pack(">q", at) + pages[at * page_size : (at + 1) * page_size] for at in range(count))
    (store / "db.redo").write_bytes(head + b"".join(entries))
    header = f"\npageSize={page_size}\ncleanShutdown=false\n".encode().ljust(4096, b"\0")
    (store / "db.data").write_bytes(header + index_with_messages((1, 0), {})[4096 : 4096 + page_size])
    assert missing_journal_file_names(str(store)) == ("db-7.log",)


def test_redo_file_with_repeated_page_is_ignored(store: Path) -> None:
    index = write_index(store)
    pages = bytes(2 * 4096)
    head = struct.pack(">qqi", 7, zlib.adler32(pages), 2).ljust(4096, b"\0")
    (store / "db.redo").write_bytes(head + 2 * (struct.pack(">q", 0) + bytes(4096)))
    (store / "db.data").write_bytes(index)
    assert read_journal_positions_in_index(str(store)).state == "read"


def test_incomplete_redo_file_is_ignored(store: Path) -> None:
    index = write_index(store)
    (store / "db.redo").write_bytes(redo_content(bytes(len(index)))[:-1])
    assert read_journal_positions_in_index(str(store)).state == "read"
    (store / "db.redo").write_bytes(redo_content(bytes(len(index)))[:-1] + b"\1")
    assert read_journal_positions_in_index(str(store)).state == "read"


def test_index_that_broker_changes_meanwhile_is_not_compared(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_index(store)
    cut_journal(store, 2)
    states = ({INDEX[0]: (number, 0, 0)} for number in range(100))
    monkeypatch.setattr(
        "activemq_fleet.node.kahadb.indexed_messages.index_file_inodes_sizes_and_times", lambda _store: next(states)
    )
    exit_code, report = inspect_store(store)
    assert exit_code == 0
    assert "a broker changed the index db.data while it was read" in report
    assert NO_LOSS not in report


@pytest.mark.parametrize("created", [0, 2])
def test_data_file_that_broker_removes_meanwhile_is_no_damage(
    store: Path, monkeypatch: pytest.MonkeyPatch, created: int
) -> None:
    write_index(store)
    if not created:
        write_data_file(store, add_record("m9"), number=2)
    read_commands = journal.read_journal_commands_and_set_tail

    def remove_file_while_reading(store_directory: str, tail: JournalEnd, *, verify: bool) -> Iterator[JournalCommand]:
        yield from read_commands(store_directory, tail, verify=verify)
        tail.ends[1] = 0
        (store / "db-1.log").unlink()
        if created:
            write_data_file(store, add_record("m9"), number=created)

    monkeypatch.setattr(journal, "read_journal_commands_and_set_tail", remove_file_while_reading)
    assert inspect_store_journal(str(store)).cut_off is None
