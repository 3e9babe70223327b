#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of ``activemq.fleet.compile``, which is an action and never runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: compile
short_description: Compute and check the whole fleet, and archive the files of each host
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A part of the role C(activemq.fleet.broker) and of the playbooks of this collection. It is no interface for other
    playbooks and may change at any time.
  - Reads the variables of every host of the inventory, whatever the limit of the run, computes groups, pairs
    and links, renders every file and validates every C(activemq.xml) against the schema of its release. The
    files of one host depend on its peers, so nothing is taken from the hosts of the play.
  - With an error that no C(activemq_waivers) lets pass it fails with one list of all errors, and nothing is
    written.
  - What later steps of the run need of the fleet is written to one file without secrets, of mode 0600, in Ansible's
    temporary directory on the controller, which C(ansible-playbook) removes when it ends, also after a failure. A run
    that is killed leaves it there.
  - The archives hold secrets. They lie in a directory of mode 0700 below Ansible's temporary directory on the
    controller, which C(ansible-playbook) removes when it ends, also after a failure.
  - Variables must stand in the inventory or be extra variables. Variables of plays and roles are not seen.
options:
  archives:
    description: Whether to make the archives, or only to check.
    type: bool
    default: true
  checked:
    description:
      - Whether to render and check every file. V(false) only computes who is there, needs no secret and fails for no
        finding. It is for playbooks that must work on a fleet that is not well.
    type: bool
    version_added: 0.2.0
    default: true
  installs:
    description:
      - Whether the play installs what the fleet needs. What it would refuse later because of the inventory, such as
        an archive without a checksum (T030), then is an error.
    type: bool
    version_added: 0.2.0
    default: false
attributes:
  check_mode:
    description: Does the same as without; nothing outside the temporary directory is written.
    support: full
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
requirements:
  - activemq-fleet on the controller (pip install the wheel that C(make package) builds)
notes:
  - It runs once a play, on the controller. Say C(run_once), so that every host of the play has the result.
"""

EXAMPLES = r"""
- name: Compute, check and render the fleet
  activemq.fleet.compile:
  run_once: true
  register: compiled
"""

RETURN = r"""
run:
  description: A word that no other run has.
  type: str
  returned: always
expected:
  description: The hosts that the play was started with, unreachable ones included.
  type: list
  elements: str
  returned: always
by:
  description: The account and the machine that the playbook was started on, for the hosts' records of planned work.
  type: str
  version_added: 0.2.0
  returned: when O(checked) is true
  sample: ops@controller
brokers:
  description: What a playbook must know of each broker, with all defaults applied, by inventory name.
  type: dict
  returned: always
agents:
  description: The same of each agent.
  type: dict
  returned: always
balancers:
  description: The same of each load balancer.
  type: dict
  version_added: 0.2.0
  returned: always
plays:
  description: For each play of the playbook C(site) the hosts that it is for.
  type: dict
  version_added: 0.2.0
  returned: when O(checked) is true
waivers:
  description: The waivers in force, as in C(fleet.json).
  type: list
  elements: dict
  returned: always
findings:
  description: What the checks say that does not stop a deployment.
  type: list
  elements: dict
  returned: always
archives:
  description: For each host C(path) and C(sha256) of the archive for its C(broker), its C(agent) and its C(balancer).
  type: dict
  returned: when O(archives) is true
directory:
  description: The directory of the archives.
  type: str
  returned: when O(archives) is true
"""
