#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.configure``: the module that installs a configuration on its host.

``module_utils`` does the work.
"""

from __future__ import annotations

DOCUMENTATION = r"""
module: configure
short_description: Install the files of a broker as one version, activated by one rename
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the role C(activemq.fleet.broker) and of the playbooks of this collection. Do not use
    it in other playbooks, because it may change at any time.
  - Installs the archive that M(activemq.fleet.compile) made for the host. It also installs the files in C(conf) of
    O(home) that ActiveMQ ships, except example configurations and files that contain passwords or keys.
  - The module writes the files to the directory C(BASE/versions/ID), and syncs them to disk. It then switches the
    symbolic link C(BASE/current) to this directory. If a run is interrupted before the switch, the old version stays in
    force. The next run removes the unused directory.
  - The module reports files that were changed, added or removed by hand, and restores the files of the version.
  - The module never restarts a broker. It reports whether a running broker must be restarted to read the new version.
  - The archive contains secrets. So the module copies the archive as a file that only its owner can read, and never
    passes its content as an argument.
options:
  archive:
    description:
      - The archive on the controller. Required unless O(version) is given.
    type: path
  sha256:
    description: SHA-256 of the archive, as M(activemq.fleet.compile) returned it.
    type: str
  base:
    description: The directory of the broker, C(activemq_base/activemq_instance).
    type: path
    required: true
  link:
    description: The path of the symbolic link to the version in force. The default is C(BASE/current).
    type: path
  data:
    description:
      - The directory to which the broker writes. If it is missing, the module creates it for O(user). The default is
        C(BASE/data). Set an empty string to create no directory.
    type: path
  home:
    description: The directory of the ActiveMQ release. The module also installs files from its subdirectory C(conf). By
      default, it installs no such files.
    type: path
  user:
    description:
      - The account that the broker runs as. Files belong to root and are readable for the group of this account; files
        that only their owner may read belong to the account.
      - If this option is not set, the module does not change the owners of files. A run without root requires this.
    type: str
  group:
    description: The group that owns the files. The default is the group of the account O(user).
    type: str
  keep:
    description: The number of older versions to keep, in addition to the version in force and the version before it.
    type: int
    default: 5
  version:
    description: An earlier version that the module activates again. The module then installs no files.
    type: str
  unit:
    description:
      - The path of a systemd unit, such as C(/etc/systemd/system/activemq.service). The module copies the file with
        this name in C(systemd) of the version in force to this path. It makes a copy, because systemd does not find a
        link at boot if O(base) is on a file system that is mounted later.
    type: path
    version_added: 0.2.0
  validate:
    description:
      - Commands, run without a shell, that check the new version before it is activated. C(%s) in a command is replaced
        by the directory of the new version. If a command fails, the old version stays in force. Commands do not run in
        check mode.
    type: list
    version_added: 0.2.0
    elements: str
attributes:
  check_mode:
    description: The module reports the changes that it would make, and changes nothing.
    support: full
  diff_mode:
    description:
      - The module shows one unified diff per file. It shows placeholders in place of secrets. If only a secret changes,
        it shows one line.
    support: full
"""

EXAMPLES = r"""
- name: Compile the files of every broker
  activemq.fleet.compile:
  run_once: true
  register: compiled

- name: Install the files of the broker of this host
  activemq.fleet.configure:
    archive: "{{ compiled.archives[inventory_hostname].broker.path }}"
    sha256: "{{ compiled.archives[inventory_hostname].broker.sha256 }}"
    base: /var/lib/activemq/activemq
    home: /opt/activemq-6.3.1
    user: activemq

- name: Activate an earlier version again
  activemq.fleet.configure:
    base: /var/lib/activemq/activemq
    version: 0a1b2c3d4e5f
"""

RETURN = r"""
version:
  description: The version in force.
  type: str
  returned: always
  sample: 0a1b2c3d4e5f
previous:
  description:
    - If this run activates a different version, the version that was in force before. If this run changes no files, but
      the broker has not read an earlier change yet, the version with which the broker was started. Otherwise null.
  type: str
  returned: always
changed_files:
  description: Paths of the files that are added, removed or changed.
  type: list
  elements: str
  returned: always
drift:
  description: The files that were changed, added or removed by hand, one line per file.
  type: list
  elements: str
  returned: always
restart_required:
  description: Whether the running broker must be restarted. The broker was started before the last change to a file
    that it reads only at startup.
  type: bool
  returned: always
restart_reasons:
  description: The reasons why the broker must be restarted, one line per file.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.activemq.fleet.plugins.module_utils.node.install.configure import (
    ARGUMENTS,
    install_or_restore_configuration,
)
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def main() -> None:
    choice = [["archive", "version"]]
    run_module(ARGUMENTS, install_or_restore_configuration, required_one_of=choice, mutually_exclusive=choice)


if __name__ == "__main__":
    main()
