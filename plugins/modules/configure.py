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
  - Installs the archive that M(activemq.fleet.compile) made for the host. The vendor's own files of
    O(home) are added, without the ones that hold shipped passwords or keys and without example
    configurations.
  - The files become the directory C(BASE/versions/ID), complete and written to the disk, before the link
    C(BASE/current) is renamed to it. An interrupted run leaves the old version in force, and a directory
    that nothing refers to and the next run removes.
  - A file that was changed, added or removed by hand is detected, reported and installed again.
  - It never restarts a broker. It says whether one that runs has yet to read what is in force now.
  - The archive holds secrets, so it is copied as a file that only its owner may read. It is never part of
    a module's arguments.
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
    description: The link that names the version in force. Without it C(BASE/current).
    type: path
  data:
    description:
      - The directory that the broker writes to, made if it is missing and given to O(user). Without it
        C(BASE/data); an empty text for none.
    type: path
  home:
    description: The release's directory, whose C(conf) has the vendor's files. Without it none are added.
    type: path
  user:
    description:
      - The account that the broker runs as. Files belong to root and are readable for its group; files that
        only their owner may read belong to it.
      - Without it owners are left as they are, which suits a run without root.
    type: str
  group:
    description: The group of the files. Without it the account's own.
    type: str
  keep:
    description: How many versions are kept, besides the one in force and the one before it.
    type: int
    default: 5
  version:
    description: Install nothing and put this version, which is still there, in force again.
    type: str
  validate:
    description:
      - Commands, without a shell, that look at the new version before it is put in force, with its directory for
        C(%s). If one ends with another status than 0, nothing is changed. Not run in check mode.
    type: list
    version_added: 0.2.0
    elements: str
attributes:
  check_mode:
    description: Says what it would do; the difference shown is the one of the run that follows.
    support: full
  diff_mode:
    description:
      - One unified diff a file. Files with secrets are shown with a word in place of each, and a change of
        nothing but a secret as one line.
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
    - The version that was in force before, or, when nothing changed but a restart is still owed, the last one
      that a broker was started with. Null when there is none.
  type: str
  returned: always
changed_files:
  description: Paths of the files that are added, removed or changed.
  type: list
  elements: str
  returned: always
drift:
  description: What was found to be other than deployed, one line a file.
  type: list
  elements: str
  returned: always
restart_required:
  description: Whether a broker runs that was started before the last change that it reads only when it starts.
  type: bool
  returned: always
restart_reasons:
  description: Why, one line a file.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.activemq.fleet.plugins.module_utils.node.install.configure import ARGUMENTS, configure
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module


def main() -> None:
    choice = [["archive", "version"]]
    run_module(ARGUMENTS, configure, required_one_of=choice, mutually_exclusive=choice)


if __name__ == "__main__":
    main()
