"""Brokers that can write to the current store, from the open files of processes and the newest claim of the guards."""

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
    """Return a fenced store with two claimed generations."""
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
        # Host a reads the newest claim late.
        ({"a": WritableAndNewestGenerationNumbers(1, 1), "b": WritableAndNewestGenerationNumbers(2, 2)}, ["b"]),
        ({"a": WritableAndNewestGenerationNumbers(0, 0), "b": WritableAndNewestGenerationNumbers(0, 0)}, ["a", "b"]),
        ({"a": WritableAndNewestGenerationNumbers(None, 2), "b": WritableAndNewestGenerationNumbers(2, 2)}, ["b"]),
        ({"a": WritableAndNewestGenerationNumbers(1, None), "b": WritableAndNewestGenerationNumbers(None, None)}, []),
        # The share of both hosts was unmounted under their brokers.
        ({"a": WritableAndNewestGenerationNumbers(3, 0), "b": WritableAndNewestGenerationNumbers(3, 0)}, ["a", "b"]),
    ],
)
def test_only_broker_with_newest_generation_open_can_write_to_current_store(
    accesses: dict[str, WritableAndNewestGenerationNumbers], writers: list[str]
) -> None:
    assert brokers_writing_newest_generation(accesses) == writers
    assert two_masters_message(accesses) == (
        "the brokers a and b can both write to the current files of their shared store" if len(writers) == 2 else ""
    )


def test_store_generation_that_process_can_write_is_that_of_its_open_files(store: SharedStore) -> None:
    assert newest_claimed_generation_number(store.directory) == 2
    with open(f"{store.generation_directory_path(OLD)}/db.data", "w"):
        paths = [path for _, path in open_files_with_descriptors(os.getpid())]
        assert writable_generation_number(paths, store.directory) == 1
    assert writable_generation_number([f"{store.directory}/fence/lock"], store.directory) is None


def test_files_of_unfenced_store_are_generation_0(store: SharedStore, tmp_path: Path) -> None:
    assert writable_generation_number([f"{store.directory}/db-1.log"], store.directory) == 0
    assert newest_claimed_generation_number(str(tmp_path / "unfenced")) == 0
    store.create_claim(claim_without_store_copy(3, "node"), {})
    assert newest_claimed_generation_number(store.directory) == 0


def test_moved_store_files_belong_to_generation_of_their_claim(store: SharedStore) -> None:
    with open(f"{store.directory}/db-1.log", "w"):
        moved = f"{store.generations}/1-00000000"
        os.mkdir(moved)
        os.rename(f"{store.directory}/db-1.log", f"{moved}/db-1.log")
        assert (
            writable_generation_number([path for _, path in open_files_with_descriptors(os.getpid())], store.directory)
            == 1
        )


def test_newest_generation_is_unknown_if_claim_cannot_be_read(store: SharedStore) -> None:
    Path(store.directory, "fence/claims/3").write_text("{")
    assert newest_claimed_generation_number(store.directory) is None
