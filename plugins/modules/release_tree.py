#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.release_tree``: puts an unpacked release into its directory, or replaces the running one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_tree
short_description: Rename the directory of an unpacked ActiveMQ release to its final name
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A part of the role C(activemq.fleet.broker). It is no interface for other playbooks and may change at any
    time.
  - The module renames the unpacked directory C(HOME.new) to O(home) if its broker jars are of the release O(release),
    according to the content of the jars. Otherwise, the module removes C(HOME.new) and fails.
  - A directory O(home) with a different release is replaced. While a process runs from O(home), the new directory keeps
    the name C(HOME.new).
options:
  home:
    description: The final directory of the ActiveMQ release.
    type: path
    required: true
  release:
    description: The required ActiveMQ release.
    type: str
    required: true
  state:
    description:
      - V(placed) renames C(HOME.new) to O(home), or keeps it while a process runs from O(home). V(exchanged) stops
        O(unit), renames O(home) to C(HOME.old) and C(HOME.new) to O(home), and starts O(unit). V(restored) stops
        O(unit), renames C(HOME.old) to O(home) and starts O(unit). V(recovered) does the same as V(restored), but only
        if an interrupted run has left no directory O(home). V(cleared) removes C(HOME.old) if O(home) contains
        O(release).
      - Each state depends only on the files on the disk, so the next run continues an interrupted run.
    type: str
    choices: [placed, exchanged, restored, recovered, cleared]
    default: placed
  source:
    description: The name of the archive in the error message that C(HOME.new) contains a different release.
    type: str
    default: the unpacked archive
  unit:
    description: The systemd service unit of the broker. Required for V(exchanged), V(restored) and V(recovered) of
      O(state).
    type: str
attributes:
  check_mode:
    description: The module is skipped, because check mode unpacks nothing.
    support: none
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Rename the directory of the unpacked release
  activemq.fleet.release_tree:
    home: /opt/activemq-5.18.6
    release: 5.18.6
"""

RETURN = r"""
waits:
  description: Whether the new release keeps the name C(HOME.new), because a process still runs from O(home).
  type: bool
  returned: for V(placed) of O(state)
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.install import release_tree
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module

STATES: dict[str, tuple[Callable[..., dict[str, Any]], tuple[str, ...]]] = {
    "placed": (release_tree.move_new_release_into_place, ("home", "release", "source")),
    "exchanged": (release_tree.replace_running_release, ("home", "release", "unit")),
    "restored": (release_tree.restore_old_release, ("home", "release", "unit")),
    "recovered": (release_tree.recover_interrupted_replacement, ("home", "unit")),
    "cleared": (release_tree.remove_old_release, ("home", "release")),
}
"""By state the function that reaches it, and the parameters that the function takes."""


def _ensure_release_state(parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Ensure the requested state of an ActiveMQ release's directory, and return the module's result.

    Raises NodeError.
    """
    function, names = STATES[parameters["state"]]
    try:
        return function(*(parameters[name] for name in names))
    except OSError as error:
        raise NodeError(
            f"the directory of ActiveMQ {parameters['release']} cannot be changed ({error.strerror}: "
            f"{error.filename or parameters['home']}). Correct this error, and run the playbook again"
        ) from None


def main() -> None:
    spec = {
        "home": {"type": "path", "required": True},
        "release": {"type": "str", "required": True},
        "state": {"type": "str", "choices": list(STATES), "default": "placed"},
        "source": {"type": "str", "default": "the unpacked archive"},
        "unit": {"type": "str"},
    }
    needs_unit = [("state", state, ["unit"]) for state, (_unused, names) in STATES.items() if "unit" in names]
    run_module(spec, _ensure_release_state, supports_check_mode=False, required_if=needs_unit)


if __name__ == "__main__":
    main()
