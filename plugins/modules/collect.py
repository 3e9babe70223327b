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
  - The playbook C(activemq.fleet.collect) runs it for every broker and agent.
  - On the host it reads, masks and packs one archive. On the controller the archive is unpacked next to its
    place and renamed, so O(to)C(/HOST) appears whole or not at all. Nothing is changed on the host but for the
    temporary directory of Ansible.
  - Secrets are masked on the host. A secret whose variable the host's own files tell becomes
    C(@VARIABLE@), as C(activemq-fleet render) writes it, any other C(@secret@). Key stores, keys and what is no
    text stay where they are.
  - A broker that hangs is asked for three thread dumps, five seconds apart, by SIGQUIT. They end in its journal
    too. One that does not catch that signal, or was stopped by a signal, is not asked.
options:
  to:
    description: The directory on the controller. One that holds anything else is refused.
    type: path
    required: true
  state:
    description:
      - V(opened) makes the directory, or refuses it, without a look at any host.
      - V(collected) brings the host's evidence.
    type: str
    choices: [opened, collected]
    default: collected
  about:
    description: What is known of the host, for its C(host.json).
    type: dict
    default: {}
  archive:
    description: The archive on the host that the controller fetches. The action sets this option; do not set it.
    type: path
  broker:
    description: C(base), C(unit) and C(store) of the host's broker.
    type: dict
  agent:
    description: C(config), C(state) and C(unit) of the host's agent.
    type: dict
  megabytes:
    description:
      - At most so much is taken from a host, before compression. Logs and journals that do not fit are left out, the
        oldest first, and named.
    type: int
    default: 200
  seconds:
    description: After so many seconds on a host no further log or file is read. What was left out is named.
    type: int
    default: 600
  days:
    description: So many days of systemd's journal.
    type: int
    default: 7
  dumps:
    description: Of which brokers to take thread dumps.
    type: str
    choices: [hung, always, never]
    default: hung
attributes:
  check_mode:
    description: It does nothing.
    support: none
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Collect what the broker has to say
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
  description: Where the host's files are on the controller.
  type: str
  returned: always
facts:
  description: What C(host.json) says.
  type: dict
  returned: for V(collected)
files:
  description: How many files were brought.
  type: int
  returned: for V(collected)
left_out:
  description: What was not, or not whole. C(path), C(bytes) and C(why).
  type: list
  elements: dict
  returned: for V(collected)
notes:
  description: What else is worth knowing, one line each.
  type: list
  elements: str
  returned: for V(collected)
"""

from ansible_collections.activemq.fleet.plugins.module_utils.node.collect.host_collection import ARGUMENTS, collect
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def main() -> None:
    run_module(
        ARGUMENTS,
        lambda parameters, _check: collect(parameters),
        supports_check_mode=False,
        required_if=[("state", "collected", ("archive",))],
    )


if __name__ == "__main__":
    main()
