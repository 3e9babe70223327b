# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the test ``slave``: whether a host name is that of a preferred slave."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slave
short_description: Test whether a host name is that of a preferred slave
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - The test is true for a host name whose node, such as C(a) in C(orders-mq01-a), is the preferred slave of its pair.
    It is false for every other name.
  - The test uses only the host name. If the variable C(activemq_node) is set for the host, the result can be wrong. In
    this case, test C(activemq_identity.role) of the host, which is V(master) or V(slave).
  - The preferred role never changes. The module M(activemq.fleet.broker_info) determines which node is active.
extends_documentation_fragment: activemq.fleet.naming
"""

EXAMPLES = r"""
- name: List the preferred slaves
  ansible.builtin.debug:
    msg: "{{ groups['activemq_brokers'] | select('activemq.fleet.slave') }}"
"""

RETURN = r"""
_value:
  description: Whether the host name is that of a preferred slave.
  type: bool
"""

from collections.abc import Callable

from ansible_collections.activemq.fleet.plugins.plugin_utils.roles import has_preferred_role


def slave(name: str, pattern: str | None = None, master_node: str | None = None, parity: str | None = None) -> bool:
    return bool(has_preferred_role("slave", name, pattern, master_node, parity))


class TestModule:
    def tests(self) -> dict[str, Callable[..., bool]]:
        return {"slave": slave}
