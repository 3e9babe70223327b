#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of ``activemq.fleet.fleet_status``, which is an action and never runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_status
short_description: Compute the status of all brokers, agents and load balancers from the results of their hosts
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the playbook C(status). Do not use it in other playbooks, because it may change at any
    time.
  - V(begin) returns the hosts to query, with the options of each query. V(conclude) returns the status of the fleet.
options:
  step:
    description: V(begin) before the playbook queries the hosts, and V(conclude) after it.
    type: str
    choices: [begin, conclude]
    required: true
  target:
    description: The host, pair or group whose status is computed. The default is the whole fleet.
    type: str
    default: ''
  evidence:
    description: For V(conclude), the result of M(activemq.fleet.host_status) of each host, including failed results.
    type: dict
    default: {}
  seconds:
    description: For V(conclude), the time in seconds that the playbook required to query all hosts.
    type: float
    default: 0
  evidence_to:
    description:
      - A file on the controller to which V(conclude) writes O(evidence) as JSON. If this option is set, V(conclude)
        does not compute the status, and returns no findings.
    type: path
  to:
    description: A file on the controller to which V(conclude) writes the status, C(FILE.json) or C(FILE.html).
    type: path
extends_documentation_fragment:
  - activemq.fleet.broker.unchanging
requirements:
  - activemq-fleet on the controller (pip install the wheel of a release, which C(make package) builds in a checkout)
"""

EXAMPLES = r"""
- name: Determine the hosts to query
  activemq.fleet.fleet_status:
    step: begin
  run_once: true
  register: asked
"""

RETURN = r"""
questions:
  description: The options of M(activemq.fleet.host_status) for each host.
  type: dict
  returned: for V(begin)
target:
  description: The option O(target), which the playbook passes to V(conclude). C(evidence_to) and C(to) are also
    returned.
  type: str
  returned: for V(begin)
time:
  description: The controller's time, in seconds since the epoch.
  type: float
  returned: for V(begin)
table:
  description: A line of titles, then one line per broker, agent and load balancer.
  type: list
  elements: str
  returned: for V(conclude)
findings:
  description: One line for each finding.
  type: list
  elements: str
  returned: for V(conclude)
exit_code:
  description: V(1) with findings, V(0) without findings or with O(evidence_to).
  type: int
  returned: for V(conclude)
"""
