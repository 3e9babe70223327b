#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.guard``: installs or removes the program that controls access of a broker to its shared store."""

from __future__ import annotations

DOCUMENTATION = r"""
module: guard
short_description: Install or remove the guard, which protects a broker's shared store from a second writer
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Installs the program C(INSTANCE-guard), which the broker's unit starts in place of Java where C(activemq_fence) is
    V(guard). The module does not change the broker. A running guard uses a new program only after its restart.
  - The program is one file. It runs with the Python interpreter of this module, and requires nothing else.
options:
  instance:
    description: The broker's instance, C(activemq_instance).
    type: str
    required: true
  state:
    description: Whether the program must exist.
    type: str
    choices: [present, absent]
    default: present
  directory:
    description: The directory that contains the program.
    type: path
    default: /usr/local/sbin
attributes:
  check_mode:
    description: Reports whether the module would change anything.
    support: full
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Install the guard
  activemq.fleet.guard:
    instance: activemq
"""

RETURN = r"""
path:
  description: The program's file.
  type: str
  returned: always
  sample: /usr/local/sbin/activemq-guard
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.fence.guard_installation import (
    guard_program_path,
    install_or_remove_guard,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.install.program_archive import (
    guard_and_watchdog_interpreter,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def _install_or_remove_guard(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Install or remove the guard, the program that fences a broker's shared store.

    Returns the module's result.
    """
    path = guard_program_path(parameters["directory"], parameters["instance"])
    is_required = parameters["state"] == "present"
    changed = install_or_remove_guard(path, guard_and_watchdog_interpreter(), is_required=is_required, check=check)
    return {"changed": changed, "path": path}


def main() -> None:
    spec = {
        "instance": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "directory": {"type": "path", "default": "/usr/local/sbin"},
    }
    run_module(
        spec,
        _install_or_remove_guard,
        "the guard program of the broker instance {instance} cannot be installed or removed ({error}). Correct "
        "the cause, and run the playbook again",
    )


if __name__ == "__main__":
    main()
