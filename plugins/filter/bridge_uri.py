# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``bridge_uri``: brokers -> the URI of a network connector to them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: bridge_uri
short_description: Return the URI of a network connector for a release
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Returns the URI of a network connector from a broker of the given release to a pair or to a single broker.
  - For ActiveMQ 5.6 and later, the URI is V(masterslave:(…\)). Earlier releases do not support this scheme. For these
    releases, the URI is V(static:(failover:(…\)?randomize=false&maxReconnectAttempts=1\)).
  - C(maxReconnectAttempts) makes the failover transport stop after a failed attempt. Otherwise the transport reconnects
    without the bridge, which then keeps the identity of the failed peer (AMQ-3542).
positional: release, kind, scheme
options:
  _input:
    description:
      - A list of brokers. Put the preferred master first. An entry is an address, V(host) or V(host:port), with the
        default port 61616.
      - An entry can also be a dictionary with the keys C(address) and C(ports), such as a broker in C(fleet.json) or in
        the output of C(activemq-fleet lab status).
    type: list
    elements: raw
    required: true
  release:
    description: The release of the broker that opens the bridge. Its C(activemq.xml) contains the URI.
    type: str
    required: true
  kind:
    description: The kind of the URI. The default is V(masterslave) from 5.6 on, and V(failover) for earlier releases.
    type: str
    choices: [masterslave, failover, static]
  scheme:
    description: The scheme of the peers' connector. If it contains C(ssl), the bridge connects to C(ssl://).
    type: str
    default: tcp
"""

EXAMPLES = r"""
- name: The bridge of a broker of 5.5.1 to a pair
  ansible.builtin.debug:
    msg: "{{ ['hub-mq01-a.example.com', 'hub-mq01-b.example.com'] | activemq.fleet.bridge_uri('5.5.1') }}"
"""

RETURN = r"""
_value:
  description: The URI.
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_from_public_api,
    import_library_module,
    translate_errors_to_filter_error,
)


def bridge_uri(brokers: Any, release: str, kind: str | None = None, scheme: str = "tcp") -> str:
    with translate_errors_to_filter_error("bridge_uri", brokers):
        addresses = import_library_module("endpoints").connector_endpoints_of_brokers(brokers, "openwire")
        return str(
            import_library_module("uris").bridge_uri(
                addresses, import_from_public_api("Release").of(release), kind, scheme=scheme
            )
        )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"bridge_uri": bridge_uri}
