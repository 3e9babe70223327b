# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads which store the running broker of a host uses, and whether guards use the store that it would use next."""

from __future__ import annotations

import os
from typing import Any
from xml.etree.ElementTree import ParseError

from ..config.broker_configuration import read_deployed_broker_settings
from ..config.pending_restart import pending_restart_of_process
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..fence.shared_store import BARRIER, shared_store_directory
from ..files.untrusted_paths import UntrustedPathError
from ..process.proc import Process
from ..process.system_accounts import account_to_access_path_as, is_existing_account, run_as

_READ_TIMEOUT = 60.0
"""Timeout in seconds for reading the directory of a store."""


def running_store_facts(base: str, process: Process | None, next_directory: str | None) -> dict[str, Any] | None:
    """Return facts about the store of the configuration that a host's running broker was started with.

    They are those of ``message_store_facts``, with the shared directory of a store with guards. A path that leads to
    ``next_directory``, the directory of the store in the inventory, is returned as ``next_directory``. Returns None
    without a process, and for a broker whose configuration is not known or cannot be read.
    """
    if process is None:
        return None
    layout = ConfigurationPaths(base)
    try:
        pending = pending_restart_of_process(layout, process)
        version = pending.previous if pending and pending.previous else layout.current_version_name()
        if version is None:
            return None
        deployed = read_deployed_broker_settings(layout, version)
    except (NodeError, OSError, ParseError):
        return None
    directory = shared_store_directory(deployed.store) if deployed.store else None
    return {**deployed.persistence, "directory": store_path_as_in_inventory(directory, next_directory)}


def store_path_as_in_inventory(directory: str | None, inventory_directory: str | None) -> str | None:
    """Return ``inventory_directory``, the path of the store in the inventory, if ``directory`` leads to the same one.

    Otherwise, and if one of both is None, ``directory`` is returned. Equal paths are not read.
    """
    if not directory or not inventory_directory or directory == inventory_directory:
        return directory
    is_same = os.path.realpath(directory) == os.path.realpath(inventory_directory)
    return inventory_directory if is_same else directory


def is_store_fenced(directory: str, user: str) -> bool:
    """Return whether guards use the store in a directory, so that a broker without a guard cannot acquire its lock.

    The directory is read as the account ``user``, or as its owner if ``user`` is not an account of this host. A
    directory that cannot be read counts as a store without guards.
    """
    try:
        account = account_to_access_path_as(directory, user if is_existing_account(user) else None)
        return bool(run_as(account, os.path.isdir, os.path.join(directory, BARRIER), patience=_READ_TIMEOUT))
    except (NodeError, UntrustedPathError, OSError):
        return False
