"""The files by which guards agree: one lock, and one claim for each number, whoever tries."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_fleet.fence.decision import Claim
from activemq_fleet.fence.old_generations import tidy
from activemq_fleet.fence.shared_store import FenceError, SharedStore

TOKENS = ("a" * 32, "b" * 32)


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    store = SharedStore(str(tmp_path))
    store.prepare()
    return store


def claim_of(number: int, token: str = TOKENS[0]) -> Claim:
    return Claim(number, token, f"{number}-{token}")


def test_a_number_is_claimed_once_and_the_claim_says_who(store: SharedStore) -> None:
    assert store.highest() is None
    assert store.claim(claim_of(1), {"host": "x"})
    assert not store.claim(claim_of(1, TOKENS[1]), {"host": "y"})
    assert store.highest() == claim_of(1)
    assert store.read_claim(1)[1]["host"] == "x"


def _race(directory: str, token: str, wins: multiprocessing.Queue[str]) -> None:
    store = SharedStore(directory)
    for number in range(1, 51):
        if store.claim(claim_of(number, token), {}):
            wins.put(f"{number}")


def test_two_processes_never_both_get_a_number(store: SharedStore) -> None:
    context = multiprocessing.get_context("spawn")
    wins: multiprocessing.Queue[str] = context.Queue()
    racers = [context.Process(target=_race, args=(store.directory, token, wins)) for token in TOKENS]
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
    assert store.try_lock(TOKENS[0])
    assert store.look().holds_lock
    lose(tmp_path / "fence/lock")
    assert not store.look().holds_lock
    # It is free, as far as the file system knows: whose turn it is, the claims decide.
    assert store.try_lock(TOKENS[0])
    assert store.look().holds_lock


def test_the_lock_has_one_holder_who_keeps_it_though_others_look_at_its_file(
    store: SharedStore, tmp_path: Path
) -> None:
    other = SharedStore(str(tmp_path))
    assert store.try_lock(TOKENS[0])
    assert not other.try_lock(TOKENS[1])
    (tmp_path / "fence/lock").read_text()
    assert not other.try_lock(TOKENS[1])
    assert store.holds_lock()
    store.unlock()
    assert other.try_lock(TOKENS[1])
    assert not store.holds_lock()


def test_a_broker_without_a_guard_cannot_lock_the_store(store: SharedStore, tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        (tmp_path / "lock").open("r+")


def test_a_store_that_no_guard_made_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").touch()
    with pytest.raises(FenceError, match=r"holds a store that no guard made \(db-1.log\).*set activemq_fence to none"):
        SharedStore(str(tmp_path)).prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["db-1.log"]


def test_a_claim_that_cannot_be_read_ends_in_one_line(store: SharedStore, tmp_path: Path) -> None:
    (tmp_path / "fence/claims/1").write_text('{"number": 1, "token": "x", "directory": "../../etc"}')
    with pytest.raises(FenceError, match="fence/claims/1 is no claim of a generation"):
        store.highest()


def test_only_what_nobody_needs_or_can_claim_is_removed(store: SharedStore, tmp_path: Path) -> None:
    told = {"ends": {}, "open_file": ""}
    for number in (1, 2, 3):
        (tmp_path / "generations" / f"{number}-{TOKENS[0]}").mkdir()
        assert store.claim(claim_of(number), told)
    (tmp_path / "generations" / f"2-{TOKENS[1]}").mkdir()
    (tmp_path / "generations" / f"4-{TOKENS[1]}").mkdir()
    store.note_end(1, TOKENS[0])
    assert list(tidy(store, 3)) == ["generation 1 is removed: the one after it has all that it held"]
    left = {path.name for path in (tmp_path / "generations").iterdir()}
    assert left == {f"2-{TOKENS[0]}", f"3-{TOKENS[0]}", f"4-{TOKENS[1]}"}
