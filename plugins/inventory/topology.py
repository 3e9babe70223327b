# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Puts brokers into groups by their host names and sets ``activemq_identity``, using ``activemq_fleet``."""

from __future__ import annotations

DOCUMENTATION = r"""
name: topology
short_description: Groups and identities of ActiveMQ brokers, from their host names
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Reads no hosts of its own. It looks at the hosts of the sources before it and puts each one whose name
    matches the naming convention (V(orders-mq01-a.example.com)) into C(activemq_brokers), into
    C(activemq_masters) or C(activemq_slaves), and into C(activemq_group_NAME) and C(activemq_pair_NAME).
    In these names every character outside C([a-z0-9_]) is C(_).
  - Each such host gets the variable C(activemq_identity) with C(group), C(number), C(node), C(pair), C(role)
    and C(domain). The role is the preferred one; which node is active is found out at run time.
  - Directories are read in alphabetical order, so give the file a name that comes last, such as
    C(zz.activemq.yml).
notes:
  - It computes once, in Python. The same with C(ansible.builtin.constructed) took 5 s more for 5,000 hosts.
requirements:
  - activemq-fleet (pip install activemq-fleet)
options:
  plugin:
    description: Marks the file as this plugin's.
    type: str
    required: true
    choices: [activemq.fleet.topology]
  naming_pattern:
    description:
      - Regular expression with the named groups C(group), C(number) and C(node).
      - Without it the variable C(activemq_naming_pattern) of the group C(all) holds, else the default
        V(^(?P<group>[^.]+\)-mq(?P<number>[0-9]+\)-(?P<node>[ab]\)(?:\\.|$\)).
      - Set here, it becomes that variable, so that everything else goes by the same pattern.
    type: str
  master_node:
    description:
      - The node letter of preferred masters.
      - Without it the variable C(activemq_master_node) of the group C(all) holds, else V(a).
      - Set here, it becomes that variable.
    type: str
"""

EXAMPLES = r"""
# inventory/zz.activemq.yml
plugin: activemq.fleet.topology

# Nodes called 1 and 2 instead of a and b:
# plugin: activemq.fleet.topology
# naming_pattern: '^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>[12])(?:\.|$)'
# master_node: '1'
"""

from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.utils.vars import combine_vars, load_extra_vars
from ansible.vars.plugins import get_vars_from_inventory_sources
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import library

_VARIABLES = {"naming_pattern": "activemq_naming_pattern", "master_node": "activemq_master_node"}


class InventoryModule(BaseInventoryPlugin):
    NAME = "activemq.fleet.topology"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith((".activemq.yml", ".activemq.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        errors, naming, grouping = library("errors"), library("naming"), library("grouping")
        try:
            stated = self._variables_of_all()
        except AnsibleError as error:
            # Ansible ends at the same file when it reads any host's variables. An error here would blame this file,
            # which is then tried as an inventory of every other kind.
            self.display.warning(f"no broker is put into a group: {library('_ansible').message_of(error)}")
            return
        try:
            convention = naming.Naming(**self._convention(path, stated))
            found = {host: convention.identify(host) for host in inventory.hosts}
            identities = [identity for identity in found.values() if identity]
            groups = grouping.inventory_groups(identities)
            nearly = [host for host, identity in found.items() if not identity and convention.looks_like_broker(host)]
        except errors.FleetError as error:
            raise AnsibleParserError(f"{path}: {error}") from None
        for group, hosts in groups.items():
            inventory.add_group(group)
            for host in hosts:
                inventory.add_child(group, host)
        for identity in identities:
            inventory.set_variable(identity.name, "activemq_identity", identity.to_dict())
        self._warn(path, bool(identities), nearly)

    def _variables_of_all(self) -> dict[str, Any]:
        """Return the variables of the group ``all``.

        Raises AnsibleError for a file of variables that cannot be read.
        """
        everyone = self.inventory.groups["all"]
        sources = getattr(self.inventory, "processed_sources", [])
        stated = get_vars_from_inventory_sources(self.loader, sources, [everyone], "all")
        known: dict[str, Any] = combine_vars(everyone.get_vars(), stated)
        return known

    def _convention(self, path: str, stated: dict[str, Any]) -> dict[str, str]:
        """Return naming pattern and master node, from the plugin's options, else from the variables of ``all``.

        Raises AnsibleParserError where both are set and differ.
        """
        known = combine_vars(stated, load_extra_vars(self.loader))
        convention = {}
        for option, variable in _VARIABLES.items():
            here, there = self.get_option(option), known.get(variable)
            if here is not None and there is not None and here != there:
                raise AnsibleParserError(f"{path}: {option} and the variable {variable} differ: set only one of them")
            if here is not None:
                self.inventory.set_variable("all", variable, here)
            value = here if here is not None else there
            if value is not None:
                convention[{"naming_pattern": "pattern"}.get(option, option)] = str(value)
        return convention

    def _warn(self, path: str, any_match: bool, nearly: list[str]) -> None:
        if not any_match:
            self.display.warning(
                f"{path}: no host name matches activemq_naming_pattern, so there is no broker. "
                "Names look like orders-mq01-a.example.com. Inventory directories are read in alphabetical "
                "order: this file must come after the hosts (zz.activemq.yml)."
            )
        for host in nearly:
            self.display.warning(f"{path}: {host} looks like a broker but does not match activemq_naming_pattern")
