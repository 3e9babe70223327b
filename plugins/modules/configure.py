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
  - A part of the role C(activemq.fleet.broker) and of the playbooks of this collection. It is no interface for other
    playbooks and may change at any time.
  - Installs the archive that M(activemq.fleet.compile) made for the host. It also installs the files in C(conf) of
    O(home) that ActiveMQ ships, except example configurations and files that contain passwords or keys.
  - The files are written to the directory C(BASE/versions/ID) and synced before the link C(BASE/current) is switched to
    it. If a run is interrupted, the old version stays in force. The next run removes the unused directory.
  - A file that was changed, added or removed by hand is detected, reported and installed again.
  - The module never restarts a broker. It reports whether a running broker must be restarted to read the new version.
  - The archive contains secrets, so it is copied as a file that only its owner can read. It is never part of a module's
    arguments.
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
    description: The link to the version in force. The default is C(BASE/current).
    type: path
  data:
    description:
      - The directory that the broker writes to. It is created if it is missing, and belongs to O(user). The default is
        C(BASE/data); an empty text means no directory.
    type: path
  home:
    description: The directory of the ActiveMQ release, from whose C(conf) files are also installed. By default no such
      files are installed.
    type: path
  user:
    description:
      - The account that the broker runs as. Files belong to root and are readable for the group of this account; files
        that only their owner may read belong to the account.
      - Without it owners are not changed, as required for a run without root.
    type: str
  group:
    description: The group of the files. The default is the group of the account.
    type: str
  keep:
    description: The number of older versions to keep, in addition to the version in force and the version before it.
    type: int
    default: 5
  version:
    description: Activate this version again, which was installed earlier. Nothing is installed.
    type: str
  validate:
    description:
      - Commands, run without a shell, that check the new version before it is activated. C(%s) in a command is replaced
        by the directory of the new version. If a command fails, nothing is changed. Commands do not run in check mode.
    type: list
    version_added: 0.2.0
    elements: str
attributes:
  check_mode:
    description: Reports the changes of the next run, and changes nothing.
    support: full
  diff_mode:
    description:
      - One unified diff per file. Secrets are shown as placeholders, and a change of only a secret is shown as one
        line.
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
    - The version that was in force before this run. If this run changed nothing but a restart is still pending, the
      version that the running broker was started with. Null if neither exists.
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
  description: Whether a broker runs that was started before the last change that it reads only when it starts.
  type: bool
  returned: always
restart_reasons:
  description: The reasons for the restart, one line per file.
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
