# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Installs a tree of files as one version, and puts it in force by one rename.

Invariant: ``current`` always points to a complete version or does not exist. A version is written to a directory whose
name begins with a dot, synced, and renamed. Only then is the link switched. An interrupted installation leaves the old
version in force, and a directory to which nothing refers and which the next run removes.
"""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from ..config import pending_restart
from ..config.configuration_archive import ConfigurationFile
from ..config.installation_diff import changed_file_paths, configuration_differences, paths_with_changed_content
from ..config.versions import (
    DIRECTORY_MODE,
    ConfigurationPaths,
    manifest_and_record_by_file_name,
    read_installed_configuration,
    tree_sha256,
)
from ..errors import NodeError
from ..files import disk
from ..files.disk import Owner
from ..files.untrusted_paths import account_name, owner_of_first_untrusted_directory
from . import runtime_configuration

KEEP = 5

Check = typing.Callable[[str], None]
"""Checks the directory of a complete version before it is put in force; raises NodeError to reject the version."""


@dataclass(frozen=True)
class Owners:
    """The numeric ids that own installed files and directories: of the service's user, of root and of the group.

    -1 keeps a present id. A file that only its owner may read belongs to ``user``.
    """

    user: int = -1
    root: int = -1
    group: int = -1

    def of(self, mode: int) -> Owner:
        return Owner(self.root if mode & 0o040 else self.user, self.group)

    @property
    def directory(self) -> Owner:
        return Owner(self.root, self.group)

    @property
    def data(self) -> Owner:
        return Owner(self.user, self.group)


@dataclass(frozen=True)
class InstallationOutcome:
    """The result of installing a configuration of a broker, agent or load balancer: its version and changed files.

    In check mode it is the expected result. ``reasons``: why a restart is pending. ``version`` is in force after the
    installation, ``previous`` before it. ``drift``: files that were changed by hand; ``diff``: in Ansible's format.
    """

    changed: bool
    version: str
    previous: str | None
    changed_files: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    diff: tuple[dict[str, str], ...] = ()
    reasons: tuple[str, ...] = field(default=())


def install_configuration(
    where: str | ConfigurationPaths,
    tree: Mapping[str, ConfigurationFile],
    owners: Owners,
    keep: int = KEEP,
    check: bool = False,
    validate: Check | None = None,
) -> InstallationOutcome:
    """Install a configuration as a new version; return the versions before and after, and the changed files.

    The current configuration is switched to the version. With ``check`` nothing is written, and the outcome is that of
    a real installation. Raises NodeError for files that this collection did not install, and the errors of
    ``validate``; the previous version then stays in force. Raises OSError for errors of the file system.
    """
    layout = where if isinstance(where, ConfigurationPaths) else ConfigurationPaths(where)
    if check:
        return _install_version(layout, tree, owners, keep, check=True)
    _check_directories_trusted(layout, owners)
    _create_directories(layout, owners)
    with disk.directory_lock(layout.versions):
        return _install_version(layout, tree, owners, keep, check=False, validate=validate)


def _check_directories_trusted(layout: ConfigurationPaths, owners: Owners) -> None:
    """Raise NodeError if root would install files that another account could replace."""
    if owners.root != 0:
        return
    link = os.path.dirname(layout.current)
    for directory in (os.path.dirname(layout.base), *([] if link == layout.base else [link])):
        foreign = owner_of_first_untrusted_directory(directory)
        if foreign:
            account = "an account other than root" + (f" ({account_name(foreign[0])})" if foreign[0] else "")
            raise NodeError(
                f"the configuration was not installed, because {account} can replace files that root installs in "
                f"{directory}. Make root the owner of this directory and of all directories above it (chown "
                "root:root, chmod go-w)"
            )


def _create_directories(layout: ConfigurationPaths, owners: Owners) -> None:
    """Create BASE and its directories; the broker writes only to ``data``."""
    _create_parents(layout.base)
    for directory in (layout.base, layout.versions):
        disk.ensure_directory(directory, DIRECTORY_MODE, owners.directory)
    _create_parents(layout.current)
    if layout.data:
        disk.ensure_directory(layout.data, DIRECTORY_MODE, owners.data)


def _create_parents(path: str) -> None:
    missing = []
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    for directory in reversed(missing):
        disk.ensure_directory(directory, 0o755, Owner())


def _install_version(
    layout: ConfigurationPaths,
    tree: Mapping[str, ConfigurationFile],
    owners: Owners,
    keep: int,
    check: bool,
    validate: Check | None = None,
) -> InstallationOutcome:
    current, name = layout.current_version(), layout.current_version_name()
    drift = current.drift_kind_by_file(owners.of) if current else {}
    changed = changed_file_paths(current, tree, drift)
    if not check:
        _remove_leftovers(layout)
    if current and name and not changed:
        return _unchanged_outcome(layout, name, check)
    diff = configuration_differences(current, tree, drift)
    changed_content = paths_with_changed_content(current, tree, drift)
    restart = pending_restart.restart_reasons(changed_content, current, tree) if name else []
    drifted = tuple(f"{path} {drift[path].value}" for path in sorted(drift))
    version = _version_name(layout, tree, owners)
    if pending_restart.was_broker_started_with(layout, version):
        restart = []
    live = None
    if restart:
        live = runtime_configuration.live_change_of_configuration(layout, changed_content, current, tree)
    if live and check:
        restart = []
    if not check:
        _ensure_version_exists(layout, version, tree, owners)
        if validate:
            _validate_version(layout, version, validate)
        if live and _apply_at_runtime(layout, version, name, restart, live):
            restart = []
        elif not live:
            _switch_to_version(layout, version, name, restart)
        _remove_old_versions(layout, keep, version, name)
    return InstallationOutcome(True, version, name, tuple(changed), drifted, tuple(diff), tuple(restart))


def _unchanged_outcome(layout: ConfigurationPaths, name: str, check: bool) -> InstallationOutcome:
    """Return the outcome of an installation of a configuration that is already installed.

    A restart may still be pending from an interrupted run.
    """
    pending = pending_restart.read_pending_restart(layout)
    if pending is None:
        if not check:
            pending_restart.remove_pending_restart(layout)
        return InstallationOutcome(False, name, None)
    if pending.uptime is None and not check:
        pending = pending_restart.record_deployment_time(layout, pending)
    return InstallationOutcome(False, name, pending.previous, reasons=pending.reasons)


def restore_installed_version(
    where: str | ConfigurationPaths, version: str, check: bool = False
) -> InstallationOutcome:
    """Restore an earlier installed version of a configuration, and return the names of the old and the new version.

    Switches the link ``current`` back to it. Raises NodeError if the version is missing or incomplete.
    """
    layout = where if isinstance(where, ConfigurationPaths) else ConfigurationPaths(where)
    directory = layout.directory(version)
    if (
        os.path.basename(directory) != version
        or version.startswith(".")
        or read_installed_configuration(directory) is None
    ):
        raise NodeError(
            f"the configuration was not rolled back, because {layout.versions} contains no configuration version "
            f"{version!r}: set the option version to the name of one of its subdirectories"
        )
    with nullcontext() if check else disk.directory_lock(layout.versions):
        name = layout.current_version_name()
        if name == version:
            return _unchanged_outcome(layout, version, check)
        was_started_with_version = pending_restart.was_broker_started_with(layout, version)
        reasons = [] if was_started_with_version else [f"version {version} was restored"]
        if not check:
            _switch_to_version(layout, version, name, reasons)
        return InstallationOutcome(True, version, name, reasons=tuple(reasons))


def _version_name(layout: ConfigurationPaths, tree: Mapping[str, ConfigurationFile], owners: Owners) -> str:
    """Return the name of a configuration tree's version: its id, with a number if that version was changed by hand."""
    tree_id: str = tree_sha256(tree)[:12]
    name: str = tree_id
    number = 0
    while os.path.lexists(layout.directory(name)) and not _is_intact(layout, name, tree, owners):
        number += 1
        name = f"{tree_id}-{number}"
    return name


def _is_intact(layout: ConfigurationPaths, name: str, tree: Mapping[str, ConfigurationFile], owners: Owners) -> bool:
    installed = read_installed_configuration(layout.directory(name))
    if installed is None or installed.tree != tree_sha256(tree) or installed.drift_kind_by_file(owners.of):
        return False
    return all(
        owners.directory.fits(os.lstat(directory)) for directory, _unused, _unused in os.walk(installed.directory)
    )


def _ensure_version_exists(
    layout: ConfigurationPaths, name: str, tree: Mapping[str, ConfigurationFile], owners: Owners
) -> None:
    """Make sure that a complete version of a configuration with a name exists; create it if it does not."""
    if os.path.lexists(layout.directory(name)):
        return
    staging = layout.directory(f".new-{name}")
    description_files = {
        path: ConfigurationFile(content, 0o640) for path, content in manifest_and_record_by_file_name(tree).items()
    }
    directories = {""}
    for path in tree:
        parts = path.split("/")[:-1]
        directories |= {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    for directory in sorted(directories):
        disk.ensure_directory(os.path.join(staging, directory).rstrip("/"), DIRECTORY_MODE, owners.directory)
    for path, file in sorted({**tree, **description_files}.items()):
        disk.write_new_file(os.path.join(staging, path), file.content, file.mode, owners.of(file.mode))
    for directory in sorted(directories, reverse=True):
        disk.sync_directory(os.path.join(staging, directory))
    disk.rename_within_parent_and_sync(staging, layout.directory(name))


def _validate_version(layout: ConfigurationPaths, version: str, validate: Check) -> None:
    """Call ``validate`` with a complete version that is not in force; remove the version if it raises NodeError."""
    try:
        validate(layout.directory(version))
    except NodeError:
        _remove_version(layout, version)
        raise


def _apply_at_runtime(
    layout: ConfigurationPaths,
    version: str,
    previous: str | None,
    reasons: list[str],
    live_change: runtime_configuration.LiveChange,
) -> bool:
    """Put a version in force and wait until the broker's log reports that it applied the change at runtime.

    Returns whether it did. A restart is pending until then.
    """
    runtime_configuration.trigger_configuration_reload(layout, version)
    log_end = runtime_configuration.log_end_position(layout)
    _switch_to_version(layout, version, previous, reasons, live=True)
    if not runtime_configuration.wait_until_live_change_applied(log_end, live_change):
        return False
    pending_restart.remove_pending_restart(layout)
    return True


def _switch_to_version(
    layout: ConfigurationPaths, version: str, previous: str | None, reasons: list[str], live: bool = False
) -> None:
    """Put a version of a configuration in force with the link ``current``; record a required restart before."""
    pending = pending_restart.record_pending_restart(layout, previous, reasons) if reasons and previous else None
    if not live:
        runtime_configuration.suppress_configuration_reload(layout, version, previous)
    disk.set_symlink_target(layout.current, layout.current_link_target_for(version))
    if pending:
        pending_restart.record_deployment_time(layout, pending)
    elif pending_restart.was_broker_started_with(layout, version):
        pending_restart.remove_pending_restart(layout)


def _remove_leftovers(layout: ConfigurationPaths) -> None:
    for path in layout.paths_left_by_interrupted_installs():
        disk.remove_tree_or_file(path)


def _remove_old_versions(layout: ConfigurationPaths, keep: int, version: str, previous: str | None) -> None:
    """Remove old versions of a configuration, except the newest ``keep`` versions and those that a broker requires."""
    pending = pending_restart.read_pending_restart(layout)
    required = {version, previous, pending.previous if pending else None}
    for name in layout.version_names()[keep:]:
        if name not in required:
            _remove_version(layout, name)


def _remove_version(layout: ConfigurationPaths, name: str) -> None:
    """Rename and remove a version that is not in force, so that no incomplete version has the name of a version."""
    old_directory = layout.directory(f".old-{name}")
    disk.rename_within_parent_and_sync(layout.directory(name), old_directory)
    disk.remove_tree_or_file(old_directory)
