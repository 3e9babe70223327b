#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.queue_demand``: makes bridges forward queues that have no consumers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: queue_demand
short_description: Create demand for queues, so that a bridge moves their messages to this broker
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A bridge forwards the messages of a queue only while the remote broker has a consumer for this queue. This module
    subscribes to the queues of this broker over STOMP, with a selector that no message matches. So the bridges forward
    all messages of the queues to this broker, which stores them and delivers none.
  - The subscriptions end when the module ends, also if it is killed. Forwarded messages then stay on this broker. The
    other messages stay on the remote brokers.
  - The module logs in with the account of the network connectors, which it reads from the deployed configuration. If
    this account is missing, it uses another account of the broker.
options:
  queues:
    description: The names of the queues.
    type: list
    elements: str
    required: true
  seconds:
    description: The duration of the subscription in seconds.
    type: float
    default: 20
attributes:
  check_mode:
    description: The module does nothing.
    support: full
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Let bridges move the messages of two queues to this broker
  activemq.fleet.queue_demand:
    base: /var/lib/activemq/activemq
    queues: [orders, invoices]
"""

RETURN = r"""
queues:
  description: The names of the queues to which the module subscribed.
  type: list
  elements: str
  returned: always
seconds:
  description: The duration of the subscription in seconds.
  type: float
  returned: always
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.probe.queue_demand import subscribe_to_queues
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def _subscribe_temporarily(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Subscribe to queues temporarily, so that bridges forward their messages to this host.

    The subscription lasts some seconds. Returns the module's result.
    """
    if check:
        return {"queues": sorted(parameters["queues"]), "seconds": 0}
    result: dict[str, Any] = subscribe_to_queues(parameters["base"], parameters["queues"], parameters["seconds"])
    return result


def main() -> None:
    spec = {
        "base": {"type": "path", "required": True},
        "queues": {"type": "list", "elements": "str", "required": True},
        "seconds": {"type": "float", "default": 20},
    }
    run_module(spec, _subscribe_temporarily)


if __name__ == "__main__":
    main()
