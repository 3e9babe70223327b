# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Puts brokers into groups by their host names and sets ``activemq_identity``, using ``activemq_fleet``."""

from __future__ import annotations

DOCUMENTATION = r"""
name: topology
short_description: Create groups and variables of ActiveMQ brokers from their host names
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Creates groups from the hosts of earlier inventory sources; it adds no hosts. Each host whose name matches the
    naming convention (V(orders-mq01-a.example.com)) becomes a member of C(activemq_brokers), of C(activemq_masters) or
    C(activemq_slaves), and of C(activemq_group_NAME) and C(activemq_pair_NAME). In the names of these groups, C(_)
    replaces every character outside C([a-z0-9_]).
  - Each such host gets the variable C(activemq_identity) with C(group), C(number), C(node), C(pair), C(role)
    and C(domain). The role is the preferred role; the active node is only known at run time.
  - The variables C(activemq_group), C(activemq_pair) and C(activemq_node) of a host override the values from its
    name. Define these variables in the inventory, in group_vars or in host_vars, as plain text. The plugin does not
    evaluate templates.
  - Ansible reads directories in alphabetical order, so give the file a name that comes last, such as
    C(zz.activemq.yml).
notes:
  - The plugin computes the groups once, in Python. C(ansible.builtin.constructed) took 5 s more for 5,000 hosts.
requirements:
  - activemq-fleet (pip install the wheel of a release, which C(make package) builds in a checkout)
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [activemq.fleet.topology]
  naming_pattern:
    description:
      - A regular expression with the named groups C(group), C(number) and C(node), and C(pair) if the names contain the
        pair's name. For a part that the names do not contain, set C(activemq_group), C(activemq_pair) or
        C(activemq_node) of the host.
      - The default is the variable C(activemq_naming_pattern) of the group C(all). If this variable is not set, the
        default is V(^(?P<group>[^.]+\)-mq(?P<number>[0-9]+\)-(?P<node>[ab]\)(?:\\.|$\)).
      - The option sets this variable, so that the whole collection uses the same pattern.
    type: str
  naming_parity:
    description:
      - Set this option if the host names of a pair have consecutive numbers, and no letter for the node. The naming
        pattern must then have no named group C(node). With V(odd-even), hosts 1 and 2 are a pair, and host 1 is the
        preferred master. With V(even-odd), hosts 0 and 1 are a pair, and host 0 is the preferred master.
      - The default is the variable C(activemq_naming_parity) of the host. The option sets this variable.
    type: str
    version_added: 0.2.0
    choices: [odd-even, even-odd]
  master_node:
    description:
      - The node of a pair that is the preferred master, as the host names contain it, such as V(a), V(1) or V(primary).
      - With O(naming_parity), the host names contain no node. The value is then V(odd) or V(even), and the preferred
        master is the host of the pair with the odd or even number.
      - The default is the variable C(activemq_master_node) of the host. If this variable is not set, the default is
        V(a).
      - The option sets this variable for all hosts.
    type: str
"""

EXAMPLES = r"""
# inventory/zz.activemq.yml
plugin: activemq.fleet.topology

# Nodes called 1 and 2 instead of a and b:
# plugin: activemq.fleet.topology
# naming_pattern: '^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>[12])(?:\.|$)'
# master_node: '1'

# Odd and even numbers: ffm1amq001 is the master of ffm1amq002.
# plugin: activemq.fleet.topology
# naming_pattern: '^(?P<group>[a-z]+[0-9]+amq)(?P<number>[0-9]{3})(?:\.|$)'
# naming_parity: odd-even
"""

from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    LibraryError,
    check_library,
    import_from_public_api,
    import_library_module,
)

_INVENTORY_ERROR = 4  # Ansible's commands exit with this code if they cannot read an inventory.


class InventoryModule(BaseInventoryPlugin):
    NAME = "activemq.fleet.topology"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith((".activemq.yml", ".activemq.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            check_library()
        except LibraryError as error:
            # Ansible would try the file as an inventory of every other kind, report three warnings, and continue
            # with an inventory without groups.
            self.display.error(f"{path}: {error}")
            raise SystemExit(_INVENTORY_ERROR) from None
        groups = import_library_module("_inventory_groups")
        options = {name: self.get_option(name) for name in groups.OPTIONS}
        sources = getattr(inventory, "processed_sources", [])
        try:
            grouped = groups.identify_brokers_and_add_groups(inventory, loader, sources, options)
        except import_from_public_api("FleetError") as error:
            raise AnsibleParserError(f"{path}: {error}") from None
        except AnsibleError as error:
            # Ansible ends at the same file when it reads any host's variables. An error here would blame this file,
            # which is then tried as an inventory of every other kind.
            self.display.warning(
                "the inventory plugin activemq.fleet.topology created no groups, because Ansible cannot read the "
                "variables of the hosts. Correct this error: "
                f"{import_library_module('_ansible').ansible_error_message(error)}"
            )
            return
        for reason in (*grouped.misspelt, *grouped.unclear):
            self.display.warning(f"{path}: {reason}")
        self._warn_about_host_names(path, bool(grouped.identities), grouped.nearly)

    def _warn_about_host_names(self, path: str, any_match: bool, similar_hosts: tuple[str, ...]) -> None:
        if not any_match:
            self.display.warning(
                f"{path}: no host name matches activemq_naming_pattern, so the inventory has no brokers. "
                "A name such as orders-mq01-a.example.com matches the default pattern. Ansible reads inventory "
                "directories in alphabetical order: give this file a name that follows the names of the files with "
                "the hosts, such as zz.activemq.yml."
            )
        for host in similar_hosts:
            self.display.warning(
                f"{path}: the host name {host} resembles the name of a broker, but does not match "
                "activemq_naming_pattern, so the host is not a broker. Correct the host name or the pattern"
            )
