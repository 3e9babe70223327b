# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Copies a store from one host to another, in verified chunks, and replaces the old store by a rename.

The receiving host has these files next to the store ``S``: ``S.resync-ID`` contains the copy during the transfer
(``NAME.part`` is an incomplete file). ``S.before-TIME`` is the unchanged previous store, with its checksums in
``S.before-TIME.json``. A resync plan records that the replacement has begun. A run continues an interrupted run.
Nothing is ever overwritten, and no backup is ever removed.

Up to two accounts act. The store's owner handles all files of the store and of the copy. The keeper changes their
parent directory; it is root if only root can write there, else the owner. Root opens and renames nothing that another
account could have exchanged.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import NodeError
from ..files.untrusted_paths import Directory, UntrustedPathError, open_directory
from ..foreign_data import decompress_base64_to_bytes
from ..process.system_accounts import SystemAccount, account_for_renames_in_directory, account_to_access_path_as, run_as
from . import resync_plans, store_files
from .resync_plans import StoreReplacementPlan
from .store_files import Manifest, store_fingerprint

CHUNK = 8 << 20
"""Bytes of a chunk: small enough for a module's argument, and large enough to justify the start of a module."""
_SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class _StoreLocation:
    """The location of a store: its path, and the accounts that own it.

    These accounts own its files and its parent directory. ``owner`` changes its files, and ``keeper`` its parent
    directory.
    """

    store: str
    owner: SystemAccount
    keeper: SystemAccount

    @property
    def parent(self) -> str:
        return os.path.dirname(self.store)

    @property
    def name(self) -> str:
        return os.path.basename(self.store)

    def path_in_parent_directory(self, name: str) -> str:
        """Return the path of the file or directory ``name`` next to a kahaDB store, in its parent directory."""
        return os.path.join(self.parent, name)


def locate_store_and_writing_accounts(store: str, user: str | None = None) -> _StoreLocation:
    """Return a kahaDB store's absolute path, and the accounts that write in the store and in its parent directory.

    This process writes the store's files as the account ``owner``, and the parent directory as ``keeper``. ``user`` is
    the broker's account in the inventory. Raises NodeError if root would have to act in directories in which other
    accounts can exchange files; OSError.
    """
    store = os.path.abspath(store)
    owner = account_to_access_path_as(store, user)
    return _StoreLocation(store, owner, account_for_renames_in_directory(os.path.dirname(store), owner))


def store_manifest(store: str, user: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the size, SHA-256 and mode of each file of a kahaDB store, read as the account of the store.

    The files are returned by path. The lock is left out. The account is ``user``, or the one that
    ``account_to_access_path_as`` determines. Raises NodeError, OSError.
    """
    file_attributes: dict[str, dict[str, Any]] = run_as(
        account_to_access_path_as(store, user), store_files.store_manifest, store
    )
    return file_attributes


def check_store_not_locked(store: str, user: str | None = None) -> None:
    """Raise NodeError if a broker holds the lock of a kahaDB store, checked as an account that can access the store.

    Raises OSError if the store cannot be read.
    """
    run_as(account_to_access_path_as(store, user), store_files.check_store_not_locked, store)


def replacement_obstacle(store: str, user: str | None = None) -> str:
    """Return the obstacle to replacing a kahaDB store on this host by a copy, such as a symbolic link; else "".

    The obstacle is one line. The size of the copy is unknown here: the controller compares it with the free space.
    """
    name, path = os.path.basename(store), os.path.dirname(store)
    try:
        with open_directory(path) as parent:
            if parent.exists(name) and stat.S_ISLNK(parent.entry_status(name).st_mode):
                return (
                    f"the store {store} is a symbolic link, but the playbook resync replaces a store by renaming "
                    "its directory: set activemq_store_directory to the target of the link"
                )
            if _is_mount_point(parent, name):
                return (
                    f"the store {store} is a mount point, but the playbook resync replaces a store by renaming "
                    "its directory: set activemq_store_directory to a directory below the mount point"
                )
        space = bytes_available_for_store_copy(store, user)
        if space < _SPARE_BYTES:
            return (
                f"the file system of {path} has {space >> 20} MiB free, but the copy of the store requires "
                f"{_SPARE_BYTES >> 20} MiB: delete other files, or enlarge the file system"
            )
        return str(resync_plans.untrusted_plan_message(store, account_to_access_path_as(store, user)))
    except FileNotFoundError:
        return (
            f"the directory {path}, which must contain the store, does not exist: run the playbook site, which "
            "creates it"
        )
    except NodeError as error:
        return str(error)


def bytes_available_for_store_copy(store: str, user: str | None = None) -> int:
    """Return the bytes that a copy of the other node's kahaDB store can use on this host.

    These are the free bytes of the file system, and those of interrupted copies, which the next copy continues or
    removes. ``user`` is the broker's account in the inventory. Raises NodeError, OSError.
    """
    owner, path = account_to_access_path_as(store, user), os.path.dirname(store)
    with open_directory(path) as parent:
        space = shutil.disk_usage(parent.descriptor).free
    for name in _staging_directories(store):
        # A run that created the directory and ended before it changed the owner has left it empty.
        with suppress(PermissionError, UntrustedPathError):
            space += run_as(owner, store_files.allocated_bytes, os.path.join(path, name))
    return space


def _is_mount_point(parent: Directory, name: str) -> bool:
    return bool(parent.exists(name) and parent.entry_status(name).st_dev != parent.directory_status().st_dev)


def is_replacement_unfinished(store: str, user: str | None = None) -> bool:
    """Return whether the replacement of a kahaDB store by the copy of the other node's store is unfinished.

    Raises NodeError, OSError.
    """
    try:
        return bool(resync_plans.has_store_replacement_plan(store, account_to_access_path_as(store, user)))
    except UntrustedPathError:
        return False


def prepare_staging_and_list_missing_files(store: str, files: Manifest, user: str | None = None) -> dict[str, int]:
    """Create the staging directory for a copy of the other node's kahaDB store; return the files still to be copied.

    The result has, by name, each missing or incomplete file with the offset from which it must still be transferred.
    Files that are identical in this host's store are copied to the staging directory first; earlier staging directories
    are removed. ``files``: the other node's files. Raises NodeError, OSError.
    """
    location = locate_store_and_writing_accounts(store, user)
    _check_plan_trusted(location)
    run_as(location.owner, store_files.check_store_not_locked, location.store)
    staging, prefix = _staging_name(location, files), f"{location.name}.resync-"
    mode = run_as(location.owner, store_files.store_directory_mode, location.store)
    for name in run_as(location.keeper, _staging_directories, location.store):
        if name != staging:
            run_as(location.owner, store_files.remove_directory_content, location.path_in_parent_directory(name))
    run_as(location.keeper, _create_staging_directory, location, prefix, staging, 0o750 if mode is None else mode)
    incomplete_files: dict[str, int] = run_as(
        location.owner,
        store_files.copy_unchanged_files_and_return_missing,
        location.store,
        location.path_in_parent_directory(staging),
        dict(files),
    )
    return incomplete_files


def _staging_directories(store: str) -> list[str]:
    """Return the names of the staging directories next to a store, which interrupted copies have left."""
    path, name = os.path.split(store)
    with open_directory(path) as parent:
        return [
            entry
            for entry in parent.entry_names()
            if entry.startswith(f"{name}.resync-") and parent.is_directory(entry)
        ]


def _create_staging_directory(location: _StoreLocation, prefix: str, staging: str, mode: int) -> None:
    """Create the staging directory for a copy of a store; remove those of earlier copies, which must be empty."""
    with open_directory(location.parent) as parent:
        for name in parent.entry_names():
            if name.startswith(prefix) and parent.is_directory(name) and name != staging:
                parent.remove_empty_directory(name)
            elif name.startswith(prefix) and not parent.is_directory(name):
                parent.remove_file_or_link(name)
        if parent.exists(staging):
            with parent.open_subdirectory(staging) as existing:
                if existing.directory_status().st_uid == location.owner.uid:
                    return
            # A run created this directory and ended before it changed the owner; only an empty directory is removed.
            parent.remove_empty_directory(staging)
        ids = (-1, -1) if location.owner.is_current_account else (location.owner.uid, location.owner.gid)
        parent.create_and_open_directory(staging, mode, *ids).close()
        parent.sync()


def read_packed_chunk(store: str, name: str, offset: int, file_size: int, user: str | None = None) -> str:
    """Read a chunk of a file of a kahaDB store, from ``offset`` on, and return it as compressed base64 text.

    It has up to 8 MiB. Raises NodeError when the file has changed.
    """
    return run_as(
        account_to_access_path_as(store, user),
        lambda: pack_chunk(store_files.read_piece(store, name, offset, file_size, CHUNK)),
    )


def pack_chunk(piece: bytes) -> str:
    """Return a chunk of a file as compressed base64 text, for transport."""
    return base64.b64encode(zlib.compress(piece, 1)).decode()


def unpack_chunk(data: str) -> bytes:
    """Return the bytes of a chunk of a file from its compressed base64 text.

    Raises NodeError for text that is not a chunk, or too large.
    """
    try:
        return decompress_base64_to_bytes(data, CHUNK)
    except ValueError as error:
        raise NodeError(
            f"a part of the copied store was damaged in transfer ({error}), so the store of this host was not "
            "replaced: run the playbook resync again"
        ) from None


def append_compressed_chunk(
    store: str, files: Manifest, name: str, offset: int, data: str, user: str | None = None
) -> int:
    """Append a compressed chunk to a file of the staged copy that is going to replace a kahaDB store.

    Returns the file's new length. After the last chunk the SHA-256 of the file is checked.

    Raises NodeError for a chunk with a wrong offset, or for a file with a wrong checksum.
    """
    location = locate_store_and_writing_accounts(store, user)
    staging = location.path_in_parent_directory(_staging_name(location, files))
    return int(run_as(location.owner, store_files.append_piece, staging, files, name, offset, unpack_chunk(data)))


def replace_store_by_copy(store: str, files: Manifest, source: str, user: str | None = None) -> str:
    """Replace the message store of a broker by its verified copy from the other node of the pair.

    Returns the path of the old store's backup. The result is empty if there was no store. Before the renames the copy
    is verified again, and the checksums of the old store are written to a file. Raises NodeError, OSError.
    """
    location = locate_store_and_writing_accounts(store, user)
    _check_plan_trusted(location)
    run_as(location.owner, store_files.check_store_not_locked, location.store)
    staging = _staging_name(location, files)
    if _directory_fingerprint(location, staging) != store_fingerprint(files):
        raise NodeError(
            f"{location.path_in_parent_directory(staging)} is not a complete copy of the other node's store, so the "
            "store of this host was not replaced: run the playbook resync again"
        )
    backup = before = ""
    if run_as(location.owner, store_files.store_directory_mode, location.store) is not None:
        old = store_manifest(location.store, user)
        text = {"of": location.store, "replaced_by": store_fingerprint(files), "from": source, "files": old}
        content = json.dumps(text, indent=1) + "\n"
        backup, before = (
            str(run_as(location.keeper, _write_backup_checksums, location.parent, location.name, content)),
            _manifest_hash(old),
        )
    resync_plans.write_store_replacement_plan(
        StoreReplacementPlan(location.store, staging, backup, before, source), location.owner
    )
    return finish_replacement_and_return_backup(store, user)


def finish_replacement_and_return_backup(store: str, user: str | None = None) -> str:
    """Finish the interrupted replacement of a kahaDB store by the copy of the other node's store.

    Returns the path of the old store's backup. Follows the plan in the store. Returns "" if there is no plan, or was no
    store. Raises NodeError, OSError.
    """
    location = locate_store_and_writing_accounts(store, user)
    _check_plan_trusted(location)
    plan = resync_plans.read_store_replacement_plan(location.store, location.owner)
    if plan is None:
        return ""
    run_as(location.owner, store_files.check_store_not_locked, location.store)
    run_as(location.keeper, _exchange_store_and_copy, location.parent, location.name, plan.staging, plan.backup)
    if (
        plan.backup
        and _manifest_hash(
            run_as(location.owner, store_files.store_manifest, location.path_in_parent_directory(plan.backup))
        )
        != plan.before
    ):
        backup = location.path_in_parent_directory(plan.backup)
        raise NodeError(
            f"the playbook resync replaced the store of this host, but the backup {backup} differs from the old "
            "store, so the disk of this host lost or changed data. Check the disk before you start the broker of "
            "this host, and do not delete the backup"
        )
    resync_plans.remove_store_replacement_plan(location.store, location.owner)
    return location.path_in_parent_directory(plan.backup) if plan.backup else ""


def _exchange_store_and_copy(path: str, name: str, staging: str, backup: str) -> None:
    """Exchange a store and its copy: rename the store to its backup, then the copy to the store, if not yet done."""
    with open_directory(path) as parent:
        store, has_store = os.path.join(path, name), parent.is_directory(name)
        has_staging, has_backup = parent.is_directory(staging), bool(backup) and parent.is_directory(backup)
        if has_staging and has_store and backup and parent.exists(backup):
            raise NodeError(
                f"the interrupted resync renamed the store of this host to {os.path.join(path, backup)}, but "
                f"another process, such as a started broker, then created {store} again. Rename {store} to a "
                "different name, and keep it, because it may contain new messages. Then run the playbook resync "
                "again, which completes the copy of the other node's store"
            )
        if not has_store and (not has_staging or (backup and not has_backup)):
            raise NodeError(
                f"the interrupted resync cannot continue, because the store {store} is missing: another process "
                "renamed or moved it. Move the store back to this path, and run the playbook resync again"
            )
        if backup and not has_staging and not has_backup:
            raise NodeError(
                f"the resync replaced the store {store}, but cannot check the backup of the previous store, "
                "because another process moved the backup away. Move the backup back to "
                f"{os.path.join(path, backup)}, and run the playbook resync again"
            )
        if has_staging and backup and has_store:
            parent.rename(name, backup)
        if has_staging:
            parent.rename(staging, name)
        parent.sync()


def _write_backup_checksums(path: str, name: str, content: str) -> str:
    """Choose the name of the backup, write the store's checksums next to it, and return the name."""
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    with open_directory(path) as parent:
        for backup in (
            f"{name}.before-{timestamp}",
            *(f"{name}.before-{timestamp}-{number}" for number in range(1, 100)),
        ):
            if not parent.exists(backup) and not parent.exists(f"{backup}.json"):
                parent.write_new_file(f"{backup}.json", content.encode(), 0o640)
                parent.sync()
                return backup
    raise NodeError(
        f"the store was not replaced, because the directory {path} already contains 100 backups "
        f"{name}.before-{timestamp}-NUMBER: move them to a different directory, and run the playbook resync again"
    )


def _check_plan_trusted(location: _StoreLocation) -> None:
    problem = resync_plans.untrusted_plan_message(location.store, location.owner)
    if problem:
        raise NodeError(problem)


def _staging_name(location: _StoreLocation, files: Manifest) -> str:
    return f"{location.name}.resync-{store_fingerprint(files)}"


def _directory_fingerprint(location: _StoreLocation, name: str) -> str:
    """Return the fingerprint of a directory next to the store; empty if it does not exist."""
    try:
        fingerprint: str = store_fingerprint(
            run_as(location.owner, store_files.store_manifest, location.path_in_parent_directory(name))
        )
    except FileNotFoundError:
        return ""
    return fingerprint


def _manifest_hash(files: Manifest) -> str:
    """Return a hash of a manifest of files, with their modes."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def controller_spool_file_name(store_file_path: str) -> str:
    """Return the name under which the controller stores a file of a kahaDB store while it is copied between hosts.

    The controller has a spool directory of such files. The name is a hash of the path, without slashes.
    """
    return hashlib.sha256(store_file_path.encode(errors="surrogateescape")).hexdigest()[:24]
