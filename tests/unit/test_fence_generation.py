"""Generations of a store: copies whose files the previous broker can no longer write to."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet.node.fence import generation
from activemq_fleet.node.fence.generation import (
    GenerationCopyResult,
    copy_store_into_new_generation,
    hard_link_generation,
    make_first_generation,
)
from activemq_fleet.node.fence.old_generations import uncopied_messages_of_generation
from activemq_fleet.node.fence.shared_store import FenceError
from activemq_fleet.node.kahadb.journal import COMMIT, MOVED_ACKS, TRACE
from tests.support.journal_batches import add_command, journal_batch
from tests.unit import kahadb_journals as journals
from tests.unit.kahadb_journals import index_content

MOVED = bytes([MOVED_ACKS, 0])
COMMITTED = bytes([COMMIT, 0])


def uncopied_message_texts(source: Path, copied: GenerationCopyResult) -> list[str]:
    message_rows = [
        message.to_dict() for message in uncopied_messages_of_generation(str(source), copied.open_file, copied.ends)
    ]
    return [f"{row['destination']} {row['message']}" for row in message_rows]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a store with two sealed files, one open file with a torn end, and one file allocated in advance."""
    source = tmp_path / "1-a"
    source.mkdir()
    (source / "lock").touch()
    (source / "db.data").write_bytes(index_content(1))
    (source / "db.redo").write_bytes(b"redo")
    (source / "db-1.log").write_bytes(journal_batch(add_command("one")))
    (source / "db-2.log").write_bytes(journal_batch(add_command("two"), checksum=False))
    torn = journal_batch(add_command("four"))[:-3]
    (source / "db-3.log").write_bytes(journal_batch(add_command("three")) + torn + bytes(100))
    (source / "db-4.log").write_bytes(bytes(1000))
    return source


def is_linked(source: Path, target: Path, name: str) -> bool:
    return (source / name).stat().st_ino == (target / name).stat().st_ino


def test_sealed_files_are_linked_and_open_file_is_copied_to_last_complete_batch(source: Path) -> None:
    target = source.with_name("2-b")
    copied = copy_store_into_new_generation(str(source), str(target))
    assert sorted(path.name for path in target.iterdir()) == ["db-1.log", "db-2.log", "db-3.log", "db.data", "db.redo"]
    assert [is_linked(source, target, f"db-{number}.log") for number in (1, 2, 3)] == [True, True, False]
    assert (target / "db-3.log").read_bytes() == journal_batch(add_command("three"))
    assert (copied.open_file, copied.ends, copied.links) == (
        "db-3.log",
        {"db-3.log": len(journal_batch(add_command("three")))},
        2,
    )
    assert copied.has_index
    assert not is_linked(source, target, "db.data")


def test_files_of_moved_acknowledgements_do_not_seal_open_file(source: Path) -> None:
    """The file has a higher number than the open file, and the broker continues to write to the open file."""
    (source / "db-4.log").write_bytes(journal_batch(MOVED))
    (source / "db-5.log").write_bytes(journal_batch(MOVED, b"\x02\x00"))
    target = source.with_name("2-b")
    copied = copy_store_into_new_generation(str(source), str(target))
    assert copied.open_file == "db-3.log"
    assert not is_linked(source, target, "db-3.log")
    assert not is_linked(source, target, "db-5.log")
    assert is_linked(source, target, "db-4.log")


def test_file_of_moved_acknowledgements_that_broker_continued_is_open_file(source: Path) -> None:
    """It was the last file when the broker started. The broker has since created files with higher numbers."""
    trace = bytes([TRACE, 0])
    (source / "db-4.log").write_bytes(journal_batch(MOVED) + journal_batch(trace) + journal_batch(add_command("four")))
    (source / "db-5.log").write_bytes(journal_batch(MOVED, COMMITTED))
    (source / "db-6.log").write_bytes(journal_batch(MOVED, COMMITTED))
    target = source.with_name("2-b")
    copied = copy_store_into_new_generation(str(source), str(target))
    assert (copied.open_file, copied.links, copied.copies) == ("db-4.log", 4, 2)
    assert [is_linked(source, target, f"db-{number}.log") for number in (3, 4, 5, 6)] == [True, False, True, False]
    assert uncopied_message_texts(source, copied) == []
    with (source / "db-4.log").open("ab") as file:
        file.write(journal_batch(add_command("five")))
    assert uncopied_message_texts(source, copied) == ["queue://q five"]


def test_later_writes_of_old_broker_are_reported_and_not_in_new_generation(source: Path) -> None:
    target = source.with_name("2-b")
    copied = copy_store_into_new_generation(str(source), str(target))
    files_at_copy = {path.name: path.read_bytes() for path in target.iterdir()}
    with (source / "db-3.log").open("r+b") as file:
        file.seek(copied.ends["db-3.log"])
        file.write(journal_batch(add_command("four")))
    (source / "db-4.log").write_bytes(journal_batch(add_command("five"), add_command("six")))
    (source / "db.data").write_bytes(b"another")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == files_at_copy
    assert uncopied_message_texts(source, copied) == ["queue://q four", "queue://q five", "queue://q six"]


def test_unchanged_old_store_has_no_uncopied_messages(source: Path) -> None:
    copied = copy_store_into_new_generation(str(source), str(source.with_name("2-b")))
    assert uncopied_message_texts(source, copied) == []


def test_new_generation_omits_index_that_changes_during_copy(source: Path) -> None:
    target = source.with_name("2-b")
    with repeated_writes_to(source / "db.data"):
        copied = copy_store_into_new_generation(str(source), str(target), patience=-1)
    assert not copied.has_index
    assert not (target / "db.data").exists()


def test_new_generation_has_unchanged_index_while_journal_is_written(source: Path) -> None:
    target = source.with_name("2-b")
    (source / "db.data").write_bytes(index_content(3))
    with repeated_writes_to(source / "db-3.log"):
        copied = copy_store_into_new_generation(str(source), str(target), patience=-1)
    assert copied.has_index
    assert (target / "db.data").read_bytes() == index_content(3)


@contextmanager
def repeated_writes_to(path: Path) -> Iterator[None]:
    """Append to a file of the store repeatedly, as a running broker does, until the block ends."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.001):
            with path.open("ab") as file:
                file.write(b"\0")

    broker = threading.Thread(target=write)
    broker.start()
    try:
        yield
    finally:
        ended.set()
        broker.join()


def test_writing_broker_is_stopped_and_its_final_index_is_copied(source: Path) -> None:
    """A broker of 5.9 or later stops like this while its guard is frozen: it checks the lock ten times per second."""

    def write() -> None:
        while (source / "lock").is_file():
            with (source / "db-3.log").open("ab") as file:
                file.write(b"\0")
            time.sleep(0.01)
        (source / "db.data").write_bytes(index_content(2))

    broker = threading.Thread(target=write)
    broker.start()
    target = source.with_name("2-b")
    copied = copy_store_into_new_generation(str(source), str(target), patience=30)
    broker.join()
    assert copied.has_index
    assert (target / "db.data").read_bytes() == index_content(2)
    assert (source / "lock").is_dir()  # Otherwise, the broker would restart in its process and serve.


def test_wait_for_stopping_broker_grows_with_size_of_its_index(source: Path) -> None:
    """A broker before 5.9 does not check its lock. Its frozen guard is killed after a while, and the broker with it."""
    with (source / "db.data").open("r+b") as file:
        file.truncate(30 << 20)
    ends = time.monotonic() + 1

    def write() -> None:
        while time.monotonic() < ends:
            (source / "db-3.log").touch()
            time.sleep(0.01)

    broker = threading.Thread(target=write)
    broker.start()
    copied = copy_store_into_new_generation(str(source), str(source.with_name("2-b")), patience=0)
    broker.join()
    assert copied.has_index


def test_large_store_file_is_copied_completely_and_failed_sync_raises_error(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "_CHUNK", 1000)
    # The size is not a multiple of the page size, so that the file is not parsed as an index.
    index_bytes = bytes(4097) + os.urandom(1403)
    (source / "db.data").write_bytes(index_bytes)
    copy_store_into_new_generation(str(source), str(source.parent / "2-b"))
    assert (source.parent / "2-b/db.data").read_bytes() == index_bytes

    sync, synced = os.fdatasync, iter(range(100))

    def fail_once(file: int) -> None:
        if next(synced) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(os, "fdatasync", fail_once)
    with pytest.raises(OSError, match="Input/output error"):
        copy_store_into_new_generation(str(source), str(source.parent / "3-a"))


def test_batches_after_damaged_batch_are_copied(source: Path) -> None:
    batch = journal_batch(add_command("three"))
    damaged_batch = bytearray(batch)
    damaged_batch[-1] ^= 1
    (source / "db-3.log").write_bytes(bytes(damaged_batch) + journal_batch(add_command("four")))
    target = source.with_name("2-b")
    assert copy_store_into_new_generation(str(source), str(target)).ends == {
        "db-3.log": len(batch) + len(journal_batch(add_command("four")))
    }


def test_store_without_writer_is_hard_linked_completely(source: Path) -> None:
    target = source.with_name("2-b")
    target.mkdir()
    (target / "obsolete").touch()
    copied = hard_link_generation(str(source), str(target))
    assert (copied.links, copied.copies, copied.is_whole) == (6, 0, True)
    names = [path.name for path in source.iterdir() if path.name != "lock"]
    assert all((target / name).samefile(source / name) for name in names)
    assert len(os.listdir(target)) == len(names)


@pytest.mark.parametrize("make", [copy_store_into_new_generation, hard_link_generation])
@pytest.mark.parametrize(("number", "has_index"), [(2, True), (9, False)])
def test_new_generation_omits_index_that_requires_missing_file(
    source: Path, make: Callable[[str, str], GenerationCopyResult], number: int, has_index: bool
) -> None:
    (source / "db.data").write_bytes(index_content(last_update=1, audit=number))
    target = source.with_name("2-b")
    assert make(str(source), str(target)).has_index == has_index
    assert [(target / name).exists() for name in ("db.data", "db.redo")] == [has_index, has_index]
    assert (source / "db.data").exists()


def test_first_generation_and_copy_of_unused_generation_are_empty(tmp_path: Path) -> None:
    make_first_generation(str(tmp_path / "1-a"))
    copied = copy_store_into_new_generation(str(tmp_path / "1-a"), str(tmp_path / "2-b"))
    assert (copied.ends, copied.open_file, os.listdir(tmp_path / "2-b")) == ({}, "", [])


def test_guard_refuses_store_that_contains_another_store(source: Path) -> None:
    (source / "queue#3a#2f#2f").mkdir()
    with pytest.raises(
        FenceError, match=r"is not a regular file\. If activemq_fence is guard, the store must contain only"
    ):
        copy_store_into_new_generation(str(source), str(source.with_name("2-b")))


def test_commit_written_again_reports_no_message_from_before_copy(tmp_path: Path) -> None:
    """ActiveMQ 5.14 and later move commits together with acknowledgements."""
    files = {
        "db-1.log": journals.record_batch(journals.add_record("before", transaction=1), journals.commit_record(1)),
        "db-2.log": journals.record_batch(journals.add_record("half", transaction=2)),
        "db-3.log": journals.record_batch(
            journals.commit_record(1), journals.commit_record(2), journals.add_record("after")
        ),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    uncopied = uncopied_messages_of_generation(str(tmp_path), "db-2.log", {"db-2.log": len(files["db-2.log"])})
    assert [message.message for message in uncopied] == ["half", "after"]
