"""Repair of each store of a killed broker, except while a broker uses the stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.node.kahadb.store_repair import repair_killed_broker_stores
from tests.unit.kahadb_journals import hold_store_lock, index_content, moved_acks_record, record_batch

QUEUE_STORE, DEFAULT_STORE = "queue#3a#2f#2fone", "#210"


def make_stores(root: Path, *names: str) -> Path:
    """Create stores whose index requires a missing file, and whose last file contains moved acknowledgements."""
    (root / "txStore").mkdir(parents=True)
    for name in names:
        (root / name).mkdir(exist_ok=True)
        (root / name / "db-8.log").write_bytes(record_batch(moved_acks_record(7), checksum=True))
        (root / name / "db.data").write_bytes(index_content(7))
    return root


@pytest.mark.parametrize("names", [("",), (QUEUE_STORE, DEFAULT_STORE)])
def test_each_store_of_broker_is_repaired_once(tmp_path: Path, names: tuple[str, ...]) -> None:
    root = make_stores(tmp_path / "store", *names)
    report = " ".join(repair_killed_broker_stores(str(root), accept_loss=True))
    for name in names:
        assert {path.name for path in (root / name).glob("db*")} == {"db-8.log", "db-9.log", "db.data.unusable"}
        assert f"the index of the store {root / name} (file db.data) requires db-7.log" in report
        assert f"db-9.log was created in the store {root / name}," in report
    assert list(repair_killed_broker_stores(str(root), accept_loss=True)) == []


@pytest.mark.parametrize("locked_directory", [".", QUEUE_STORE])
def test_repair_does_not_change_store_that_broker_uses(tmp_path: Path, locked_directory: str) -> None:
    root = make_stores(tmp_path / "store", QUEUE_STORE)
    with hold_store_lock(root / locked_directory):
        assert list(repair_killed_broker_stores(str(root), accept_loss=True)) == []
    assert {path.name for path in (root / QUEUE_STORE).glob("db*")} == {"db-8.log", "db.data"}


@pytest.mark.parametrize("name", ["index", "set-aside-1795759558", "lost+found", "archive"])
def test_repair_does_not_change_directories_that_broker_did_not_create(tmp_path: Path, name: str) -> None:
    root = make_stores(tmp_path / "store", name)
    assert list(repair_killed_broker_stores(str(root), accept_loss=True)) == []
    assert {path.name for path in (root / name).iterdir()} == {"db-8.log", "db.data"}


def test_store_that_cannot_be_repaired_does_not_prevent_other_repairs(tmp_path: Path) -> None:
    root = make_stores(tmp_path / "store", QUEUE_STORE, DEFAULT_STORE)
    (root / DEFAULT_STORE / "lock").mkdir()
    messages: list[str] = []
    with pytest.raises(IsADirectoryError, match=DEFAULT_STORE):
        messages.extend(repair_killed_broker_stores(str(root), accept_loss=True))
    assert len(messages) == 2
    assert {path.name for path in (root / DEFAULT_STORE).glob("db*")} == {"db-8.log", "db.data"}
    assert {path.name for path in (root / QUEUE_STORE).glob("db*")} == {"db-8.log", "db-9.log", "db.data.unusable"}


def test_repair_without_stores_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "none"):
        assert list(repair_killed_broker_stores(str(tmp_path / name), accept_loss=True)) == []
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]
