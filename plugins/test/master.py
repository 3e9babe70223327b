# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the test ``master``: whether a host name is that of a preferred master."""

from __future__ import annotations

DOCUMENTATION = r"""
name: master
short_description: Is this the host name of a preferred master?
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - True for a host name whose node letter makes it the preferred master of its pair, false for every other name.
  - The preferred role never changes. Which node is active is found out by M(activemq.fleet.broker_info).
positional: pattern, master_node
options:
  _input:
    description: A host name.
    type: str
    required: true
  pattern:
    description: The naming pattern, as in the variable C(activemq_naming_pattern). Without it the default.
    type: str
  master_node:
    description: The node letter of preferred masters.
    type: str
    default: a
"""

EXAMPLES = r"""
- name: List the preferred masters
  ansible.builtin.debug:
    msg: "{{ groups['activemq_brokers'] | select('activemq.fleet.master') }}"
"""

RETURN = r"""
_value:
  description: Whether it is.
  type: bool
"""

from collections.abc import Callable

from ansible_collections.activemq.fleet.plugins.plugin_utils.roles import has_role


def master(name: str, pattern: str | None = None, master_node: str = "a") -> bool:
    return bool(has_role("master", name, pattern, master_node))


class TestModule:
    def tests(self) -> dict[str, Callable[..., bool]]:
        return {"master": master}
