"""Who can write to the store in force: by what a process has open, and by the guards' newest claim."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from activemq_fleet.node.fence.decision import StoreClaim, claim_without_store_copy
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.fence.store_writers import (
    WritableAndNewestGenerationNumbers,
    brokers_writing_newest_generation,
    newest_claimed_generation_number,
    two_masters_message,
    writable_generation_number,
)
from activemq_fleet.node.process.proc import open_files_with_descriptors

OLD, NEW = "1-0123456789abcdef", "2-fedcba9876543210"


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    """A fenced store with two claimed generations."""
    store = SharedStore(str(tmp_path / "orders"))
    os.mkdir(store.directory)
    store.make_directories()
    for number, directory in enumerate((OLD, NEW), 1):
        os.mkdir(store.unclaimed_copy_path("node"))
        assert store.create_claim(StoreClaim(number, "node", directory), {})
    return store


@pytest.mark.parametrize(
    ("accesses", "writers"),
    [
        ({"a": WritableAndNewestGenerationNumbers(1, 2), "b": WritableAndNewestGenerationNumbers(2, 2)}, ["b"]),
        (
            {"a": WritableAndNewestGenerationNumbers(1, 1), "b": WritableAndNewestGenerationNumbers(2, 2)},
            ["b"],
        ),  # a sees the newest claim late
        ({"a": WritableAndNewestGenerationNumbers(0, 0), "b": WritableAndNewestGenerationNumbers(0, 0)}, ["a", "b"]),
        ({"a": WritableAndNewestGenerationNumbers(None, 2), "b": WritableAndNewestGenerationNumbers(2, 2)}, ["b"]),
        ({"a": WritableAndNewestGenerationNumbers(1, None), "b": WritableAndNewestGenerationNumbers(None, None)}, []),
    ],
)
def test_only_who_has_the_newest_generation_open_can_write_to_the_store_in_force(
    accesses: dict[str, WritableAndNewestGenerationNumbers], writers: list[str]
) -> None:
    assert brokers_writing_newest_generation(accesses) == writers
    assert two_masters_message(accesses) == (
        "the brokers a and b can both write to the current files of their shared store" if len(writers) == 2 else ""
    )


def test_a_process_writes_into_the_generation_whose_files_it_has_open(store: SharedStore) -> None:
    assert newest_claimed_generation_number(store.directory) == 2
    with open(f"{store.generation_directory_path(OLD)}/db.data", "w"):
        paths = [path for _, path in open_files_with_descriptors(os.getpid())]
        assert writable_generation_number(paths, store.directory) == 1
    assert writable_generation_number([f"{store.directory}/fence/lock"], store.directory) is None


def test_the_store_itself_counts_as_number_0(store: SharedStore, tmp_path: Path) -> None:
    assert writable_generation_number([f"{store.directory}/db-1.log"], store.directory) == 0
    assert newest_claimed_generation_number(str(tmp_path / "unfenced")) == 0
    store.create_claim(claim_without_store_copy(3, "node"), {})
    assert newest_claimed_generation_number(store.directory) == 0


def test_files_that_were_moved_aside_are_those_of_their_claim(store: SharedStore) -> None:
    with open(f"{store.directory}/db-1.log", "w"):
        aside = f"{store.generations}/1-00000000"
        os.mkdir(aside)
        os.rename(f"{store.directory}/db-1.log", f"{aside}/db-1.log")
        assert (
            writable_generation_number([path for _, path in open_files_with_descriptors(os.getpid())], store.directory)
            == 1
        )


def test_a_claim_that_cannot_be_read_leaves_it_open_what_is_in_force(store: SharedStore) -> None:
    Path(store.directory, "fence/claims/3").write_text("{")
    assert newest_claimed_generation_number(store.directory) is None
