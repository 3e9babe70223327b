"""New data file for a store whose last data file contains moved acknowledgements, before a broker uses the store."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from activemq_fleet.node.fence.generation import copy_store_into_new_generation, hard_link_generation
from activemq_fleet.node.fence.store_inspection import inspect_store_journal
from activemq_fleet.node.kahadb.journal import TRACE, JournalEnd, encode_trace_batch, read_journal_commands_and_set_tail
from activemq_fleet.node.kahadb.moved_acks import begin_data_file_if_acks_moved, begin_data_file_unless_locked
from tests.unit.kahadb_journals import hold_store_lock, moved_acks_record, record_batch

MOVED = record_batch(moved_acks_record(7), checksum=True)


def make_store(directory: Path, *contents: bytes) -> Path:
    directory.mkdir()
    for number, content in enumerate(contents, 7):
        (directory / f"db-{number}.log").write_bytes(content)
    return directory


def last_commands(store: Path, name: str) -> list[str]:
    journal_end = JournalEnd()
    traces = [
        command.message
        for command in read_journal_commands_and_set_tail(str(store), journal_end)
        if command.kind == TRACE
    ]
    assert (journal_end.damaged, journal_end.unread, f"db-{journal_end.file}.log") == (0, 0, name)
    return traces


@pytest.mark.parametrize(
    ("contents", "new_file"),
    [
        ([encode_trace_batch("one"), MOVED], "db-9.log"),
        ([MOVED, MOVED + encode_trace_batch("a broker continued here")], "db-9.log"),
        ([encode_trace_batch("one"), MOVED, b""], "db-9.log"),  # Brokers ignore an empty file.
        ([MOVED, encode_trace_batch("one")], ""),
        ([encode_trace_batch("one")], ""),
        ([], ""),
    ],
)
def test_new_data_file_begins_if_last_file_has_moved_acknowledgements(
    tmp_path: Path, contents: list[bytes], new_file: str
) -> None:
    store = make_store(tmp_path / "store", *contents)
    files_before = {path.name: path.read_bytes() for path in store.iterdir()}

    assert begin_data_file_if_acks_moved(str(store)) == new_file
    if new_file:
        assert "activemq.fleet created this data file" in last_commands(store, new_file)[-1]
        assert inspect_store_journal(str(store)).damaged == 0
    assert {path.name: path.read_bytes() for path in store.iterdir() if path.name != new_file} == {
        name: content for name, content in files_before.items() if name != new_file
    }
    assert begin_data_file_if_acks_moved(str(store)) == ""


def test_store_that_broker_uses_gets_no_new_data_file(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", MOVED)
    with hold_store_lock(store):
        assert begin_data_file_unless_locked(str(store)) == ""
    assert begin_data_file_unless_locked(str(store)) == "db-8.log"


def test_missing_store_gets_no_data_file(tmp_path: Path) -> None:
    assert begin_data_file_unless_locked(str(tmp_path / "none")) == ""


def test_no_generation_ends_with_moved_acknowledgements(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", encode_trace_batch("one"), MOVED)

    copied = copy_store_into_new_generation(str(store), str(tmp_path / "copied"))
    assert copied.ends == {"db-7.log": len(encode_trace_batch("one")) - 5, "db-8.log": len(MOVED)}
    hard_link_generation(str(store), str(tmp_path / "linked"))
    for target in ("copied", "linked"):
        assert sorted(path.name for path in (tmp_path / target).iterdir()) == ["db-7.log", "db-8.log", "db-9.log"]
    assert sorted(path.name for path in store.iterdir() if path.name.startswith("db-")) == ["db-7.log", "db-8.log"]


def test_trace_batch_has_checksum_that_brokers_verify() -> None:
    batch = encode_trace_batch("x")
    size, checksum = struct.unpack_from(">iq", batch, 16)
    assert checksum == zlib.adler32(batch[28 : 28 + size])
    assert batch[28 + size :] == b"-qMa4"
