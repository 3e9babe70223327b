#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.collect``: packs one host's evidence, secrets masked, for the controller to fetch."""

from __future__ import annotations

DOCUMENTATION = r"""
module: collect
short_description: Copy logs, journals and the active configuration to the controller, with secrets masked
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - The playbook C(activemq.fleet.collect) runs this module for every broker and agent.
  - On the host, the module masks secrets and packs one archive. It changes nothing on the host except Ansible's
    temporary directory. On the controller, the module unpacks the archive to a temporary directory, and then renames
    this directory to O(to)C(/HOST). So O(to)C(/HOST) never contains an incomplete collection.
  - If the host's files show which inventory variable defines a secret, the module replaces the secret by
    C(@VARIABLE@), as C(activemq-fleet render) does. It replaces any other secret by C(@secret@). It does not copy key
    stores, keys and binary files.
  - The module takes three thread dumps of a hung broker by SIGQUIT, five seconds apart. The dumps also appear in the
    systemd journal of the broker's unit. The module sends no signal to a process that does not handle SIGQUIT, or that
    a signal has stopped.
options:
  to:
    description: The directory on the controller. An existing directory must be empty, or contain only the files of an
      earlier collection.
    type: path
    required: true
  state:
    description:
      - V(opened) creates the directory O(to) on the controller, without a connection to a host. It fails if
        the directory contains files that are not from an earlier collection.
      - V(collected) copies the host's evidence.
    type: str
    choices: [opened, collected]
    default: collected
  about:
    description: Facts from the inventory about the host, which the module writes to C(host.json).
    type: dict
    default: {}
  archive:
    description: The path of the archive on the host. Ansible sets this option; do not set it.
    type: path
  broker:
    description: C(base), the directory of the host's broker, C(unit), its systemd unit, and C(store), the directory of
      its store.
    type: dict
  agent:
    description: C(config), the path of the configuration of the host's agent, C(state), its state directory, and
      C(unit), its systemd unit.
    type: dict
  megabytes:
    description:
      - The maximum size of a host's evidence in MiB, before compression. Logs and journals that exceed it are omitted,
        the oldest first, and listed in RV(left_out).
    type: int
    default: 200
  seconds:
    description: The time in seconds after which the module reads no further file of the host. It lists the files that
      it did not read in RV(left_out).
    type: int
    default: 600
  days:
    description: The number of days for which records of the systemd journal are collected.
    type: int
    default: 7
  dumps:
    description: When the module takes thread dumps of the host's broker. V(hung) takes them only if the broker is hung,
      V(always) takes them of any running broker, and V(never) takes none.
    type: str
    choices: [hung, always, never]
    default: hung
attributes:
  check_mode:
    description: The module does nothing in check mode.
    support: none
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Collect the evidence of the broker
  activemq.fleet.collect:
    to: /var/tmp/incident
    broker:
      base: /var/lib/activemq/activemq
      unit: activemq.service
    about:
      group: orders
      pair: orders-mq01
"""

RETURN = r"""
directory:
  description: The directory on the controller that contains the collected files. For V(opened) it is O(to), for
    V(collected) it is O(to)C(/HOST).
  type: str
  returned: always
facts:
  description: The content of C(host.json).
  type: dict
  returned: for V(collected)
files:
  description: The number of collected files.
  type: int
  returned: for V(collected)
left_out:
  description: Files that were omitted or are incomplete, each with C(path), C(bytes) and the reason, C(why).
  type: list
  elements: dict
  returned: for V(collected)
notes:
  description: Further notes about the collection, one line each.
  type: list
  elements: str
  returned: for V(collected)
"""

from ansible_collections.activemq.fleet.plugins.module_utils.node.collect.host_collection import (
    ARGUMENTS,
    write_evidence_archive,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def main() -> None:
    run_module(
        ARGUMENTS,
        lambda parameters, _check: write_evidence_archive(parameters),
        supports_check_mode=False,
        required_if=[("state", "collected", ("archive",))],
    )


if __name__ == "__main__":
    main()
