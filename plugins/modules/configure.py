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
  - Installs the archive that M(activemq.fleet.compile) made for the host. The vendor's files of O(home) are added,
    without files that contain shipped passwords or keys, and without example configurations.
  - The files are written to the directory C(BASE/versions/ID) and synced before the link C(BASE/current) is switched to
    it. An interrupted run leaves the old version in force, and an unused directory that the next run removes.
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
    description: The release's directory, whose C(conf) has the vendor's files. By default no vendor files are added.
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
    description: The number of versions to keep, in addition to the version in force and its predecessor.
    type: int
    default: 5
  version:
    description: Put this installed version in force again, without an installation.
    type: str
  validate:
    description:
      - Commands, without a shell, that check the new version before it is put in force, with its directory in place of
        C(%s). If a command fails, nothing is changed. They do not run in check mode.
    type: list
    version_added: 0.2.0
    elements: str
attributes:
  check_mode:
    description: Reports what would change; the difference is that of the following run.
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
    directory: /run/user/1000/fleet
  register: compiled

- name: Install those of this host
  activemq.fleet.configure:
    archive: "{{ compiled.directory }}/{{ inventory_hostname }}.tar"
    sha256: "{{ compiled.archives[inventory_hostname] }}"
    base: /var/lib/activemq/activemq
    home: /opt/activemq-6.3.1
    user: activemq

- name: Put the version before back
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
    - The version that was in force before. If nothing changed but a restart is still pending, the last version that a
      broker was started with. Null without such a version.
  type: str
  returned: always
changed_files:
  description: Paths of the files that are added, removed or changed.
  type: list
  elements: str
  returned: always
drift:
  description: The files that differed from the deployed version, one line per file.
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
