"""A generation of a store is made of files that the broker before cannot write into any more."""

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
from tests.unit.kahadb_journals import index

MOVED = bytes([MOVED_ACKS, 0])
COMMITTED = bytes([COMMIT, 0])


def uncopied_message_texts(source: Path, made: GenerationCopyResult) -> list[str]:
    rows = [message.to_dict() for message in uncopied_messages_of_generation(str(source), made.open_file, made.ends)]
    return [f"{row['destination']} {row['message']}" for row in rows]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A store with two sealed files, one that is being written with a torn end, and one made ahead."""
    source = tmp_path / "1-a"
    source.mkdir()
    (source / "lock").touch()
    (source / "db.data").write_bytes(b"index")
    (source / "db.redo").write_bytes(b"redo")
    (source / "db-1.log").write_bytes(journal_batch(add_command("one")))
    (source / "db-2.log").write_bytes(journal_batch(add_command("two"), checksum=False))
    torn = journal_batch(add_command("four"))[:-3]
    (source / "db-3.log").write_bytes(journal_batch(add_command("three")) + torn + bytes(100))
    (source / "db-4.log").write_bytes(bytes(1000))
    return source


def is_linked(source: Path, target: Path, name: str) -> bool:
    return (source / name).stat().st_ino == (target / name).stat().st_ino


def test_sealed_files_are_linked_and_open_file_is_copied_to_last_whole_batch(source: Path) -> None:
    target = source.with_name("2-b")
    made = copy_store_into_new_generation(str(source), str(target))
    assert sorted(path.name for path in target.iterdir()) == ["db-1.log", "db-2.log", "db-3.log", "db.data", "db.redo"]
    assert [is_linked(source, target, f"db-{number}.log") for number in (1, 2, 3)] == [True, True, False]
    assert (target / "db-3.log").read_bytes() == journal_batch(add_command("three"))
    assert (made.open_file, made.ends, made.links) == (
        "db-3.log",
        {"db-3.log": len(journal_batch(add_command("three")))},
        2,
    )
    assert made.has_index
    assert not is_linked(source, target, "db.data")


def test_a_file_of_moved_acknowledgements_seals_nothing_and_is_copied(source: Path) -> None:
    """Its number lies above that of the file which is being written, and which is written on."""
    (source / "db-4.log").write_bytes(journal_batch(MOVED))
    (source / "db-5.log").write_bytes(journal_batch(MOVED, b"\x02\x00"))
    target = source.with_name("2-b")
    made = copy_store_into_new_generation(str(source), str(target))
    assert made.open_file == "db-3.log"
    assert not is_linked(source, target, "db-3.log")
    assert not is_linked(source, target, "db-5.log")
    assert is_linked(source, target, "db-4.log")


def test_file_of_moved_acknowledgements_that_broker_continued_is_the_open_file(source: Path) -> None:
    """It was the last one when the broker started; others were made since, with higher numbers."""
    trace = bytes([TRACE, 0])
    (source / "db-4.log").write_bytes(journal_batch(MOVED) + journal_batch(trace) + journal_batch(add_command("four")))
    (source / "db-5.log").write_bytes(journal_batch(MOVED, COMMITTED))
    (source / "db-6.log").write_bytes(journal_batch(MOVED, COMMITTED))
    target = source.with_name("2-b")
    made = copy_store_into_new_generation(str(source), str(target))
    assert (made.open_file, made.links, made.copies) == ("db-4.log", 4, 2)
    assert [is_linked(source, target, f"db-{number}.log") for number in (3, 4, 5, 6)] == [True, False, True, False]
    assert uncopied_message_texts(source, made) == []
    with (source / "db-4.log").open("ab") as file:
        file.write(journal_batch(add_command("five")))
    assert uncopied_message_texts(source, made) == ["queue://q five"]


def test_later_writes_of_old_broker_are_named_and_not_in_new_generation(source: Path) -> None:
    target = source.with_name("2-b")
    made = copy_store_into_new_generation(str(source), str(target))
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    with (source / "db-3.log").open("r+b") as file:
        file.seek(made.ends["db-3.log"])
        file.write(journal_batch(add_command("four")))
    (source / "db-4.log").write_bytes(journal_batch(add_command("five"), add_command("six")))
    (source / "db.data").write_bytes(b"another")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert uncopied_message_texts(source, made) == ["queue://q four", "queue://q five", "queue://q six"]


def test_nothing_is_behind_a_store_that_was_left_as_it_was(source: Path) -> None:
    made = copy_store_into_new_generation(str(source), str(source.with_name("2-b")))
    assert uncopied_message_texts(source, made) == []


def test_a_store_that_is_written_all_the_while_is_taken_without_its_index(source: Path) -> None:
    target = source.with_name("2-b")
    with written_all_the_while(source / "db.data"):
        made = copy_store_into_new_generation(str(source), str(target), patience=-1)
    assert not made.has_index
    assert not (target / "db.data").exists()


def test_index_that_rests_is_taken_though_the_journal_is_written_all_the_while(source: Path) -> None:
    target = source.with_name("2-b")
    (source / "db.data").write_bytes(index(3))
    with written_all_the_while(source / "db-3.log"):
        made = copy_store_into_new_generation(str(source), str(target), patience=-1)
    assert made.has_index
    assert (target / "db.data").read_bytes() == index(3)


@contextmanager
def written_all_the_while(path: Path) -> Iterator[None]:
    """A broker that writes into a file of its store on and on."""
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


def test_a_broker_that_writes_on_is_made_to_stand_by_and_its_index_is_taken(source: Path) -> None:
    """As a broker of 5.9 or later does whose guard stands still: it looks at the lock ten times a second."""

    def write() -> None:
        while (source / "lock").is_file():
            with (source / "db-3.log").open("ab") as file:
                file.write(b"\0")
            time.sleep(0.01)
        (source / "db.data").write_bytes(b"index at its end")

    broker = threading.Thread(target=write)
    broker.start()
    target = source.with_name("2-b")
    made = copy_store_into_new_generation(str(source), str(target), patience=30)
    broker.join()
    assert made.has_index
    assert (target / "db.data").read_bytes() == b"index at its end"
    assert (source / "lock").is_dir()  # Else it would start again in its process, and serve.


def test_wait_for_stopping_broker_grows_with_size_of_its_index(source: Path) -> None:
    """One before 5.9 does not look at its lock. Its guard that stands still is killed after a while, and it with it."""
    with (source / "db.data").open("r+b") as file:
        file.truncate(30 << 20)
    ends = time.monotonic() + 1

    def write() -> None:
        while time.monotonic() < ends:
            (source / "db-3.log").touch()
            time.sleep(0.01)

    broker = threading.Thread(target=write)
    broker.start()
    made = copy_store_into_new_generation(str(source), str(source.with_name("2-b")), patience=0)
    broker.join()
    assert made.has_index


def test_a_large_file_is_copied_whole_and_an_error_of_any_sync_is_seen(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "_CHUNK", 1000)
    content = bytes(4097) + os.urandom(1403)  # no whole page: it is not read as an index
    (source / "db.data").write_bytes(content)
    copy_store_into_new_generation(str(source), str(source.parent / "2-b"))
    assert (source.parent / "2-b/db.data").read_bytes() == content

    sync, synced = os.fdatasync, iter(range(100))

    def fail_once(file: int) -> None:
        if next(synced) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(os, "fdatasync", fail_once)
    with pytest.raises(OSError, match="Input/output error"):
        copy_store_into_new_generation(str(source), str(source.parent / "3-a"))


def test_a_damaged_batch_does_not_hide_those_after_it(source: Path) -> None:
    whole = journal_batch(add_command("three"))
    spoilt = bytearray(whole)
    spoilt[-1] ^= 1
    (source / "db-3.log").write_bytes(bytes(spoilt) + journal_batch(add_command("four")))
    target = source.with_name("2-b")
    assert copy_store_into_new_generation(str(source), str(target)).ends == {
        "db-3.log": len(whole) + len(journal_batch(add_command("four")))
    }


def test_a_store_that_nobody_writes_any_more_is_linked_whole(source: Path) -> None:
    target = source.with_name("2-b")
    target.mkdir()
    (target / "left").touch()
    made = hard_link_generation(str(source), str(target))
    assert (made.links, made.copies, made.is_whole) == (6, 0, True)
    names = [path.name for path in source.iterdir() if path.name != "lock"]
    assert all((target / name).samefile(source / name) for name in names)
    assert len(os.listdir(target)) == len(names)


@pytest.mark.parametrize("make", [copy_store_into_new_generation, hard_link_generation])
@pytest.mark.parametrize(("number", "is_taken"), [(2, True), (9, False)])
def test_an_index_is_left_out_if_it_needs_a_file_that_is_gone(
    source: Path, make: Callable[[str, str], GenerationCopyResult], number: int, is_taken: bool
) -> None:
    (source / "db.data").write_bytes(index(last_update=1, audit=number))
    target = source.with_name("2-b")
    assert make(str(source), str(target)).has_index == is_taken
    assert [(target / name).exists() for name in ("db.data", "db.redo")] == [is_taken, is_taken]
    assert (source / "db.data").exists()


def test_the_first_generation_is_empty_and_that_of_an_unused_one_too(tmp_path: Path) -> None:
    make_first_generation(str(tmp_path / "1-a"))
    made = copy_store_into_new_generation(str(tmp_path / "1-a"), str(tmp_path / "2-b"))
    assert (made.ends, made.open_file, os.listdir(tmp_path / "2-b")) == ({}, "", [])


def test_a_store_with_another_below_it_is_refused(source: Path) -> None:
    (source / "queue#3a#2f#2f").mkdir()
    with pytest.raises(
        FenceError, match=r"is not a regular file\. If activemq_fence is guard, the store must contain only"
    ):
        copy_store_into_new_generation(str(source), str(source.with_name("2-b")))


def test_a_commit_that_was_written_again_names_no_message_of_before(tmp_path: Path) -> None:
    """As 5.14 and later do, which move commits with acknowledgements."""
    files = {
        "db-1.log": journals.batch(journals.add("before", transaction=1), journals.commit(1)),
        "db-2.log": journals.batch(journals.add("half", transaction=2)),
        "db-3.log": journals.batch(journals.commit(1), journals.commit(2), journals.add("after")),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    uncopied = uncopied_messages_of_generation(str(tmp_path), "db-2.log", {"db-2.log": len(files["db-2.log"])})
    assert [message.message for message in uncopied] == ["half", "after"]
