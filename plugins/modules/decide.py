#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation of ``activemq.fleet.decide``, which is an action and never runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: decide
short_description: Decide the next step of a playbook from evidence of its hosts
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A part of the playbooks of this collection. It is no interface for other playbooks and may
    change at any time.
  - It reads the fleet that M(activemq.fleet.compile) has computed earlier in the same playbook run.
  - V(roll) finds the pairs in which C(site) has brokers to start or to restart, and fails for a host that was lost.
  - V(site) says the next start or restart. One node of a pair at a time, the one that serves last.
    Pure pairs are started only when neither store was ever used, and never restarted.
  - V(collect) says which brokers and agents C(activemq_target) means.
  - V(preflight) asks the rules about hosts, and fails for an error that no waiver lets pass. Before, it fails for a
    broker that runs a release of another line than the inventory says, and for a release's directory on a host, or an
    archive on the controller, that holds another release than the inventory says.
  - V(outcome) says what C(site) has done to each broker.
  - V(target) says which pairs C(activemq_target) and C(activemq_to) mean.
  - V(stores) says which shared stores are new and may be marked as a pair's own, and fails for one that is
    not what it should be.
options:
  operation:
    description: The operation whose next step is decided.
    type: str
    required: true
  evidence:
    description:
      - For each host the result of M(activemq.fleet.broker_info), of M(activemq.fleet.machine_info), or of
        M(activemq.fleet.store_marker) with O(activemq.fleet.store_marker#module:state=look).
    type: dict
    default: {}
  configured:
    description: For each host the result of M(activemq.fleet.configure), which knows in check mode what is owed.
    type: dict
    default: {}
  target:
    description: What V(target) answered.
    type: dict
    default: {}
  progress:
    description: The RV(progress) of the decision before, empty for the first step of a run.
    type: dict
    default: {}
  options:
    description: What only this operation needs.
    type: dict
    default: {}
extends_documentation_fragment:
  - activemq.fleet.broker.unchanging
requirements:
  - activemq-fleet on the controller (pip install the wheel that C(make package) builds)
"""

EXAMPLES = r"""
- name: Decide what is next
  activemq.fleet.decide:
    operation: restart
    target: "{{ target }}"
    evidence: "{{ evidence }}"
    progress: "{{ next.progress | default({}) }}"
    options: "{{ options }}"
  run_once: true
  register: next
"""

RETURN = r"""
findings:
  description: What the rules about hosts say.
  type: list
  elements: dict
  returned: for V(preflight)
acts:
  description: What would be done, V(start) or V(restart) and the host, in order.
  type: list
  elements: str
  returned: for V(roll)
batches:
  description: For each of RV(hosts) all nodes of its pair.
  type: dict
  returned: for V(roll)
sizes:
  description: How many nodes each pair has, in the order of RV(hosts).
  type: list
  elements: int
  returned: for V(roll)
verify:
  description: The hosts on which the running release has to be compared with the inventory's.
  type: list
  elements: str
  returned: for V(roll)
notes:
  description: What the operator must do, one line each.
  type: list
  elements: str
  returned: for V(roll)
target:
  description: Kind, name, hosts, chosen hosts, pairs, the nodes that are to be active, and since when the run lasts.
  type: dict
  returned: for V(target)
step:
  description: What is to be done next, on which hosts; C(act) is V(done) when nothing is left.
  type: dict
  returned: for operations that are decided before every step
progress:
  description: >-
    What the run has done so far, with one record per host. C(done) are the hosts whose acts were done before this
    decision. The next decision takes it unchanged.
  type: dict
  returned: for operations that are decided before every step
table:
  description: What was done to each host, one line a host and one before them.
  type: list
  elements: str
  returned: when C(act) is V(done), and for V(outcome)
say:
  description: What the table is of, in one sentence.
  type: str
  returned: for V(outcome)
jumps:
  description: >-
    For each pair that has another release to come, what that means: C(found), C(wanted), C(changes), C(back) and
    C(way_back).
  type: dict
  returned: for V(jumps)
claims:
  description: For each host that marks a new store, the hosts that must find the marker.
  type: dict
  returned: for V(stores)
hosts:
  description: Of new stores, of pairs with something to start, or all that are meant.
  type: list
  elements: str
  returned: for V(stores), V(roll) and V(collect)
"""
