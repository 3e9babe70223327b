#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of ``activemq.fleet.drill``, which is an action and never runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drill
short_description: Run the controller's part of a failover drill, which injects faults into brokers under load
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the playbook C(drill). Do not use it in other playbooks, because it may change at any
    time.
  - Starts agents on the controller that send events through the pairs, records the injected faults, and verifies at the
    end that every event was delivered once.
options:
  step:
    description:
      - V(begin) plans the order of the faults, and starts the load. It fails for a group that does not permit a drill.
      - V(status) returns the pair for the next fault. V(wait) waits until the load is sufficient. V(record) records a
        fault.
      - V(end) ends the load, writes the report and returns RV(verdict).
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
    description:
      - A dictionary with values that only the given O(step) uses. V(begin) uses C(kills), C(what), C(rate) and C(seed),
        which are the variables C(activemq_drill_kills) and so on, and C(target), the name of the drill's target.
      - V(wait) uses C(pair) and C(patience), the longest wait in seconds. V(end) uses C(skew), the largest expected
        difference between the hosts' clocks in seconds.
    type: dict
    default: {}
  evidence:
    description: For V(status), the result of M(activemq.fleet.broker_info) of each host.
    type: dict
    default: {}
  fault:
    description: For V(record), the fault, with its host, time and result.
    type: dict
    default: {}
  report:
    description: For V(begin) and V(end), the path of the report (HTML) on the controller. V(end) also writes a JSON
      file next to the report.
    type: path
attributes:
  check_mode:
    description: The module fails in check mode, because a drill stops brokers.
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
  description: For V(begin), the value of O(report). For V(end), the path of the written report.
  type: str
  returned: for V(begin) and V(end)
order:
  description: The pairs in the order of their faults.
  type: list
  elements: str
  returned: for V(begin)
drill:
  description: The pair for the next fault, the number of this fault, and the hosts that have had a fault so far.
  type: dict
  returned: for V(status)
load:
  description: The events per second that the publishers accepted and the subscribers handled.
  type: dict
  returned: for V(wait)
void:
  description: Null if the fault counts. A fault does not count if the load was too low before it; the value is then the
    reason. The drill repeats such a fault.
  type: str
  returned: for V(record)
verdict:
  description:
    - The result of the drill. V(findings) means that events were lost, duplicated or stuck, or that a fault failed.
    - V(incomplete) means that a loss cannot be excluded, for example because the journal of an agent has a gap. V(void)
      means that there were too few faults, or too little load, to prove anything. V(clean) means none of these.
    - V(ended) means that the drill had already ended, and that no report was written.
  type: str
  returned: for V(end)
headline:
  description: One sentence that summarizes the result of the drill.
  type: str
  returned: for V(end)
reasons:
  description: The reasons for RV(verdict), the most serious first.
  type: list
  elements: str
  returned: for V(end)
"""
