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
  - This module is internal to the role C(activemq.fleet.broker). Do not use it in other playbooks, because it may
    change at any time.
  - The module returns facts and changes nothing. Values that it cannot determine are null or empty.
options:
  java:
    description: The Java executable that the systemd service of the broker runs.
    type: path
    default: /usr/bin/java
  directory:
    description: The directory of the broker's store. It need not exist.
    type: path
  home:
    description: The directory of the ActiveMQ release.
    type: path
    required: true
  home_link:
    description: The path of the symbolic link to O(home). Without it, no link is required.
    type: path
    version_added: 0.2.0
  user:
    description: The account of the broker.
    type: str
    default: activemq
  uid:
    description: The user ID that the account O(user) must have.
    type: int
    version_added: 0.2.0
  gid:
    description: The group ID that the group of the account O(user) must have.
    type: int
    version_added: 0.2.0
  listeners:
    description: The TCP ports that the broker listens on. Each must be free or in use by the broker itself.
    type: list
    version_added: 0.2.0
    elements: dict
    default: []
    suboptions:
      name:
        description: The purpose of the port.
        type: str
      address:
        description: The IP address or host name on which the broker listens.
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
    description: The paths of files that must exist on the host.
    type: list
    version_added: 0.2.0
    elements: path
    default: []
  names:
    description: The host names that the host must be able to resolve. IP addresses are skipped.
    type: list
    version_added: 0.2.0
    elements: str
    default: []
  service:
    description: The systemd service of the broker, whose installation is compared with these values.
    type: dict
    version_added: 0.2.0
    suboptions:
      instance:
        description: The broker's instance, C(activemq_instance).
        type: str
        required: true
      unit:
        description: The path of the unit file, of which C(/etc/systemd/system/INSTANCE.service) is a copy.
        type: path
        required: true
      enabled:
        description: Whether the service starts at boot.
        type: bool
        default: true
      guard:
        description: Whether a guard starts the broker.
        type: bool
        default: false
      watchdog:
        description: The path of the unit file of the watchdog. Without it, the broker has no watchdog.
        type: path
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
  description: If O(java) does not report its version, the reason, with the output of the command. Otherwise null.
  type: str
  version_added: 0.2.0
  returned: always
store_filesystem:
  description: The type of the file system that holds the store, such as nfs4.
  type: str
  returned: always
store_mount_options:
  description: The mount options of the file system that holds the store.
  type: list
  elements: str
  returned: always
store_capacity:
  description: The size in bytes that the store can reach, which is its current size plus the free disk space.
  type: int
  returned: always
store_fenced:
  description: Whether O(directory) contains a directory with the name C(lock), so that only brokers with
    C(activemq_fence=guard) can use this store.
  type: bool
  version_added: 0.2.0
  returned: always
running_store:
  description:
    - The store in the configuration that the running broker was started with. C(kind), C(openwire), C(pure),
      C(database) and C(stores) are those of C(persistence) in the module C(broker_info). C(directory) is the directory
      of a kahaDB store, and O(directory) if both paths lead to the same directory.
    - Null without a running broker, and if its configuration cannot be read.
  type: dict
  version_added: 0.2.0
  returned: always
memory:
  description: The memory of the machine in bytes.
  type: int
  version_added: 0.2.0
  returned: always
java_options:
  description: The options in the command line of the running broker that contain C(FileLock).
  type: list
  elements: str
  returned: always
settings_files:
  description: The existing settings files that ActiveMQ's start script reads, such as C(/etc/default/activemq).
  type: list
  elements: str
  returned: always
clock_synchronised:
  description: Whether the clock of the machine is synchronized, or null without systemd.
  type: bool
  returned: always
user:
  description: The account that runs the broker process, or null.
  type: str
  returned: always
release:
  description: The ActiveMQ release whose jars the broker process has open, or null if it is unknown.
  type: str
  version_added: 0.2.0
  returned: always
pid:
  description: The process ID of the running broker, or null.
  type: int
  version_added: 0.2.0
  returned: always
taken_ports:
  description:
    - The ports of O(listeners) on which a process other than the broker listens, each with C(port), C(address),
      C(pid), C(program) and C(service). C(pid) and C(program) are null if the process is not visible. C(service) is
      the systemd service of a process that is a broker, or null.
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
  description: The user ID of the account O(user), or null.
  type: int
  version_added: 0.2.0
  returned: always
account_gid:
  description: The group ID of the group with the name O(user), or null.
  type: int
  version_added: 0.2.0
  returned: always
account_processes:
  description: The IDs of some of the processes that run as the account O(user).
  type: list
  version_added: 0.2.0
  elements: int
  returned: always
uid_holder:
  description: The name of another account that has the user ID O(uid), or null.
  type: str
  version_added: 0.2.0
  returned: always
gid_holder:
  description: The name of another group that has the group ID O(gid), or null.
  type: str
  version_added: 0.2.0
  returned: always
base_exists:
  description: Whether the directory O(base) of the broker exists.
  type: bool
  version_added: 0.2.0
  returned: always
data_uid:
  description: The user ID of the owner of the data directory in O(base), or null if this directory contains no file.
  type: int
  version_added: 0.2.0
  returned: always
data_account:
  description: The name of the account that has the user ID RV(data_uid), or null.
  type: str
  version_added: 0.2.0
  returned: always
missing_files:
  description: The files in O(files) that do not exist.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
unresolved_names:
  description: The names in O(names) that the host does not resolve to an IP address within 3 seconds in total.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
has_home_link_conflict:
  description: Whether O(home_link) exists and is not a symbolic link, so that the link cannot be created.
  type: bool
  version_added: 0.2.0
  returned: always
home_exists:
  description: Whether O(home) exists.
  type: bool
  version_added: 0.2.0
  returned: always
home_releases:
  description: The ActiveMQ releases of the broker jars in C(HOME/lib), according to the content of the jars. A valid
    directory contains one release.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
home_processes:
  description: The IDs of the processes that have a file below O(home) open.
  type: list
  version_added: 0.2.0
  elements: int
  returned: always
replaced_brokers:
  description:
    - The running brokers that the broker replaces, each with C(pid), C(base) and C(service). They are brokers of other
      directories in the unit of the broker, and a broker that runs in O(home) itself, as before an adoption.
  type: list
  version_added: 0.2.0
  elements: dict
  returned: always
interfaces:
  description: The network interfaces that are up.
  type: list
  elements: str
  returned: always
cloud:
  description: The cloud provider of the machine, or null.
  type: str
  returned: always
pair:
  description: The name of the pair in the deployed broker configuration, or null if no configuration is deployed.
  type: str
  version_added: 0.2.0
  returned: always
service_changes:
  description: The changes that the installation of O(service) would make, one line each. Empty without O(service).
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
boot:
  description: The boot ID of the kernel, which identifies the machine until its next boot. Null in a container.
  type: str
  version_added: 0.2.0
  returned: always
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.install.program_archive import (
    guard_and_watchdog_interpreter,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.service_installation import pending_service_changes
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.machine import ARGUMENTS, gather_machine_facts


def _inspect_machine(parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Return the facts of the machine, and the pending changes of the broker's service."""
    service = parameters["service"]
    return {
        **gather_machine_facts(parameters),
        "service_changes": pending_service_changes(service, guard_and_watchdog_interpreter()) if service else [],
    }


def main() -> None:
    failure = (
        "the host of the broker in {base} cannot be inspected: {error}. Correct this error, and run the playbook again"
    )
    run_module(ARGUMENTS, _inspect_machine, failure)


if __name__ == "__main__":
    main()
