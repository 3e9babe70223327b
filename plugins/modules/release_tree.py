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
  - This module is internal to the role C(activemq.fleet.broker). Do not use it in other playbooks, because it may
    change at any time.
  - The unpacked release is in the directory C(HOME.new). The module reads the release from the broker jars in this
    directory. If it is O(release), the module renames C(HOME.new) to O(home). Otherwise, the module removes C(HOME.new)
    and fails.
  - The module replaces a directory O(home) that contains a different release. While a process runs from O(home), the
    new directory keeps the name C(HOME.new).
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
      - V(placed) renames C(HOME.new) to O(home). While a process runs from O(home), V(placed) renames nothing.
      - V(exchanged) stops O(unit), renames O(home) to C(HOME.old) and C(HOME.new) to O(home), and starts O(unit).
      - V(restored) stops O(unit), renames C(HOME.old) to O(home), and starts O(unit).
      - V(recovered) is for an interrupted V(exchanged). If the directory O(home) is missing, it renames C(HOME.old) to
        O(home) and starts O(unit).
      - V(cleared) removes C(HOME.old) if O(home) contains O(release), and no process runs from C(HOME.old).
      - Each state depends only on the files on the disk, so the next run continues an interrupted run.
    type: str
    choices: [placed, exchanged, restored, recovered, cleared]
    default: placed
  source:
    description: The name of the archive from which C(HOME.new) was unpacked. The module shows this name in its error
      message if C(HOME.new) contains a different release.
    type: str
    default: the unpacked archive
  unit:
    description: The systemd service unit of the broker. It is required for O(state=exchanged), O(state=restored) and
      O(state=recovered).
    type: str
attributes:
  check_mode:
    description: Ansible skips the module in check mode, because check mode unpacks nothing.
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
  returned: for O(state=placed)
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.install import release_tree
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module

STATES: dict[str, tuple[Callable[..., dict[str, Any]], tuple[str, ...]]] = {
    "placed": (release_tree.move_new_release_into_unused_home, ("home", "release", "source")),
    "exchanged": (release_tree.replace_running_release, ("home", "release", "unit")),
    "restored": (release_tree.restore_old_release, ("home", "release", "unit")),
    "recovered": (release_tree.roll_back_interrupted_replacement_and_start_unit, ("home", "unit")),
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
