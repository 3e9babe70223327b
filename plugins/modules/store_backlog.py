#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.store_backlog``: counts the messages that a broker of 5.3 to 5.7 still holds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: store_backlog
short_description: Count the messages that a broker of 5.3 to 5.7 still holds, by destination
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Counts on the broker's own host what is not acknowledged yet, by queue and by durable subscription. A broker
    that is replaced may be ended only when all of it is 0.
  - Of a running broker it asks the management view, over the attach socket of its JVM and with the console
    command of its own release, and reads the journal of its store. The higher number counts. The view alone
    says 0 for a durable subscription whose client is away, whatever waits for it.
  - Of a stopped broker it reads the journal. Messages that were in no store are gone with the process.
  - It never counts too few. It may count too many for about half a minute, until the broker has removed journal
    files that it needs no more.
  - It opens the management view of the JVM to this machine, which lasts until the process ends. It changes
    nothing else. Run it as root or as the broker's account. It needs kahaDB, and a JVM of Java 8 or later that
    may be attached to.
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.reader
  - activemq.fleet.broker.unchanging
"""

EXAMPLES = r"""
- name: Count what the old broker still holds
  activemq.fleet.store_backlog:
    base: /var/lib/activemq/activemq
  register: depths
"""

RETURN = r"""
running:
  description: Whether a broker ran, and was asked.
  type: bool
  returned: always
store:
  description: The directory of the store.
  type: str
  returned: always
queues:
  description: Messages by queue, for queues that hold any.
  type: dict
  returned: always
  sample: {orders: 250}
subscriptions:
  description:
    - Every durable subscription, C(topic), C(client), C(name), with the C(messages) that wait for it. It
      stands there with 0 too.
  type: list
  elements: dict
  returned: always
prepared:
  description: XA transactions that were prepared and not ended.
  type: int
  returned: always
clients:
  description: Connections, C(client), C(address) and C(connector), those of slaves and of most bridges too.
  type: list
  elements: dict
  returned: always
bridges:
  description: The brokers' names at the far ends of its bridges.
  type: list
  elements: str
  returned: always
certain:
  description: Whether no subscription can be missing. Of a stopped broker that is not always known.
  type: bool
  returned: always
messages:
  description: All of them together. A message counts once for each subscription.
  type: int
  returned: always
"""

from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.backlog import count_backlog


def main() -> None:
    spec = {"base": {"type": "path", "required": True}, "user": {"type": "str"}}
    run_module(spec, lambda parameters, _check: count_backlog(parameters["base"], parameters["user"]))


if __name__ == "__main__":
    main()
