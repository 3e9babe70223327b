#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.store_backlog``: counts the messages that a broker of 5.3 to 5.7 still holds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: store_backlog
short_description: Count the unacknowledged messages of a broker of release 5.3 to 5.7, by destination
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - The module counts, on the host of the broker, the messages that are not acknowledged yet, by queue and by durable
    subscription. Before you stop a broker that you replace, check that all counts are 0.
  - For a running broker the module queries JMX over the attach socket of its JVM, and also reads the journal of its
    store. For each queue and subscription it returns the higher count. JMX alone reports 0 for a durable subscription
    whose client is disconnected, even if the store has messages for the subscription.
  - For a stopped broker the module reads only the journal. Non-persistent messages are not in the journal, and were
    lost when the broker stopped.
  - The module never counts too few messages. It can count acknowledged messages until the broker has removed their data
    files, which takes about half a minute.
  - The module opens JMX of the broker's JVM to local connections until the broker process ends. It changes nothing
    else. Run the module as root or as the broker's account. It requires kahaDB, and a JVM of Java 8 or later that
    allows attaching.
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.reader
  - activemq.fleet.broker.unchanging
"""

EXAMPLES = r"""
- name: Count the messages of the old broker
  activemq.fleet.store_backlog:
    base: /var/lib/activemq/activemq
  register: depths
"""

RETURN = r"""
running:
  description: Whether the broker was running. The module queries JMX only of a running broker.
  type: bool
  returned: always
store:
  description: The directory of the store.
  type: str
  returned: always
queues:
  description: The number of messages in each queue. Empty queues are not listed.
  type: dict
  returned: always
  sample: {orders: 250}
subscriptions:
  description:
    - Every durable subscription (C(topic), C(client), C(name)) with the number of its unacknowledged C(messages), which
      may be 0.
  type: list
  elements: dict
  returned: always
prepared:
  description: The number of XA transactions that are prepared, but neither committed nor rolled back.
  type: int
  returned: always
clients:
  description: The connections to the broker with C(client), C(address) and C(connector), including those of slaves and
    of most bridges.
  type: list
  elements: dict
  returned: always
bridges:
  description: The names of the remote brokers to which the broker's bridges connect.
  type: list
  elements: str
  returned: always
certain:
  description: Whether RV(subscriptions) is certainly complete. For a stopped broker, the value can be false.
  type: bool
  returned: always
messages:
  description: The total number of messages. A topic message counts once for each durable subscription.
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
