# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.fleet_status``: selects the hosts to query for the fleet's status, and computes the status."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.validation import check_type_int
from ansible_collections.activemq.fleet.plugins.modules.fleet_status import DOCUMENTATION
from ansible_collections.activemq.fleet.plugins.plugin_utils.documented_options import argument_spec
from ansible_collections.activemq.fleet.plugins.plugin_utils.fleet_action import OncePerFleetAction
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_from_public_api,
    import_library_module,
    import_module_of_node_package,
)

parse_untrusted_json = import_module_of_node_package("foreign_data").parse_untrusted_json

_PARTS = ("broker", "agent", "balancer")


class ActionModule(OncePerFleetAction):
    """The Ansible action plugin ``fleet_status``, which computes the fleet's status from data gathered on its hosts.

    In another step it selects the hosts to query.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(argument_spec(DOCUMENTATION))[1]
        variables = task_vars or {}
        if arguments["step"] == "begin":
            self._check_variables(variables)
        evidence = {host: _result_evidence(result) for host, result in arguments["evidence"].items()}
        try:
            # An invalid result of a host since ``begin`` affects only the row of this host.
            for host, problems in (
                import_library_module("inventory")
                .errors_by_host_for_variables_set_at_runtime(variables["hostvars"])
                .items()
            ):
                evidence[host] = {"invalid": problems[0]}
            if arguments["step"] == "conclude" and arguments["evidence_to"]:
                _write_evidence(arguments["evidence_to"], evidence)
                return {"changed": False, "table": [], "findings": [], "exit_code": 0}
            data = import_library_module("inventory").inventory_data_of_play(variables["hostvars"], self._loader)
            fleet = import_from_public_api("build_fleet")(data.hosts, data.groups)
            selection = import_library_module("status.selection")
            chosen = selection.select_hosts(fleet, arguments["target"], "activemq_target")
            if arguments["step"] == "begin":
                queried_hosts = selection.hosts_to_query(fleet, chosen)
                for host in queried_hosts:
                    _check_timeout(host, variables["hostvars"][host].get("activemq_status_timeout"))
                returned_arguments = {name: arguments[name] for name in ("target", "evidence_to", "to")}
                return {
                    "changed": False,
                    "questions": selection.host_status_parameters(fleet, queried_hosts),
                    "time": time.time(),
                    **returned_arguments,
                }
            status = import_from_public_api("fleet_status")(
                fleet, evidence, chosen=chosen, seconds=arguments["seconds"]
            )
            return {"changed": False, **_status_result(status, arguments["to"])}
        except import_from_public_api("FleetError") as error:
            raise AnsibleActionFail(str(error)) from None
        except OSError as error:
            raise AnsibleActionFail(
                f"the status of the fleet cannot be written to {error.filename} ({error.strerror}). Set "
                "activemq_status_to to a file in a directory that you may write to"
            ) from None


def _check_timeout(host: str, value: object) -> None:
    """Raise AnsibleActionFail for an invalid ``activemq_status_timeout`` of a host. None and "" are the default."""
    try:
        if value in (None, "") or check_type_int(value) >= 1:
            return
    except (TypeError, OverflowError):
        pass
    raise AnsibleActionFail(
        f"{host}: activemq_status_timeout is {str(value)[:60]!r}. Set it to a whole number of 1 or more"
    )


def _write_evidence(path: str, evidence: Mapping[str, Any]) -> None:
    """Write the evidence of each host as JSON, for tools that compute the status themselves."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(evidence, file)


def _status_result(status: Any, to: str | None) -> dict[str, Any]:
    if to:
        import_library_module("reports.status_page").write_status_as_html_or_json(status, to)
    findings = [finding.to_line() for finding in status.findings]
    return {
        "table": import_library_module("status.text").table_lines(status),
        "findings": findings,
        "exit_code": status.exit_code,
    }


def _result_evidence(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evidence of a host, or the reason for missing evidence: it was not reached, or the module failed."""
    if result.get("unreachable") or result.get("failed"):
        reason = import_library_module("become_failures").failed_task_reason(result)
        return {"unreachable": (reason or "the host returned no result: run the playbook again with -vvv")[:300]}
    try:
        parts: dict[str, Any] = parse_untrusted_json(
            json.dumps({part: result[part] for part in _PARTS if part in result})
        )
    except (ValueError, TypeError, RecursionError) as error:  # The error affects only the row of this host.
        return {"invalid": str(error)[:300]}
    return parts
