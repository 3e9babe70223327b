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
  - Gathers in one call the data that the playbook C(status) shows about a host. The module changes nothing, and you may
    run it at any time.
  - For a broker it returns the result of M(activemq.fleet.broker_info), the usage of memory and store, the numbers of
    messages, and the bridges. It also returns log records about links, checksums of the installed files, and the expiry
    times of the connectors' certificates.
  - The usage comes from the broker's MBeans. The module opens the local management agent of the JVM through
    its attach socket, as C(jcmd PID ManagementAgent.start_local) does. This agent stays open until the JVM ends. Only
    accounts that may attach to the JVM can use it.
  - Run the module as root or as the broker's account.
options:
  broker:
    description: C(base), the directory of the host's broker, and C(unit), its systemd unit.
    type: dict
  agent:
    description: C(config), the path of the configuration of the host's agent, C(state), its state directory, C(socket),
      the path of its socket, by default agent.sock in the state directory, and C(unit), its systemd unit. Also
      C(certificates), the paths of PEM files with its certificates, and C(authorities), the paths of PEM files with the
      certificates of the authorities that it trusts.
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
    - The result of M(activemq.fleet.broker_info), and the following keys.
    - C(usage) is the usage of memory and store, and C(usage_error) the reason why the usage is missing.
    - C(records) are log records about links, and the newest warnings and errors. C(log_error) is the reason why the log
      cannot be read. C(breaking_bridges) are bridges that ended repeatedly.
    - C(holds_lock) is whether the broker's process holds the lock of its store. C(state_since) is the time at which the
      broker entered its current state, in seconds since the epoch. C(watchdog) is the state of the watchdog's unit.
    - C(deployed) are the checksums of the installed files. C(certificates) are the expiry times of the connectors'
      certificates.
  type: dict
  returned: with O(broker)
agent:
  description:
    - C(state) is running, stopped or null, and C(how) is the reason for this value. C(unit) is the state of the systemd
      unit. C(uptime) and C(version) are those of the running agent. C(damage) describes damage to its store, or is
      null.
    - C(store) has the numbers of events and messages in the outbox and inbox. C(publisher) and C(subscriber) are the
      brokers to which these two parts of the agent are connected.
    - C(deployed) are the checksums of the installed files. C(certificates) are the expiry times of the agent's
      certificates.
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
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.balancer_status import (
    gather_haproxy_and_keepalived_status,
)
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
        evidence["balancer"] = gather_haproxy_and_keepalived_status(balancer)
    return evidence


def main() -> None:
    run_module({part: {"type": "dict"} for part in ("broker", "agent", "balancer")}, _gather_host_status)


if __name__ == "__main__":
    main()
