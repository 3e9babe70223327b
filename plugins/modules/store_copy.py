#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.store_copy``: does one step of copying a store from one host to another."""

from __future__ import annotations

DOCUMENTATION = r"""
module: store_copy
short_description: Copy the store of a broker from one host to another, and verify the copy
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - The module copies a kahaDB directory between two hosts through the controller, over Ansible's connections only. The
    receiving host verifies every file by its SHA-256. The module continues an interrupted transfer, does not transfer
    identical files, and replaces the store by renaming the copy.
  - The module keeps the previous store in the directory C(DIRECTORY.before-TIME), and its checksums in the file
    C(DIRECTORY.before-TIME.json). It never overwrites or removes such a backup.
  - The steps are, in this order, V(manifest) on the source host, V(staged) on the receiving host, V(fetched) on the
    source host, V(placed) and V(switched) on the receiving host. Each step may be repeated.
  - The data is transferred in chunks of 8 MiB, each as the argument or the result of a module, with one task per chunk.
    A copy of some gigabytes takes minutes. The controller requires as much free space as the transferred files.
  - If the store belongs to another account, root reads and writes it with the rights of that account. Root keeps its
    own data in C(/var/lib/activemq-fleet), which no other account can enter.
  - The broker must be stopped on both hosts. The module fails if a process holds the lock of the store.
options:
  state:
    description:
      - V(manifest) returns the files to copy. V(staged) creates the directory of the copy, and returns the files that
        are not complete yet. V(fetched) copies the missing data to the controller, and V(placed) copies it from there
        to the receiving host. V(switched) verifies the copy and replaces the store. V(finished) completes an
        interrupted V(switched).
      - V(read) and V(written) transfer one chunk; V(fetched) and V(placed) use them.
    type: str
    choices: [manifest, staged, fetched, placed, switched, finished, read, written]
    required: true
  directory:
    description: The kahaDB directory on the host on which the task runs.
    type: path
    required: true
  files:
    description: The RV(files) that O(state=manifest) returned.
    type: dict
    default: {}
  missing:
    description: The RV(missing) that O(state=staged) returned.
    type: dict
    default: {}
  spool:
    description:
      - The directory on the controller that holds the copied files between O(state=fetched) and O(state=placed). The
        module removes the content of this directory after the transfer. The default is C(activemq-fleet/resync) in the
        directory C(ANSIBLE_HOME).
    type: str
  user:
    description:
      - The account of the broker, which owns the store. If the module runs as root, it reads and writes the store with
        the rights of this account. To find the default, the module checks the path of the store from C(/) on. The
        default is the owner of the first directory in which an account other than root can rename files, or else root.
      - With O(user=root), the module fails if another account could replace the files.
    type: str
  source:
    description: The name of the host from which the store is copied. The module writes it to
      C(DIRECTORY.before-TIME.json).
    type: str
    default: ""
  name:
    description: For O(state=read) and O(state=written), the name of the file to transfer.
    type: str
  offset:
    description: For O(state=read) and O(state=written), the offset of the chunk in the file, in bytes.
    type: int
    default: 0
  data:
    description: For O(state=written), the compressed content of the chunk.
    type: str
attributes:
  check_mode:
    description: The module changes nothing, and returns C(skipped).
    support: partial
    details: O(state=manifest) does the same as without check mode.
  diff_mode:
    description: The module shows no differences, because they would show messages.
    support: none
"""

EXAMPLES = r"""
- name: List the files of the store
  activemq.fleet.store_copy:
    state: manifest
    directory: /var/lib/activemq/activemq/data/kahadb
  register: manifest

- name: Prepare the directory on the other node
  activemq.fleet.store_copy:
    state: staged
    directory: /var/lib/activemq/activemq/data/kahadb
    files: "{{ manifest.files }}"
  delegate_to: orders-mq01-b.example.com
  register: staged
"""

RETURN = r"""
files:
  description: For each file, its size in bytes, its SHA-256 and its mode.
  type: dict
  returned: for O(state=manifest)
identity:
  description: A fingerprint of the store's content.
  type: str
  returned: for O(state=manifest)
missing:
  description: For each file that is not complete on the receiving host, the number of bytes that it already has.
  type: dict
  returned: for O(state=staged)
backup:
  description: The path of the previous store's backup, or empty if there was no previous store.
  type: str
  returned: for O(state=switched) and O(state=finished)
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.kahadb import store_copy
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def _perform_copy_step(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Do one step of copying a kahaDB store between hosts, and return the module's result.

    Raises NodeError, OSError.
    """
    state, directory, files, user = (parameters[name] for name in ("state", "directory", "files", "user"))
    if state in ("fetched", "placed"):
        raise NodeError(
            f"the module file store_copy.py ran with state={state} on a host, but only its action plugin on the "
            "controller can perform this state. Do not run this file directly: run activemq.fleet.store_copy as a task "
            "of a playbook"
        )
    if state == "manifest":
        store_copy.check_store_not_locked(directory, user)
        manifest = store_copy.store_manifest(directory, user)
        return {"changed": False, "files": manifest, "identity": store_copy.store_fingerprint(manifest)}
    if state == "read":
        size = files[parameters["name"]]["size"]
        return {
            "changed": False,
            "data": store_copy.read_packed_chunk(directory, parameters["name"], parameters["offset"], size, user),
        }
    if check:
        return {"changed": True, "missing": {}, "backup": "", "skipped": True}
    if state == "staged":
        return {"changed": True, "missing": store_copy.prepare_staging_and_list_missing_files(directory, files, user)}
    if state == "written":
        length = store_copy.append_compressed_chunk(
            directory, files, parameters["name"], parameters["offset"], parameters["data"], user
        )
        return {"changed": True, "length": length}
    if state == "switched":
        return {
            "changed": True,
            "backup": store_copy.replace_store_by_copy(directory, files, parameters["source"], user),
        }
    return {"changed": True, "backup": store_copy.finish_replacement_and_return_backup(directory, user)}


def main() -> None:
    states = ["manifest", "staged", "fetched", "placed", "switched", "finished", "read", "written"]
    spec = {
        "state": {"type": "str", "choices": states, "required": True},
        "directory": {"type": "path", "required": True},
        "files": {"type": "dict", "default": {}},
        "missing": {"type": "dict", "default": {}},
        "spool": {"type": "str"},
        "user": {"type": "str"},
        "source": {"type": "str", "default": ""},
        "name": {"type": "str"},
        "offset": {"type": "int", "default": 0},
        # The data contains messages, which must not appear in a log.
        "data": {"type": "str", "no_log": True},
    }
    run_module(
        spec, _perform_copy_step, required_if=[("state", "read", ["name"]), ("state", "written", ["name", "data"])]
    )


if __name__ == "__main__":
    main()
