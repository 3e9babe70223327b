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
  - Repeats round trips over the connectors of a pair. Each round trip uses a new connection, like a client that
    reconnects after a failover. Over STOMP and MQTT, a message to a separate topic must complete a round trip. Over
    OpenWire, the broker's greeting is sufficient.
  - Returns the periods in which each broker served, and each interruption. An interruption lasts from the last answer
    of a broker to the next answer.
  - The module logs in with the account C(activemq-probe), whose password it reads from the configuration below O(base).
    A listener on this host counts only if it belongs to the broker's account.
  - If a connector of another host uses TLS, the module logs in only if it can verify the broker's certificate.
    Otherwise a completed TLS handshake is sufficient. If the connector does not use TLS, the module logs in only as
    C(activemq-probe).
  - Run the module with C(async) on a host that can connect to all addresses. The module creates the file O(flag) after
    the first completed round trip. The module ends at the first answer after you remove this file, or after O(seconds).
  - The module changes nothing on the brokers.
options:
  addresses:
    description: The addresses to probe, such as C(mqtt+nio://orders-mq01-a.example.com:1883).
    type: list
    elements: str
    required: true
  base:
    description: The directory of a broker of the same group, from which the account is read.
    type: path
  seconds:
    description: The longest duration of the measurement, in seconds.
    type: int
    default: 600
  interval:
    description: Seconds between two round trips.
    type: float
    default: 0.1
  timeout:
    description: Seconds without an answer after which the module continues with the next address.
    type: float
    default: 2.0
  ca_file:
    description: A PEM file with the certificates for the verification of brokers of other hosts over TLS. The
      default is the system's certificates.
    type: path
  first_within:
    description: Seconds within which the first round trip must be completed. If none is, the module fails and names the
      last answer of each address. Without this option, it continues until O(seconds) have passed.
    type: float
  flag:
    description: A file that must not exist when the module starts. Without it the module ends after O(seconds).
    type: path
attributes:
  check_mode:
    description: Measures as without check mode, but does not create the file O(flag).
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
  description: The addresses that served, each with C(address), C(began) and C(ended) in RFC 3339, UTC, and C(trips).
  type: list
  elements: dict
  returned: always
gaps:
  description:
    - The periods in which no broker served, each with C(began), C(ended), C(seconds), and the addresses C(before) and
      C(after). A gap at the end has no C(after).
  type: list
  elements: dict
  returned: always
longest:
  description: The longest interruption in seconds; 0 if no interruption occurred.
  type: float
  returned: always
last:
  description: By address, the last answer or the last error of the broker.
  type: dict
  returned: always
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.probe.pair_watch import watch_which_address_answers
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def _watch_pair(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Watch the addresses of a pair for some time by probes, and return the module's result.

    In check mode no flag file is written.
    """
    result: dict[str, Any] = watch_which_address_answers(
        **{**parameters, "flag": None if check else parameters["flag"]}
    )
    return result


def main() -> None:
    spec = {
        "addresses": {"type": "list", "elements": "str", "required": True},
        "base": {"type": "path"},
        "seconds": {"type": "int", "default": 600},
        "interval": {"type": "float", "default": 0.1},
        "timeout": {"type": "float", "default": 2.0},
        "ca_file": {"type": "path"},
        "first_within": {"type": "float"},
        "flag": {"type": "path"},
    }
    run_module(spec, _watch_pair)


if __name__ == "__main__":
    main()
