# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Moves an unpacked ActiveMQ release to the directory that is named after it.

Invariants: after an installation ``HOME`` contains the release of its name. The previous directory is kept as
``HOME.old`` until the new one is in place. No directory is moved while a process runs from it. A release is unpacked to
``HOME.new``, which is kept there while a broker still runs from ``HOME``.

These three directories alone determine the next step, so the next run continues an interrupted run. Two renames
exchange directories; a run that is killed between them leaves ``HOME.old`` and no ``HOME``. Every function first
renames such a ``HOME.old`` back to ``HOME``.
"""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

from ..errors import NodeError
from ..files import disk
from .jars import pids_with_open_files_below, releases_in_directory

_SYSTEMCTL_TIMEOUT = 600
"""Timeout in seconds of an orderly stop; systemd kills the broker long before, after the timeout of its unit."""


def releases_in_home(home: str) -> list[str]:
    """Return the ActiveMQ releases in the names of the jars of an ActiveMQ home directory.

    A valid one has exactly one.
    """
    releases: list[str] = releases_in_directory(os.path.join(home, "lib"))
    return releases


def move_new_release_into_unused_home(home: str, release: str, source: str = "the unpacked archive") -> dict[str, Any]:
    """Move a new ActiveMQ release into its home directory if no process runs from that directory.

    Renames the unpacked release ``HOME.new`` to ``HOME``, and returns the result of an Ansible module. If a process
    still runs from ``HOME``, nothing is renamed, ``HOME.new`` is kept, and ``waits`` is True. ``changed``: whether the
    directory was or will be renamed. ``HOME.new`` is removed if ``HOME`` already contains the release. Raises NodeError
    if ``HOME.new`` is not this release, and removes it.
    """
    new, old = f"{home}.new", f"{home}.old"
    unpacked_releases = releases_in_home(new)
    if unpacked_releases != [release]:
        disk.remove_tree_or_file(new)
        contents = " and ".join(f"ActiveMQ {unpacked}" for unpacked in unpacked_releases) or "no broker"
        raise NodeError(
            f"{source} contains {contents} instead of ActiveMQ {release}, so {home} was not changed: set "
            f"activemq_archive to ActiveMQ {release}, and run the playbook again"
        )
    _complete_exchange(home)
    if not os.path.lexists(home):
        disk.rename_within_parent_and_sync(new, home)
        return {"changed": True, "waits": False}
    if releases_in_home(home) == [release]:
        disk.remove_tree_or_file(new)
        return {"changed": False, "waits": False}
    disk.remove_tree_or_file(old)
    if pids_with_open_files_below(home):
        return {"changed": True, "waits": True}
    _exchange_directories(new, home, old)
    _discard_old_release(home)
    return {"changed": True, "waits": False}


def replace_running_release(home: str, release: str, unit: str) -> dict[str, Any]:
    """Replace the ActiveMQ release that a systemd unit runs.

    This stops the unit, renames the directories, and starts the unit again. ``HOME`` is replaced by the release in
    ``HOME.new``; the unit is started in any case. Returns ``changed``. The replaced directory is kept as ``HOME.old``.
    After a NodeError nothing has changed.
    """
    _complete_exchange(home)
    if releases_in_home(home) == [release]:
        return {"changed": False}
    if releases_in_home(f"{home}.new") != [release]:
        raise NodeError(
            f"the directory {home}.new does not contain ActiveMQ {release}, so the broker was not stopped: run the "
            f"playbook again, which unpacks ActiveMQ {release} to this directory"
        )
    with _unit_stopped(unit, home):
        _exchange_directories(f"{home}.new", home, f"{home}.old")
    return {"changed": True}


def restore_old_release(home: str, release: str, unit: str) -> dict[str, Any]:
    """Restore the old ActiveMQ release that a new release replaced in a home directory.

    This stops the systemd unit, renames ``HOME.old``, and starts the unit again. ``HOME.old`` becomes ``HOME``. Returns
    ``changed``: False if no release was replaced.
    """
    if roll_back_interrupted_replacement_and_start_unit(home, unit)["changed"]:
        return {"changed": True}
    if not _was_replaced(home, release):
        return {"changed": False}
    with _unit_stopped(unit, home):
        _exchange_directories(f"{home}.old", home, f"{home}.new")
        disk.remove_tree_or_file(f"{home}.new")
    return {"changed": True}


def roll_back_interrupted_replacement_and_start_unit(home: str, unit: str) -> dict[str, Any]:
    """Roll back an interrupted replacement of an ActiveMQ release, and start the systemd unit that runs the release.

    If ``HOME`` is missing, the old release ``HOME.old`` is renamed to ``HOME``, and the unit is started. Otherwise
    nothing is done. Returns the dictionary {"changed": whether this was done}.
    """
    if not _complete_exchange(home):
        return {"changed": False}
    _run_systemctl("start", unit)
    return {"changed": True}


def remove_old_release(home: str, release: str) -> dict[str, Any]:
    """Remove the old ActiveMQ release ``HOME.old``, which was replaced.

    This is done once no process runs from it and ``HOME`` holds the new release.
    """
    if not _was_replaced(home, release) or pids_with_open_files_below(f"{home}.old"):
        return {"changed": False}
    _discard_old_release(home)
    return {"changed": True}


def _was_replaced(home: str, release: str) -> bool:
    """Return whether ``HOME.old`` contains the release that was replaced, and not a copy of the new release."""
    old = f"{home}.old"
    return os.path.lexists(old) and releases_in_home(home) == [release] and releases_in_home(old) != [release]


def _discard_old_release(home: str) -> None:
    """Discard ``HOME.old``: rename it before its removal, because an incomplete directory could be restored."""
    disk.remove_tree_or_file(f"{home}.new")
    disk.rename_within_parent_and_sync(f"{home}.old", f"{home}.new")
    disk.remove_tree_or_file(f"{home}.new")


def _complete_exchange(home: str) -> bool:
    """Rename ``HOME.old`` to ``HOME`` if ``HOME`` is missing; return whether it was renamed."""
    if os.path.lexists(home) or not os.path.lexists(f"{home}.old"):
        return False
    disk.rename_within_parent_and_sync(f"{home}.old", home)
    return True


def _exchange_directories(source: str, home: str, backup: str) -> None:
    """Rename ``home`` to ``backup`` and ``source`` to ``home``; after an OSError nothing has changed."""
    disk.remove_tree_or_file(backup)
    try:
        disk.rename_within_parent_and_sync(home, backup)
        disk.rename_within_parent_and_sync(source, home)
    except OSError:
        if os.path.lexists(backup):
            if os.path.lexists(home):
                disk.rename_within_parent_and_sync(home, source)
            disk.rename_within_parent_and_sync(backup, home)
        raise


@contextlib.contextmanager
def _unit_stopped(unit: str, home: str) -> Iterator[None]:
    """Context manager that stops a systemd unit and starts it again in any case, even if the controller disconnects."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    try:
        _run_systemctl("stop", unit)
        remaining_pids = pids_with_open_files_below(home)
        if remaining_pids:
            raise NodeError(
                f"the release directory {home} was not replaced, because process {remaining_pids[0]} runs from it and "
                f"does not belong to the service unit {unit}: stop this process, and run the playbook again"
            )
        yield
    finally:
        _run_systemctl("start", unit)


def _run_systemctl(command: str, unit: str) -> None:
    try:
        subprocess.run(
            ["systemctl", command, unit], capture_output=True, text=True, timeout=_SYSTEMCTL_TIMEOUT, check=True
        )
    except subprocess.CalledProcessError as error:
        raise NodeError(
            f"the command systemctl {command} {unit} failed ({error.stderr.strip()[-300:]}). Check journalctl "
            f"-u {unit} on this host"
        ) from None
    except subprocess.TimeoutExpired:
        raise NodeError(
            f"the command systemctl {command} {unit} did not end within {_SYSTEMCTL_TIMEOUT} s: check journalctl "
            f"-u {unit} on this host, and run the playbook again"
        ) from None
