# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the plan for replacing a store, written before the replacement, so that an interrupted resync can be finished.

Root keeps the plans for stores of other accounts in a directory that only root can enter, and uses only the file names
in these plans for renames. An account that replaces its own store keeps the plan next to the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass

from ..errors import NodeError
from ..files.untrusted_paths import Directory, open_directory
from ..foreign_data import parse_untrusted_json
from ..process.system_accounts import SystemAccount

DIRECTORY = "/var/lib/activemq-fleet/resync"
_PLAN_SUFFIX = ".resync.json"
_MAX_BYTES = 64 << 10
_STAGING = re.compile(r"\.resync-[0-9a-f]{16}")
_BACKUP = re.compile(r"(?:\.before-\d{8}T\d{6}Z(?:-\d{1,2})?)?", re.ASCII)


@dataclass(frozen=True)
class StoreReplacementPlan:
    """A plan to replace a kahaDB store by a copy of the other node's store: directories, fingerprint and source host.

    It is written so that it survives an interruption. The directory ``staging`` replaces the store, and the old store
    is renamed to ``backup``. Both are names in the parent directory of the store; ``backup`` is empty if there was no
    store. ``before`` is the fingerprint of the backup's files, ``source`` the host from which the copy came.
    """

    store: str
    staging: str
    backup: str
    before: str
    source: str


def write_store_replacement_plan(plan: StoreReplacementPlan, account: SystemAccount) -> None:
    """Write the plan of a resync, the replacement of a store by a copy of the other node's store.

    The file is written durably and atomically. Raises NodeError, OSError.
    """
    with _open_plan_directory(plan.store, account, make=True) as directory:
        directory.replace_file(_plan_file_name(plan.store, account), json.dumps(asdict(plan)).encode() + b"\n", 0o600)


def read_store_replacement_plan(store: str, account: SystemAccount) -> StoreReplacementPlan | None:
    """Read the plan of a store's unfinished resync (the replacement by a copy); return None without one.

    Raises NodeError for a plan that ``write_store_replacement_plan`` did not write; OSError.
    """
    try:
        with _open_plan_directory(store, account, make=False) as directory:
            data = directory.read_file(
                _plan_file_name(store, account), _MAX_BYTES, owners={os.geteuid()}, single_name=True
            )
            path = os.path.join(directory.path, _plan_file_name(store, account))
    except FileNotFoundError:
        return None
    base = os.path.basename(store)
    try:
        plan = StoreReplacementPlan(**parse_untrusted_json(data))
        is_plan_of_store = plan.store == store and all(isinstance(value, str) for value in asdict(plan).values())
        staging = is_plan_of_store and plan.staging.startswith(base) and _STAGING.fullmatch(plan.staging[len(base) :])
        backup = is_plan_of_store and (not plan.backup or plan.backup.startswith(base))
        if staging and backup and _BACKUP.fullmatch(plan.backup[len(base) :]):
            return plan
    except (ValueError, TypeError):
        pass
    raise NodeError(
        f"the file {path}, which describes an interrupted resync of the store {store}, cannot be read. On this "
        f"host, if {store} does not exist, rename the newest directory {store}.before-TIME to {store}. Remove {path}. "
        "Then run the playbook resync again, which copies the current messages from the other node of the pair"
    )


def has_store_replacement_plan(store: str, account: SystemAccount) -> bool:
    """Return whether a plan is recorded for replacing a kahaDB store by the other node's copy (resync).

    The resync is then unfinished.
    """
    try:
        with _open_plan_directory(store, account, make=False) as directory:
            return bool(directory.exists(_plan_file_name(store, account)))
    except FileNotFoundError:
        return False


def remove_store_replacement_plan(store: str, account: SystemAccount) -> None:
    """Remove the plan of a store's resync (the replacement by a copy).

    The store has been replaced. Raises OSError.
    """
    with _open_plan_directory(store, account, make=False) as directory:
        directory.remove_file_or_link(_plan_file_name(store, account))
        directory.sync()


def untrusted_plan_message(store: str, account: SystemAccount) -> str:
    """Return an error message if a file that plans a kahaDB store's replacement could be changed by the store's owner.

    A resync replaces a store by the other node's copy. A plan of an earlier version is untrusted: it is next to the
    store, where ``account``, which owns the store, can change it. It is not used. The result is "" if ``account`` is
    this process's own. Raises UntrustedPathError, OSError.
    """
    if account.is_current_account:
        return ""
    with open_directory(os.path.dirname(store)) as parent:
        if not parent.exists(os.path.basename(store) + _PLAN_SUFFIX):
            return ""
    path = store + _PLAN_SUFFIX
    return (
        f"the file {path}, which describes an interrupted resync of the store {store}, is not used, because an "
        f"account other than root could have changed it. On this host, if {store} does not exist, rename the newest "
        f"directory {store}.before-TIME to {store}. Remove {path}. Then run the playbook resync again, which copies "
        "the current messages from the other node of the pair"
    )


def _plan_file_name(store: str, account: SystemAccount) -> str:
    if account.is_current_account:
        return os.path.basename(store) + _PLAN_SUFFIX
    return hashlib.sha256(store.encode(errors="surrogateescape")).hexdigest()[:24] + ".json"


def _open_plan_directory(store: str, account: SystemAccount, make: bool) -> Directory:
    """Open the directory of the plan. Raises NodeError if another account could have written the plan.

    ``make``: create the directory if it does not exist.
    """
    if account.is_current_account:
        return open_directory(os.path.dirname(store))
    try:
        plan_directory = open_directory(DIRECTORY)
    except FileNotFoundError:
        if not make:
            raise
        plan_directory = _create_directory(DIRECTORY)
    if not plan_directory.is_trusted_directory:
        plan_directory.close()
        raise NodeError(
            f"the playbook resync stopped, because it keeps a record of its steps in the directory {DIRECTORY}, and "
            "accounts other than root can write to this directory. Make root the owner of this directory and of all "
            "directories above it (chown root, chmod go-w), and run the playbook resync again"
        )
    return plan_directory


def _create_directory(path: str) -> Directory:
    parent, name = os.path.split(path)
    try:
        parent_directory = open_directory(parent)
    except FileNotFoundError:
        parent_directory = _create_directory(parent)
    with parent_directory:
        if not parent_directory.is_trusted_directory:
            raise NodeError(
                f"the playbook resync stopped, because it keeps a record of its steps below the directory {parent}, "
                f"and accounts other than root can write to this directory. Run chown root {parent} and chmod go-w "
                f"{parent}, and run the playbook resync again"
            )
        created = parent_directory.create_and_open_directory(name, 0o700)
        parent_directory.sync()
        return created
