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
  - For a broker it returns the result of M(activemq.fleet.broker_info), the usage of memory and store, the numbers of
    messages, and the bridges. It also returns log records about links, checksums of the installed files, and the expiry
    times of the connectors' certificates.
  - The usage comes from the broker's MBeans. The module opens the local management agent of the JVM through
    its attach socket, as C(jcmd PID ManagementAgent.start_local) does. This agent stays open until the JVM ends. Only
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
    description: C(check_port), the port of the host's HAProxy, and C(addresses), the virtual IP address of each group.
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
    - The result of M(activemq.fleet.broker_info), and further keys.
    - C(usage), or C(usage_error), the reason why it is missing. C(records), or C(log_error), the reason why the log
      cannot be read.
    - C(holds_lock), whether the process holds the lock of its store. C(state_since), the start of its state.
    - C(deployed), the checksums of the installed files. C(certificates), the expiry times of certificates.
  type: dict
  returned: with O(broker)
agent:
  description: C(state), C(how), C(store), C(publisher), C(subscriber), C(deployed) and C(certificates).
  type: dict
  returned: with O(agent)
balancer:
  description: The states of C(haproxy) and C(keepalived), and C(addresses), whether this host holds the virtual IP
    address of each group.
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
