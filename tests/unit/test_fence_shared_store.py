"""Files with which the guards of a pair coordinate: one lock, and one claim per number."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.fence.decision import StoreClaim
from activemq_fleet.node.fence.old_generations import remove_and_describe_old_store_copies
from activemq_fleet.node.fence.shared_store import (
    FenceError,
    SharedStore,
    claimant_name_of_this_machine,
    current_store_directory,
    recent_store_copies_made_by_host,
)

TOKENS = ("a" * 32, "b" * 32)
NODES = ("c" * 32, "d" * 32)


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    store = SharedStore(str(tmp_path))
    store.make_directories()
    return store


def claim_of(number: int, node: str = NODES[0]) -> StoreClaim:
    return StoreClaim(number, node, f"{number}-{node}")


def try_to_claim(store: SharedStore, claim: StoreClaim, details: dict[str, Any]) -> bool:
    """Create an empty generation, try to claim its number, and return whether the claim succeeded."""
    os.mkdir(store.unclaimed_copy_path(claim.node))
    return store.create_claim(claim, details)


def test_takeover_number_is_claimed_once_and_claim_records_host(store: SharedStore) -> None:
    assert store.highest_claim() is None
    assert try_to_claim(store, claim_of(1), {"host": "x"})
    assert not try_to_claim(store, claim_of(1, NODES[1]), {"host": "y"})
    assert store.highest_claim() == claim_of(1)
    assert store.read_claim_and_details(1)[1]["host"] == "x"


def _claim_numbers(directory: str, node: str, wins: multiprocessing.Queue[str]) -> None:
    store = SharedStore(directory)
    for number in range(1, 51):
        if try_to_claim(store, claim_of(number, node), {}):
            wins.put(f"{number}")


def test_two_processes_never_claim_same_takeover_number(store: SharedStore) -> None:
    context = multiprocessing.get_context("spawn")
    wins: multiprocessing.Queue[str] = context.Queue()
    processes = [context.Process(target=_claim_numbers, args=(store.directory, node, wins)) for node in NODES]
    for process in processes:
        process.start()
    numbers = sorted(int(wins.get(timeout=60)) for _ in range(50))
    for process in processes:
        process.join(60)
    assert numbers == list(range(1, 51))
    assert wins.empty()


def replace_lock(lock: Path) -> None:
    lock.unlink()
    lock.touch()


def write_token_of_another_guard(lock: Path) -> None:
    """Write the token of another guard into the lock file, as after the file system has cleared the lock."""
    lock.write_text(TOKENS[1].ljust(128))


@pytest.mark.parametrize("lose_lock", [Path.unlink, replace_lock, write_token_of_another_guard])
def test_guard_does_not_hold_lock_that_was_removed_replaced_or_rewritten(
    store: SharedStore, tmp_path: Path, lose_lock: Callable[[Path], None]
) -> None:
    assert store.try_to_acquire_pair_lock(TOKENS[0])
    assert store.gather_lock_and_claim_evidence().holds_lock
    lose_lock(tmp_path / "fence/lock")
    assert not store.gather_lock_and_claim_evidence().holds_lock
    # The file system grants the lock again. The claims decide which node serves.
    assert store.try_to_acquire_pair_lock(TOKENS[0])
    assert store.gather_lock_and_claim_evidence().holds_lock


def test_pair_lock_has_one_holder_and_reading_its_file_does_not_release_it(store: SharedStore, tmp_path: Path) -> None:
    other_guard = SharedStore(str(tmp_path))
    assert store.try_to_acquire_pair_lock(TOKENS[0])
    assert not other_guard.try_to_acquire_pair_lock(TOKENS[1])
    (tmp_path / "fence/lock").read_text()
    assert not other_guard.try_to_acquire_pair_lock(TOKENS[1])
    assert store.this_guard_holds_pair_lock()
    store.release_pair_lock()
    assert other_guard.try_to_acquire_pair_lock(TOKENS[1])
    assert not store.this_guard_holds_pair_lock()


def test_unguarded_broker_cannot_lock_store(store: SharedStore, tmp_path: Path) -> None:
    assert store.try_to_block_unguarded_brokers()
    with pytest.raises(IsADirectoryError):
        (tmp_path / "lock").open("r+")


def test_damaged_claim_raises_error_with_its_path_and_number(store: SharedStore, tmp_path: Path) -> None:
    (tmp_path / "fence/claims/1").write_text('{"number": 1, "node": "x", "directory": "../../etc"}')
    with pytest.raises(FenceError, match=r"fence/claims/1 is damaged .* It records takeover 1 of the store"):
        store.highest_claim()


def test_only_replaced_and_unclaimable_generations_are_removed(store: SharedStore, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        assert try_to_claim(store, claim_of(number), {"ends": {}, "open_file": ""})
    (tmp_path / "generations" / f"2-{TOKENS[1]}").mkdir()
    (tmp_path / "generations" / f"4-{TOKENS[1]}").mkdir()
    store.record_broker_dead(1)
    assert list(remove_and_describe_old_store_copies(store)) == [
        f"generation 1, an old copy of the store {store.directory}, was removed, because a newer copy of the "
        "store has all its messages"
    ]
    directories = {path.name for path in (tmp_path / "generations").iterdir()}
    assert directories == {f"2-{NODES[0]}", f"3-{NODES[0]}", f"4-{TOKENS[1]}"}


def test_records_of_replaced_claims_are_removed_with_their_generations(store: SharedStore, tmp_path: Path) -> None:
    for number in range(1, 121):
        assert try_to_claim(store, claim_of(number), {"is_whole": True, "ends": {}, "open_file": ""})
        if number != 5:
            store.record_broker_dead(number)
    for _ in range(2):
        list(remove_and_describe_old_store_copies(store))
    assert store.claim_numbers() == [5, 6, *range(20, 121)]
    assert sorted(int(path.name) for path in (tmp_path / "fence/ended").iterdir()) == [6, *range(20, 121)]
    # A guard that was frozen meanwhile claims a number whose record was removed. The claim admits no broker.
    assert try_to_claim(store, claim_of(7), {})
    assert not [*remove_and_describe_old_store_copies(store)]
    assert {path.name for path in (tmp_path / "generations").iterdir()} == {f"5-{NODES[0]}", f"120-{NODES[0]}"}


def test_copies_made_by_host_are_those_of_its_existing_readable_claims(store: SharedStore, tmp_path: Path) -> None:
    guard_directory = tmp_path / "local"
    guard_directory.mkdir()
    (guard_directory / "node").write_text(NODES[0])
    nodes = (NODES[1], claimant_name_of_this_machine(str(guard_directory)))
    for number in range(1, 251):
        assert try_to_claim(store, claim_of(number, nodes[number % 2]), {"made": number / 2, "is_whole": True})
        store.record_broker_dead(number)
    list(remove_and_describe_old_store_copies(store))
    (tmp_path / "fence/claims/201").write_text("{")
    copies = recent_store_copies_made_by_host(store.directory, str(guard_directory))
    numbers = [number for number in range(151, 251, 2) if number != 201]
    assert copies == [{"number": number, "made": number / 2} for number in numbers]


def test_lock_of_running_unguarded_broker_is_not_replaced(store: SharedStore, tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with (tmp_path / "lock").open("r+") as broker:
        fcntl.lockf(broker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not store.try_to_block_unguarded_brokers()
        assert (tmp_path / "lock").is_file()
    assert store.try_to_block_unguarded_brokers()
    assert store.try_to_block_unguarded_brokers()


def test_claim_succeeds_if_response_to_its_link_is_lost(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS repeats a request: the first request creates the link, and the second request fails because it exists."""
    link = os.link

    def create_link_and_lose_response(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", create_link_and_lose_response)
    assert try_to_claim(store, claim_of(1), {})


def test_generation_is_kept_if_outcome_of_its_claim_is_unknown(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.node.files.disk.sync_directory", _fail_to_sync)
    with pytest.raises(OSError, match="the directory cannot be synced"):
        try_to_claim(store, claim_of(1), {})
    monkeypatch.undo()
    store.highest_claim()
    assert [path.name for path in (tmp_path / "generations").iterdir()]


def _fail_to_sync(_path: str) -> None:
    raise OSError("the directory cannot be synced")


def test_guard_refuses_store_on_file_system_without_hard_links(
    store: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_link(_source: str, _target: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse_link)
    with pytest.raises(FenceError, match=r"a hard link cannot be created in .*: put the store on a file system that"):
        try_to_claim(store, claim_of(1), {})


def test_current_store_directory_is_newest_generation_while_guard_links_to_gate(
    store: SharedStore, tmp_path: Path
) -> None:
    """The link points to a gate while the broker waits, and after the broker has stopped."""
    assert try_to_claim(store, claim_of(1), {})
    local = tmp_path / "local"
    (local / "gate").mkdir(parents=True)
    (local / "store").symlink_to(local / "gate")
    (local / "shared").symlink_to(store.directory)
    assert current_store_directory(str(local / "store")) == store.generation_directory_path(claim_of(1).directory)
    assert current_store_directory("/srv/activemq/orders") == "/srv/activemq/orders"
