#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.store_marker``: checks that both nodes of a pair see the same store, by a marker file in it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: store_marker
short_description: Manage the marker of a store that two brokers share
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the playbook C(activemq.fleet.site). Do not use it in other playbooks, because it may
    change at any time.
  - If a network share is not mounted, both nodes of a pair could become active, each on a local directory. To prevent
    this, a shared store contains the marker file C(.activemq-fleet-pair) with the name of the pair, and a broker does
    not start without it. One node writes the marker once, to an empty store, with the ID of the playbook run. The other
    node must read the same ID.
options:
  directory:
    description: The directory of the shared store, C(activemq_store_directory).
    type: path
    required: true
  pair:
    description: The name of the pair.
    type: str
    required: true
  state:
    description:
      - V(look) changes nothing. V(claimed) writes the marker, and creates a missing directory below a mount point.
        V(confirmed) fails if the marker does not contain O(word). V(withdrawn) removes a marker that contains O(word).
    type: str
    choices: [look, claimed, confirmed, withdrawn]
    default: look
  word:
    description: The unique ID of the playbook run, which V(claimed) writes into the marker. It is required for all
      states except V(look).
    type: str
  user:
    description:
      - The account of the broker. A directory that V(claimed) creates belongs to this account. If the module runs as
        root, it reads and writes the store with the rights of this account.
    type: str
attributes:
  check_mode:
    description: The module reports whether it would change the marker.
    support: full
  diff_mode:
    description: The module does not show the content of the marker.
    support: none
"""

EXAMPLES = r"""
- name: Check the store
  activemq.fleet.store_marker:
    directory: /srv/activemq/orders-mq01
    pair: orders-mq01
"""

RETURN = r"""
exists:
  description: Whether the directory exists.
  type: bool
  returned: for O(state=look)
mounted:
  description: Whether the directory, or a directory above it other than the root, is a mount point.
  type: bool
  returned: for O(state=look)
used:
  description: Whether a broker has used the store.
  type: bool
  returned: for O(state=look)
fenced:
  description: Whether brokers with C(activemq_fence=guard) use the store. Such a store has a directory in place of the
    lock file.
  type: bool
  version_added: 0.2.0
  returned: for O(state=look)
marked:
  description: The lines of the marker file, or null if the store has no marker.
  type: list
  elements: str
  returned: for O(state=look)
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.kahadb import store_marker
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def _check_or_change_marker(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Check or change the marker that assigns a store to its pair, and return the module's result.

    The actions are to read, write, compare or remove it. Raises NodeError, OSError.
    """
    directory, word, state, user = (parameters[name] for name in ("directory", "word", "state", "user"))
    marker_state = store_marker.read_store_and_marker_state(directory, user)
    if state == "look":
        return {"changed": False, **marker_state}
    if check:
        return {"changed": state == "claimed" and marker_state["marked"] is None}
    if state == "claimed":
        return {"changed": store_marker.claim_empty_store(directory, parameters["pair"], word, user)}
    if state == "withdrawn":
        return {"changed": store_marker.remove_marker_of_run(directory, word, user)}
    if word not in (marker_state["marked"] or ()):
        raise NodeError(
            f"the store directory {directory} is not the same directory as on the other node of pair "
            f"{parameters['pair']}, so both nodes could become active. Mount the same share on both nodes"
        )
    return {"changed": False}


def main() -> None:
    spec = {
        "directory": {"type": "path", "required": True},
        "pair": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["look", "claimed", "confirmed", "withdrawn"], "default": "look"},
        "word": {"type": "str"},
        "user": {"type": "str"},
    }
    needs_word = [("state", state, ["word"]) for state in ("claimed", "confirmed", "withdrawn")]
    run_module(
        spec,
        _check_or_change_marker,
        "the shared store of pair {pair} cannot be used on this host: {error}",
        required_if=needs_word,
    )


if __name__ == "__main__":
    main()
