#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.release_tree``: puts an unpacked release in the directory of its name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_tree
short_description: Put an unpacked release in the directory that is named after it
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A part of the role C(activemq.fleet.broker). It is no interface for other playbooks and may change at any
    time.
  - What was unpacked as C(HOME.new) gets the name O(home) only when its brokers' jars are of O(release), by what
    the jars themselves say. Otherwise it is removed, and the module fails.
  - A directory O(home) that holds something else is replaced. While a process runs from it, the new one waits as
    C(HOME.new).
options:
  home:
    description: The release's directory.
    type: path
    required: true
  release:
    description: The release that it must be.
    type: str
    required: true
  state:
    description:
      - V(placed) gives C(HOME.new) its name, or lets it wait. V(exchanged) stops O(unit), puts what waits in its
        place and starts O(unit), and keeps what was there as C(HOME.old). V(restored) stops O(unit), puts C(HOME.old)
        back and starts O(unit).
    type: str
    choices: [placed, exchanged, restored]
    default: placed
  source:
    description: What the message about another release begins with.
    type: str
    default: what was unpacked
  unit:
    description: The unit of systemd. Required for V(exchanged) and V(restored) of O(state).
    type: str
attributes:
  check_mode:
    description: It is skipped, because nothing is unpacked then.
    support: none
  diff_mode:
    description: It shows no difference.
    support: none
"""

EXAMPLES = r"""
- name: Put it in place
  activemq.fleet.release_tree:
    home: /opt/activemq-5.18.6
    release: 5.18.6
"""

RETURN = r"""
waits:
  description: Whether it waits as C(HOME.new), because a process runs from O(home).
  type: bool
  returned: for V(placed) of O(state)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.activemq.fleet.plugins.module_utils import release_tree
from ansible_collections.activemq.fleet.plugins.module_utils.archive import InstallError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "home": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["placed", "exchanged", "restored"], "default": "placed"},
            "source": {"type": "str", "default": "what was unpacked"},
            "unit": {"type": "str"},
        },
        required_if=[("state", "exchanged", ["unit"]), ("state", "restored", ["unit"])],
    )
    home, release, unit = (module.params[name] for name in ("home", "release", "unit"))
    try:
        if module.params["state"] == "placed":
            result = release_tree.place(home, release, module.params["source"])
        elif module.params["state"] == "exchanged":
            result = release_tree.replace_running(home, release, unit)
        else:
            result = release_tree.roll_back(home, unit)
    except InstallError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or home}: {error.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
