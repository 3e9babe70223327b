# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``run_once_result``: returns the result that a task which ran once registered on some host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_once_result
short_description: Return the result of a task that ran once, from any play
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Returns the registered result of a task with C(run_once) for use in a later play. Only the hosts of the play with
    this task have the result. The later play can have other hosts, so the filter searches the variables of every host
    for the result.
  - This filter is internal to the playbooks of this collection. Do not use it in other playbooks, because it may change
    at any time.
positional: name, key, default
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  name:
    description: The name under which the result was registered.
    type: str
    required: true
  key:
    description: A key that only the result of a successful task has, not that of a skipped or failed task.
    type: str
    required: true
  default:
    description: The value to return if no host has such a result.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Mark the new stores
  hosts: "{{ (hostvars | activemq.fleet.run_once_result('stores', 'hosts', {'hosts': []})).hosts }}"
"""

RETURN = r"""
_value:
  description: The result, or O(default).
  type: dict
"""

from collections.abc import Callable, Mapping
from typing import Any


def run_once_result(
    hostvars: Mapping[str, Mapping[str, Any]], name: str, key: str, default: Mapping[str, Any]
) -> Mapping[str, Any]:
    results = (hostvars[host].get(name) or {} for host in hostvars)
    return next((result for result in results if key in result), default)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"run_once_result": run_once_result}
