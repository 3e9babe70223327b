"""Atomic installation of a configuration: an interruption at any point leaves a complete version."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files import disk, new_files
from activemq_fleet.node.install.configuration_install import (
    InstallationOutcome,
    Owners,
    install_configuration,
    restore_installed_version,
)
from activemq_fleet.node.process import proc as process

Tree = Mapping[str, ConfigurationFile]
OLD: Tree = {
    "conf/activemq.xml": ConfigurationFile(b"<beans>old</beans>\n", 0o644),
    "conf/credentials.properties": ConfigurationFile(
        b"password=old\n", 0o640, "password=@activemq_network_password@\n"
    ),
    "bin/env": ConfigurationFile(b"HEAP=1\n", 0o644),
}
NEW: Tree = {
    **OLD,
    "conf/activemq.xml": ConfigurationFile(b"<beans>new</beans>\n", 0o644),
    "systemd/activemq.service": ConfigurationFile(b"[Unit]\n", 0o644),
}


def install(base: Path, tree: Tree, **options: Any) -> InstallationOutcome:
    outcome: InstallationOutcome = install_configuration(str(base), tree, Owners(), **options)
    return outcome


def active_files(base: Path) -> dict[str, bytes]:
    """Return the files that a broker reads when it starts."""
    root = (base / "current").resolve(strict=True)
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {path: content for path, content in files.items() if not path.startswith(".fleet-")}


def contents_of(tree: Tree) -> dict[str, bytes]:
    return {path: file.content for path, file in tree.items()}


def temporary_files(base: Path) -> list[str]:
    return sorted(
        str(path.relative_to(base))
        for path in (*base.glob("*.new"), *base.glob(".*.new"), *(base / "versions").glob(".*"))
    )


class PowerCut(BaseException):
    """Power failure of the machine: no later code runs, neither ``finally`` nor ``except``."""


class CutDisk:
    """Replacement of the module ``os`` that makes N changes and raises PowerCut at the next change."""

    CHANGES = frozenset({"mkdir", "open", "write", "fsync", "fchown", "fchmod", "rename", "symlink", "unlink"})

    def __init__(self, allowed: int | None) -> None:
        self.allowed = allowed
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.limited(name, real) if name in self.CHANGES else real

    def limited(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **directories: Any) -> Any:
            self.calls.append((name, arguments))
            if self.allowed is not None and len(self.calls) > self.allowed:
                if name == "write" and len(self.calls) == self.allowed + 1:
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise PowerCut
            return real(*arguments, **directories)

        return call

    def rmtree(self, path: str) -> None:
        """Remove each entry separately, so that a power cut can occur between two entries."""
        for directory, _, files in os.walk(path, topdown=False):
            for file in files:
                self.limited("unlink", os.unlink)(os.path.join(directory, file))
            self.limited("rmdir", os.rmdir)(directory)


@pytest.fixture
def cut_disk_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int | None], CutDisk]]:
    def after(allowed: int | None) -> CutDisk:
        cut_disk = CutDisk(allowed)
        monkeypatch.setattr(disk, "os", cut_disk)
        monkeypatch.setattr(new_files, "os", cut_disk)
        monkeypatch.setattr(shutil, "rmtree", cut_disk.rmtree)
        return cut_disk

    real = shutil.rmtree
    yield after
    shutil.rmtree = real


def record_changes(
    cut_disk_after: Callable[[int | None], CutDisk], action: Callable[[], object]
) -> list[tuple[str, tuple[Any, ...]]]:
    cut_disk = cut_disk_after(None)
    action()
    return cut_disk.calls


def test_configuration_install_interrupted_at_any_change_leaves_old_or_new_version(
    tmp_path: Path, cut_disk_after: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "template"
    install(template, OLD)
    total = len(
        record_changes(
            cut_disk_after, lambda: install(shutil.copytree(template, tmp_path / "whole", symlinks=True), NEW)
        )
    )
    monkeypatch.undo()
    assert total > 30
    for step in range(total):
        base = tmp_path / f"cut-{step}"
        shutil.copytree(template, base, symlinks=True)
        cut_disk_after(step)
        with pytest.raises(PowerCut):
            install(base, NEW)
        monkeypatch.undo()
        assert active_files(base) in (contents_of(OLD), contents_of(NEW)), f"after {step} changes"
        install(base, NEW)
        assert active_files(base) == contents_of(NEW), f"after {step} changes"
        assert temporary_files(base) == [], f"after {step} changes"
        assert not install(base, NEW).changed, f"after {step} changes"


def test_interrupted_first_configuration_install_leaves_no_or_complete_version(
    tmp_path: Path, cut_disk_after: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    total = len(record_changes(cut_disk_after, lambda: install(tmp_path / "whole", NEW)))
    monkeypatch.undo()
    for step in range(total):
        base = tmp_path / f"cut-{step}"
        cut_disk_after(step)
        with pytest.raises(PowerCut):
            install(base, NEW)
        monkeypatch.undo()
        if os.path.lexists(base / "current"):
            assert active_files(base) == contents_of(NEW), f"after {step} changes"
        install(base, NEW)
        assert active_files(base) == contents_of(NEW), f"after {step} changes"
        assert temporary_files(base) == [], f"after {step} changes"


def test_interrupted_removal_of_old_configuration_leaves_complete_versions(
    tmp_path: Path, cut_disk_after: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "template"
    for number in range(4):
        install(
            template, {"conf/a": ConfigurationFile(b"%d" % number, 0o644), "conf/b": ConfigurationFile(b"b", 0o644)}
        )
    total = len(
        record_changes(
            cut_disk_after, lambda: install(shutil.copytree(template, tmp_path / "w", symlinks=True), NEW, keep=1)
        )
    )
    monkeypatch.undo()
    for step in range(total):
        base = tmp_path / f"cut-{step}"
        shutil.copytree(template, base, symlinks=True)
        cut_disk_after(step)
        with pytest.raises(PowerCut):
            install(base, NEW, keep=1)
        monkeypatch.undo()
        for name in ConfigurationPaths(str(base)).version_names():
            manifest = json.loads((base / "versions" / name / ".fleet-manifest.json").read_text())
            assert all((base / "versions" / name / path).is_file() for path in manifest), f"after {step} changes"


def test_configuration_install_interrupted_after_link_change_keeps_restart_reasons(
    tmp_path: Path, cut_disk_after: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "template"
    install(template, OLD)
    calls = record_changes(
        cut_disk_after, lambda: install(shutil.copytree(template, tmp_path / "w", symlinks=True), NEW)
    )
    monkeypatch.undo()
    link_change = next(n for n, (name, args) in enumerate(calls) if name == "rename" and args[1].endswith("/current"))
    for step in range(link_change + 1, len(calls)):
        base = tmp_path / f"cut-{step}"
        shutil.copytree(template, base, symlinks=True)
        cut_disk_after(step)
        with pytest.raises(PowerCut):
            install(base, NEW)
        monkeypatch.undo()
        second_outcome = install(base, NEW)
        assert not second_outcome.changed
        assert "conf/activemq.xml changed" in second_outcome.reasons


def test_configuration_files_are_synced_before_version_directory_is_renamed(
    tmp_path: Path, cut_disk_after: Callable[[int | None], CutDisk]
) -> None:
    calls = record_changes(cut_disk_after, lambda: install(tmp_path, NEW))
    rename_index = next(n for n, (name, args) in enumerate(calls) if name == "rename" and "/.new-" in args[0])
    earlier_calls = [name for name, _ in calls[:rename_index]]
    assert earlier_calls.count("fsync") >= earlier_calls.count("write") + len({"", "conf", "bin", "systemd"})
    last_write = max(n for n, name in enumerate(earlier_calls) if name == "write")
    assert "fsync" in earlier_calls[last_write:]


def test_configuration_files_are_created_exclusively_with_mode_0600(
    tmp_path: Path, cut_disk_after: Callable[[int | None], CutDisk]
) -> None:
    calls = record_changes(cut_disk_after, lambda: install(tmp_path, NEW))
    open_calls = [args for name, args in calls if name == "open" and args[1] & os.O_CREAT]
    assert open_calls
    assert all(args[1] & os.O_EXCL and args[1] & os.O_NOFOLLOW and args[2] == 0o600 for args in open_calls)


def test_second_install_of_same_configuration_changes_nothing(tmp_path: Path) -> None:
    first_outcome = install(tmp_path, OLD)
    second_outcome = install(tmp_path, OLD)
    assert first_outcome.changed
    assert (second_outcome.changed, second_outcome.version, second_outcome.changed_files, second_outcome.diff) == (
        False,
        first_outcome.version,
        (),
        (),
    )


def test_name_of_configuration_version_depends_only_on_its_files(tmp_path: Path) -> None:
    name = install(tmp_path / "one", OLD).version
    assert name == install(tmp_path / "two", dict(sorted(OLD.items(), reverse=True))).version
    assert len(name) == 12
    assert os.readlink(tmp_path / "one" / "current") == f"versions/{name}"


def test_configuration_with_different_file_mode_is_another_version(tmp_path: Path) -> None:
    first_outcome = install(tmp_path, OLD)
    second_outcome = install(tmp_path, {**OLD, "bin/env": ConfigurationFile(b"HEAP=1\n", 0o640)})
    assert second_outcome.version != first_outcome.version
    assert second_outcome.diff == ({"prepared": "bin/env: mode 0644 -> 0640\n"},)


def test_manifest_contains_hash_of_every_deployed_file(tmp_path: Path) -> None:
    install(tmp_path, OLD)
    manifest = json.loads((tmp_path / "current" / ".fleet-manifest.json").read_text())
    assert manifest == {path: hashlib.sha256(file.content).hexdigest() for path, file in OLD.items()}


def test_modes_of_installed_configuration_files_do_not_depend_on_umask(tmp_path: Path) -> None:
    previous_umask = os.umask(0o077)
    try:
        install(tmp_path, OLD)
    finally:
        os.umask(previous_umask)
    modes = {path: (tmp_path / "current" / path).stat().st_mode & 0o777 for path in OLD}
    assert modes == {path: file.mode for path, file in OLD.items()}
    assert (tmp_path / "versions").stat().st_mode & 0o777 == 0o750


def test_configuration_install_in_check_mode_writes_nothing_and_has_same_outcome(tmp_path: Path) -> None:
    base = tmp_path / "base"
    predicted_outcome = install(base, OLD, check=True)
    assert not base.exists()
    assert install(base, OLD) == predicted_outcome
    expected = install(base, NEW, check=True)
    assert active_files(base) == contents_of(OLD)
    assert install(base, NEW) == expected


def test_option_keep_limits_old_configuration_versions_except_last_that_ran(tmp_path: Path) -> None:
    names = [install(tmp_path, {"conf/a": ConfigurationFile(b"%d" % n, 0o644)}, keep=2).version for n in range(6)]
    last_that_ran = names[0]
    assert set(ConfigurationPaths(str(tmp_path)).version_names()) == {last_that_ran, *names[-2:]}


def test_previous_configuration_version_is_kept_regardless_of_age(tmp_path: Path) -> None:
    oldest = install(tmp_path, OLD).version
    for number in range(3):
        install(tmp_path, {"conf/a": ConfigurationFile(b"%d" % number, 0o644)})
    restore_installed_version(str(tmp_path), oldest)
    outcome = install(tmp_path, NEW, keep=1)
    assert outcome.previous == oldest
    assert {outcome.version, oldest} <= set(ConfigurationPaths(str(tmp_path)).version_names())


@pytest.mark.parametrize("change", ["changed", "removed", "added", "mode"])
def test_change_by_hand_of_deployed_file_is_reported_and_undone(tmp_path: Path, change: str) -> None:
    first_outcome = install(tmp_path, OLD)
    target = tmp_path / "current" / "conf" / "activemq.xml"
    edits: dict[str, tuple[Callable[[], object], str]] = {
        "changed": (lambda: target.write_text("<beans>mine</beans>\n"), "conf/activemq.xml was changed by hand"),
        "removed": (target.unlink, "conf/activemq.xml was removed by hand"),
        "added": (target.with_name("more.xml").touch, "conf/more.xml was added by hand"),
        "mode": (lambda: target.chmod(0o666), "conf/activemq.xml has a different owner or mode than deployed"),
    }
    edit, message = edits[change]
    edit()
    outcome = install(tmp_path, OLD)
    assert outcome.changed
    assert outcome.drift == (message,)
    changed_file = message.partition(" ")[0]
    assert outcome.reasons == (() if change == "mode" else (f"{changed_file} changed",))
    assert active_files(tmp_path) == contents_of(OLD)
    assert outcome.version == f"{first_outcome.version}-1"
    assert outcome.previous == first_outcome.version
    assert not install(tmp_path, OLD).changed


def test_added_file_whose_name_is_not_utf_8_is_reported_and_removed(tmp_path: Path) -> None:
    install(tmp_path, OLD)
    Path(os.fsdecode(bytes(tmp_path / "current/conf") + b"/caf\xe9.xml")).touch()
    outcome = install(tmp_path, OLD)
    assert outcome.drift == (r"conf/caf\udce9.xml was added by hand",)
    assert outcome.reasons == (r"conf/caf\udce9.xml changed",)
    json.dumps(dataclasses.asdict(outcome), ensure_ascii=False).encode()
    assert active_files(tmp_path) == contents_of(OLD)


def test_deployed_file_replaced_by_symlink_is_drift(tmp_path: Path) -> None:
    install(tmp_path, OLD)
    target = tmp_path / "current" / "conf" / "activemq.xml"
    target.rename(tmp_path / "elsewhere.xml")
    target.symlink_to(tmp_path / "elsewhere.xml")
    assert install(tmp_path, OLD).drift == ("conf/activemq.xml was removed by hand",)


def test_configuration_path_current_that_is_no_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    with pytest.raises(NodeError, match="current is not a symbolic link to a configuration version"):
        install(tmp_path, OLD)
    assert temporary_files(tmp_path) == []


def test_configuration_symlink_that_leads_outside_versions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("/etc")
    with pytest.raises(NodeError, match="leads to /etc, which is not a configuration version"):
        install(tmp_path, OLD)


def test_symlink_to_removed_configuration_version_is_repaired(tmp_path: Path) -> None:
    first_outcome = install(tmp_path, OLD)
    shutil.rmtree(tmp_path / "versions" / first_outcome.version)
    assert install(tmp_path, OLD).changed
    assert active_files(tmp_path) == contents_of(OLD)


def test_old_configuration_version_can_be_restored(tmp_path: Path) -> None:
    old_version = install(tmp_path, OLD).version
    new_version = install(tmp_path, NEW).version
    outcome = restore_installed_version(str(tmp_path), old_version)
    assert (outcome.changed, outcome.version, outcome.previous) == (True, old_version, new_version)
    assert active_files(tmp_path) == contents_of(OLD)
    assert not restore_installed_version(str(tmp_path), old_version).changed


def test_restored_configuration_requires_restart_when_broker_read_later_version(tmp_path: Path) -> None:
    old_version = install(tmp_path, OLD).version
    install(tmp_path, NEW)
    os.unlink(ConfigurationPaths(str(tmp_path)).pending)  # as after a restart
    assert restore_installed_version(str(tmp_path), old_version).reasons == (f"version {old_version} was restored",)


@pytest.mark.parametrize("name", ["000000000000", "../versions", ".", "", ".new-x", "/etc"])
def test_only_complete_configuration_version_can_be_restored(tmp_path: Path, name: str) -> None:
    install(tmp_path, OLD)
    with pytest.raises(NodeError, match="contains no configuration version"):
        restore_installed_version(str(tmp_path), name)


def test_full_disk_leaves_old_configuration_version_active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, OLD)

    def raise_full_disk(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", raise_full_disk)
    with pytest.raises(OSError, match="No space left"):
        install(tmp_path, NEW)
    monkeypatch.undo()
    assert active_files(tmp_path) == contents_of(OLD)
    install(tmp_path, NEW)
    assert temporary_files(tmp_path) == []


def test_log4j2_change_requires_no_restart_with_monitor_interval(tmp_path: Path) -> None:
    watched: Tree = {**OLD, "conf/log4j2.properties": ConfigurationFile(b"monitorInterval = 5\nlevel = INFO\n", 0o644)}
    watched_debug: Tree = {
        **OLD,
        "conf/log4j2.properties": ConfigurationFile(b"monitorInterval = 5\nlevel = DEBUG\n", 0o644),
    }
    unwatched: Tree = {**OLD, "conf/log4j2.properties": ConfigurationFile(b"level = INFO\n", 0o644)}
    install(tmp_path, watched)
    assert install(tmp_path, watched_debug).reasons == ()
    assert install(tmp_path, unwatched).reasons == ("conf/log4j2.properties changed",)


def test_first_configuration_install_requires_no_restart(tmp_path: Path) -> None:
    assert install(tmp_path, OLD).reasons == ()


def test_restart_is_pending_until_broker_starts_after_change(tmp_path: Path) -> None:
    from activemq_fleet.node.config import pending_restart

    first_outcome = install(tmp_path, OLD)
    install(tmp_path, NEW)
    restart = pending_restart.read_pending_restart(ConfigurationPaths(str(tmp_path)))
    assert restart is not None
    assert restart.previous == first_outcome.version
    now = process.seconds_since_boot()
    assert not restart.is_restart_no_longer_needed(process.Process(1, now - 60, "S", ()))
    assert restart.is_restart_no_longer_needed(process.Process(1, now + 60, "S", ()))
    assert restart.is_restart_no_longer_needed(None)


def test_restart_record_is_readable_and_removed_after_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog reads the record with the account of the broker."""
    from activemq_fleet.node.config import pending_restart

    record = Path(ConfigurationPaths(str(tmp_path)).pending)
    install(tmp_path, OLD)
    install(tmp_path, NEW)
    assert record.stat().st_mode & 0o777 == 0o644
    started = process.Process(1, process.seconds_since_boot() + 60, "S", ())
    monkeypatch.setattr(pending_restart, "find_broker_process", lambda _base: started)
    assert install(tmp_path, NEW, check=True).reasons == ()
    assert record.exists()
    assert install(tmp_path, NEW).reasons == ()
    assert not record.exists()


def test_return_to_configuration_that_broker_runs_requires_no_restart(tmp_path: Path) -> None:
    first_outcome = install(tmp_path, OLD)
    install(tmp_path, NEW)
    assert restore_installed_version(str(tmp_path), first_outcome.version).reasons == ()
    assert not install(tmp_path, OLD).reasons
    install(tmp_path, NEW)
    assert install(tmp_path, OLD, check=True).reasons == ()
    assert install(tmp_path, OLD).reasons == ()
    assert not os.path.exists(ConfigurationPaths(str(tmp_path)).pending)


def test_two_changes_before_restart_keep_configuration_that_broker_ran_last(tmp_path: Path) -> None:
    first_outcome = install(tmp_path, OLD)
    install(tmp_path, NEW)
    install(tmp_path, {**NEW, "bin/env": ConfigurationFile(b"HEAP=2\n", 0o644)})
    outcome = install(tmp_path, {**NEW, "bin/env": ConfigurationFile(b"HEAP=2\n", 0o644)})
    assert outcome.previous == first_outcome.version
    assert outcome.reasons == ("conf/activemq.xml changed", "systemd/activemq.service changed", "bin/env changed")
