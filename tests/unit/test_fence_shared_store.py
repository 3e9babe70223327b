"""The files by which guards agree: one lock, and one claim for each number, whoever tries."""

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
from activemq_fleet.node.fence.shared_store import FenceError, SharedStore, current_store_directory

TOKENS = ("a" * 32, "b" * 32)
NODES = ("c" * 32, "d" * 32)


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    store = SharedStore(str(tmp_path))
    store.make_directories()
    return store


def claim_of(number: int, node: str = NODES[0]) -> StoreClaim:
    return StoreClaim(number, node, f"{number}-{node}")


def claimed(store: SharedStore, claim: StoreClaim, told: dict[str, Any]) -> bool:
    """Make an empty generation, and try to claim its number."""
    os.mkdir(store.unclaimed_copy_path(claim.node))
    return store.create_claim(claim, told)


def test_a_number_is_claimed_once_and_the_claim_says_who(store: SharedStore) -> None:
    assert store.highest_claim() is None
    assert claimed(store, claim_of(1), {"host": "x"})
    assert not claimed(store, claim_of(1, NODES[1]), {"host": "y"})
    assert store.highest_claim() == claim_of(1)
    assert store.read_claim_and_details(1)[1]["host"] == "x"


def _race(directory: str, node: str, wins: multiprocessing.Queue[str]) -> None:
    store = SharedStore(directory)
    for number in range(1, 51):
        if claimed(store, claim_of(number, node), {}):
            wins.put(f"{number}")


def test_two_processes_never_both_get_a_number(store: SharedStore) -> None:
    context = multiprocessing.get_context("spawn")
    wins: multiprocessing.Queue[str] = context.Queue()
    racers = [context.Process(target=_race, args=(store.directory, node, wins)) for node in NODES]
    for racer in racers:
        racer.start()
    numbers = sorted(int(wins.get(timeout=60)) for _ in range(50))
    for racer in racers:
        racer.join(60)
    assert numbers == list(range(1, 51))
    assert wins.empty()


def replaced(lock: Path) -> None:
    lock.unlink()
    lock.touch()


def taken_by_another(lock: Path) -> None:
    """As where the file system has cleared the lock: the file is the same, and somebody else wrote his token."""
    lock.write_text(TOKENS[1].ljust(128))


@pytest.mark.parametrize("lose", [Path.unlink, replaced, taken_by_another])
def test_a_lock_that_was_given_away_is_not_held(
    store: SharedStore, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    assert store.try_to_acquire_pair_lock(TOKENS[0])
    assert store.gather_lock_and_claim_evidence().holds_lock
    lose(tmp_path / "fence/lock")
    assert not store.gather_lock_and_claim_evidence().holds_lock
    # It is free, as far as the file system knows: whose turn it is, the claims decide.
    assert store.try_to_acquire_pair_lock(TOKENS[0])
    assert store.gather_lock_and_claim_evidence().holds_lock


def test_the_lock_has_one_holder_who_keeps_it_though_others_look_at_its_file(
    store: SharedStore, tmp_path: Path
) -> None:
    other = SharedStore(str(tmp_path))
    assert store.try_to_acquire_pair_lock(TOKENS[0])
    assert not other.try_to_acquire_pair_lock(TOKENS[1])
    (tmp_path / "fence/lock").read_text()
    assert not other.try_to_acquire_pair_lock(TOKENS[1])
    assert store.this_guard_holds_pair_lock()
    store.release_pair_lock()
    assert other.try_to_acquire_pair_lock(TOKENS[1])
    assert not store.this_guard_holds_pair_lock()


def test_a_broker_without_a_guard_cannot_lock_the_store(store: SharedStore, tmp_path: Path) -> None:
    assert store.block_unguarded_brokers()
    with pytest.raises(IsADirectoryError):
        (tmp_path / "lock").open("r+")


def test_a_claim_that_cannot_be_read_ends_in_one_line(store: SharedStore, tmp_path: Path) -> None:
    (tmp_path / "fence/claims/1").write_text('{"number": 1, "node": "x", "directory": "../../etc"}')
    with pytest.raises(FenceError, match=r"fence/claims/1 is damaged .* It records takeover 1 of the store"):
        store.highest_claim()


def test_only_what_nobody_needs_or_can_claim_is_removed(store: SharedStore, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        assert claimed(store, claim_of(number), {"ends": {}, "open_file": ""})
    (tmp_path / "generations" / f"2-{TOKENS[1]}").mkdir()
    (tmp_path / "generations" / f"4-{TOKENS[1]}").mkdir()
    store.record_broker_dead(1)
    assert list(remove_and_describe_old_store_copies(store)) == [
        f"generation 1, an old copy of the store {store.directory}, was removed, because a newer copy of the "
        "store has all its messages"
    ]
    left = {path.name for path in (tmp_path / "generations").iterdir()}
    assert left == {f"2-{NODES[0]}", f"3-{NODES[0]}", f"4-{TOKENS[1]}"}


def test_records_of_long_replaced_claims_go_with_their_generations(store: SharedStore, tmp_path: Path) -> None:
    for number in range(1, 121):
        assert claimed(store, claim_of(number), {"is_whole": True, "ends": {}, "open_file": ""})
        if number != 5:
            store.record_broker_dead(number)
    for _ in range(2):
        list(remove_and_describe_old_store_copies(store))
    assert store.claim_numbers() == [5, 6, *range(20, 121)]
    assert sorted(int(path.name) for path in (tmp_path / "fence/ended").iterdir()) == [6, *range(20, 121)]
    # A guard that was frozen all the while makes a claim whose number was forgotten: nobody was let in by it.
    assert claimed(store, claim_of(7), {})
    assert not [*remove_and_describe_old_store_copies(store)]
    assert {path.name for path in (tmp_path / "generations").iterdir()} == {f"5-{NODES[0]}", f"120-{NODES[0]}"}


def test_a_lock_that_a_broker_without_a_guard_has_is_left_alone(store: SharedStore, tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with (tmp_path / "lock").open("r+") as broker:
        fcntl.lockf(broker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not store.block_unguarded_brokers()
        assert (tmp_path / "lock").is_file()
    assert store.block_unguarded_brokers()
    assert store.block_unguarded_brokers()


def test_a_claim_whose_answer_was_lost_counts_as_made(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS does that sends a request again: the first one made the link, the second one finds it there."""
    link = os.link

    def answer_is_lost(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", answer_is_lost)
    assert claimed(store, claim_of(1), {})


def test_what_was_built_stays_where_nobody_knows_whether_it_was_claimed(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.node.files.disk.sync_directory", _fails)
    with pytest.raises(OSError, match="the disk is full of holes"):
        claimed(store, claim_of(1), {})
    monkeypatch.undo()
    store.highest_claim()
    assert [path.name for path in (tmp_path / "generations").iterdir()]


def _fails(_path: str) -> None:
    raise OSError("the disk is full of holes")


def test_a_store_without_hard_links_is_refused(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_source: str, _target: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuses)
    with pytest.raises(FenceError, match=r"a hard link cannot be created in .*: put the store on a file system that"):
        claimed(store, claim_of(1), {})


def test_messages_are_read_from_generation_in_force_whatever_link_of_guard(store: SharedStore, tmp_path: Path) -> None:
    """It leads to a gate while the broker waits, and after it has ended."""
    assert claimed(store, claim_of(1), {})
    local = tmp_path / "local"
    (local / "gate").mkdir(parents=True)
    (local / "store").symlink_to(local / "gate")
    (local / "shared").symlink_to(store.directory)
    assert current_store_directory(str(local / "store")) == store.generation_directory_path(claim_of(1).directory)
    assert current_store_directory("/srv/activemq/orders") == "/srv/activemq/orders"
