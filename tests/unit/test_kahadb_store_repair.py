"""What a killed broker leaves is mended in each of its stores, and not while a broker works in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.node.kahadb.store_repair import repair_killed_broker_stores
from tests.unit.kahadb_journals import batch, index, moved_acks, store_lock

ONE, REST = "queue#3a#2f#2fone", "#210"


def make_stores(root: Path, *names: str) -> Path:
    """Stores whose index needs a journal file that is gone, and whose last one holds moved acknowledgements."""
    (root / "txStore").mkdir(parents=True)
    for name in names:
        (root / name).mkdir(exist_ok=True)
        (root / name / "db-8.log").write_bytes(batch(moved_acks(7), checksum=True))
        (root / name / "db.data").write_bytes(index(7))
    return root


@pytest.mark.parametrize("names", [("",), (ONE, REST)])
def test_each_store_of_a_broker_is_mended_once(tmp_path: Path, names: tuple[str, ...]) -> None:
    root = make_stores(tmp_path / "store", *names)
    report = " ".join(repair_killed_broker_stores(str(root), accept_loss=True))
    for name in names:
        assert {path.name for path in (root / name).glob("db*")} == {"db-8.log", "db-9.log", "db.data.unusable"}
        assert f"the index of the store {root / name} (file db.data) requires db-7.log" in report
        assert f"db-9.log was created in the store {root / name}," in report
    assert list(repair_killed_broker_stores(str(root), accept_loss=True)) == []


@pytest.mark.parametrize("holds", [".", ONE])
def test_a_store_in_which_a_broker_works_is_left_alone(tmp_path: Path, holds: str) -> None:
    root = make_stores(tmp_path / "store", ONE)
    with store_lock(root / holds):
        assert list(repair_killed_broker_stores(str(root), accept_loss=True)) == []
    assert {path.name for path in (root / ONE).glob("db*")} == {"db-8.log", "db.data"}


@pytest.mark.parametrize("name", ["index", "set-aside-1795759558", "lost+found", "archive"])
def test_directories_that_a_broker_did_not_make_are_left_alone(tmp_path: Path, name: str) -> None:
    root = make_stores(tmp_path / "store", name)
    assert list(repair_killed_broker_stores(str(root), accept_loss=True)) == []
    assert {path.name for path in (root / name).iterdir()} == {"db-8.log", "db.data"}


def test_a_store_that_cannot_be_mended_keeps_no_other_from_it(tmp_path: Path) -> None:
    root = make_stores(tmp_path / "store", ONE, REST)
    (root / REST / "lock").mkdir()
    said: list[str] = []
    with pytest.raises(IsADirectoryError, match=REST):
        said.extend(repair_killed_broker_stores(str(root), accept_loss=True))
    assert len(said) == 2
    assert {path.name for path in (root / REST).glob("db*")} == {"db-8.log", "db.data"}
    assert {path.name for path in (root / ONE).glob("db*")} == {"db-8.log", "db-9.log", "db.data.unusable"}


def test_where_there_is_no_store_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "none"):
        assert list(repair_killed_broker_stores(str(tmp_path / name), accept_loss=True)) == []
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]
