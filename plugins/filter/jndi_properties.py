# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``jndi_properties``: brokers -> the text of a jndi.properties for Java clients."""

from __future__ import annotations

DOCUMENTATION = r"""
name: jndi_properties
short_description: Return the jndi.properties of a list of brokers for Java clients
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description: Writes the file C(jndi.properties), with the failover URI of the brokers as the provider's URL.
positional: group, scheme
options:
  _input:
    description:
      - A list of brokers. An entry is an address, V(host) or V(host:port), with the default port 61616.
      - An entry can also be a dictionary with the keys C(address) and C(ports), such as a broker in C(fleet.json) or in
        the output of C(activemq-fleet lab status).
    type: list
    elements: raw
    required: true
  group:
    description: The name of the group, for the comment in the file's first line.
    type: str
    required: true
  scheme:
    description: The scheme of the brokers' connector. If it contains C(ssl), the client connects to C(ssl://).
    type: str
    default: tcp
"""

EXAMPLES = r"""
- name: Give a Java application its brokers
  ansible.builtin.copy:
    content: "{{ groups['activemq_group_orders'] | activemq.fleet.jndi_properties('orders') }}"
    dest: /etc/application/jndi.properties
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The content of the file.
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_library_module,
    translate_errors_to_filter_error,
)


def jndi_properties(brokers: Any, group: str, scheme: str = "tcp") -> str:
    with translate_errors_to_filter_error("jndi_properties", brokers):
        if not isinstance(group, str) or not group.isprintable():
            raise ValueError(
                f"the argument 'group' is {group!r}, but it must be one line of text. Set it to the name of the group"
            )
        uri = import_library_module("uris").failover_uri(
            import_library_module("endpoints").connector_endpoints_of_brokers(brokers, "openwire"), scheme=scheme
        )
        return str(
            import_library_module("render.engine")
            .render_template("agent/jndi.properties.j2", group=group, uri=uri)
            .decode()
        )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"jndi_properties": jndi_properties}
