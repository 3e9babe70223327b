#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.broker_fault``: injects a fault into an active broker, for a drill."""

from __future__ import annotations

DOCUMENTATION = r"""
module: broker_fault
short_description: Inject a fault into an active broker for a drill
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the playbook C(drill). Do not use it in other playbooks, because it may change at any
    time.
  - Kills, freezes or stops the active broker of this host, and returns the time of the fault. Clients are disconnected.
  - With O(unit), a systemd timer on the host starts or continues the broker after O(again) seconds, even if the
    controller is interrupted.
options:
  unit:
    description: The broker's systemd unit, which receives the signal. Without it the process receives the signal.
    type: str
  act:
    description:
      - V(kill), V(crash), V(pause) and V(stop) are the faults. V(crash) kills only the Java process, not its guard.
      - V(resume) continues a frozen broker. V(stay) removes the timer, so that systemd does not start
        or continue the broker.
      - V(started) waits until the broker's log reports that the broker is started, and returns the time.
    type: str
    choices: [kill, crash, pause, stop, resume, stay, started]
    required: true
  again:
    description: Seconds after which systemd starts or continues the broker again.
    type: int
    default: 300
  wait:
    description: Seconds to wait for V(started).
    type: int
    default: 120
attributes:
  check_mode:
    description: Injects nothing.
    support: none
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Kill the broker
  activemq.fleet.broker_fault:
    base: /var/lib/activemq/activemq
    unit: activemq.service
    act: kill
"""

RETURN = r"""
at:
  description:
    - The time of the fault. For V(resume), the time at which the broker was continued. For V(started), the time at
      which the broker started, or null if it has not started.
    - The time is in seconds since the epoch, according to the clock of the host.
  type: float
  returned: for all but V(stay)
pid:
  description: The process ID of the broker at the time of the fault.
  type: int
  returned: for a fault
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.state import fault_injection
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.fault_kinds import FAULT_KINDS


def _apply_fault_action(parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Apply an action about a fault to the broker: inject a fault, or end an injected one.

    The parameter is ``act``. Returns the module's result.
    """
    base, unit, action = (parameters[name] for name in ("base", "unit", "act"))
    result: dict[str, Any] = {"changed": action in FAULT_KINDS}
    if action == "started":
        result["at"] = fault_injection.wait_for_logged_broker_start(base, parameters["wait"])
    elif action == "resume":
        result |= fault_injection.resume_frozen_broker(base, unit)
    elif action != "stay":
        result |= fault_injection.inject_fault(base, unit, action, parameters["again"])
    elif unit:
        fault_injection.cancel_recovery_timer(unit)
    return result


def main() -> None:
    spec = {
        "base": {"type": "path", "required": True},
        "unit": {"type": "str"},
        "act": {
            "type": "str",
            "choices": [*FAULT_KINDS, "resume", "stay", "started"],
            "required": True,
        },
        "again": {"type": "int", "default": 300},
        "wait": {"type": "int", "default": 120},
    }
    run_module(spec, _apply_fault_action, supports_check_mode=False)


if __name__ == "__main__":
    main()
