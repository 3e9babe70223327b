# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the marker in a shared store, with which a playbook proves that both nodes mount the same share."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from ..config.broker_configuration import was_store_ever_used
from ..errors import NodeError
from ..files.untrusted_paths import Directory, open_directory
from ..host_paths import STORE_MARKER
from ..process.denied_access import describe_denied_path_access
from ..process.system_accounts import (
    SystemAccount,
    account_for_renames_in_directory,
    account_to_access_path_as,
    current_account,
    is_existing_account,
    run_as,
)

_MAX_CHARACTERS = 255
"""Maximum characters of a line of the marker: the limit of host names, after which pairs are named."""
_READ_TIMEOUT = 60.0
"""Timeout in seconds for reading the store's marker."""
_INVALID_LINE = "(invalid name)"


def read_store_and_marker_state(directory: str, user: str | None = None) -> dict[str, Any]:
    """Return a dictionary of the state of a store's directory (exists, mounted, used, fenced) and its marker's lines.

    The keys are ``exists``, ``mounted``, ``used`` and ``fenced``, all bool, and ``marked``: the lines of the marker
    file ``.activemq-fleet-pair``, which names the pair that owns the store, or None without a marker. The store is read
    as the account ``user``, or as its owner if ``user`` is not an account of this host. Raises NodeError for an invalid
    store or marker; OSError, for instance if the server of the share is unreachable.
    """
    account = account_to_access_path_as(directory, user if user and is_existing_account(user) else None)
    try:
        store_state = run_as(account, _read_state, directory, patience=_READ_TIMEOUT)
    except PermissionError:
        raise NodeError(describe_denied_path_access(account, directory, f"{directory}/{STORE_MARKER}")) from None
    return {"mounted": _is_on_mount(directory), **store_state}


def _read_state(directory: str) -> dict[str, Any]:
    store_state: dict[str, Any] = {"exists": False, "used": False, "fenced": False, "marked": None}
    with suppress(FileNotFoundError), open_directory(directory) as store:
        store_state = {
            "exists": True,
            "used": was_store_ever_used(directory),
            # A fenced store has a directory in place of the lock file of brokers without a guard.
            "fenced": store.is_directory("lock"),
            "marked": read_marker_pair_and_run_id(store),
        }
    return store_state


def read_marker_pair_and_run_id(store: Directory) -> list[str] | None:
    """Read the pair's name and the playbook run's id from a shared store's marker file; return None without a marker.

    They are returned as a list of up to two lines of the file. A line that is too long or not printable is replaced by
    a text in parentheses. The owner of the store may have written the marker, so it must be used for comparison only.
    Raises UntrustedPathError, OSError.
    """
    try:
        text = store.read_file(STORE_MARKER, 2 * _MAX_CHARACTERS + 2).decode(errors="replace")
    except FileNotFoundError:
        return None
    lines = text.split("\n")[:2]
    return [line if line.isprintable() and len(line) <= _MAX_CHARACTERS else _INVALID_LINE for line in lines if line]


def claim_empty_store(directory: str, pair: str, run_id: str, user: str | None = None) -> bool:
    """Claim an empty store for a pair by writing a marker file, and return whether it was claimed.

    It is not claimed if a marker exists already. ``run_id`` is the id of the playbook run, which the other node
    compares; ``user`` is the account that writes. The store's directory is created only below a mount point. Raises
    NodeError for a store that must not be claimed.
    """
    marker_state = read_store_and_marker_state(directory, user)
    if marker_state["marked"] is not None:
        return False
    if marker_state["used"]:
        raise NodeError(
            f"the store directory {directory} contains messages, but no file {STORE_MARKER} with the name of the pair "
            f"that owns the store. If {pair} owns this store, write {pair} into {directory}/{STORE_MARKER}. If another "
            "pair owns it, set activemq_store_directory to a different directory"
        )
    if not marker_state["exists"] and not marker_state["mounted"]:
        raise NodeError(
            f"the store directory {directory} does not exist and is not on a mounted file system, so it was not "
            "created: mount the shared file system of this store on this host, and run the playbook again"
        )
    account = account_to_access_path_as(directory, user)
    _create_missing_directories(os.path.abspath(directory), account, 0o750, account)
    try:
        run_as(account, _write_marker, directory, f"{pair}\n{run_id}\n")
    except PermissionError:
        raise NodeError(describe_denied_path_access(account, directory, f"{directory}/{STORE_MARKER}")) from None
    return True


def _create_missing_directories(path: str, account: SystemAccount, mode: int, owner: SystemAccount) -> None:
    """Create the store's directory and its missing parents, each as the account that may write in its parent."""
    parent, name = os.path.split(path)
    if not os.path.lexists(parent):
        _create_missing_directories(parent, account, 0o755, current_account())
    keeper = account_for_renames_in_directory(parent, account)
    ids = (owner.uid, owner.gid) if keeper.is_current_account and not owner.is_current_account else (-1, -1)
    run_as(keeper, _create_or_adapt_directory, parent, name, mode, *ids)


def _create_or_adapt_directory(parent: str, name: str, mode: int, uid: int, gid: int) -> None:
    """Create a directory, or set mode and owner of an existing one."""
    with open_directory(parent) as parent_directory:
        try:
            parent_directory.create_and_open_directory(name, mode, uid, gid).close()
        except FileExistsError:
            with parent_directory.open_subdirectory(name) as existing:
                status = existing.directory_status()
                if (uid, gid) not in ((-1, -1), (status.st_uid, status.st_gid)):
                    os.fchown(existing.descriptor, uid, gid)
                if status.st_mode & 0o7777 != mode:
                    os.fchmod(existing.descriptor, mode)
        parent_directory.sync()


def _write_marker(directory: str, text: str) -> None:
    with open_directory(directory) as store:
        store.write_new_file(STORE_MARKER, text.encode(), 0o644)
        store.sync()


def remove_marker_of_run(directory: str, run_id: str, user: str | None = None) -> bool:
    """Remove the marker file of a shared store if playbook run ``run_id`` wrote it; return whether it was removed."""
    return bool(run_as(account_to_access_path_as(directory, user), _remove_marker, directory, run_id))


def _remove_marker(directory: str, run_id: str) -> bool:
    with suppress(FileNotFoundError), open_directory(directory) as store:
        if run_id in (read_marker_pair_and_run_id(store) or ()):
            store.remove_file_or_link(STORE_MARKER)
            return True
    return False


def _is_on_mount(directory: str) -> bool:
    """Return whether the directory, existing or not, lies on a mount other than the root, also through links."""
    path = os.path.realpath(directory)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    while path != "/":
        if os.path.ismount(path):
            return True
        path = os.path.dirname(path)
    return False
