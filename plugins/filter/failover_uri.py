# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``failover_uri``: brokers -> the failover URI for OpenWire clients."""

from __future__ import annotations

DOCUMENTATION = r"""
name: failover_uri
short_description: Return the failover URI of a list of brokers for Java clients
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description: Writes V(failover:(tcp://a:61616,tcp://b:61616\)?…) for an OpenWire client. It is not meant for bridges.
positional: options, scheme
options:
  _input:
    description:
      - A list of brokers. An entry is an address, V(host) or V(host:port), with the default port 61616.
      - An entry can also be a dictionary with the keys C(address) and C(ports), such as a broker in C(fleet.json) or in
        the output of C(activemq-fleet lab status).
    type: list
    elements: raw
    required: true
  options:
    description: Options of the failover transport. The default is C(initialReconnectDelay=100&maxReconnectDelay=2000).
    type: dict
  scheme:
    description: The scheme of the brokers' connector. If it contains C(ssl), the client connects to C(ssl://).
    type: str
    default: tcp
seealso:
  - plugin: activemq.fleet.bridge_uri
    plugin_type: filter
"""

EXAMPLES = r"""
- name: One URI for both nodes of a pair
  ansible.builtin.debug:
    msg: "{{ groups['activemq_pair_orders_mq01'] | activemq.fleet.failover_uri({'randomize': 'false'}) }}"
    # failover:(tcp://orders-mq01-a.example.com:61616,tcp://orders-mq01-b.example.com:61616)?randomize=false
"""

RETURN = r"""
_value:
  description: The URI.
  type: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_library_module,
    translate_errors_to_filter_error,
)


def failover_uri(brokers: Any, options: Mapping[str, Any] | None = None, scheme: str = "tcp") -> str:
    with translate_errors_to_filter_error("failover_uri", brokers):
        addresses = import_library_module("endpoints").connector_endpoints_of_brokers(brokers, "openwire")
        return str(import_library_module("uris").failover_uri(addresses, options, scheme=scheme))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"failover_uri": failover_uri}
