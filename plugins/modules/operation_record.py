#!/usr/bin/python
# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.operation_record``: records on a host that planned work begins or has ended."""

from __future__ import annotations

DOCUMENTATION = r"""
module: operation_record
short_description: Record on a host that planned work begins or ends
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - This module is internal to the playbooks of this collection that restart, switch, upgrade, resync, migrate or
    drill brokers. Do not use it in other playbooks, because it may change at any time.
  - Appends one line of JSON to C(/var/lib/activemq-fleet/operations.jsonl), as root. M(activemq.fleet.collect) copies
    the file. With this file, C(activemq-fleet audit) can distinguish planned takeovers from failures.
  - If the module cannot write the record, the playbook continues, and the result contains the reason.
options:
  kind:
    description: Whether the planned work begins or has ended.
    type: str
    choices: [begin, end]
    required: true
  operation:
    description: The name of the playbook.
    type: str
    required: true
  run:
    description: The unique id of this run of the playbook.
    type: str
    required: true
  by:
    description: The user who started the playbook, and the name of the controller, such as V(ops@controller).
    type: str
    required: true
  directory:
    description: The directory of the file C(operations.jsonl).
    type: path
    default: /var/lib/activemq-fleet
  labels:
    description:
      - The labels C(host), C(group), C(pair) and C(node) of the metrics that show whether an operation is in progress.
        The module writes these metrics to C(/run/activemq-fleet/HOST.prom) for the textfile collector of the node
        exporter. By default, it writes no metrics.
    type: dict
attributes:
  check_mode:
    description: The module writes nothing.
    support: full
extends_documentation_fragment:
  - activemq.fleet.broker.no_diff
"""

EXAMPLES = r"""
- name: Record that a restart of the broker begins
  activemq.fleet.operation_record:
    kind: begin
    operation: restart
    run: 1f0c27d2a1b4c5e6
    by: ops@controller
"""

RETURN = r"""
recorded:
  description: Whether the line was written.
  type: bool
  returned: always
why:
  description: The reason why the line was not written.
  type: str
  returned: when it could not be written
"""

from typing import Any

from ansible.module_utils.common.warnings import warn
from ansible_collections.activemq.fleet.plugins.module_utils.node.errors import NodeError
from ansible_collections.activemq.fleet.plugins.module_utils.node.run_module import run_module
from ansible_collections.activemq.fleet.plugins.module_utils.node.state.operation_record_file import (
    DIRECTORY,
    append_operation_record,
    write_operation_in_progress_metrics,
)


def record_operation_begin_or_end(parameters: dict[str, Any], check: bool) -> dict[str, Any]:
    """Record in a file on the host that a planned operation, such as a restart of brokers, begins or ends.

    Returns the module's result, which is never ``changed``.
    """
    if check:
        return {"recorded": False}
    try:
        append_operation_record(
            {name: parameters[name] for name in ("kind", "operation", "run", "by")}, parameters["directory"]
        )
        if parameters["labels"]:
            write_operation_in_progress_metrics(parameters["kind"], parameters["operation"], parameters["labels"])
    except (NodeError, OSError) as error:
        moment = "start" if parameters["kind"] == "begin" else "end"
        warn(
            f"the {moment} of the playbook {parameters['operation']} was not recorded in {parameters['directory']} on "
            f"this host ({error}). So activemq-fleet audit will report the downtime of this run as unplanned. Correct "
            "this error before the next run"
        )
        return {"recorded": False, "why": str(error)}
    return {"recorded": True}


def main() -> None:
    spec = {
        "kind": {"type": "str", "choices": ["begin", "end"], "required": True},
        "operation": {"type": "str", "required": True},
        "run": {"type": "str", "required": True},
        "by": {"type": "str", "required": True},
        "directory": {"type": "path", "default": DIRECTORY},
        "labels": {"type": "dict"},
    }
    run_module(spec, record_operation_begin_or_end)


if __name__ == "__main__":
    main()
