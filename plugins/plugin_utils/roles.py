# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests ``master`` and ``slave`` share."""

from __future__ import annotations

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import library, speaking


def has_role(role: str, name: str, pattern: str | None, master_node: str) -> bool:
    """True when ``name`` is a broker's and its preferred role is ``role``."""
    naming = library("naming")
    with speaking(role, name):
        if not isinstance(name, str):
            raise TypeError(f"needs a host name, not {type(name).__name__}")
        found = naming.Naming(pattern or naming.DEFAULT_PATTERN, master_node).identify(name)
        return found is not None and found.role == role
