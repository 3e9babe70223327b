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
  - True for a host name whose node mark makes it the preferred slave of its pair, false for every other name.
  - It goes by the name alone. What C(activemq_node) of a host states is in C(activemq_identity).
  - The preferred role never changes. Which node is active is found out by M(activemq.fleet.broker_info).
extends_documentation_fragment: activemq.fleet.naming
"""

EXAMPLES = r"""
- name: List the preferred slaves
  ansible.builtin.debug:
    msg: "{{ groups['activemq_brokers'] | select('activemq.fleet.slave') }}"
"""

RETURN = r"""
_value:
  description: Whether it is.
  type: bool
"""

from collections.abc import Callable

from ansible_collections.activemq.fleet.plugins.plugin_utils.roles import has_preferred_role


def slave(name: str, pattern: str | None = None, master_node: str | None = None, parity: str | None = None) -> bool:
    return bool(has_preferred_role("slave", name, pattern, master_node, parity))


class TestModule:
    def tests(self) -> dict[str, Callable[..., bool]]:
        return {"slave": slave}
