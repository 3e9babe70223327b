#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.queue_demand``: makes bridges forward queues that have no consumers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: queue_demand
short_description: Wants queues for a while, so that a bridge brings what lies in them elsewhere
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - A bridge forwards a queue only while somebody at its far side consumes it. This subscribes to the queues
    over STOMP with a selector that no message matches. The bridge brings all messages, they are stored here, and
    none is taken.
  - It leaves nothing behind. When it is killed, what has crossed stays here and the rest stays there.
  - It logs in with the network account of the deployed configuration.
options:
  base:
    description: The directory of the broker on this host, C(activemq_base/activemq_instance).
    type: path
    required: true
  queues:
    description: The queues.
    type: list
    elements: str
    required: true
  seconds:
    description: How long.
    type: float
    default: 20
attributes:
  check_mode:
    description: Does nothing.
    support: full
  diff_mode:
    description: It changes nothing on the host.
    support: none
"""

EXAMPLES = r"""
- name: Let the bridge bring what nobody consumes
  activemq.fleet.queue_demand:
    base: /var/lib/activemq/activemq
    queues: [orders, invoices]
"""

RETURN = r"""
queues:
  description: The queues that were wanted.
  type: list
  elements: str
  returned: always
seconds:
  description: For how long.
  type: float
  returned: always
"""

from xml.etree.ElementTree import ParseError

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.activemq.fleet.plugins.module_utils.host.queue_demand import hold
from ansible_collections.activemq.fleet.plugins.module_utils.install.configuration_archive import InstallError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "base": {"type": "path", "required": True},
            "queues": {"type": "list", "elements": "str", "required": True},
            "seconds": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, queues=sorted(module.params["queues"]), seconds=0)
    try:
        result = hold(module.params["base"], module.params["queues"], module.params["seconds"])
    except (InstallError, OSError, ParseError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
