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
  - Makes one round trip after the other against the connectors of a pair, with a new connection each time, as
    a client that lost its broker would. Over STOMP and MQTT one message must come back from a topic of the
    module's own; over OpenWire the broker's greeting is enough.
  - Says who served when, and the gaps, from the last answer before to the first one after.
  - It logs in with the account of probes, C(activemq-probe), from the configuration below O(base). A listener on this
    host counts only if it belongs to the broker's account. A broker of another host is logged in at over TLS only if
    its certificate is verified; else the TLS handshake must do. Without TLS no other account is sent there.
  - Run it with C(async) on a host that reaches all of them. It makes the file O(flag) when the first message
    came back, and ends with the first answer after that file was removed, or after O(seconds).
  - It changes nothing on the brokers.
options:
  addresses:
    description: What to ask, such as C(mqtt+nio://orders-mq01-a.example.com:1883).
    type: list
    elements: str
    required: true
  base:
    description: The directory of a broker of the same group, from which the account is read.
    type: path
  seconds:
    description: How long at most.
    type: int
    default: 600
  interval:
    description: Seconds between two round trips.
    type: float
    default: 0.1
  timeout:
    description: Seconds after which an address that says nothing is passed over.
    type: float
    default: 2.0
  ca_file:
    description: >-
      A PEM file with the certificates by which brokers of other hosts are verified over TLS. Without it those of the
      system are used.
    type: path
  flag:
    description: A file that must not be there. Without it the module ends after O(seconds).
    type: path
attributes:
  check_mode:
    description: Does the same as without, but for the file O(flag).
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
  description: Round trips that came back.
  type: int
  returned: always
spans:
  description: Who served, each with C(address), C(began) and C(ended) in RFC 3339, UTC, and C(trips).
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
  description: The longest of the gaps, in seconds; 0 where there was none.
  type: float
  returned: always
last:
  description: What each address said last.
  type: dict
  returned: always
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.probe.round_trips import watch_addresses
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def watch_pair(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Probe a pair's addresses for some time, and return the module's result; in check mode write no flag file."""
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
    run_module(spec, watch_pair)


if __name__ == "__main__":
    main()
