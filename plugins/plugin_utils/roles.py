# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the tests ``master`` and ``slave``."""

from __future__ import annotations

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_library_module,
    translate_errors_to_filter_error,
)


def has_preferred_role(
    role: str, host_name: str, name_pattern: str | None, master_node: str | None, parity: str | None
) -> bool:
    """Return whether ``role`` is the preferred role of a host in its pair, which its name and a pattern determine.

    ``role`` is ``master`` or ``slave``. Raises AnsibleFilterError for a name that is no text or a pattern that is
    invalid.
    """
    naming = import_library_module("naming")
    with translate_errors_to_filter_error(role, host_name):
        if not isinstance(host_name, str):
            raise TypeError(
                f"the input of the test activemq.fleet.{role} is of type {type(host_name).__name__}, but it must be "
                "a host name. Pass "
                "text, such as inventory_hostname"
            )
        identity = naming.Naming(name_pattern or naming.DEFAULT_PATTERN, master_node, parity).identify_broker(host_name)
        return identity is not None and identity.role == role
