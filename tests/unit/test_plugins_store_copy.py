"""The verified copy of a store: resumed, proved, put in place by a rename, with what was there kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files import disk
from activemq_fleet.node.files.untrusted_paths import Directory
from activemq_fleet.node.kahadb import store_copy, store_files


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A store to copy and one to be replaced; pieces are ten bytes."""
    monkeypatch.setattr(store_copy, "CHUNK", 10)
    source, target = tmp_path / "a" / "kahadb", tmp_path / "b" / "kahadb"
    for store, text in ((source, b"new"), (target, b"old")):
        store.mkdir(parents=True)
        (store / "db-1.log").write_bytes(b"same in both of them")
        (store / "db-2.log").write_bytes(text * 9 + bytes(16))
        (store / "db.data").write_bytes(text)
        (store / "lock").write_bytes(b"")
    (source / "db.redo").write_bytes(b"")
    return str(source), str(target)


def transfer(source: str, target: str) -> str:
    """All of it; returns the backup."""
    files = store_copy.store_manifest(source)
    for name, offset in store_copy.prepare_staging_directory(target, files).items():
        at = offset
        while at < files[name]["size"]:
            at = store_copy.append_chunk(
                target, files, name, at, store_copy.read_packed_chunk(source, name, at, files[name]["size"])
            )
    backup: str = store_copy.replace_store_by_copy(target, files, "a")
    return backup


def test_the_copy_is_the_same_and_what_was_there_is_kept_with_its_sums(stores: tuple[str, str]) -> None:
    source, target = stores
    before = store_copy.store_manifest(target)
    backup = transfer(source, target)
    assert store_copy.store_manifest(target) == store_copy.store_manifest(source)
    assert store_copy.store_manifest(backup) == before
    assert json.loads(Path(f"{backup}.json").read_text())["files"] == before
    assert sorted(os.listdir(Path(target).parent)) == sorted(["kahadb", Path(backup).name, f"{Path(backup).name}.json"])


def test_the_lock_does_not_travel(stores: tuple[str, str]) -> None:
    source, target = stores
    transfer(source, target)
    assert "lock" not in os.listdir(target)


def test_what_the_other_host_has_does_not_travel(stores: tuple[str, str]) -> None:
    source, target = stores
    missing = store_copy.prepare_staging_directory(target, store_copy.store_manifest(source))
    assert missing == {"db-2.log": 0, "db.data": 0}


def test_a_backup_shares_no_file_with_the_store(stores: tuple[str, str]) -> None:
    """A broker would go on writing into its own backup."""
    source, target = stores
    backup = transfer(source, target)
    assert os.stat(f"{backup}/db-1.log").st_ino != os.stat(f"{target}/db-1.log").st_ino


def test_each_copy_keeps_a_backup_of_its_own(stores: tuple[str, str]) -> None:
    source, target = stores
    first = transfer(source, target)
    Path(source, "db.data").write_bytes(b"newer")
    second = transfer(source, target)
    assert first != second
    assert Path(first, "db.data").read_bytes() == b"old"
    assert Path(second, "db.data").read_bytes() == b"new"


def test_a_file_that_was_cut_short_goes_on_where_it_ended(stores: tuple[str, str]) -> None:
    source, target = stores
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_directory(target, files)
    store_copy.append_chunk(target, files, "db-2.log", 0, store_copy.read_packed_chunk(source, "db-2.log", 0, 43))
    assert store_copy.prepare_staging_directory(target, files) == {"db-2.log": 10, "db.data": 0}


def test_a_piece_that_does_not_follow_is_refused(stores: tuple[str, str]) -> None:
    source, target = stores
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_directory(target, files)
    with pytest.raises(NodeError, match="received data from byte 10, but expected data from byte 0"):
        store_copy.append_chunk(target, files, "db-2.log", 10, store_copy.read_packed_chunk(source, "db-2.log", 10, 43))


def test_a_file_that_arrives_changed_is_thrown_away_and_told(stores: tuple[str, str]) -> None:
    source, target = stores
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_directory(target, files)
    with pytest.raises(NodeError, match="was damaged in transfer"):
        store_copy.append_chunk(target, files, "db.data", 0, store_copy.pack_chunk(b"nEw"))
    assert store_copy.prepare_staging_directory(target, files)["db.data"] == 0


def test_half_a_copy_is_never_put_in_place(stores: tuple[str, str]) -> None:
    source, target = stores
    before = store_copy.store_manifest(target)
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_directory(target, files)
    with pytest.raises(NodeError, match="is not a complete copy"):
        store_copy.replace_store_by_copy(target, files, "a")
    assert store_copy.store_manifest(target) == before


def test_a_store_that_changes_while_it_is_copied_is_told(stores: tuple[str, str]) -> None:
    source, _ = stores
    with pytest.raises(NodeError, match="changed while it was copied"):
        store_copy.read_packed_chunk(source, "db.data", 0, 999)


def test_a_store_whose_lock_is_held_is_not_touched(stores: tuple[str, str]) -> None:
    source, target = stores
    script = (
        "import fcntl, sys, time\n"
        "file = open(sys.argv[1], 'r+')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, f"{target}/lock"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert store_files.is_store_locked(target)
        with pytest.raises(NodeError, match="a running broker holds the lock of the store"):
            store_copy.prepare_staging_directory(target, store_copy.store_manifest(source))
    finally:
        holder.kill()
        holder.wait()
    assert not store_files.is_store_locked(target)


def test_the_reserved_end_of_a_journal_file_stays_a_hole(
    stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = stores
    monkeypatch.setattr(store_copy, "CHUNK", 1 << 20)
    with open(f"{source}/db-3.log", "wb") as file:
        file.write(b"record")
        file.truncate(8 << 20)
    transfer(source, target)
    assert store_copy.store_manifest(target) == store_copy.store_manifest(source)
    assert os.stat(f"{target}/db-3.log").st_blocks * 512 < 1 << 20


def test_a_host_without_a_store_gets_one(stores: tuple[str, str]) -> None:
    source, target = stores
    os.rename(target, f"{target}-gone")
    assert transfer(source, target) == ""
    assert store_copy.store_manifest(target) == store_copy.store_manifest(source)


def test_a_link_in_a_store_is_refused(stores: tuple[str, str]) -> None:
    os.symlink("/etc/hostname", f"{stores[0]}/db-9.log")
    with pytest.raises(NodeError, match="neither a file nor a directory"):
        store_copy.store_manifest(stores[0])


def test_a_name_that_leads_out_of_the_store_is_refused(stores: tuple[str, str]) -> None:
    files = {"../x": {"size": 1, "sha256": "0", "mode": 0o600}}
    with pytest.raises(NodeError, match="leads outside of the store"):
        store_copy.prepare_staging_directory(stores[1], files)


def _put_behind_a_link(store: str) -> None:
    os.rename(store, f"{store}-elsewhere")
    os.symlink(f"{store}-elsewhere", store)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda store, patch: patch.setattr(store_copy, "_is_mount_point", lambda _, name: name == "kahadb"),
            "mount point",
        ),
        (lambda store, patch: patch.setattr(store_copy, "_SPARE", 1 << 60), "MiB free, but the copy of the store"),
        (lambda store, _: _put_behind_a_link(store), "is a symbolic link"),
    ],
)
def test_a_store_that_cannot_be_replaced_is_told_beforehand(
    stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch, spoil: Callable[..., Any], said: str
) -> None:
    assert store_copy.replacement_obstacle(stores[1]) == ""
    spoil(stores[1], monkeypatch)
    assert said in store_copy.replacement_obstacle(stores[1])


class PowerCut(BaseException):
    """The host ended here."""


WRITES = (
    "create_and_open_directory",
    "create_and_open_file",
    "write_new_file",
    "replace_file",
    "rename",
    "sync",
    "remove_file_or_link",
    "remove_tree_or_file",
)


@pytest.mark.parametrize("after", [False, True])
def test_wherever_it_ends_nothing_is_lost_and_the_next_run_finishes(
    stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    source, target = stores
    before, wanted = store_copy.store_manifest(target), store_copy.store_manifest(source)
    count, limit = 0, 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            number = count
            if number == limit and not after:
                raise PowerCut
            done = real(*arguments, **more)
            if number == limit:
                raise PowerCut
            return done

        return call

    for name in WRITES:
        monkeypatch.setattr(Directory, name, counted(getattr(Directory, name)))
    for limit in range(1, 200):
        count = 0
        try:
            transfer(source, target)
            break
        except PowerCut:
            pass
        parent = Path(target).parent
        kept = [path for path in (Path(target), *parent.glob("kahadb.before-*")) if path.is_dir()]
        assert any(store_copy.store_manifest(str(path)) == before for path in kept), limit
        limit, here = 0, limit
        if store_copy.is_replacement_unfinished(target):
            store_copy.finish_interrupted_store_replacement(target)
        if store_copy.store_manifest(target) != wanted:
            transfer(source, target)
        assert store_copy.store_manifest(target) == wanted
        limit = here
        _begin_anew(target, before, parent)
    assert limit > 10


def _begin_anew(target: str, before: dict[str, Any], parent: Path) -> None:
    """The old store back in its place."""
    backup = next(path for path in parent.glob("kahadb.before-*") if path.is_dir())
    assert store_copy.store_manifest(str(backup)) == before
    for path in parent.iterdir():
        if path != backup:
            disk.remove_tree_or_file(str(path))
    backup.rename(target)
