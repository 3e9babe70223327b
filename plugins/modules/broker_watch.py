#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.broker_watch``: records which address of a pair answered when, while an operation ran."""

from __future__ import annotations

DOCUMENTATION = r"""
module: broker_watch
short_description: Measure which node of a pair serves, and the downtime, during an operation
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Repeats round trips over the connectors of a pair, with a new connection each time, as a client does that lost its
    broker. Over STOMP and MQTT a message to a separate topic must come back; over OpenWire the broker's greeting is
    sufficient.
  - Returns which broker served when, and each interruption, from the last answer before it to the first answer after
    it.
  - The module logs in with the account of probes, C(activemq-probe), from the configuration below O(base). A listener
    on this host counts only if it belongs to the broker's account.
  - At a broker of another host, the module logs in over TLS only if it can verify the broker's certificate. If it
    cannot, a completed TLS handshake is sufficient. Without TLS, the module logs in only as C(activemq-probe).
  - Run the module with C(async) on a host that reaches all addresses. The module creates the file O(flag) after the
    first completed round trip. It ends at the first answer after you remove this file, or after O(seconds).
  - The module changes nothing on the brokers.
options:
  addresses:
    description: The addresses to probe, such as C(mqtt+nio://orders-mq01-a.example.com:1883).
    type: list
    elements: str
    required: true
  base:
    description:
      - The directory of the broker on this host. It must belong to the same group as the brokers at O(addresses). The
        module reads the account for its logins from the configuration in this directory. By default, the module does
        not log in.
    type: path
  seconds:
    description: The time in seconds after which the measurement ends, even if the file O(flag) still exists.
    type: int
    default: 600
  interval:
    description: The pause between two round trips, in seconds.
    type: float
    default: 0.1
  timeout:
    description: Seconds without an answer after which the module continues with the next address.
    type: float
    default: 2.0
  ca_file:
    description: A PEM file with CA certificates, which the module uses to verify the TLS certificates of brokers on
      other hosts. The default is the system's CA certificates.
    type: path
  flag:
    description:
      - The path of a file that controls the end of the measurement. The module creates the file after the first
        completed round trip. Remove the file to end the measurement at the next answer.
      - The file must not exist when the module starts. If this option is not set, the module ends after O(seconds).
    type: path
attributes:
  check_mode:
    description: The module measures as without check mode, but does not create the file O(flag).
    support: full
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Watch the pair for a minute
  activemq.fleet.broker_watch:
    addresses: ["mqtt://orders-mq01-a.example.com:1883", "mqtt://orders-mq01-b.example.com:1883"]
    base: /var/lib/activemq/activemq
    seconds: 60
  async: 120
  poll: 0
"""

RETURN = r"""
trips:
  description: The number of completed round trips.
  type: int
  returned: always
spans:
  description:
    - The periods in which the broker at one address answered. Each has the C(address), its begin C(began) and end
      C(ended) (RFC 3339, UTC), and C(trips), the number of completed round trips.
  type: list
  elements: dict
  returned: always
gaps:
  description:
    - The periods in which no broker answered. Each has its begin C(began), its end C(ended), and its duration
      C(seconds). C(before) is the address that answered last before the period, and C(after) the first one after it.
      If no broker answered before or after it, the value is null.
  type: list
  elements: dict
  returned: always
longest:
  description: The duration of the longest period in RV(gaps), in seconds. The value is 0 if RV(gaps) is empty.
  type: float
  returned: always
last:
  description: For each address, the last answer of its broker, or the error of the last attempt.
  type: dict
  returned: always
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.probe.round_trips import watch_addresses
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def _watch_pair(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Watch the addresses of a pair for some time by probes, and return the module's result.

    In check mode no flag file is written.
    """
    result: dict[str, Any] = watch_addresses(**{**parameters, "flag": None if check else parameters["flag"]})
    return result


def main() -> None:
    spec = {
        "addresses": {"type": "list", "elements": "str", "required": True},
        "base": {"type": "path"},
        "seconds": {"type": "int", "default": 600},
        "interval": {"type": "float", "default": 0.1},
        "timeout": {"type": "float", "default": 2.0},
        "ca_file": {"type": "path"},
        "flag": {"type": "path"},
    }
    run_module(spec, _watch_pair)


if __name__ == "__main__":
    main()
