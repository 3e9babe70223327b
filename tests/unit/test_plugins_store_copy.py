"""The verified copy of a store: resumable, moved into place by a rename, with a backup of the old store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files import disk
from activemq_fleet.node.files.untrusted_paths import Directory
from activemq_fleet.node.kahadb import store_copy, store_files


@pytest.fixture
def source_and_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return a store to copy and a store to replace; chunks have 10 bytes."""
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
    """Copy a complete store; return the path of the backup."""
    files = store_copy.store_manifest(source)
    for name, offset in store_copy.prepare_staging_and_list_missing_files(target, files).items():
        position = offset
        while position < files[name]["size"]:
            position = store_copy.append_compressed_chunk(
                target, files, name, position, store_copy.read_packed_chunk(source, name, position, files[name]["size"])
            )
    backup: str = store_copy.replace_store_by_copy(target, files, "a")
    return backup


def test_store_copy_equals_source_and_backup_keeps_old_store_with_checksums(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    manifest_before = store_copy.store_manifest(target)
    backup = transfer(source, target)
    assert store_copy.store_manifest(target) == store_copy.store_manifest(source)
    assert store_copy.store_manifest(backup) == manifest_before
    assert json.loads(Path(f"{backup}.json").read_text())["files"] == manifest_before
    assert sorted(os.listdir(Path(target).parent)) == sorted(["kahadb", Path(backup).name, f"{Path(backup).name}.json"])


def test_store_copy_excludes_lock_file(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    transfer(source, target)
    assert "lock" not in os.listdir(target)


def test_store_copy_skips_files_that_target_has(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    missing = store_copy.prepare_staging_and_list_missing_files(target, store_copy.store_manifest(source))
    assert missing == {"db-2.log": 0, "db.data": 0}


def test_backup_shares_no_file_with_store(source_and_target: tuple[str, str]) -> None:
    """With shared files, the broker would write into its backup."""
    source, target = source_and_target
    backup = transfer(source, target)
    assert os.stat(f"{backup}/db-1.log").st_ino != os.stat(f"{target}/db-1.log").st_ino


def test_each_store_copy_keeps_separate_backup(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    first_backup = transfer(source, target)
    Path(source, "db.data").write_bytes(b"newer")
    second_backup = transfer(source, target)
    assert first_backup != second_backup
    assert Path(first_backup, "db.data").read_bytes() == b"old"
    assert Path(second_backup, "db.data").read_bytes() == b"new"


def test_interrupted_copy_of_store_file_continues_where_it_stopped(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_and_list_missing_files(target, files)
    store_copy.append_compressed_chunk(
        target, files, "db-2.log", 0, store_copy.read_packed_chunk(source, "db-2.log", 0, 43)
    )
    assert store_copy.prepare_staging_and_list_missing_files(target, files) == {"db-2.log": 10, "db.data": 0}


def test_chunk_of_store_file_at_unexpected_offset_is_refused(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_and_list_missing_files(target, files)
    with pytest.raises(NodeError, match="received data from byte 10, but expected data from byte 0"):
        store_copy.append_compressed_chunk(
            target, files, "db-2.log", 10, store_copy.read_packed_chunk(source, "db-2.log", 10, 43)
        )


def test_store_file_damaged_in_transfer_is_discarded_with_error(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_and_list_missing_files(target, files)
    with pytest.raises(NodeError, match="was damaged in transfer"):
        store_copy.append_compressed_chunk(target, files, "db.data", 0, store_copy.pack_chunk(b"nEw"))
    assert store_copy.prepare_staging_and_list_missing_files(target, files)["db.data"] == 0


def test_incomplete_store_copy_does_not_replace_store(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    manifest_before = store_copy.store_manifest(target)
    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_and_list_missing_files(target, files)
    with pytest.raises(NodeError, match="is not a complete copy"):
        store_copy.replace_store_by_copy(target, files, "a")
    assert store_copy.store_manifest(target) == manifest_before


def test_change_of_store_during_copy_is_error(source_and_target: tuple[str, str]) -> None:
    source, _ = source_and_target
    with pytest.raises(NodeError, match="changed while it was copied"):
        store_copy.read_packed_chunk(source, "db.data", 0, 999)


def test_copy_to_locked_store_is_refused(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
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
            store_copy.prepare_staging_and_list_missing_files(target, store_copy.store_manifest(source))
    finally:
        holder.kill()
        holder.wait()
    assert not store_files.is_store_locked(target)


def test_reserved_end_of_journal_file_stays_sparse(
    source_and_target: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = source_and_target
    monkeypatch.setattr(store_copy, "CHUNK", 1 << 20)
    with open(f"{source}/db-3.log", "wb") as file:
        file.write(b"record")
        file.truncate(8 << 20)
    transfer(source, target)
    assert store_copy.store_manifest(target) == store_copy.store_manifest(source)
    assert os.stat(f"{target}/db-3.log").st_blocks * 512 < 1 << 20


def test_store_copy_creates_missing_store_without_backup(source_and_target: tuple[str, str]) -> None:
    source, target = source_and_target
    os.rename(target, f"{target}-gone")
    assert transfer(source, target) == ""
    assert store_copy.store_manifest(target) == store_copy.store_manifest(source)


def test_symbolic_link_in_store_is_refused(source_and_target: tuple[str, str]) -> None:
    os.symlink("/etc/hostname", f"{source_and_target[0]}/db-9.log")
    with pytest.raises(NodeError, match="neither a file nor a directory"):
        store_copy.store_manifest(source_and_target[0])


def test_store_copy_refuses_file_name_outside_of_store(source_and_target: tuple[str, str]) -> None:
    files = {"../x": {"size": 1, "sha256": "0", "mode": 0o600}}
    with pytest.raises(NodeError, match="leads outside of the store"):
        store_copy.prepare_staging_and_list_missing_files(source_and_target[1], files)


def _replace_by_link(store: str) -> None:
    os.rename(store, f"{store}-elsewhere")
    os.symlink(f"{store}-elsewhere", store)


@pytest.mark.parametrize(
    ("create_obstacle", "message"),
    [
        (
            lambda store, patch: patch.setattr(store_copy, "_is_mount_point", lambda _, name: name == "kahadb"),
            "mount point",
        ),
        (lambda store, patch: patch.setattr(store_copy, "_SPARE_BYTES", 1 << 60), "MiB free, but the copy of the"),
        (lambda store, _: _replace_by_link(store), "is a symbolic link"),
    ],
)
def test_obstacle_to_replacement_of_store_is_reported(
    source_and_target: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    create_obstacle: Callable[..., Any],
    message: str,
) -> None:
    assert store_copy.replacement_obstacle(source_and_target[1]) == ""
    create_obstacle(source_and_target[1], monkeypatch)
    assert message in store_copy.replacement_obstacle(source_and_target[1])


@pytest.mark.parametrize("source_changed", [False, True])
def test_space_for_store_copy_includes_interrupted_copy(
    source_and_target: tuple[str, str], monkeypatch: pytest.MonkeyPatch, source_changed: bool
) -> None:
    """A copy of another version of the source is removed before the next copy begins."""
    source, target = source_and_target
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=store_copy._SPARE_BYTES - 4096))
    assert store_copy.bytes_available_for_store_copy(target) == store_copy._SPARE_BYTES - 4096
    assert "MiB free" in store_copy.replacement_obstacle(target)

    files = store_copy.store_manifest(source)
    store_copy.prepare_staging_and_list_missing_files(target, files)
    if source_changed:
        Path(source, "db.data").write_bytes(b"newer")
    staging = f"{target}.resync-{store_files.store_fingerprint(files)}"
    copied_bytes = store_files.allocated_bytes(staging)

    assert copied_bytes >= 4096
    assert store_copy.bytes_available_for_store_copy(target) == store_copy._SPARE_BYTES - 4096 + copied_bytes
    assert store_copy.replacement_obstacle(target) == ""


class PowerCutError(BaseException):
    """The error that simulates a loss of power of the host."""


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
def test_store_copy_interrupted_at_any_write_loses_nothing_and_next_one_finishes(
    source_and_target: tuple[str, str], monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    source, target = source_and_target
    manifest_before, expected = store_copy.store_manifest(target), store_copy.store_manifest(source)
    write_count, limit = 0, 0

    def interrupted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal write_count
            write_count += 1
            number = write_count
            if number == limit and not after:
                raise PowerCutError
            returned = operation(*arguments, **options)
            if number == limit:
                raise PowerCutError
            return returned

        return call

    for name in WRITES:
        monkeypatch.setattr(Directory, name, interrupted(getattr(Directory, name)))
    for limit in range(1, 200):
        write_count = 0
        try:
            transfer(source, target)
            break
        except PowerCutError:
            pass
        parent = Path(target).parent
        copies = [path for path in (Path(target), *parent.glob("kahadb.before-*")) if path.is_dir()]
        assert any(store_copy.store_manifest(str(path)) == manifest_before for path in copies), limit
        limit, interrupted_write = 0, limit
        if store_copy.is_replacement_unfinished(target):
            store_copy.finish_replacement_and_return_backup(target)
        if store_copy.store_manifest(target) != expected:
            transfer(source, target)
        assert store_copy.store_manifest(target) == expected
        limit = interrupted_write
        _restore_old_store(target, manifest_before, parent)
    assert limit > 10


def _restore_old_store(target: str, before: dict[str, Any], parent: Path) -> None:
    """Move the backup of the old store back to its place, and remove everything else."""
    backup = next(path for path in parent.glob("kahadb.before-*") if path.is_dir())
    assert store_copy.store_manifest(str(backup)) == before
    for path in parent.iterdir():
        if path != backup:
            disk.remove_tree_or_file(str(path))
    backup.rename(target)
