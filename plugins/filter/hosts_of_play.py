# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements the filter ``hosts_of_play``: returns the hosts of a play of ``site``, as a pattern for ``hosts:``."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts_of_play
short_description: Return the hosts on which a play of the site playbook runs
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Returns the hosts on which a play of the playbook C(site) runs. The modules M(activemq.fleet.compile) and
    M(activemq.fleet.decide) returned these hosts in earlier plays.
  - The play V(units), which installs systemd units, runs on the hosts whose files or whose service changed, according
    to the results of M(activemq.fleet.configure) and M(activemq.fleet.machine_info).
  - The filter searches the variables of every host for the results of these modules, because C(--limit) can exclude any
    host.
  - This filter is internal to the playbooks of this collection. Do not use it in other playbooks, because it may change
    at any time.
positional: play
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  play:
    description: The short name of the play, such as V(configure).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Install the brokers' files
  hosts: "{{ hostvars | default({}) | activemq.fleet.hosts_of_play('configure') }}"
"""

RETURN = r"""
_value:
  description: The names of the hosts, or a pattern that matches no host. An empty list would match every host.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.activemq.fleet.plugins.filter.run_once_result import run_once_result

_NO_HOST = ["all", "!all"]
_DECISION_SOURCES = {
    "mark": ("share", "__activemq_new_shared_stores", "hosts"),
    "roll": ("run", "__activemq_start_plan", "hosts"),
    "verify": ("run", "__activemq_start_plan", "verify"),
}
"""For each play: the play whose hosts have the decision, the variable with the decision, and its key with the hosts."""


def hosts_of_play(hostvars: Mapping[str, Mapping[str, Any]], play: str) -> list[str]:
    plays = run_once_result(hostvars, "__activemq_site", "plays", {"plays": {}})["plays"]
    if play == "units":
        return [host for host in plays.get("run", ()) if _has_service_changes(hostvars[host])] or _NO_HOST
    if play not in _DECISION_SOURCES:
        return plays.get(play) or _NO_HOST
    deciding, name, key = _DECISION_SOURCES[play]
    # Only these hosts are read, because merging the variables of all hosts of a large fleet takes long.
    decisions = (hostvars[host].get(name) or {} for host in plays.get(deciding, ()))
    return next((decision[key] for decision in decisions if key in decision), []) or _NO_HOST


def _has_service_changes(variables: Mapping[str, Any]) -> bool:
    """Return whether the systemd units of a host must be installed; True for a host that was not inspected."""
    is_configured = (variables.get("__activemq_installed_configuration") or {}).get("changed", True)
    return bool(is_configured or (variables.get("__activemq_machine_facts") or {}).get("service_changes", True))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"hosts_of_play": hosts_of_play}
