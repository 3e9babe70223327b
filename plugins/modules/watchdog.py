#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.watchdog``: installs or removes the systemd unit that watches a broker and notices when it hangs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: watchdog
short_description: Install or remove the watchdog of a broker
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - The watchdog is a program that probes a broker regularly, and reports or kills a hung broker. The module installs
    the program for one broker, copies its systemd unit, enables it together with the broker's unit, and starts it. A
    running watchdog is restarted if its program or its unit has changed. The broker is not changed.
  - The program is one file. It runs with the Python interpreter of this module, and requires nothing else.
  - With O(state=absent) the watchdog is stopped, and its files are removed.
options:
  instance:
    description: The broker's instance, C(activemq_instance). The units are C(INSTANCE.service) and
      C(INSTANCE-watchdog.service).
    type: str
    required: true
  unit:
    description: The path of the watchdog's systemd unit file, which the module copies to O(units). Required for
      O(state=present).
    type: path
  state:
    description: Whether the watchdog must exist.
    type: str
    choices: [present, absent]
    default: present
  directory:
    description: The directory in which the module installs the program.
    type: path
    default: /usr/local/sbin
  units:
    description: The directory to which the module copies the unit file.
    type: path
    default: /etc/systemd/system
attributes:
  check_mode:
    description: Reports whether the module would change anything.
    support: full
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Install the watchdog
  activemq.fleet.watchdog:
    instance: activemq
    unit: /var/lib/activemq/activemq/current/systemd/activemq-watchdog.service
"""

RETURN = r"""
done:
  description: The actions that the module performed, or would perform without check mode, one line each.
  type: list
  elements: str
  returned: always
  sample: [installed /usr/local/sbin/activemq-watchdog, started activemq-watchdog.service]
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.install.program_archive import (
    guard_and_watchdog_interpreter,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.watchdog.watchdog_installation import (
    WatchdogPaths,
    install_and_start_or_remove_watchdog,
)


def _install_or_remove_watchdog(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Install or remove a broker's watchdog, and return the module's result."""
    paths = WatchdogPaths(parameters["instance"], parameters["directory"], parameters["units"], check)
    unit = parameters["unit"] if parameters["state"] == "present" else None
    done = install_and_start_or_remove_watchdog(paths, guard_and_watchdog_interpreter(), unit)
    return {"changed": bool(done), "done": done}


def main() -> None:
    spec = {
        "instance": {"type": "str", "required": True},
        "unit": {"type": "path"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "directory": {"type": "path", "default": "/usr/local/sbin"},
        "units": {"type": "path", "default": "/etc/systemd/system"},
    }
    failure = (
        "the watchdog of the broker instance {instance} cannot be installed or removed ({error}). Correct the "
        "cause, and run the playbook again"
    )
    run_module(spec, _install_or_remove_watchdog, failure, required_if=[("state", "present", ["unit"])])


if __name__ == "__main__":
    main()
