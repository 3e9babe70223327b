#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.host_status``: returns all that ``status`` shows of one host, gathered in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_status
short_description: Gather the status of the broker, the agent and the load balancer of a host
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Gathers in one call what the playbook C(status) shows of a host. It changes nothing and may run at any time.
  - For a broker these are the result of M(activemq.fleet.broker_info), its usage, messages and bridges, its log records
    about links, the installed files, and the expiry times of the certificates of its connectors.
  - The usage comes from the broker's MBeans. The module opens the local management agent of the JVM through
    its attach socket, as C(jcmd PID ManagementAgent.start_local) does. It stays open until the JVM ends, and only
    accounts that may attach to the JVM can use it.
  - Run it as root or as the broker's account.
options:
  broker:
    description: C(base) and C(unit) of the host's broker.
    type: dict
  agent:
    description: C(config), C(state) and C(unit) of the host's agent, and C(certificates), paths of PEM files.
    type: dict
  balancer:
    description: C(check_port) of the host's HAProxy, and C(addresses) by group.
    type: dict
extends_documentation_fragment:
  - activemq.fleet.broker.unchanging
"""

EXAMPLES = r"""
- name: Inspect the broker and its contents
  activemq.fleet.host_status:
    broker:
      base: /var/lib/activemq/activemq
      unit: activemq.service
  register: host
"""

RETURN = r"""
broker:
  description:
    - The result of M(activemq.fleet.broker_info), and C(usage), C(usage_error), C(log_error), C(holds_lock),
      C(state_since), C(records), C(deployed) and C(certificates).
  type: dict
  returned: with O(broker)
agent:
  description: C(state), C(how), C(store), C(publisher), C(subscriber), C(deployed) and C(certificates).
  type: dict
  returned: with O(agent)
balancer:
  description: C(haproxy), C(keepalived), and by group whether this host holds the address, C(addresses).
  type: dict
  returned: with O(balancer)
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.agent_status import gather_agent_status
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.balancer_status import gather_balancer_status
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.broker_status import gather_broker_status


def _gather_host_status(parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Gather the status of a host.

    It has the evidence of the broker, agent and balancer, by these names.
    """
    evidence: dict[str, Any] = {}
    if broker := parameters["broker"]:
        evidence["broker"] = gather_broker_status(broker["base"], broker.get("unit"))
    if agent := parameters["agent"]:
        evidence["agent"] = gather_agent_status(agent)
    if balancer := parameters["balancer"]:
        evidence["balancer"] = gather_balancer_status(balancer)
    return evidence


def main() -> None:
    run_module({part: {"type": "dict"} for part in ("broker", "agent", "balancer")}, _gather_host_status)


if __name__ == "__main__":
    main()
