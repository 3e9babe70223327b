# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``identity``: host name -> group, pair and node of the broker by the naming convention."""

from __future__ import annotations

DOCUMENTATION = r"""
name: identity
short_description: Return the group, pair and node that a host name contains
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Reads group, number, node, pair, preferred role and domain from a host name.
  - The filter uses only the name. If variables such as C(activemq_node) override parts of the name, use the variable
    C(activemq_identity) of the host instead.
extends_documentation_fragment: activemq.fleet.naming
"""

EXAMPLES = r"""
- name: Show the pair of a broker
  ansible.builtin.debug:
    msg: "{{ ('orders-mq01-a.example.com' | activemq.fleet.identity).pair }}" # orders-mq01
"""

RETURN = r"""
_value:
  description: C(group), C(number) (a string, so that V(01) stays V(01)), C(node), C(pair), C(role), C(domain).
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_library_module,
    translate_errors_to_filter_error,
)


def identity(
    name: str, pattern: str | None = None, master_node: str | None = None, parity: str | None = None
) -> dict[str, str]:
    naming = import_library_module("naming")
    with translate_errors_to_filter_error("identity", name):
        if not isinstance(name, str):
            raise TypeError(
                f"the input of the filter activemq.fleet.identity is of type {type(name).__name__}, but it must "
                "be a host name. Pass "
                "text, such as inventory_hostname"
            )
        broker_identity = naming.Naming(pattern or naming.DEFAULT_PATTERN, master_node, parity).identify_broker(name)
        if broker_identity is None:
            raise ValueError(
                f"the host name {name!r} does not match activemq_naming_pattern. Correct the name or the pattern. The "
                "default pattern matches, for example, orders-mq01-a.example.com"
            )
        result: dict[str, str] = broker_identity.to_dict()
        return result


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"identity": identity}
