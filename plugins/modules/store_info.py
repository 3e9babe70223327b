#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.store_info``: returns what the store of a pure broker holds, to be compared with its peer's."""

from __future__ import annotations

DOCUMENTATION = r"""
module: store_info
short_description: Gather facts about the KahaDB store of a broker and its last runs
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A part of the playbook C(activemq.fleet.resync). It is no interface for other playbooks and may change at any
    time.
  - The module reads the journal of the store (releases 5.3 to 5.7), whether the broker runs or not. It returns hashes
    of the messages and durable subscriptions in the store, and of all others about which the journal has records. From
    the results of both nodes of a pair the controller determines which store is newer. File times are not used.
  - The module changes nothing. It must read the broker's files, so run it as root or as the broker's account.
options:
  directory:
    description: The kahaDB directory.
    type: path
    required: true
  contents:
    description: Whether to read the journal of the store. This takes about a minute for some gigabytes.
    type: bool
    default: true
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.reader
  - activemq.fleet.broker.unchanging
"""

EXAMPLES = r"""
- name: Inspect the store
  activemq.fleet.store_info:
    base: /var/lib/activemq/activemq
    directory: /var/lib/activemq/activemq/data/kahadb
  register: store
"""

RETURN = r"""
exists:
  description: Whether the directory exists.
  type: bool
  returned: always
locked:
  description: Whether a process holds the lock of the store.
  type: bool
  returned: always
pid:
  description: The process ID of the running broker, or null.
  type: int
  returned: always
boot:
  description: The kernel's ID of the current boot.
  type: str
  returned: always
unfinished:
  description: Whether the replacement of the store by a copy was interrupted.
  type: bool
  returned: always
obstacle:
  description: Why the store cannot be replaced, or empty.
  type: str
  returned: always
allocated:
  description: The disk usage of the store in bytes.
  type: int
  returned: always
free:
  description: Free bytes on the file system of the store.
  type: int
  returned: always
runs:
  description:
    - The runs of the broker in its log, oldest first. C(began) is the start in local time. C(served) is whether the
      broker was a slave that served clients because it lost its master or had none. C(attached) is how often a slave
      attached to the broker as its master.
  type: list
  elements: dict
  returned: always
seen:
  description: Whether the module read the journal. Otherwise, RV(files) and all values after it are empty.
  type: bool
  returned: always
files:
  description: The number and the size of each journal file.
  type: list
  elements: list
  returned: always
end:
  description: The file number and the offset at which the journal ends.
  type: list
  elements: int
  returned: always
damaged:
  description: The number of places in the journal that cannot be read.
  type: int
  returned: always
loads:
  description: The records in the journal that brokers wrote at their last starts with this store.
  type: list
  elements: str
  returned: always
messages:
  description: The number of messages and subscriptions in the store.
  type: int
  returned: always
records:
  description: The number of records about messages and subscriptions in the journal.
  type: int
  returned: always
whole:
  description: Whether RV(order) contains all records, not only the newest million.
  type: bool
  returned: always
order:
  description: The compressed records of the journal about messages and subscriptions, oldest first.
  type: str
  returned: always
live:
  description: The compressed list of the messages and subscriptions in the store.
  type: str
  returned: always
state:
  description: The SHA-256 of the store's content; identical stores have the same value.
  type: str
  returned: always
"""

import os
import shutil
from contextlib import suppress
from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.files.untrusted_paths import open_directory
from ansible_collections.activemq.fleet.plugins.module_utils.node.kahadb import messages, store_copy, store_files
from ansible_collections.activemq.fleet.plugins.module_utils.node.log import pure_log
from ansible_collections.activemq.fleet.plugins.module_utils.node.process.proc import boot_id, find_broker_process
from ansible_collections.activemq.fleet.plugins.module_utils.node.process.system_accounts import (
    account_for_path,
    run_as,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def gather_store_evidence(base: str, directory: str, read: bool, user: str | None = None) -> dict[str, Any]:
    """Return facts about the KahaDB store of a broker with pure master/slave replication, and about its last runs.

    The broker's log is read, too. Raises NodeError, OSError.
    """
    process = find_broker_process(base)
    free = 0
    with suppress(FileNotFoundError, NodeError), open_directory(os.path.dirname(directory)) as parent:
        free = shutil.disk_usage(parent.descriptor).free
    data = os.path.join(base, "data")
    return {
        "changed": False,
        "pid": process.pid if process else None,
        "boot": boot_id(),
        "unfinished": store_copy.is_replacement_unfinished(directory, user),
        "obstacle": store_copy.replacement_obstacle(directory, user=user),
        "free": free,
        "runs": run_as(account_for_path(data, user), pure_log.read_pure_master_slave_runs, data),
        **run_as(account_for_path(directory, user), _read_store_evidence, directory, read),
    }


def _read_store_evidence(directory: str, read: bool) -> dict[str, Any]:
    """Return the existence, lock, size and messages of a store; called as the account that owns it."""
    return {
        "exists": store_files.store_directory_mode(directory) is not None,
        "locked": store_files.is_store_locked(directory),
        "allocated": store_files.allocated_bytes(directory),
        **(messages.read_store_contents(directory) if read else messages.UNSEEN),
    }


def main() -> None:
    spec = {
        "base": {"type": "path", "required": True},
        "directory": {"type": "path", "required": True},
        "contents": {"type": "bool", "default": True},
        "user": {"type": "str"},
    }
    run_module(
        spec,
        lambda given, _check: gather_store_evidence(*(given[name] for name in spec)),
        "the store {directory} of this host cannot be read ({error}). Correct the cause, and run the playbook again",
    )


if __name__ == "__main__":
    main()
