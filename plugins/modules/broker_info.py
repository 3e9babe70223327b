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
  - Determines on the broker's host whether the broker is active, unhealthy, standby, starting, stopped or hung. The
    state is independent of the preferred role. After a failover the preferred slave is active.
  - The state is concluded from the process (identified by its command line), from the log records of this process, and
    from the answers of the connectors of the deployed configuration. An open port does not prove readiness. Over STOMP
    or MQTT a message to a separate topic must complete a round trip.
  - A connector counts only if its listener belongs to the account of the broker's process. The module sends a login
    only after this check. It logs in as C(activemq-probe), or with another account if the broker has not yet read a
    configuration with this account.
  - The module changes nothing. It must read the broker's files, so run it as root or as the broker's account.
options:
  unit:
    description: The broker's systemd unit. Its properties are returned.
    type: str
  wait:
    description: Seconds for which to repeat the check until the state is one of O(states).
    type: int
    default: 0
  states:
    description: The states to wait for. Without O(required), the module does not fail if the broker reaches none of
      them.
    type: list
    elements: str
    choices: [active, unhealthy, standby, starting, stopped, hung]
    default: [active, standby]
  required:
    description: Fail if the broker reaches none of O(states). The message is one line with the broker's error.
    type: bool
    version_added: 0.2.0
    default: false
  replaces:
    description: The process ID of the broker before a restart. With O(required), fail if the broker still has this
      process ID.
    type: int
    version_added: 0.2.0
  release:
    description: With O(required), fail if the broker runs a different ActiveMQ release.
    type: str
    version_added: 0.2.0
  directory:
    description: The directory of the kahaDB store in the inventory. A path that leads to the same directory is returned
      as this path.
    type: path
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

- name: Show the state of the broker
  ansible.builtin.debug:
    msg: "{{ broker.state }}: {{ broker.how }}"
"""

RETURN = r"""
state:
  description:
    - An V(active) broker serves clients. An V(unhealthy) broker accepts connections, but a test message does not
      complete a round trip. RV(how) then contains the broker's error. If only the permission of the account
      C(activemq-probe) is missing, the broker is not V(unhealthy).
    - A V(standby) broker waits for the lock, or is attached to its master. A V(starting) broker is not yet active or
      standby. A V(stopped) broker has no process. A V(hung) broker has a process that does not answer or was stopped by
      a signal.
  type: str
  returned: always
  sample: standby
how:
  description: The reason for this state, in one sentence.
  type: str
  returned: always
frozen:
  description: Whether a signal stopped the process.
  type: bool
  version_added: 0.2.0
  returned: always
pid:
  description: The process ID of the broker, or null.
  type: int
  returned: always
guard:
  description: The process ID of the guard (C(activemq_fence=guard)) that started the broker, or null.
  type: int
  version_added: 0.2.0
  returned: always
since:
  description: The start time of the process, RFC 3339 in UTC.
  type: str
  returned: always
version:
  description: The version of the installed configuration, or null.
  type: str
  returned: always
restart_required:
  description: Whether the broker must be restarted to read a change of its configuration.
  type: bool
  returned: always
restart_reasons:
  description: The reasons for the restart, one line per file.
  type: list
  elements: str
  returned: always
previous:
  description: The version that the process was started with, if a restart is pending.
  type: str
  returned: always
unit:
  description: The properties of the unit as systemd reports them, or null.
  type: dict
  returned: always
log:
  description: The phase of the broker according to its log (C(phase)), and the log record that shows this phase
    (C(message), and C(time) in the local time of the host).
  type: dict
  returned: always
connectors:
  description: The answer of each connector in words, by its name. Empty without a process.
  type: dict
  returned: always
answering_connectors:
  description: The names of the connectors that answered in their protocol.
  version_added: 0.2.0
  type: list
  elements: str
  returned: always
settled:
  description: >-
    Only with O(wait). True for a standby, and for an active broker that has loaded the whole C(activemq.xml). False for
    an active broker that still loads it: an error in a bean after the element C(<broker>) can then stop the broker.
    Null without O(wait), and for a broker that is neither active nor standby.
  type: bool
  version_added: 0.2.0
  returned: always
message_returned:
  description: Whether a message completed a round trip. Null if it was not tried or the account lacks the permission.
  type: bool
  returned: always
error:
  description: >-
    If the broker has no process, the last error in its log. If its log contains no error, the last error in the journal
    of O(unit). The text is one line that ends with the root cause. Empty if the broker has a process, or without an
    error.
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
  description: The directory of the kahaDB store. For a store with C(activemq_fence=guard), the directory that contains
    the directory C(generations). Null without a kahaDB store.
  type: str
  returned: always
persistence:
  description:
    - The persistence in the configuration that the broker runs with. C(kind) is the XML element of the store.
      C(openwire) is the value of C(storeOpenWireVersion). C(pure) is whether the broker is a node of a pair with
      C(activemq_ha=pure). C(database) is the URL of a database without login and parameters. C(stores) are the
      destinations of the stores of an mKahaDB, in words. Empty without a configuration.
  type: dict
  version_added: 0.2.0
  returned: always
store_used:
  description: Whether a broker ever used the store in RV(store). Null without a kahaDB store, and for a store that
    cannot be read.
  type: bool
  returned: always
generation:
  description:
    - The generation of a fenced store whose files the process has open. A generation is a numbered copy of the store
      that a guard makes at a takeover. V(0) is the store's own directory. Null if the process has no such files open.
  type: int
  version_added: 0.2.0
  returned: always
generation_in_force:
  description:
    - The generation that the newest takeover has made. V(0) is the store's own directory. Null if it is unknown. The
      broker that can write to this generation is the active broker of the pair, whatever the open ports suggest.
  type: int
  version_added: 0.2.0
  returned: always
subscriptions_at_risk:
  description: One text for each recorded start without a usable index of the store. It lists the durable
    subscriptions that may have lost messages at this start.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
risk_records:
  description: For each record of a start without a usable index, its time (C(time), in seconds since the epoch),
    C(path), the number of C(subscriptions), and their C(description).
  type: list
  version_added: 0.2.0
  elements: dict
  returned: always
generations:
  description: The newest generations of the store that this host's guard has made, each with C(number) and time
    (C(made), in seconds since the epoch).
  type: list
  version_added: 0.2.0
  elements: dict
  returned: always
store_access:
  description:
    - The reason why the broker cannot acquire the lock of the store in RV(store) - its account cannot open the lock, or
      a guard has fenced the store, and the broker runs without a guard. Otherwise empty. A standby that cannot open the
      lock logs that another broker holds the lock.
  type: str
  version_added: 0.2.0
  returned: always
store_marker:
  description: The lines of the file C(.activemq-fleet-pair) in the store, which contains the name of the pair. Null
    without this file.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
release:
  description: The ActiveMQ release whose jars the process has open, or null if it is unknown.
  type: str
  version_added: 0.2.0
  returned: always
  sample: 5.18.3
release_unseen:
  description: Why RV(release) is unknown; empty if it is known, or without a process.
  type: str
  version_added: 0.2.0
  returned: always
home:
  description: The directory of the release according to the process's command line, or null.
  type: str
  version_added: 0.2.0
  returned: always
age:
  description: Seconds since the process was started, by the monotonic clock, or null.
  type: float
  version_added: 0.2.0
  returned: always
clock:
  description: The host's time at the end of the check, in seconds since the epoch.
  type: float
  version_added: 0.2.0
  returned: always
complete:
  description: Whether the version in RV(version) is installed completely.
  type: bool
  version_added: 0.2.0
  returned: always
drift:
  description: The files of the version in RV(version) that were changed by hand, one line per file.
  type: list
  version_added: 0.2.0
  elements: str
  returned: always
previous_intact:
  description: Whether the files of the version RV(previous) are unchanged, or null without a pending restart.
  type: bool
  version_added: 0.2.0
  returned: always
taken_ports:
  description:
    - The ports of connectors and of the web console that a standby must open at a failover, but on which another
      process listens. Each entry has C(port), C(address), C(pid), C(program) and C(service). C(pid) and C(program) are
      null if the process is not visible. C(service) is the systemd service of a process that is a broker, or null. The
      list is empty for a broker that is not a standby.
  type: list
  version_added: 0.2.0
  elements: dict
  returned: always
free:
  description: The free space, in bytes, of the file systems of the directory O(base) and of the store, by directory.
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
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.running_store import store_path_as_in_inventory


def _gather_or_require_state(parameters: dict[str, Any], _check: bool) -> dict[str, Any]:
    """Gather the state of the broker, or require a state: the result is failed if a requirement is not met.

    A state, process or release can be required.
    """
    states = parameters["states"]
    awaited_states = tuple(states) if parameters["wait"] else ()
    result: dict[str, Any] = gather_broker_state(
        parameters["base"], parameters["unit"], parameters["wait"], awaited_states
    )
    result["store"] = store_path_as_in_inventory(result["store"], parameters["directory"])
    if parameters["required"]:
        problem = unmet_expectation(result, states, parameters["replaces"], parameters["release"])
        if problem:
            return {"failed": True, "msg": problem, "state": result["state"], "data": result["data"]}
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
        "directory": {"type": "path"},
    }
    run_module(spec, _gather_or_require_state)


if __name__ == "__main__":
    main()
