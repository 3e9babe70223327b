"""Attacks by the broker's account on its store during a resync that runs as root."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.files.untrusted_paths import UntrustedPathError
from ansible_collections.activemq.fleet.plugins.module_utils.node.kahadb import resync_plans, store_copy
from ansible_collections.activemq.fleet.plugins.modules import store_info

from tests.situations import some_situations
from tests.unit.attackers import (
    BROKER,
    call_as,
    create_owned_directory,
    directory_for_all_accounts,
    repeat_as,
    requires_root,
)
from tests.unit.kahadb_journals import add_record, trace_record, write_data_file
from tests.waiting import PATIENCE, within

pytestmark = requires_root
SECRET = b"what root alone reads"


class Host:
    """The directories of a host: the broker's account owns ``store``, root owns ``secret`` and the newer ``source``."""

    def __init__(self, common: Path, parent: Path) -> None:
        self.common, self.parent = common, parent
        self.store, self.source = parent / "kahadb", common / "source"
        self.secret = common / "secret"
        self.secret.mkdir(mode=0o700)
        (self.secret / "file").write_bytes(SECRET)
        (self.secret / "file").chmod(0o600)
        (self.secret / "db-1.log").write_bytes(SECRET)
        (self.secret / "db-1.log").chmod(0o600)
        write_data_file(self.source, trace_record(), *(add_record(f"m{number}") for number in range(20)))
        (self.source / "below").mkdir()
        (self.source / "below" / "more").write_bytes(bytes(range(256)) * 8)
        create_owned_directory(self.store)
        call_as(BROKER, lambda: write_data_file(self.store, trace_record(), add_record("old")))
        self.files = store_copy.store_manifest(str(self.source))
        self.staging = Path(f"{self.store}.resync-{store_copy.store_fingerprint(self.files)}")
        self.before = self.state_of_secret()

    def state_of_secret(self) -> list[tuple[Any, ...]]:
        file_states = []
        for path in (self.secret, *sorted(self.secret.iterdir())):
            status = path.lstat()
            file_bytes = path.read_bytes() if path.is_file() else b""
            file_states.append((path.name, status.st_uid, status.st_gid, status.st_mode, status.st_ino, file_bytes))
        return file_states

    def stage(self) -> dict[str, int]:
        missing: dict[str, int] = store_copy.prepare_staging_and_list_missing_files(str(self.store), self.files)
        return missing

    def send(self, missing: dict[str, int]) -> None:
        for name, offset in missing.items():
            position, size = offset, self.files[name]["size"]
            while position < size:
                packed_chunk = store_copy.read_packed_chunk(str(self.source), name, position, size)
                position = store_copy.append_compressed_chunk(str(self.store), self.files, name, position, packed_chunk)

    def copy(self) -> str:
        self.send(self.stage())
        backup: str = store_copy.replace_store_by_copy(str(self.store), self.files, "a")
        return backup

    def assert_secret_is_unchanged(self) -> None:
        assert self.state_of_secret() == self.before


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with directory_for_all_accounts() as directory:
        monkeypatch.setattr(resync_plans, "DIRECTORY", str(directory / "kept" / "resync"))
        monkeypatch.setattr(store_copy, "CHUNK", 700)
        yield directory


@pytest.fixture
def host(common: Path) -> Iterator[Host]:
    """Yield a host as deployed: the account of the broker owns the directory of the store."""
    directories = Host(common, create_owned_directory(common / "data"))
    yield directories
    directories.assert_secret_is_unchanged()


@pytest.fixture
def host_of_root(common: Path) -> Iterator[Host]:
    """Yield a host on which root owns the directory of the store, and the account owns the store."""
    (common / "data").mkdir()
    directories = Host(common, common / "data")
    yield directories
    directories.assert_secret_is_unchanged()


def assert_copied(host: Host, backup: str) -> None:
    assert store_copy.store_manifest(str(host.store)) == host.files
    assert "old" in (Path(backup) / "db-1.log").read_text("latin-1")
    for path in (host.store, *host.store.rglob("*")):
        assert (path.stat().st_uid, path.stat().st_gid) == (BROKER, BROKER), path
    kept = host.common / "kept"
    assert kept.stat().st_mode & 0o777 == (kept / "resync").stat().st_mode & 0o777 == 0o700
    assert os.listdir(kept / "resync") == []


def test_store_in_directory_of_account_is_replaced_as_account(host: Host) -> None:
    backup = host.copy()
    assert_copied(host, backup)
    assert Path(f"{backup}.json").stat().st_uid == BROKER


def test_store_in_directory_of_root_is_replaced_and_still_belongs_to_account(host_of_root: Host) -> None:
    host = host_of_root
    for other in ("0" * 16, "1" * 16):
        create_owned_directory(host.parent / f"kahadb.resync-{other}")
    backup = host.copy()
    assert_copied(host, backup)
    assert Path(f"{backup}.json").stat().st_uid == 0
    assert sorted(os.listdir(host.parent)) == sorted(["kahadb", Path(backup).name, f"{Path(backup).name}.json"])


PLANS: dict[str, Callable[[Host], dict[str, str]]] = {
    "backup in directory of root": lambda host: {
        "staging": str(host.staging),
        "backup": str(host.secret / "moved"),
        "from": "a",
    },
    "staging directory of root": lambda host: {"staging": str(host.secret), "backup": "", "from": "a"},
    "relative names": lambda host: {"staging": "../secret", "backup": "kahadb.before-x", "from": "a"},
}


@some_situations(1)
@pytest.mark.parametrize("case", PLANS)
def test_planted_plan_of_store_copy_does_not_move_directories_of_root(host: Host, case: str) -> None:
    path = Path(f"{host.store}.resync.json")
    call_as(BROKER, lambda: host.staging.mkdir(), lambda: path.write_text(json.dumps(PLANS[case](host))))
    assert not store_copy.is_replacement_unfinished(str(host.store))
    assert "is not used, because an account other than root could have changed it" in store_copy.replacement_obstacle(
        str(host.store)
    )
    for operation in (host.stage, lambda: store_copy.finish_replacement_and_return_backup(str(host.store)), host.copy):
        with pytest.raises(NodeError, match=r"is not used, .* does not exist, rename the newest"):
            operation()
    assert host.store.is_dir()
    path.unlink()
    assert_copied(host, host.copy())


def test_store_copy_ignores_plan_that_account_planted_in_current_format(host: Host) -> None:
    plan = resync_plans.StoreReplacementPlan(
        str(host.store), host.staging.name, "kahadb.before-20260101T000000Z", "", "a"
    )
    call_as(BROKER, lambda: (host.parent / f"{'0' * 24}.json").write_text(json.dumps(plan.__dict__)))
    assert store_copy.finish_replacement_and_return_backup(str(host.store)) == ""
    assert host.store.is_dir()


@some_situations(1)
@pytest.mark.parametrize("owner", [0, BROKER])
def test_store_copy_is_refused_if_other_accounts_can_write_plan_directory(host: Host, owner: int) -> None:
    plans = create_owned_directory(host.common / "kept", owner, 0o777)
    with pytest.raises(NodeError, match="accounts other than root can write to"):
        host.copy()
    assert host.store.is_dir()
    os.chown(plans, 0, 0)
    plans.chmod(0o700)
    (plans / "resync").symlink_to(host.parent)
    with pytest.raises(NodeError, match="accounts other than root can write to"):
        host.copy()


def test_store_copy_refuses_plan_of_root_with_unexpected_paths(host: Host) -> None:
    host.send(host.stage())
    account = store_copy.locate_store_and_writing_accounts(str(host.store)).owner
    for staging, backup in (
        ("../secret", ""),
        (host.staging.name, "../../x"),
        (host.staging.name, "kahadb.before-20260101T000000Z/../x"),
    ):
        resync_plans.write_store_replacement_plan(
            resync_plans.StoreReplacementPlan(str(host.store), staging, backup, "", "a"), account
        )
        with pytest.raises(NodeError, match=r"cannot be read\. On this host, if .*, rename the newest .*before-"):
            store_copy.finish_replacement_and_return_backup(str(host.store))


def test_resumed_store_copy_requires_backup_named_in_plan(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run was killed between the renames, and the account replaced the backup."""
    host.send(host.stage())
    monkeypatch.setattr(resync_plans, "remove_store_replacement_plan", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        store_copy.replace_store_by_copy(str(host.store), host.files, "a")
    monkeypatch.undo()
    monkeypatch.setattr(resync_plans, "DIRECTORY", str(host.common / "kept" / "resync"))
    backup = next(path for path in host.parent.glob("kahadb.before-*") if path.is_dir())
    assert store_copy.is_replacement_unfinished(str(host.store))
    call_as(BROKER, lambda: backup.rename(f"{backup}-away"), lambda: backup.symlink_to(host.secret))
    with pytest.raises(NodeError, match=r"another process .*moved"):
        store_copy.finish_replacement_and_return_backup(str(host.store))
    call_as(BROKER, lambda: backup.unlink(), lambda: backup.mkdir())
    with pytest.raises(NodeError, match="differs from the old store"):
        store_copy.finish_replacement_and_return_backup(str(host.store))
    call_as(BROKER, lambda: backup.rmdir(), lambda: Path(f"{backup}-away").rename(backup))
    assert store_copy.finish_replacement_and_return_backup(str(host.store)) == str(backup)
    assert_copied(host, str(backup))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_store_copy_does_not_follow_links_planted_as_staging_directories(host: Host) -> None:
    def plant() -> None:
        host.staging.symlink_to(host.secret)
        Path(f"{host.store}.resync-{'0' * 16}").symlink_to(host.secret)

    call_as(BROKER, plant)
    assert_copied(host, host.copy())


def test_staging_directory_swapped_with_link_does_not_change_files_of_root(host: Host) -> None:
    away = Path(f"{host.staging}-away")

    def swap() -> None:
        with contextlib.suppress(OSError):
            host.staging.rename(away)
        with contextlib.suppress(OSError):
            host.staging.symlink_to(host.secret)
        with contextlib.suppress(OSError):
            host.staging.unlink()
        with contextlib.suppress(OSError):
            away.rename(host.staging)

    _copy_during_attack(2, host, swap)


def test_store_copy_refuses_subdirectory_replaced_by_link(host: Host) -> None:
    missing = host.stage()
    below = host.staging / "below"
    call_as(BROKER, lambda: below.rename(f"{below}-away"), lambda: below.symlink_to(host.secret))
    with pytest.raises(UntrustedPathError, match="is a link, not a directory"):
        host.send(missing)
    with pytest.raises(NodeError):
        host.stage()


def test_subdirectory_swapped_with_link_does_not_change_files_of_root(host: Host) -> None:
    below = host.staging / "below"

    def swap() -> None:
        with contextlib.suppress(OSError):
            below.rename(f"{below}-away")
        with contextlib.suppress(OSError):
            below.symlink_to(host.secret)
        with contextlib.suppress(OSError):
            below.unlink()
        with contextlib.suppress(OSError):
            Path(f"{below}-away").rename(below)

    _copy_during_attack(2, host, swap)


def test_part_file_swapped_with_link_does_not_change_files_of_root(host: Host) -> None:
    part_file = host.staging / "db-1.log.part"

    def swap() -> None:
        with contextlib.suppress(OSError):
            part_file.rename(f"{part_file}-away")
        with contextlib.suppress(OSError):
            part_file.symlink_to(host.secret / "file")
        with contextlib.suppress(OSError):
            part_file.unlink()
        with contextlib.suppress(OSError):
            Path(f"{part_file}-away").rename(part_file)

    _copy_during_attack(2, host, swap)


def _copy_during_attack(seconds: float, host: Host, swap: Callable[[], None]) -> None:
    """Repeat the copy while the account swaps files; the copy may fail, but must not change files of root."""
    deadline, attempts = time.monotonic() + seconds, 0
    with repeat_as(BROKER, swap):
        while attempts < 2 or time.monotonic() < deadline:
            with contextlib.suppress(NodeError, OSError):
                host.send(host.stage())
            attempts += 1
    host.assert_secret_is_unchanged()


def test_part_file_planted_as_hard_link_receives_no_content(host: Host) -> None:
    """Without fs.protected_hardlinks, the account could link a file of another account."""
    host.stage()
    spy, part_file = host.parent / "spy", host.staging / "db-1.log.part"

    def plant() -> None:
        spy.touch(0o666)
        part_file.unlink(missing_ok=True)
        os.link(spy, part_file)

    call_as(BROKER, plant)
    host.send(host.stage())
    assert spy.read_bytes() == b""
    call_as(BROKER, plant)
    with contextlib.suppress(NodeError, FileExistsError):
        host.send({"db-1.log": 0})
    assert spy.read_bytes() == b""


def test_planted_backup_names_are_skipped(host: Host) -> None:
    now = time.time()
    stamps = [time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now + seconds)) for seconds in range(30)]

    def plant() -> None:
        for stamp in stamps:
            Path(f"{host.store}.before-{stamp}").symlink_to(host.secret)
            Path(f"{host.store}.before-{stamp}-1.json").symlink_to(host.secret / "made")

    call_as(BROKER, plant)
    backup = host.copy()
    assert backup.endswith("Z-2")
    assert_copied(host, backup)


@pytest.mark.parametrize("name", ["kahadb", "data"])
def test_link_in_path_of_store_is_refused(host: Host, name: str) -> None:
    path = {"kahadb": host.store, "data": host.parent}[name]
    os.chown(host.common, BROKER, BROKER)
    try:
        call_as(BROKER, lambda: path.rename(f"{path}-away"), lambda: path.symlink_to(host.secret))
    finally:
        os.chown(host.common, 0, 0)
    for act in (
        host.stage,
        lambda: store_copy.store_manifest(str(host.store)),
        lambda: store_copy.check_store_not_locked(str(host.store)),
    ):
        with pytest.raises(UntrustedPathError, match=f"{path} is a symbolic link that belongs to account 61616"):
            act()
    assert f"{path} is a symbolic link" in store_copy.replacement_obstacle(str(host.store))


@some_situations(2)
@pytest.mark.parametrize("name", ["db-2.log", "lock", "sub/db"])
@pytest.mark.parametrize("kind", ["a FIFO", "a link"])
def test_planted_file_of_store_does_not_block_reads(host: Host, name: str, kind: str) -> None:
    def plant() -> None:
        path = host.store / name
        path.parent.mkdir(exist_ok=True)
        if kind == "a FIFO":
            os.mkfifo(path)
        else:
            path.symlink_to(host.secret / "db-1.log")

    def read_everything() -> None:
        with contextlib.suppress(NodeError):
            store_copy.check_store_not_locked(str(host.store))
        if name != "lock":
            with pytest.raises(NodeError, match="neither a file nor a directory"):
                store_copy.store_manifest(str(host.store))
        if name != "sub/db":
            with pytest.raises(UntrustedPathError, match=f"{name} is {kind}, not a regular file"):
                store_info.gather_store_and_run_facts(str(host.parent), str(host.store), read_journal=True)

    call_as(BROKER, plant)
    within(PATIENCE, read_everything)


def test_device_in_store_is_refused(host: Host) -> None:
    os.mknod(host.store / "db-2.log", 0o666 | 0o020000, os.makedev(1, 5))
    with pytest.raises(UntrustedPathError, match=r"db-2\.log is a device"):
        store_info.gather_store_and_run_facts(str(host.parent), str(host.store), read_journal=True)


def test_hard_link_in_store_to_file_of_root_is_not_read(host: Host) -> None:
    # Without fs.protected_hardlinks, the account could create this link.
    os.link(host.secret / "db-1.log", host.store / "db-2.log")
    store = str(host.store)
    with pytest.raises(PermissionError):
        store_copy.store_manifest(store)
    with pytest.raises(PermissionError):
        store_info.gather_store_and_run_facts(str(host.parent), store, read_journal=True)
    with pytest.raises(PermissionError):
        store_copy.read_packed_chunk(store, "db-2.log", 0, len(SECRET))


def test_chunk_of_store_file_that_unpacks_above_limit_is_refused(host: Host) -> None:
    missing = host.stage()
    with pytest.raises(NodeError, match="the decompressed data has more than 700 bytes"):
        store_copy.append_compressed_chunk(
            str(host.store), host.files, next(iter(missing)), 0, store_copy.pack_chunk(bytes(64 << 20))
        )


def test_set_uid_bits_of_source_host_are_not_copied(host: Host) -> None:
    for manifest_entry in host.files.values():
        manifest_entry["mode"] |= 0o6000
    host.send(host.stage())
    assert all(not path.stat().st_mode & 0o6000 for path in host.staging.rglob("*"))


def test_root_is_refused_as_account_if_directory_belongs_to_other_account(host: Host) -> None:
    with pytest.raises(NodeError, match="because a directory above it belongs to account"):
        store_copy.prepare_staging_and_list_missing_files(str(host.store), host.files, "root")
