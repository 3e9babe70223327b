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
  - This module is internal to the playbooks of this collection. Do not use it in other playbooks, because it may
    change at any time.
  - It reads the fleet that M(activemq.fleet.compile) has computed earlier in the same playbook run.
  - The following items describe the values of O(operation).
  - V(roll) finds the pairs in which the playbook C(site) must start or restart brokers. It fails if a host failed or
    became unreachable earlier in the run.
  - V(site) returns the next start or restart in a pair. It selects one node at a time, and the active node last. In a
    pair with C(activemq_ha=pure), each node has its own store. V(site) starts such a pair only if neither store was
    ever used, and never restarts it.
  - V(restart), V(switchover), V(upgrade), V(resync), V(migrate) and V(drill) return the next step of the playbook with
    the same name.
  - V(jumps) returns the effects of an upgrade on each pair, before the upgrade changes a host.
  - V(migration) adds the hosts of the new pairs to O(target).
  - V(collect) returns the brokers and agents that C(activemq_target) selects.
  - V(reachability) fails if hosts failed or became unreachable earlier in the run.
  - V(preflight) checks the rules about hosts, and fails for an error that is not waived. It also fails if a host failed
    or became unreachable, or if a broker runs a different release line than C(activemq_release). It also fails if the
    release's directory on a host, or the archive on the controller, contains a different release.
  - V(outcome) returns the actions of the playbook C(site) on each broker.
  - V(target) returns the pairs that C(activemq_target) and C(activemq_to) select.
  - V(unfence) returns the brokers of the pairs in O(target) whose store has a fence. It fails if C(activemq_target) is
    not set, or selects only one node of a pair.
  - V(stores) returns the hosts that write and check the marker files of new shared stores. It fails for an invalid
    store.
options:
  operation:
    description: The operation for which the module returns a decision. The description of the module lists the values.
    type: str
    required: true
  evidence:
    description:
      - For each host, the result of M(activemq.fleet.broker_info). For V(preflight), it is the result of
        M(activemq.fleet.machine_info). For V(stores) and V(unfence), it is the result of
        M(activemq.fleet.store_marker) with O(activemq.fleet.store_marker#module:state=look).
    type: dict
    default: {}
  configured:
    description: For each host, the result of M(activemq.fleet.configure), which shows whether the broker must be
      restarted.
    type: dict
    default: {}
  target:
    description: The RV(target) that this module returned for O(operation=target).
    type: dict
    default: {}
  progress:
    description: The RV(progress) that the previous decision returned. It is empty for the first step of a run.
    type: dict
    default: {}
  options:
    description: A dictionary with values that only the given O(operation) uses, such as C(settle) for V(restart).
    type: dict
    default: {}
extends_documentation_fragment:
  - activemq.fleet.broker.unchanging
requirements:
  - activemq-fleet on the controller (pip install the wheel of a release, which C(make package) builds in a checkout)
"""

EXAMPLES = r"""
- name: Decide the next step of the restart
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
  description: The findings of the rules that check hosts.
  type: list
  elements: dict
  returned: for V(preflight)
acts:
  description: The planned actions in order. Each is V(start) or V(restart), followed by the host.
  type: list
  elements: str
  returned: for V(roll)
batches:
  description: For each host in RV(hosts), all nodes of its pair.
  type: dict
  returned: for V(roll)
sizes:
  description: The number of nodes of each pair in RV(hosts), in the same order.
  type: list
  elements: int
  returned: for V(roll)
verify:
  description: The hosts on which the playbook must compare the running release with C(activemq_release).
  type: list
  elements: str
  returned: for V(roll)
notes:
  description: The actions that the operator must perform, one line each.
  type: list
  elements: str
  returned: for V(roll)
target:
  description:
    - The target of the playbook. C(kind) is fleet, group, pair or host, and C(name) is the value of
      C(activemq_target).
    - C(pairs) are the selected pairs, and C(hosts) all nodes of these pairs. C(chosen) are the hosts that the playbook
      may change. C(to) is, for each pair, the node that must become active.
    - C(since) and C(since_epoch) are the start time of the run. C(needs_resync) are the hosts of pairs with
      C(activemq_ha=pure).
  type: dict
  returned: for V(target) and V(migration)
step:
  description: The next action and its hosts; C(act) is V(done) after the last step.
  type: dict
  returned: for operations that are decided before every step
progress:
  description: >-
    The actions of the run so far, with one record per host. C(done) are the hosts whose actions were completed before
    this decision. Pass RV(progress) unchanged to the next decision.
  type: dict
  returned: for operations that are decided before every step
table:
  description: The actions on each host, one line per host after a line of titles.
  type: list
  elements: str
  returned: when C(act) is V(done), and for V(outcome)
say:
  description: A sentence that introduces RV(table).
  type: str
  returned: for V(outcome)
jumps:
  description: >-
    For each pair that gets a different release: the old release (C(found)), the new release (C(wanted)), the C(changes)
    that the operator must know, whether a rollback is possible (C(back)), and how to roll back (C(way_back)).
  type: dict
  returned: for V(jumps)
claims:
  description: For each host that writes a marker file to a new store, the other hosts that must read the same marker.
  type: dict
  returned: for V(stores)
hosts:
  description:
    - For V(stores), the hosts of new shared stores. For V(roll), all nodes of the pairs in which brokers must be
      started or restarted. For V(collect), the hosts that C(activemq_target) selects.
  type: list
  elements: str
  returned: for V(stores), V(roll) and V(collect)
"""
