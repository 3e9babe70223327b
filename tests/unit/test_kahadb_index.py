"""Move of an index with which no broker can start, before the start of a broker; no other file is moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.kahadb.store_repair import repair_killed_broker_stores
from tests.unit.kahadb_journals import add_record, hold_store_lock, index_content, write_data_file


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store whose index requires the missing file ``db-7.log``."""
    write_data_file(tmp_path, add_record("m1"))
    (tmp_path / "db.data").write_bytes(index_content(last_update=7))
    (tmp_path / "db.redo").write_bytes(b"pages")
    (tmp_path / "lock").touch()
    return tmp_path


@pytest.fixture
def broker(store: Path) -> Iterator[None]:
    """Hold the lock of the store, as a running broker does."""
    with hold_store_lock(store):
        yield


def file_names(store: Path) -> set[str]:
    return {path.name for path in store.iterdir()}


def repair(store: Path) -> list[str]:
    return list(repair_killed_broker_stores(str(store), accept_loss=False))


def test_unusable_kahadb_index_is_renamed_and_journal_remains(store: Path) -> None:
    pages = (store / "db.data").read_bytes()
    assert "requires db-7.log" in " ".join(repair(store))
    assert file_names(store) == {"db-1.log", "db.data.unusable", "db.redo.unusable", "lock"}
    assert (store / "db.data.unusable").read_bytes() == pages
    assert repair(store) == []


def test_kahadb_index_that_earlier_repair_renamed_is_replaced(store: Path) -> None:
    (store / "db.data.unusable").write_bytes(b"earlier")
    repair(store)
    assert (store / "db.data.unusable").read_bytes() == index_content(last_update=7)


def test_interrupted_repair_of_kahadb_index_is_completed(store: Path) -> None:
    (store / "db.redo").rename(store / "db.redo.unusable")
    assert "requires db-7.log" in " ".join(repair(store))
    assert "db.data" not in file_names(store)


@pytest.mark.parametrize("content", [index_content(last_update=1), b"torn", None])
def test_kahadb_index_that_broker_can_use_or_rebuild_is_not_renamed(store: Path, content: bytes | None) -> None:
    (store / "db.data").unlink()
    if content is not None:
        (store / "db.data").write_bytes(content)
    names_before = file_names(store)
    assert repair(store) == []
    assert file_names(store) == names_before


@pytest.mark.usefixtures("broker")
def test_kahadb_index_is_not_renamed_while_broker_holds_lock(store: Path) -> None:
    names_before = file_names(store)
    assert repair(store) == []
    assert file_names(store) == names_before


def test_repair_of_kahadb_index_does_not_create_missing_store(tmp_path: Path) -> None:
    assert repair(tmp_path / "store") == []
    assert not (tmp_path / "store").exists()
