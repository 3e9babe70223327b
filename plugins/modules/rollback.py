#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.rollback``: restores an earlier configuration of a broker together with its systemd service."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollback
short_description: Restore an earlier configuration of a broker together with its systemd service
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the role C(activemq.fleet.broker). Do not use it in other playbooks, because it may
    change at any time.
  - Restores a version that M(activemq.fleet.configure) installed, and all files that the role installs for it in other
    directories. These are the unit of the broker, the program of the guard, and the unit and the program of the
    watchdog. If the version has no watchdog, the module removes the watchdog. A watchdog that cannot be installed,
    started or removed is a warning, because the broker runs without it.
  - The module makes systemd read the restored units. It does not restart the broker.
options:
  instance:
    description: The broker's instance, C(activemq_instance). The broker's unit is C(INSTANCE.service).
    type: str
    required: true
  version:
    description: The version to restore, which is the name of a directory in C(BASE/versions).
    type: str
    required: true
attributes:
  check_mode:
    description: Ansible skips the module in check mode, because check mode starts no broker.
    support: none
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Restore the version that the broker was last started with
  activemq.fleet.rollback:
    base: /var/lib/activemq/activemq
    instance: activemq
    version: 0a1b2c3d4e5f
"""

RETURN = r"""
version:
  description: The version in force.
  type: str
  returned: always
  sample: 0a1b2c3d4e5f
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.install.program_archive import (
    guard_and_watchdog_interpreter,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.service_installation import (
    restore_configuration_and_service,
)


def _restore(parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Restore the version and the service of a broker, and return the module's result."""
    version = parameters["version"]
    restored = restore_configuration_and_service(
        parameters["base"], parameters["instance"], version, python=guard_and_watchdog_interpreter()
    )
    return {**restored, "version": version}


def main() -> None:
    spec = {
        "base": {"type": "path", "required": True},
        "instance": {"type": "str", "required": True},
        "version": {"type": "str", "required": True},
    }
    failure = (
        "the broker in {base} cannot be rolled back to the configuration {version} ({error}). Correct the cause, and "
        "run the playbook again"
    )
    run_module(spec, _restore, failure, supports_check_mode=False)


if __name__ == "__main__":
    main()
