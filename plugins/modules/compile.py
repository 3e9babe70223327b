#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of ``activemq.fleet.compile``, which is an action and never runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: compile
short_description: Check the inventory of all brokers, and archive the files of each host
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the role C(activemq.fleet.broker) and of the playbooks of this collection. Do not use
    it in other playbooks, because it may change at any time.
  - Reads the variables of every host of the inventory, and computes groups, pairs and links. Renders every file, and
    validates every C(activemq.xml) against the schema of its release. The files of a host depend on its peers, so the
    module reads all hosts of the inventory, not only those of the play or of C(--limit).
  - The module fails with a list of all errors, and writes nothing, if an error is not waived in C(activemq_waivers).
  - The module writes the data of the fleet, without secrets, to one file with mode 0600 for later steps of the run.
    The archives contain secrets. They are in a directory with mode 0700. The file and the directory are in Ansible's
    temporary directory on the controller. C(ansible-playbook) removes this temporary directory when it ends, also after
    a failure. If C(ansible-playbook) is killed, the temporary directory remains.
  - Define variables in the inventory or as extra variables. Variables of plays and roles have no effect.
options:
  archives:
    description: Whether to create the archives, or only to check the fleet.
    type: bool
    default: true
  checked:
    description:
      - Whether to render and check every file. V(false) only computes the hosts and pairs, requires no secrets and
        reports no findings. It is for playbooks that must also work on an unhealthy fleet.
    type: bool
    version_added: 0.2.0
    default: true
  installs:
    description:
      - Whether the play installs software. Problems of the inventory that would stop the installation later, such as an
        archive without a checksum (rule T030), are then errors.
    type: bool
    version_added: 0.2.0
    default: false
attributes:
  check_mode:
    description: The module does the same in check mode, because it writes only to the temporary directory.
    support: full
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
requirements:
  - activemq-fleet on the controller (pip install the wheel of a release, which C(make package) builds in a checkout)
notes:
  - The module runs once per play, on the controller. Set C(run_once), so that every host of the play has the result.
"""

EXAMPLES = r"""
- name: Compute, check and render the fleet
  activemq.fleet.compile:
  run_once: true
  register: compiled
"""

RETURN = r"""
run:
  description: A unique ID of the playbook run.
  type: str
  returned: always
expected:
  description: The hosts with which the play was started, including hosts that became unreachable.
  type: list
  elements: str
  returned: always
by:
  description: The user who started the playbook, and the name of the controller. The hosts of an operation store this
    value in C(operations.jsonl).
  type: str
  version_added: 0.2.0
  returned: when O(checked) is true
  sample: ops@controller
brokers:
  description: For each broker, by inventory name, the settings that playbooks use, with all defaults applied.
  type: dict
  returned: always
agents:
  description: For each agent, by inventory name, the settings that playbooks use, with all defaults applied.
  type: dict
  returned: always
balancers:
  description: For each load balancer, by inventory name, the settings that playbooks use, with all defaults applied.
  type: dict
  version_added: 0.2.0
  returned: always
plays:
  description: The hosts of each play of the playbook C(site).
  type: dict
  version_added: 0.2.0
  returned: when O(checked) is true
waivers:
  description: The waivers in force, as in C(fleet.json).
  type: list
  elements: dict
  returned: always
findings:
  description: The findings that do not prevent a deployment, such as warnings and waived errors.
  type: list
  elements: dict
  returned: always
archives:
  description: For each host, the C(path) and the C(sha256) of the archives for its C(broker), C(agent) and C(balancer).
  type: dict
  returned: when O(archives) is true
directory:
  description: The directory on the controller that contains the archives.
  type: str
  returned: when O(archives) is true
"""
