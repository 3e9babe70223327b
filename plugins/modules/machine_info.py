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
  ports:
    description: TCP ports that must be free, or used by the broker.
    type: list
    version_added: 0.2.0
    elements: int
    default: []
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
java:
  description: The feature release of Java, such as 17.
  type: int
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
  description: The ports in O(ports) on which another process than the broker listens.
  type: list
  version_added: 0.2.0
  elements: int
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
    failure = "this machine cannot be inspected: {error}"
    run_module(ARGUMENTS, lambda parameters, _check: gather_machine_facts(parameters), failure)


if __name__ == "__main__":
    main()
