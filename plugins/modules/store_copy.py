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
  - Copies a directory between two hosts through the controller, over nothing but Ansible's own connections.
    Every file is verified by its SHA-256 where it arrives, what was cut short is continued, files that the
    other host has already do not travel, and the copy takes its place by a rename.
  - The previous store is kept next to it under the name C(DIRECTORY.before-TIME), with its sums in a file of
    that name with C(.json). No such backup is ever overwritten or removed.
  - The steps are, in this order, V(manifest) on the host that has the store, V(staged) on the one that gets
    it, V(fetched) on the first, V(placed) and V(switched) on the second. Any of them may be repeated.
  - A copy travels in pieces of 8 MiB, each the argument or the result of a module, so that it costs the time of
    a task for each of them. A copy of some gigabytes takes minutes. The controller needs as much free space as
    the files that travel.
  - Root acts on the store of another account as that account only, and keeps what it must remember in
    C(/var/lib/activemq-fleet), which no other account can enter.
  - The broker must have ended on both hosts. A store whose lock is held is refused.
options:
  state:
    description:
      - V(manifest) returns what is to be copied. V(staged) makes room and returns what has yet to come.
        V(fetched) brings that to the controller. V(placed) takes it from there. V(switched) verifies all of it
        and puts it in place. V(finished) does only what is left of a V(switched) that was cut short.
      - V(read) and V(written) move one piece, and are what V(fetched) and V(placed) are made of.
    type: str
    choices: [manifest, staged, fetched, placed, switched, finished, read, written]
    required: true
  directory:
    description: The kahaDB directory, on the host that the task is for.
    type: path
    required: true
  files:
    description: What RV(files) of V(manifest) was.
    type: dict
    default: {}
  missing:
    description: What RV(missing) of V(staged) was.
    type: dict
    default: {}
  spool:
    description:
      - A directory on the controller for V(fetched) and V(placed). What is below it goes when all has arrived.
        By default C(activemq-fleet/resync) in Ansible's own home.
    type: str
  user:
    description:
      - The account of the broker, to which the store belongs. As root all that has to do with the store is done as
        this account. Without it as the one to which the first directory on the way to the store belongs that is not
        root's. Root itself is refused where another account could exchange what lies there.
    type: str
  source:
    description: The host of the store, for the notes next to the backup.
    type: str
    default: ""
  name:
    description: A file, for V(read) and V(written).
    type: str
  offset:
    description: Where in the file the piece begins.
    type: int
    default: 0
  data:
    description: The piece, packed.
    type: str
attributes:
  check_mode:
    description: It does nothing and says so.
    support: partial
    details: Only V(manifest) does the same as without.
  diff_mode:
    description: Messages are not shown.
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
  description: Size, sha256 and mode of each file.
  type: dict
  returned: for O(state=manifest)
identity:
  description: A name for exactly these contents.
  type: str
  returned: for O(state=manifest)
missing:
  description: For each file that has yet to come, how much of it is there.
  type: dict
  returned: for O(state=staged)
backup:
  description: Where the store is kept that was there, or nothing.
  type: str
  returned: for O(state=switched) and O(state=finished)
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.kahadb import store_copy
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def do_copy_step(wanted: dict[str, Any], check: bool) -> dict[str, Any]:
    """Do one step of copying a kahaDB store between hosts; return the module's result. Raises NodeError, OSError."""
    state, directory, files, user = (wanted[name] for name in ("state", "directory", "files", "user"))
    if state in ("fetched", "placed"):
        raise NodeError("this value of state runs on the controller: call the module as an Ansible task")
    if state == "manifest":
        store_copy.refuse_locked(directory, user)
        manifest = store_copy.manifest(directory, user)
        return {"changed": False, "files": manifest, "identity": store_copy.identity(manifest)}
    if state == "read":
        size = files[wanted["name"]]["size"]
        return {
            "changed": False,
            "data": store_copy.read_chunk(directory, wanted["name"], wanted["offset"], size, user),
        }
    if check:
        return {"changed": True, "missing": {}, "backup": "", "skipped": True}
    if state == "staged":
        return {"changed": True, "missing": store_copy.stage_copy(directory, files, user)}
    if state == "written":
        length = store_copy.append_chunk(directory, files, wanted["name"], wanted["offset"], wanted["data"], user)
        return {"changed": True, "length": length}
    if state == "switched":
        return {"changed": True, "backup": store_copy.replace_by_copy(directory, files, wanted["source"], user)}
    return {"changed": True, "backup": store_copy.finish_replacement(directory, user)}


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
        # Messages: they are to appear in no log.
        "data": {"type": "str", "no_log": True},
    }
    run_module(spec, do_copy_step, required_if=[("state", "read", ["name"]), ("state", "written", ["name", "data"])])


if __name__ == "__main__":
    main()
