#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.machine_info``: returns facts of a machine that rules need and no configuration file shows."""

from __future__ import annotations

DOCUMENTATION = r"""
module: machine_info
short_description: Gather facts that decide whether a host can run its broker and fail over
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A part of the role C(activemq.fleet.broker). It is no interface for other playbooks and may change at any
    time.
  - The module returns evidence and decides nothing. Unknown values are null or empty.
options:
  java:
    description: The Java executable that the unit runs.
    type: path
    default: /usr/bin/java
  directory:
    description: The store's directory, which may be missing.
    type: path
  home:
    description: The release's directory.
    type: path
    required: true
  user:
    description: The account of the broker.
    type: str
    default: activemq
  uid:
    description: The id that the account is to have.
    type: int
    version_added: 0.2.0
  gid:
    description: The id that the group of the account is to have.
    type: int
    version_added: 0.2.0
  listeners:
    description: TCP ports that the broker listens on, which must be free or the broker's.
    type: list
    version_added: 0.2.0
    elements: dict
    default: []
    suboptions:
      name:
        description: What the port is for.
        type: str
      address:
        description: The address on which the broker listens, or a name of it.
        type: str
        required: true
      port:
        description: The number of the port.
        type: int
        required: true
      variable:
        description: The variable that sets the port.
        type: str
  files:
    description: Files that must exist.
    type: list
    version_added: 0.2.0
    elements: path
    default: []
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.unchanging
"""

EXAMPLES = r"""
- name: Inspect the machine
  activemq.fleet.machine_info:
    directory: /srv/activemq/orders-mq01
    home: /opt/activemq-5.18.3
    base: /var/lib/activemq/activemq
"""

RETURN = r"""
is_root:
  description: Whether the module runs as root.
  type: bool
  version_added: 0.2.0
  returned: always
java:
  description: The feature release of Java, such as 17.
  type: int
  returned: always
java_failure:
  description: Why the java does not report its version, with the output of the command. Null where it does.
  type: str
  version_added: 0.2.0
  returned: always
store_filesystem:
  description: The type of the file system that holds the store, such as nfs4.
  type: str
  returned: always
store_mount_options:
  description: The mount options of this file system.
  type: list
  elements: str
  returned: always
store_capacity:
  description: Bytes that the store can grow to.
  type: int
  returned: always
memory:
  description: Bytes of the machine's memory.
  type: int
  version_added: 0.2.0
  returned: always
java_options:
  description: The options of the running broker's command line that concern file locks.
  type: list
  elements: str
  returned: always
settings_files:
  description: Existing settings files that a start script of at least one release reads.
  type: list
  elements: str
  returned: always
clock_synchronised:
  description: Whether the clock is synchronized.
  type: bool
  returned: always
user:
  description: The account of the running broker.
  type: str
  returned: always
release:
  description: The release whose jars the running broker has open, or null if it is unknown.
  type: str
  version_added: 0.2.0
  returned: always
pid:
  description: The process of the running broker, or null.
  type: int
  version_added: 0.2.0
  returned: always
taken_ports:
  description:
    - The ports of O(listeners) that another process than the broker has, each with C(port), C(address), C(pid) and
      C(program). The last two are null where the process is not visible.
  type: list
  version_added: 0.2.0
  elements: dict
  returned: always
account_exists:
  description: Whether the account O(user) exists.
  type: bool
  version_added: 0.2.0
  returned: always
account_uid:
  description: The id of the account O(user), or null.
  type: int
  version_added: 0.2.0
  returned: always
account_gid:
  description: The id of the group with the name of the account, or null.
  type: int
  version_added: 0.2.0
  returned: always
account_processes:
  description: Some of the processes that run as the account.
  type: list
  version_added: 0.2.0
  elements: int
  returned: always
uid_holder:
  description: Another account that has the id O(uid), or null.
  type: str
  version_added: 0.2.0
  returned: always
gid_holder:
  description: Another group that has the id O(gid), or null.
  type: str
  version_added: 0.2.0
  returned: always
base_exists:
  description: Whether the broker's directory exists.
  type: bool
  version_added: 0.2.0
  returned: always
missing_files:
  description: The files in O(files) that do not exist.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
home_exists:
  description: Whether O(home) exists.
  type: bool
  version_added: 0.2.0
  returned: always
home_releases:
  description: The releases of the brokers' jars in C(HOME/lib), according to their content. A valid directory has one
    release.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
home_processes:
  description: The processes that have a file below O(home) open.
  type: list
  version_added: 0.2.0
  elements: int
  returned: always
interfaces:
  description: The interfaces that are up.
  type: list
  elements: str
  returned: always
cloud:
  description: The cloud provider of the machine.
  type: str
  returned: always
pair:
  description: The name of the pair in the configuration in force, or null without a configuration.
  type: str
  version_added: 0.2.0
  returned: always
boot:
  description: The kernel's boot id, which distinguishes machines. Null in a container.
  type: str
  version_added: 0.2.0
  returned: always
"""

from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.machine import ARGUMENTS, gather_machine_facts


def main() -> None:
    failure = "this host cannot be inspected: {error}. Correct the cause, and run the playbook again"
    run_module(ARGUMENTS, lambda parameters, _check: gather_machine_facts(parameters), failure)


if __name__ == "__main__":
    main()
