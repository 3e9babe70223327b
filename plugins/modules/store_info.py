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
  - Reads the journal of the store (releases 5.3 to 5.7), whether the broker runs or not, and returns which
    messages and durable subscriptions it holds and of which it has ever heard, as hashes. From that of both
    nodes of a pair the controller tells which store is the newer one. No time of a file is looked at.
  - It changes nothing. It needs to read the broker's files, so run it as root or as the broker's account.
options:
  directory:
    description: The kahaDB directory.
    type: path
    required: true
  contents:
    description: Whether to read the journal. It takes a minute for some gigabytes.
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
  description: Whether the directory is there.
  type: bool
  returned: always
locked:
  description: Whether a process holds the lock of the store.
  type: bool
  returned: always
pid:
  description: The broker's process, or null.
  type: int
  returned: always
boot:
  description: What the kernel calls the machine's present boot.
  type: str
  returned: always
unfinished:
  description: Whether a copy was being put in place when something ended it.
  type: bool
  returned: always
obstacle:
  description: Why the store could not be replaced, or nothing.
  type: str
  returned: always
allocated:
  description: Bytes that the store takes of its disk.
  type: int
  returned: always
free:
  description: Free bytes on the file system of the store.
  type: int
  returned: always
runs:
  description:
    - The runs of which the log tells, oldest first. C(began) is local time. C(served) means that a slave
      lost its master, or found none. C(attached) counts the slaves that a master saw.
  type: list
  elements: dict
  returned: always
seen:
  description: Whether the journal was read. What follows is empty otherwise.
  type: bool
  returned: always
files:
  description: Number and size of each journal file.
  type: list
  elements: list
  returned: always
end:
  description: File and offset of the journal's end.
  type: list
  elements: int
  returned: always
damaged:
  description: Places of the journal that cannot be read.
  type: int
  returned: always
loads:
  description: What the journal says of the last starts of a broker.
  type: list
  elements: str
  returned: always
messages:
  description: How many messages and subscriptions the store holds.
  type: int
  returned: always
records:
  description: How many records the journal has about messages and subscriptions.
  type: int
  returned: always
whole:
  description: Whether all records are told, not only the newest million.
  type: bool
  returned: always
order:
  description: The records, oldest first, packed.
  type: str
  returned: always
live:
  description: What the store holds, packed.
  type: str
  returned: always
state:
  description: SHA-256 of what the store holds. Equal stores have equal ones.
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
from ansible_collections.activemq.fleet.plugins.module_utils.node.process.proc import boot_id, find_broker
from ansible_collections.activemq.fleet.plugins.module_utils.node.process.system_accounts import account_for, run_as
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def gather_store_evidence(base: str, directory: str, read: bool, user: str | None = None) -> dict[str, Any]:
    """Return the evidence of a pure broker's store and log, as the module's result. Raises NodeError, OSError."""
    process = find_broker(base)
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
        "runs": run_as(account_for(data, user), pure_log.read_runs, data),
        **run_as(account_for(directory, user), _read_store_evidence, directory, read),
    }


def _read_store_evidence(directory: str, read: bool) -> dict[str, Any]:
    """Return the existence, lock, size and messages of a store; called as the account that owns it."""
    return {
        "exists": store_files.store_mode(directory) is not None,
        "locked": store_files.is_locked(directory),
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
        "the store {directory} cannot be read: {error}",
    )


if __name__ == "__main__":
    main()
