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
  - V(roll) finds the pairs in which C(site) has brokers to start or to restart. It fails if a host failed or became
    unreachable earlier in the run.
  - V(site) returns the next start or restart, of one node of a pair at a time, the serving node last. Pure pairs are
    started only if neither store was ever used, and never restarted.
  - V(collect) returns the brokers and agents that C(activemq_target) selects.
  - V(reachability) fails if hosts failed or became unreachable earlier in the run.
  - V(preflight) checks the rules about hosts, and fails for an error that is not waived. Before that, it fails if a
    host failed or became unreachable. It also fails if a broker runs a different release line than
    C(activemq_release), or if the release's directory on a host, or the archive on the controller, contains a different
    release.
  - V(outcome) returns what C(site) has done to each broker.
  - V(target) returns the pairs that C(activemq_target) and C(activemq_to) select.
  - V(stores) returns the new shared stores that may be marked for their pairs, and fails for an invalid store.
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
    description: For each host the result of M(activemq.fleet.configure), which reports in check mode the pending
      restarts.
    type: dict
    default: {}
  target:
    description: The result of V(target).
    type: dict
    default: {}
  progress:
    description: The RV(progress) of the previous decision, empty for the first step of a run.
    type: dict
    default: {}
  options:
    description: Options of this operation only.
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
  description: The number of nodes of each pair, in the order of RV(hosts).
  type: list
  elements: int
  returned: for V(roll)
verify:
  description: The hosts on which the playbook must compare the running release with C(activemq_release).
  type: list
  elements: str
  returned: for V(roll)
notes:
  description: What the operator must do, one line each.
  type: list
  elements: str
  returned: for V(roll)
target:
  description: Kind, name, hosts, selected hosts, pairs, the nodes that must become active, and the start time of the
    run.
  type: dict
  returned: for V(target)
step:
  description: The next action and its hosts; C(act) is V(done) after the last step.
  type: dict
  returned: for operations that are decided before every step
progress:
  description: >-
    The actions of the run so far, with one record per host. C(done) are the hosts whose actions were completed before
    this decision. Pass it unchanged to the next decision.
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
  description: The hosts of new stores, of pairs with brokers to start, or all selected hosts.
  type: list
  elements: str
  returned: for V(stores), V(roll) and V(collect)
"""
