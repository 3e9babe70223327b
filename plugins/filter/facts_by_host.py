# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``facts_by_host``: host names -> host name -> the value of one variable of that host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: facts_by_host
short_description: Return one fact of each host as a dictionary by host name
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Returns the value of one fact or registered result for each host. Hosts without this fact are left out.
  - This filter is internal to the playbooks of this collection. Do not use it in other playbooks, because it may change
    at any time.
positional: hostvars, name
options:
  _input:
    description: The names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  name:
    description: The name of the fact.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the state of each broker
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts | activemq.fleet.facts_by_host(hostvars, 'state') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: A dictionary that maps each host name to the value of the fact, in the order of the input.
  type: dict
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def facts_by_host(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    # Each host is read once, because Ansible merges the variables of a host at every access.
    variables_by_host = ((host, hostvars[host]) for host in hosts)
    return {host: variables[name] for host, variables in variables_by_host if name in variables}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"facts_by_host": facts_by_host}
