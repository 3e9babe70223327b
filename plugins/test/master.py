# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the test ``master``: whether a host name is that of a preferred master."""

from __future__ import annotations

DOCUMENTATION = r"""
name: master
short_description: Test whether a host name is that of a preferred master
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - The test is true for a host name whose node, such as C(a) in C(orders-mq01-a), is the preferred master of its pair.
    It is false for every other name.
  - The test uses only the host name. If the variable C(activemq_node) is set for the host, the result can be wrong. In
    this case, test C(activemq_identity.role) of the host, which is V(master) or V(slave).
  - The preferred role never changes. The module M(activemq.fleet.broker_info) determines which node is active.
extends_documentation_fragment: activemq.fleet.naming
"""

EXAMPLES = r"""
- name: List the preferred masters
  ansible.builtin.debug:
    msg: "{{ groups['activemq_brokers'] | select('activemq.fleet.master') }}"
"""

RETURN = r"""
_value:
  description: Whether the host name is that of a preferred master.
  type: bool
"""

from collections.abc import Callable

from ansible_collections.activemq.fleet.plugins.plugin_utils.roles import has_preferred_role


def master(name: str, pattern: str | None = None, master_node: str | None = None, parity: str | None = None) -> bool:
    return bool(has_preferred_role("master", name, pattern, master_node, parity))


class TestModule:
    def tests(self) -> dict[str, Callable[..., bool]]:
        return {"master": master}
