# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``mb_urls``: brokers -> the value of the failover agent's key ``mb.urls``."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mb_urls
short_description: Return a list of brokers in the format of mb.urls
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Writes the list of brokers that the failover agent reads from C(mb.urls), in the order of the input. The agent
    first tries to connect to the first broker, so put the preferred master there.
options:
  _input:
    description:
      - A list of brokers. An entry is an address, V(host) or V(host:port), with the default port 1883.
      - An entry can also be a dictionary with the keys C(address) and C(ports), such as a broker in C(fleet.json) or in
        the output of C(activemq-fleet lab status).
    type: list
    elements: raw
    required: true
"""

EXAMPLES = r"""
- name: Two brokers for an agent
  ansible.builtin.debug:
    msg: "{{ ['orders-mq01-a.example.com', 'orders-mq01-b.example.com:1893'] | activemq.fleet.mb_urls }}"
    # orders-mq01-a.example.com:1883,orders-mq01-b.example.com:1893
"""

RETURN = r"""
_value:
  description: The list, C(host:port,host:port).
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_library_module,
    translate_errors_to_filter_error,
)


def mb_urls(brokers: Any) -> str:
    with translate_errors_to_filter_error("mb_urls", brokers):
        return str(
            import_library_module("addresses").format_mb_urls_value_of_agent_conf(
                import_library_module("endpoints").connector_endpoints_of_brokers(brokers, "mqtt")
            )
        )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"mb_urls": mb_urls}
