#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.broker_info``: returns the current state of a host's broker."""

from __future__ import annotations

DOCUMENTATION = r"""
module: broker_info
short_description: Gather the state of a broker and the evidence for it
version_added: 0.1.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Finds out on the broker's own host whether it is active, unhealthy, standby, starting, stopped or hung. That has
    nothing to do with its preferred role. After a failover the preferred slave is active.
  - It goes by the process (found by its command line), by what the broker's log has said since that process
    was started, and by what the connectors of the deployed configuration answer. An open port is not ready.
    Over STOMP or MQTT one message must come back from a topic of the module's own.
  - A connector counts only if its listener belongs to the account of the broker's process. Before that is certain no
    login is sent. The module logs in as C(activemq-probe), or with another account of a broker that has yet to read
    a configuration with this one.
  - It changes nothing. It needs to read the broker's files, so run it as root or as the broker's account.
options:
  unit:
    description: The unit of systemd, whose own view is returned too.
    type: str
  wait:
    description: Look again until the state is one of O(states), for so many seconds.
    type: int
    default: 0
  states:
    description: The states to wait for. Without O(required) the module does not fail when none is reached.
    type: list
    elements: str
    choices: [active, unhealthy, standby, starting, stopped, hung]
    default: [active, standby]
  required:
    description: Fail, in one line with the broker's own error, when none of O(states) is reached.
    type: bool
    version_added: 0.2.0
    default: false
  replaces:
    description: With O(required), the process that must not run any more.
    type: int
    version_added: 0.2.0
  release:
    description: With O(required), the release that must run.
    type: str
    version_added: 0.2.0
extends_documentation_fragment:
  - activemq.fleet.broker
  - activemq.fleet.broker.unchanging
"""

EXAMPLES = r"""
- name: Inspect the broker
  activemq.fleet.broker_info:
    base: /var/lib/activemq/activemq
    unit: activemq.service
  register: broker

- name: Show its state
  ansible.builtin.debug:
    msg: "{{ broker.state }}: {{ broker.how }}"
"""

RETURN = r"""
state:
  description:
    - V(active) serves. V(unhealthy) accepts clients, and no message completes a round trip, for another reason than
      a right that the account of probes lacks; RV(how) has the broker's own reason.
    - V(standby) lives and waits for the lock, or is attached to its master. V(starting) lives
      and is neither yet. V(stopped) has no process. V(hung) lives, and does not answer or was stopped by a
      signal.
  type: str
  returned: always
  sample: standby
how:
  description: How that is known, in one sentence.
  type: str
  returned: always
frozen:
  description: Whether a signal stopped the process.
  type: bool
  version_added: 0.2.0
  returned: always
pid:
  description: The process, or null.
  type: int
  returned: always
guard:
  description: The process of the guard that started it, or null.
  type: int
  version_added: 0.2.0
  returned: always
since:
  description: When it was started, RFC 3339 in UTC.
  type: str
  returned: always
version:
  description: The version of the configuration in force, or null.
  type: str
  returned: always
restart_required:
  description: Whether the process was started before the last change that a broker reads only when it starts.
  type: bool
  returned: always
restart_reasons:
  description: Why, one line a file.
  type: list
  elements: str
  returned: always
previous:
  description: The version that the process was started with, where a restart is owed.
  type: str
  returned: always
unit:
  description: What systemd says of the unit, or null.
  type: dict
  returned: always
log:
  description: C(phase), and the record (C(message), C(time) in local time) that says so.
  type: dict
  returned: always
connectors:
  description: What each connector answered, by its name. Empty where no process runs.
  type: dict
  returned: always
settled:
  description: >-
    With O(wait), whether the broker stays ready: an active one has loaded its configuration completely, so that no bean
    after its C(<broker>) can still end it. Null without O(wait), and for a broker that is not ready.
  type: bool
  version_added: 0.2.0
  returned: always
message_returned:
  description: Whether a message came back. Null where it was not tried or the account may not.
  type: bool
  returned: always
error:
  description: >-
    Of a broker without a process, the last error of its log, else of what it printed, in one line that ends with the
    deepest cause; else empty.
  type: str
  version_added: 0.2.0
  returned: always
  sample: "Failed to start: java.net.BindException: Address already in use"
data:
  description: The directory of the broker's log.
  type: str
  version_added: 0.2.0
  returned: always
store:
  description: The directory of the kahaDB store, of a fenced one the parent of its generations, or null.
  type: str
  returned: always
persistence:
  description:
    - Where the configuration that runs keeps its messages. C(kind) is the element of the store, C(openwire) what
      C(storeOpenWireVersion) says, C(pure) whether it copies to a slave or is one. Empty without a configuration.
  type: dict
  version_added: 0.2.0
  returned: always
store_used:
  description: Whether that store was ever used, or null.
  type: bool
  returned: always
generation:
  description:
    - The number of the generation of a fenced store whose files the process has open; V(0) for files of the store's
      own directory, null without any.
  type: int
  version_added: 0.2.0
  returned: always
generation_in_force:
  description:
    - The number of the generation that the guards' newest claim names; V(0) where that is the store's own directory,
      null where it is not known. Who can write there is the pair's master, whatever ports say.
  type: int
  version_added: 0.2.0
  returned: always
subscriptions_at_risk:
  description: A sentence for each record of a start without a usable index, by which durable subscriptions may have
    lost messages.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
risk_records:
  description: For each such record its time (C(time), in seconds since the epoch), C(path), the number of
    C(subscriptions), and their C(description).
  type: list
  version_added: 0.2.0
  elements: dict
  returned: always
generations:
  description: C(number) and time (C(made), in seconds since the epoch) of the newest generations of this host's guard.
  type: list
  version_added: 0.2.0
  elements: dict
  returned: always
store_access:
  description:
    - Why the account of the process could not open the lock of that store, empty when it can. The log of a
      standby that cannot says that the lock is held, too.
  type: str
  version_added: 0.2.0
  returned: always
store_marker:
  description: The lines of the store's marker, or null where there is none.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
release:
  description: The release whose jars the process has open, or null where that cannot be seen.
  type: str
  version_added: 0.2.0
  returned: always
release_unseen:
  description: Why no release can be seen, or an empty text. Empty where no process runs, too.
  type: str
  version_added: 0.2.0
  returned: always
  sample: 5.18.3
home:
  description: Where the process was told that its release is, or null.
  type: str
  version_added: 0.2.0
  returned: always
age:
  description: Seconds since the process was started, by the monotonic clock, or null.
  type: float
  version_added: 0.2.0
  returned: always
clock:
  description: The host's time at the end of the look, in seconds since the epoch.
  type: float
  version_added: 0.2.0
  returned: always
complete:
  description: Whether a whole version of the configuration is in force.
  type: bool
  version_added: 0.2.0
  returned: always
drift:
  description: What was changed in it by hand, one line a file.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
previous_intact:
  description: Whether RV(previous) is still whole, or null where no restart is owed.
  type: bool
  version_added: 0.2.0
  returned: always
free:
  description: Bytes that can still be written, by directory.
  type: dict
  version_added: 0.2.0
  returned: always
"""

from typing import Any

from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.broker_state import (
    gather_broker_state,
    unmet_expectation,
)


def gather_or_require_state(parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Return the broker's state; the result is failed unless a required state, process or release is found."""
    states = parameters["states"]
    wanted = tuple(states) if parameters["wait"] else ()
    result: dict[str, Any] = gather_broker_state(parameters["base"], parameters["unit"], parameters["wait"], wanted)
    if parameters["required"]:
        why = unmet_expectation(result, states, parameters["replaces"], parameters["release"])
        if why:
            return {"failed": True, "msg": why, "state": result["state"]}
    return result


def main() -> None:
    states = ["active", "unhealthy", "standby", "starting", "stopped", "hung"]
    spec = {
        "base": {"type": "path", "required": True},
        "unit": {"type": "str"},
        "wait": {"type": "int", "default": 0},
        "states": {"type": "list", "elements": "str", "choices": states, "default": ["active", "standby"]},
        "required": {"type": "bool", "default": False},
        "replaces": {"type": "int"},
        "release": {"type": "str"},
    }
    run_module(spec, gather_or_require_state)


if __name__ == "__main__":
    main()
