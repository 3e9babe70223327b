#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of ``activemq.fleet.drill``, which is an action and never runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drill
short_description: Run the part of a drill that belongs to the controller
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A part of the playbook C(drill). It is no interface for other playbooks and may change at any time.
  - Puts pairs under load from agents on the controller, records the faults, and verifies the delivery of every event at
    the end.
options:
  step:
    description:
      - V(begin) fails for groups that must not be drilled, puts the faults into an order, and starts the load.
      - V(status) returns the pair whose fault is due. V(wait) waits until the load is sufficient. V(record) records a
        fault.
      - V(end) ends the load, writes the report and returns the verdict.
    type: str
    choices: [begin, status, wait, record, end]
    required: true
  directory:
    description: The RV(directory) that V(begin) returned.
    type: path
  pairs:
    description: The pairs of the drill.
    type: list
    elements: str
    default: []
  options:
    description: Options of this step only.
    type: dict
    default: {}
  evidence:
    description: For each host the result of M(activemq.fleet.broker_info).
    type: dict
    default: {}
  fault:
    description: Place, time and result of the fault.
    type: dict
    default: {}
  report:
    description: For V(begin) and V(end), where the report is written (HTML; JSON next to it).
    type: path
attributes:
  check_mode:
    description: Fails, because a drill stops brokers.
    support: none
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
requirements:
  - activemq-fleet with its extra lab on the controller (pip install the wheels of a release, which
    C(make package) builds in a checkout)
"""

EXAMPLES = r"""
- name: End the drill
  activemq.fleet.drill:
    step: end
    directory: "{{ begun.directory }}"
    report: drill.html
  run_once: true
  register: drilled
"""

RETURN = r"""
directory:
  description: The directory with the data of the drill.
  type: str
  returned: for V(begin)
report:
  description: The O(report) of V(begin), or the path to which V(end) has written it.
  type: str
  returned: for V(begin) and V(end)
order:
  description: The pair of each fault.
  type: list
  elements: str
  returned: for V(begin)
drill:
  description: The pair whose fault is due, the number of the fault, and the hosts that had one so far.
  type: dict
  returned: for V(status)
load:
  description: Events per second, accepted and handled.
  type: dict
  returned: for V(wait)
void:
  description: Why the fault proves nothing and is repeated, or null.
  type: str
  returned: for V(record)
verdict:
  description: V(clean), V(findings), V(incomplete) or V(void).
  type: str
  returned: for V(end)
headline:
  description: The verdict in one sentence.
  type: str
  returned: for V(end)
reasons:
  description: The reasons for the verdict, the most serious first.
  type: list
  elements: str
  returned: for V(end)
"""
