"""An index with which no broker starts is moved aside before a start, and nothing else ever is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.kahadb.store_repair import repair_killed_broker_stores
from tests.unit.kahadb_journals import add, index, store_lock, write


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose index needs ``db-7.log``, which is gone."""
    write(tmp_path, add("m1"))
    (tmp_path / "db.data").write_bytes(index(last_update=7))
    (tmp_path / "db.redo").write_bytes(b"pages")
    (tmp_path / "lock").touch()
    return tmp_path


@pytest.fixture
def broker(store: Path) -> Iterator[None]:
    """A broker that holds the lock of the store."""
    with store_lock(store):
        yield


def names(store: Path) -> set[str]:
    return {path.name for path in store.iterdir()}


def mend(store: Path) -> list[str]:
    return list(repair_killed_broker_stores(str(store), accept_loss=False))


def test_an_unusable_index_is_kept_aside_and_the_journal_stays(store: Path) -> None:
    pages = (store / "db.data").read_bytes()
    assert "requires db-7.log" in " ".join(mend(store))
    assert names(store) == {"db-1.log", "db.data.unusable", "db.redo.unusable", "lock"}
    assert (store / "db.data.unusable").read_bytes() == pages
    assert mend(store) == []


def test_the_one_of_an_earlier_time_is_replaced(store: Path) -> None:
    (store / "db.data.unusable").write_bytes(b"earlier")
    mend(store)
    assert (store / "db.data.unusable").read_bytes() == index(last_update=7)


def test_what_was_cut_short_is_finished(store: Path) -> None:
    (store / "db.redo").rename(store / "db.redo.unusable")
    assert "requires db-7.log" in " ".join(mend(store))
    assert "db.data" not in names(store)


@pytest.mark.parametrize("content", [index(last_update=1), b"torn", None])
def test_an_index_that_a_broker_can_use_or_mends_itself_is_left_alone(store: Path, content: bytes | None) -> None:
    (store / "db.data").unlink()
    if content is not None:
        (store / "db.data").write_bytes(content)
    before = names(store)
    assert mend(store) == []
    assert names(store) == before


@pytest.mark.usefixtures("broker")
def test_nothing_is_moved_while_a_broker_has_the_lock(store: Path) -> None:
    before = names(store)
    assert mend(store) == []
    assert names(store) == before


def test_a_store_that_is_not_there_yet_needs_nothing(tmp_path: Path) -> None:
    assert mend(tmp_path / "store") == []
    assert not (tmp_path / "store").exists()
