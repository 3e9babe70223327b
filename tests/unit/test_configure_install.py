"""An installation is whole or has not happened, whatever ends it."""

from __future__ import annotations

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


def put(base: Path, tree: Tree, **options: Any) -> InstallationOutcome:
    outcome: InstallationOutcome = install_configuration(str(base), tree, Owners(), **options)
    return outcome


def in_force(base: Path) -> dict[str, bytes]:
    """What a broker that starts now would read."""
    root = (base / "current").resolve(strict=True)
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {path: content for path, content in found.items() if not path.startswith(".fleet-")}


def contents(tree: Tree) -> dict[str, bytes]:
    return {path: file.content for path, file in tree.items()}


def litter(base: Path) -> list[str]:
    return sorted(
        str(path.relative_to(base))
        for path in (*base.glob("*.new"), *base.glob(".*.new"), *(base / "versions").glob(".*"))
    )


class PowerCut(BaseException):
    """The machine is gone: nothing after it runs, no ``finally`` and no ``except`` either."""


class CutDisk:
    """Stands for the module ``os``: carries out N changes, and none after that."""

    CHANGES = frozenset({"mkdir", "open", "write", "fsync", "fchown", "fchmod", "rename", "symlink", "unlink"})

    def __init__(self, allowed: int | None) -> None:
        self.allowed = allowed
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.guarded(name, real) if name in self.CHANGES else real

    def guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **directories: Any) -> Any:
            self.calls.append((name, arguments))
            if self.allowed is not None and len(self.calls) > self.allowed:
                if name == "write" and len(self.calls) == self.allowed + 1:
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise PowerCut
            return real(*arguments, **directories)

        return call

    def rmtree(self, path: str) -> None:
        """Removes one entry after the other, so that it can be cut between them."""
        for directory, _, files in os.walk(path, topdown=False):
            for file in files:
                self.guarded("unlink", os.unlink)(os.path.join(directory, file))
            self.guarded("rmdir", os.rmdir)(directory)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int | None], CutDisk]]:
    def after(allowed: int | None) -> CutDisk:
        double = CutDisk(allowed)
        monkeypatch.setattr(disk, "os", double)
        monkeypatch.setattr(new_files, "os", double)
        monkeypatch.setattr(shutil, "rmtree", double.rmtree)
        return double

    real = shutil.rmtree
    yield after
    shutil.rmtree = real


def changes_of(cut: Callable[[int | None], CutDisk], action: Callable[[], object]) -> list[tuple[str, tuple[Any, ...]]]:
    double = cut(None)
    action()
    return double.calls


def test_installation_cut_at_any_change_leaves_old_or_new_version_in_force(
    tmp_path: Path, cut: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "template"
    put(template, OLD)
    total = len(changes_of(cut, lambda: put(shutil.copytree(template, tmp_path / "whole", symlinks=True), NEW)))
    monkeypatch.undo()
    assert total > 30
    for step in range(total):
        base = tmp_path / f"cut-{step}"
        shutil.copytree(template, base, symlinks=True)
        cut(step)
        with pytest.raises(PowerCut):
            put(base, NEW)
        monkeypatch.undo()
        assert in_force(base) in (contents(OLD), contents(NEW)), f"after {step} changes"
        put(base, NEW)
        assert in_force(base) == contents(NEW), f"after {step} changes"
        assert litter(base) == [], f"after {step} changes"
        assert not put(base, NEW).changed, f"after {step} changes"


def test_a_first_installation_cut_at_any_change_leaves_no_link_or_a_whole_version(
    tmp_path: Path, cut: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    total = len(changes_of(cut, lambda: put(tmp_path / "whole", NEW)))
    monkeypatch.undo()
    for step in range(total):
        base = tmp_path / f"cut-{step}"
        cut(step)
        with pytest.raises(PowerCut):
            put(base, NEW)
        monkeypatch.undo()
        if os.path.lexists(base / "current"):
            assert in_force(base) == contents(NEW), f"after {step} changes"
        put(base, NEW)
        assert in_force(base) == contents(NEW), f"after {step} changes"
        assert litter(base) == [], f"after {step} changes"


def test_a_removal_of_old_versions_cut_at_any_change_never_leaves_half_a_version(
    tmp_path: Path, cut: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "template"
    for number in range(4):
        put(template, {"conf/a": ConfigurationFile(b"%d" % number, 0o644), "conf/b": ConfigurationFile(b"b", 0o644)})
    total = len(changes_of(cut, lambda: put(shutil.copytree(template, tmp_path / "w", symlinks=True), NEW, keep=1)))
    monkeypatch.undo()
    for step in range(total):
        base = tmp_path / f"cut-{step}"
        shutil.copytree(template, base, symlinks=True)
        cut(step)
        with pytest.raises(PowerCut):
            put(base, NEW, keep=1)
        monkeypatch.undo()
        for name in ConfigurationPaths(str(base)).version_names():
            manifest = json.loads((base / "versions" / name / ".fleet-manifest.json").read_text())
            assert all((base / "versions" / name / path).is_file() for path in manifest), f"after {step} changes"


def test_an_installation_cut_before_the_link_moves_still_owes_the_restart_afterwards(
    tmp_path: Path, cut: Callable[[int | None], CutDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "template"
    put(template, OLD)
    calls = changes_of(cut, lambda: put(shutil.copytree(template, tmp_path / "w", symlinks=True), NEW))
    monkeypatch.undo()
    moved = next(n for n, (name, args) in enumerate(calls) if name == "rename" and args[1].endswith("/current"))
    for step in range(moved + 1, len(calls)):
        base = tmp_path / f"cut-{step}"
        shutil.copytree(template, base, symlinks=True)
        cut(step)
        with pytest.raises(PowerCut):
            put(base, NEW)
        monkeypatch.undo()
        again = put(base, NEW)
        assert not again.changed
        assert "conf/activemq.xml changed" in again.reasons


def test_every_file_is_on_the_disk_before_its_version_gets_its_name(
    tmp_path: Path, cut: Callable[[int | None], CutDisk]
) -> None:
    calls = changes_of(cut, lambda: put(tmp_path, NEW))
    named = next(n for n, (name, args) in enumerate(calls) if name == "rename" and "/.new-" in args[0])
    before = [name for name, _ in calls[:named]]
    assert before.count("fsync") >= before.count("write") + len({"", "conf", "bin", "systemd"})
    last_write = max(n for n, name in enumerate(before) if name == "write")
    assert "fsync" in before[last_write:]


def test_a_file_has_its_mode_before_it_has_its_content(tmp_path: Path, cut: Callable[[int | None], CutDisk]) -> None:
    calls = changes_of(cut, lambda: put(tmp_path, NEW))
    opened = [args for name, args in calls if name == "open" and args[1] & os.O_CREAT]
    assert opened
    assert all(args[1] & os.O_EXCL and args[1] & os.O_NOFOLLOW and args[2] == 0o600 for args in opened)


def test_a_second_installation_of_the_same_tree_changes_nothing(tmp_path: Path) -> None:
    first = put(tmp_path, OLD)
    again = put(tmp_path, OLD)
    assert first.changed
    assert (again.changed, again.version, again.changed_files, again.diff) == (False, first.version, (), ())


def test_the_version_is_named_after_its_tree(tmp_path: Path) -> None:
    name = put(tmp_path / "one", OLD).version
    assert name == put(tmp_path / "two", dict(sorted(OLD.items(), reverse=True))).version
    assert len(name) == 12
    assert os.readlink(tmp_path / "one" / "current") == f"versions/{name}"


def test_a_tree_that_differs_only_in_a_mode_is_another_version(tmp_path: Path) -> None:
    first = put(tmp_path, OLD)
    second = put(tmp_path, {**OLD, "bin/env": ConfigurationFile(b"HEAP=1\n", 0o640)})
    assert second.version != first.version
    assert second.diff == ({"prepared": "bin/env: mode 0644 -> 0640\n"},)


def test_the_manifest_holds_the_hash_of_every_deployed_file(tmp_path: Path) -> None:
    put(tmp_path, OLD)
    manifest = json.loads((tmp_path / "current" / ".fleet-manifest.json").read_text())
    assert manifest == {path: hashlib.sha256(file.content).hexdigest() for path, file in OLD.items()}


def test_modes_are_those_of_the_archive_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        put(tmp_path, OLD)
    finally:
        os.umask(before)
    modes = {path: (tmp_path / "current" / path).stat().st_mode & 0o777 for path in OLD}
    assert modes == {path: file.mode for path, file in OLD.items()}
    assert (tmp_path / "versions").stat().st_mode & 0o777 == 0o750


def test_check_mode_writes_nothing_and_tells_the_same(tmp_path: Path) -> None:
    base = tmp_path / "base"
    first = put(base, OLD, check=True)
    assert not base.exists()
    assert put(base, OLD) == first
    expected = put(base, NEW, check=True)
    assert in_force(base) == contents(OLD)
    assert put(base, NEW) == expected


def test_old_versions_are_kept_up_to_the_number_asked_for(tmp_path: Path) -> None:
    names = [put(tmp_path, {"conf/a": ConfigurationFile(b"%d" % n, 0o644)}, keep=2).version for n in range(6)]
    last_that_ran = names[0]
    assert set(ConfigurationPaths(str(tmp_path)).version_names()) == {last_that_ran, *names[-2:]}


def test_the_version_before_this_one_is_kept_however_old(tmp_path: Path) -> None:
    oldest = put(tmp_path, OLD).version
    for number in range(3):
        put(tmp_path, {"conf/a": ConfigurationFile(b"%d" % number, 0o644)})
    restore_installed_version(str(tmp_path), oldest)
    outcome = put(tmp_path, NEW, keep=1)
    assert outcome.previous == oldest
    assert {outcome.version, oldest} <= set(ConfigurationPaths(str(tmp_path)).version_names())


@pytest.mark.parametrize("change", ["changed", "removed", "added", "mode"])
def test_what_a_person_did_to_a_deployed_file_is_found_reported_and_undone(tmp_path: Path, change: str) -> None:
    first = put(tmp_path, OLD)
    target = tmp_path / "current" / "conf" / "activemq.xml"
    acts: dict[str, tuple[Callable[[], object], str]] = {
        "changed": (lambda: target.write_text("<beans>mine</beans>\n"), "conf/activemq.xml was changed by hand"),
        "removed": (target.unlink, "conf/activemq.xml was removed by hand"),
        "added": (target.with_name("more.xml").touch, "conf/more.xml was added by hand"),
        "mode": (lambda: target.chmod(0o666), "conf/activemq.xml has a different owner or mode than deployed"),
    }
    act, message = acts[change]
    act()
    outcome = put(tmp_path, OLD)
    assert outcome.changed
    assert outcome.drift == (message,)
    assert in_force(tmp_path) == contents(OLD)
    assert outcome.version == f"{first.version}-1"
    assert outcome.previous == first.version
    assert not put(tmp_path, OLD).changed


def test_a_deployed_file_that_became_a_link_is_drift(tmp_path: Path) -> None:
    put(tmp_path, OLD)
    target = tmp_path / "current" / "conf" / "activemq.xml"
    target.rename(tmp_path / "elsewhere.xml")
    target.symlink_to(tmp_path / "elsewhere.xml")
    assert put(tmp_path, OLD).drift == ("conf/activemq.xml was removed by hand",)


def test_a_current_that_is_no_link_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "current").mkdir()
    with pytest.raises(NodeError, match="current is not a symbolic link to a configuration version"):
        put(tmp_path, OLD)
    assert litter(tmp_path) == []


def test_a_current_that_points_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to("/etc")
    with pytest.raises(NodeError, match="leads to /etc, which is not a configuration version"):
        put(tmp_path, OLD)


def test_a_link_whose_version_was_removed_by_hand_is_repaired(tmp_path: Path) -> None:
    first = put(tmp_path, OLD)
    shutil.rmtree(tmp_path / "versions" / first.version)
    assert put(tmp_path, OLD).changed
    assert in_force(tmp_path) == contents(OLD)


def test_a_version_can_be_put_back(tmp_path: Path) -> None:
    old = put(tmp_path, OLD).version
    new = put(tmp_path, NEW).version
    outcome = restore_installed_version(str(tmp_path), old)
    assert (outcome.changed, outcome.version, outcome.previous) == (True, old, new)
    assert in_force(tmp_path) == contents(OLD)
    assert not restore_installed_version(str(tmp_path), old).changed


def test_restored_version_needs_restart_when_broker_has_read_later_version(tmp_path: Path) -> None:
    old = put(tmp_path, OLD).version
    put(tmp_path, NEW)
    os.unlink(ConfigurationPaths(str(tmp_path)).pending)  # as after a restart
    assert restore_installed_version(str(tmp_path), old).reasons == (f"version {old} was restored",)


@pytest.mark.parametrize("name", ["000000000000", "../versions", ".", "", ".new-x", "/etc"])
def test_only_a_complete_version_can_be_put_back(tmp_path: Path, name: str) -> None:
    put(tmp_path, OLD)
    with pytest.raises(NodeError, match="contains no configuration version"):
        restore_installed_version(str(tmp_path), name)


def test_a_full_disk_leaves_the_old_version_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, OLD)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        put(tmp_path, NEW)
    monkeypatch.undo()
    assert in_force(tmp_path) == contents(OLD)
    put(tmp_path, NEW)
    assert litter(tmp_path) == []


def test_log4j2_that_watches_its_own_file_needs_no_restart(tmp_path: Path) -> None:
    watching: Tree = {**OLD, "conf/log4j2.properties": ConfigurationFile(b"monitorInterval = 5\nlevel = INFO\n", 0o644)}
    louder: Tree = {**OLD, "conf/log4j2.properties": ConfigurationFile(b"monitorInterval = 5\nlevel = DEBUG\n", 0o644)}
    deaf: Tree = {**OLD, "conf/log4j2.properties": ConfigurationFile(b"level = INFO\n", 0o644)}
    put(tmp_path, watching)
    assert put(tmp_path, louder).reasons == ()
    assert put(tmp_path, deaf).reasons == ("conf/log4j2.properties changed",)


def test_a_first_installation_owes_no_restart(tmp_path: Path) -> None:
    assert put(tmp_path, OLD).reasons == ()


def test_a_restart_is_owed_until_a_broker_was_started_after_the_change(tmp_path: Path) -> None:
    from activemq_fleet.node.config import pending_restart

    first = put(tmp_path, OLD)
    put(tmp_path, NEW)
    owed = pending_restart.read_pending_restart(ConfigurationPaths(str(tmp_path)))
    assert owed is not None
    assert owed.previous == first.version
    now = process.seconds_since_boot()
    assert not owed.is_restart_no_longer_needed(process.Process(1, now - 60, "S", ()))
    assert owed.is_restart_no_longer_needed(process.Process(1, now + 60, "S", ()))
    assert owed.is_restart_no_longer_needed(None)


def test_record_of_a_restart_is_readable_and_removed_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchdog, which runs as the broker's account, reads the record."""
    from activemq_fleet.node.config import pending_restart

    record = Path(ConfigurationPaths(str(tmp_path)).pending)
    put(tmp_path, OLD)
    put(tmp_path, NEW)
    assert record.stat().st_mode & 0o777 == 0o644
    started = process.Process(1, process.seconds_since_boot() + 60, "S", ())
    monkeypatch.setattr(pending_restart, "find_broker_process", lambda _base: started)
    assert put(tmp_path, NEW, check=True).reasons == ()
    assert record.exists()
    assert put(tmp_path, NEW).reasons == ()
    assert not record.exists()


def test_going_back_to_what_the_broker_runs_with_owes_no_restart(tmp_path: Path) -> None:
    first = put(tmp_path, OLD)
    put(tmp_path, NEW)
    assert restore_installed_version(str(tmp_path), first.version).reasons == ()
    assert not put(tmp_path, OLD).reasons
    put(tmp_path, NEW)
    assert put(tmp_path, OLD, check=True).reasons == ()
    assert put(tmp_path, OLD).reasons == ()
    assert not os.path.exists(ConfigurationPaths(str(tmp_path)).pending)


def test_two_changes_before_a_restart_keep_the_version_that_a_broker_last_ran_with(tmp_path: Path) -> None:
    first = put(tmp_path, OLD)
    put(tmp_path, NEW)
    put(tmp_path, {**NEW, "bin/env": ConfigurationFile(b"HEAP=2\n", 0o644)})
    again = put(tmp_path, {**NEW, "bin/env": ConfigurationFile(b"HEAP=2\n", 0o644)})
    assert again.previous == first.version
    assert again.reasons == ("conf/activemq.xml changed", "systemd/activemq.service changed", "bin/env changed")
