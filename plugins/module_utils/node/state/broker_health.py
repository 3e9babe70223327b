# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Gathers further evidence that decides whether operations may change a broker: running release, files, store, clock.

A shared store is read in a child process, as the broker's account and with a timeout, because a share whose server is
unreachable blocks every process. The access check is required, because a standby whose account cannot open the lock
logs the same records as a standby that waits: every failure to lock is logged as a held lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import replace
from typing import Any

from ..config.broker_configuration import was_store_ever_used
from ..config.pending_restart import PendingRestartRecord
from ..config.versions import ConfigurationPaths, FileDriftKind, InstalledVersion, read_installed_configuration
from ..errors import NodeError
from ..fence.shared_store import FenceError, recent_store_copies_made_by_host, shared_store_directory
from ..fence.store_writers import (
    newest_claimed_generation_number,
    writable_generation_number,
)
from ..files.disk import Owner
from ..files.untrusted_paths import Directory, open_directory
from ..install import jars
from ..kahadb.risk_records import read_newest_risk_records_of_store
from ..kahadb.store_marker import read_marker_pair_and_run_id
from ..process.denied_access import describe_denied_path_access
from ..process.proc import (
    Process,
    guard_pid_of_broker,
    is_still_running,
    open_files_with_descriptors,
    proc_status_field_words,
    seconds_since_boot,
)
from ..process.system_accounts import (
    AccountError,
    SystemAccount,
    account_to_access_path_as,
    current_account,
    run_as,
)

MIN_FREE_BYTES = 256 << 20
"""Minimum free bytes in the directories to which a broker writes, for log files and one or two data files. With less
space its next start may fail."""
_HOME_OPTION = "-Dactivemq.home="
_STORE_TIMEOUT = 10.0
STORE_REQUIRES_GUARD = (
    "the store was made with activemq_fence: guard, but the broker runs without a guard, so it waits indefinitely for "
    "the lock. Set activemq_fence to guard and run the playbook site, or run the playbook unfence for this pair"
)
"""The ``store_access`` of a broker without a guard whose store a guard has fenced."""


def gather_release_drift_and_store_facts(
    layout: ConfigurationPaths, process: Process | None, pending_restart: PendingRestartRecord | None, store: str
) -> dict[str, Any]:
    """Gather facts about a broker's health on its host: release, changed files, store access, free space and others.

    They are returned as a dictionary: the values of ``broker_info`` other than the state. ``pending_restart`` decides
    only ``previous_intact``: whether the configuration before the pending restart is unchanged, or None without one.
    """
    name = layout.current_version_name()
    current = read_installed_configuration(layout.directory(name)) if name else None
    store_facts = _store_evidence(store, process, layout.data) if store else {}
    # Reading a store may take seconds. The guard of a broker that has ended in the meantime cannot be determined.
    if process and store_facts.get("is_fenced") and guard_pid_of_broker(process) is None and is_still_running(process):
        store_facts["access"] = STORE_REQUIRES_GUARD
    free = {layout.base: _free_bytes(layout.base)}
    if store:
        free[store] = store_facts.get("free")
    release, unknown_reason = running_release_and_unknown_reason(process) if process else (None, "")
    return {
        "release": release,
        "release_unseen": unknown_reason,
        "home": _home_directory(process) if process else None,
        "age": round(seconds_since_boot() - process.started, 2) if process else None,
        "clock": time.time(),
        "complete": current is not None,
        "drift": _drift_descriptions(current) if current else [],
        "previous_intact": _is_intact(layout, pending_restart.previous) if pending_restart else None,
        "store_access": store_facts.get("access") if store else None,
        "store_marker": store_facts.get("marker"),
        "store_used": store_facts.get("used") if store else None,
        "generation": _used_generation(process, store) if process and store else None,
        "generation_in_force": store_facts.get("in_force"),
        "generations": store_facts.get("generations", []),
        "subscriptions_at_risk": store_facts.get("at_risk", []),
        "risk_records": store_facts.get("risk_records", []),
        "free": {directory: free_bytes for directory, free_bytes in free.items() if free_bytes is not None},
    }


def running_release(process: Process) -> str | None:
    """Return the ActiveMQ release that a broker's process is running, or None if it cannot be determined.

    It is that of the broker's jar that the process has open. The home directory may already contain another release.

    The release is read from the content of the jar, else from its name; None if no jar is visible.
    """
    return running_release_and_unknown_reason(process)[0]


def running_release_and_unknown_reason(process: Process) -> tuple[str | None, str]:
    """Return the ActiveMQ release that a broker's process is running, or None and the reason why it is unknown.

    It is (release, "") or (None, reason).
    """
    descriptor_directory = f"/proc/{process.pid}/fd"
    try:
        files = list(open_files_with_descriptors(process.pid))
    except OSError as error:
        return None, f"{descriptor_directory} cannot be read: {os.strerror(error.errno or 0).lower()}"
    unnamed_jar_reason = ""
    for number, path in files:
        name = os.path.basename(path).removesuffix(" (deleted)")
        if jars.is_broker_jar(name):
            release = jars.release_of_jar_at(f"{descriptor_directory}/{number}", name)
            if release:
                return release, ""
            unnamed_jar_reason = f"neither the content nor the name of the broker's jar {name} contains a release"
    unknown_reason = (
        f"none of the {len(files)} open files of the process is a jar of the broker (activemq-broker, activemq-core or "
        "activemq-all)"
    )
    return None, unnamed_jar_reason or unknown_reason


def _home_directory(process: Process) -> str | None:
    return next((word[len(_HOME_OPTION) :] for word in process.command if word.startswith(_HOME_OPTION)), None)


def _drift_descriptions(version: InstalledVersion) -> list[str]:
    """Return the files of an installed configuration that were changed by hand, each with a description of the change.

    Owners and modes are not compared.
    """
    differences = version.drift_kind_by_file(lambda _mode: Owner())
    return [
        f"{path} {differences[path].value}"
        for path in sorted(differences)
        if differences[path] is not FileDriftKind.OWNER_OR_MODE
    ]


def _is_intact(layout: ConfigurationPaths, name: str) -> bool:
    version = read_installed_configuration(layout.directory(name)) if name else None
    return version is not None and not _drift_descriptions(version)


def _free_bytes(path: str) -> int | None:
    """Return the free bytes of a file system for accounts other than root; None if the path cannot be read."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _used_generation(process: Process, store: str) -> int | None:
    try:
        return writable_generation_number(
            [path for _unused, path in open_files_with_descriptors(process.pid)], shared_store_directory(store)
        )
    except OSError:
        return None


def _store_evidence(store: str, process: Process | None, data: str) -> dict[str, Any]:
    """Return ``access``, ``marker``, ``used``, ``free``, ``is_fenced``, ``in_force`` and ``generations`` of a store.

    All values are as the broker's process sees them. ``data``: the broker's data directory, by whose owner the store of
    a stopped broker, or of one that has ended in the meantime, is read.
    """
    try:
        account, root = current_account() if process else _account_of_stopped_broker(data), None
        if process and os.geteuid() == 0:
            # Opened as root, because the broker's account may lack the permission to inspect its process.
            root = os.open(f"/proc/{process.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            uid, gid = (int(proc_status_field_words(process.pid, name)[1]) for name in ("Uid", "Gid"))
            account = SystemAccount(uid, gid, tuple(map(int, proc_status_field_words(process.pid, "Groups"))))
        try:
            return run_as(account, _read_store_evidence, store, root, patience=_STORE_TIMEOUT, in_child=True)
        finally:
            if root is not None:
                os.close(root)
    except AccountError:  # The child has exceeded the time. A second attempt would double it.
        return {"access": f"the file system of the store {store} does not answer within {_STORE_TIMEOUT:g} s"}
    except (OSError, IndexError):
        if process and not is_still_running(process):
            return _store_evidence(store, None, data)
        return {"access": f"the file system of the store {store} does not answer within {_STORE_TIMEOUT:g} s"}
    except NodeError as error:
        return {"access": str(error)}


def _account_of_stopped_broker(data: str) -> SystemAccount:
    """Return the account that owns a broker's data directory; the current one if this cannot be determined."""
    try:
        return account_to_access_path_as(data)
    except (NodeError, OSError):
        return current_account()


def _read_store_evidence(store: str, root: int | None) -> dict[str, Any]:
    """Return ``access``, ``marker``, ``used``, ``free``, ``is_fenced``, ``in_force``, ``generations`` and the records
    of a store.

    All values are as the account of this process sees them. ``used`` is None if the store cannot be read.
    ``is_fenced``: a guard has replaced the lock file of the store by a directory, which a broker cannot lock.

    Raises NodeError for an invalid store or marker; OSError.
    """
    store_facts: dict[str, Any] = {"access": "", "marker": None, "used": None, "free": None}
    local_directory, root_prefix = os.path.dirname(store), "" if root is None else f"/proc/self/fd/{root}"
    store = shared_store_directory(store, root)
    try:
        directory = open_directory(store, root)
    except FileNotFoundError:
        return {**store_facts, "used": False, "access": f"the store directory {store} does not exist"}
    except OSError as error:
        return {**store_facts, "access": _explain_error(error, store, root_prefix)}
    with directory:
        try:
            store_facts["used"] = was_store_ever_used(store, root)
        except OSError as error:
            return {**store_facts, "access": _explain_error(error, store, root_prefix)}
        with contextlib.suppress(OSError):
            store_facts["marker"] = read_marker_pair_and_run_id(directory)
        free = shutil.disk_usage(directory.descriptor).free
        # Root does not follow the paths of records in a store that another account can change.
        with contextlib.suppress(OSError, FenceError):
            store_facts["in_force"] = newest_claimed_generation_number(root_prefix + store)
            store_facts["generations"] = recent_store_copies_made_by_host(
                root_prefix + store, root_prefix + local_directory
            )
        with contextlib.suppress(OSError):
            records = [
                replace(record, path=record.path[len(root_prefix) :])
                for record in read_newest_risk_records_of_store(root_prefix + store)
            ]
            store_facts["at_risk"] = [record.describe_risk() for record in records]
            store_facts["risk_records"] = [record.to_dict() for record in records]
        return {
            **store_facts,
            "access": _lock_access_problem(directory, root_prefix),
            "is_fenced": directory.is_directory("lock"),
            "free": free,
        }


def _explain_error(error: OSError, path: str, root: str) -> str:
    """Return why the account of this process cannot use a path below ``root``, after the error of the attempt."""
    if isinstance(error, PermissionError):
        return describe_denied_path_access(current_account(), path, root=root)
    return f"{path}: {os.strerror(error.errno or 0).lower()}"


def _lock_access_problem(directory: Directory, root: str) -> str:
    """Return why the store's lock file cannot be opened for locking; empty if it can. The file is not locked."""
    if directory.is_directory("lock"):
        with directory.open_subdirectory("fence") as fence:
            return _lock_access_problem(fence, root)
    try:
        # No O_CREAT: only brokers and guards create the lock file.
        os.close(directory.open_file("lock", write=True))
    except FileNotFoundError:
        is_writable = os.access(".", os.W_OK | os.X_OK, dir_fd=directory.descriptor)
        return "" if is_writable else describe_denied_path_access(current_account(), directory.path, root=root)
    except OSError as error:
        return _explain_error(error, f"{directory.path}/lock", root)
    return ""
