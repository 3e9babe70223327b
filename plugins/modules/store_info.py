#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.store_info``: returns what the store of a pure broker holds, to be compared with its peer's."""

from __future__ import annotations

DOCUMENTATION = r"""
module: store_info
short_description: Gather facts about a broker's KahaDB store and about the broker's last runs
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the playbook C(activemq.fleet.resync). Do not use it in other playbooks, because it may
    change at any time.
  - The module reads the journal of the store (releases 5.3 to 5.7), whether the broker runs or not. It returns hashes
    of the messages and durable subscriptions that the store contains. It also returns hashes of those that the store no
    longer contains, but that the journal still has records about. From the results of both nodes of a pair, the
    controller determines which store is newer. It does not compare file times.
  - The module changes nothing. It must read the broker's files, so run the module as root or as the broker's account.
options:
  directory:
    description: The kahaDB directory.
    type: path
    required: true
  contents:
    description: Whether to read the journal of the store. This takes about a minute for a store of some gigabytes.
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
  description: The boot ID of the kernel, which identifies the host until its next boot.
  type: str
  returned: always
unfinished:
  description: Whether an earlier run was interrupted while it replaced the store by a copy.
  type: bool
  returned: always
obstacle:
  description: The reason why the store cannot be replaced. It is empty if the store can be replaced.
  type: str
  returned: always
allocated:
  description: The disk usage of the store in bytes.
  type: int
  returned: always
free:
  description:
    - The free space in bytes on the file system that contains the store, and the space of interrupted copies next to
      the store, which the next copy continues or removes.
  type: int
  returned: always
runs:
  description:
    - The runs of the broker that its log shows, oldest first. C(began) is the start time of the run in local time.
      C(started) is whether the broker completed its start. C(served) is whether the broker was a slave that served
      clients, because it lost its master or had none.
    - C(attached) is how often a slave connected to this broker as its master. C(established) is whether the broker
      connected to its master as a slave.
  type: list
  elements: dict
  returned: always
seen:
  description:
    - Whether the module read the journal. If it did not, RV(files), RV(end), RV(damaged), RV(loads), RV(messages),
      RV(records), RV(whole), RV(order), RV(live) and RV(state) are empty, 0, null or false.
  type: bool
  returned: always
files:
  description: For each journal file, a list of its number, such as 12 for C(db-12.log), and its size in bytes.
  type: list
  elements: list
  returned: always
end:
  description: The file number and the offset at which the journal ends.
  type: list
  elements: int
  returned: always
damaged:
  description:
    - The number of damaged places in the store. These are places in the journal that the module cannot read, an index
      that the module cannot read, and a journal that lacks records to which the index refers.
  type: int
  returned: always
loads:
  description: The records that a broker wrote to the journal each time it started with this store. Only the newest
    records are returned.
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
  description: Whether RV(order) and RV(live) are complete. Each contains at most one million entries.
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
from contextlib import suppress
from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.kahadb import content_hashes, store_copy, store_files
from ansible_collections.activemq.fleet.plugins.module_utils.node.log import pure_log
from ansible_collections.activemq.fleet.plugins.module_utils.node.process.proc import boot_id, find_broker_process
from ansible_collections.activemq.fleet.plugins.module_utils.node.process.system_accounts import (
    account_to_access_path_as,
    run_as,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def gather_store_and_run_facts(
    base: str, directory: str, read_journal: bool, user: str | None = None
) -> dict[str, Any]:
    """Return facts about a broker's KahaDB store, and about the broker's last runs, as the module store_info does.

    The broker has pure master/slave replication. Its runs are those that its log shows. The journal of the store is
    only read with ``read_journal``. Raises NodeError, OSError.
    """
    process = find_broker_process(base)
    free = 0
    with suppress(FileNotFoundError, NodeError):
        free = store_copy.bytes_available_for_store_copy(directory, user)
    data = os.path.join(base, "data")
    return {
        "changed": False,
        "pid": process.pid if process else None,
        "boot": boot_id(),
        "unfinished": store_copy.is_replacement_unfinished(directory, user),
        "obstacle": store_copy.replacement_obstacle(directory, user=user),
        "free": free,
        "runs": run_as(account_to_access_path_as(data, user), pure_log.read_pure_master_slave_runs, data),
        **run_as(account_to_access_path_as(directory, user), _read_store_evidence, directory, read_journal),
    }


def _read_store_evidence(directory: str, read_journal: bool) -> dict[str, Any]:
    """Return the existence, lock, size and messages of a store; called as the account that owns it."""
    return {
        "exists": store_files.store_directory_mode(directory) is not None,
        "locked": store_files.is_store_locked(directory),
        "allocated": store_files.allocated_bytes(directory),
        **(
            content_hashes.compute_message_and_subscription_hashes(directory) if read_journal else content_hashes.UNSEEN
        ),
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
        lambda parameters, _check: gather_store_and_run_facts(*(parameters[name] for name in spec)),
        "the store {directory} of this host cannot be read ({error}). Correct the cause, and run the playbook again",
    )


if __name__ == "__main__":
    main()
