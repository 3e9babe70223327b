# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.drill``: the controller's part of a drill: its load, its next fault, its report."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.activemq.fleet.plugins.modules.drill import DOCUMENTATION
from ansible_collections.activemq.fleet.plugins.plugin_utils.documented_options import argument_spec
from ansible_collections.activemq.fleet.plugins.plugin_utils.fleet_action import OncePerFleetAction
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_from_public_api,
    import_library_module,
)

_ARGUMENTS = argument_spec(DOCUMENTATION)


class ActionModule(OncePerFleetAction):
    """The Ansible action plugin ``drill``, which runs one step of a failover drill.

    It runs once for all hosts, which share one load.
    """

    _supports_check_mode = True  # With False, Ansible would skip the action, which could not refuse check mode.

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(_ARGUMENTS)[1]
        if self._task.check_mode:
            raise AnsibleActionFail(
                "the playbook drill stops brokers, so it does not support check mode. Run it without --check"
            )
        if arguments["step"] != "end":  # The load must end, whatever a host returns. This step uses no facts of hosts.
            self._check_variables(task_vars or {})
        try:
            return {"changed": False, **self._perform_step(arguments, task_vars or {})}
        except import_from_public_api("SettingsError") as error:
            raise AnsibleActionFail("; ".join(error.problems)) from None
        except import_from_public_api("FleetError") as error:
            raise AnsibleActionFail(str(error)) from None

    def _perform_step(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        options = arguments["options"]
        if arguments["step"] == "begin":
            return self._begin_drill(arguments, task_vars)
        drill_run = import_library_module("lab.drill_run")
        run = drill_run.DrillRun(Path(arguments["directory"]))
        if arguments["step"] == "status":
            next_fault = run.next_fault_number_and_pair(
                {host: host_evidence["state"] for host, host_evidence in arguments["evidence"].items()}
            )
            drill = {
                "due": next_fault.pair,
                "number": next_fault.number,
                "faulted": list(next_fault.faulted_hosts),
                "what": run.plan.what,
            }
            return {"drill": drill}
        if arguments["step"] == "wait":
            accepted, handled = run.wait_for_steady_load_rates(options["pair"], float(options["patience"]))
            return {"load": {"accepted": accepted, "handled": handled}}
        if arguments["step"] == "record":
            return {"void": run.record_fault_and_mark_if_void(drill_run.fault_from_mapping(arguments["fault"])).void}
        return self._end_drill(run, arguments, task_vars)

    def _begin_drill(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        playbook_drill = import_library_module("lab.playbook_drill")
        playbook_drill.require_writable_report_path(Path(arguments["report"]))
        data = self._inventory_data(task_vars)
        fleet = import_from_public_api("build_fleet")(data.hosts, data.groups)
        drill_steps = import_library_module("operations.drill_steps")
        allowed = {
            group.name: all(
                drill_steps.is_drill_allowed(data.hosts[broker.host].get(drill_steps.ALLOWED_VARIABLE))
                for broker in group.brokers
            )
            for group in fleet.groups
        }
        directory = Path(tempfile.mkdtemp(prefix="activemq-drill-"))
        try:
            drill = playbook_drill.begin_drill_and_return_fault_sequence(
                fleet, arguments["pairs"], allowed, arguments["options"], directory
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return {**drill, "directory": str(directory), "report": arguments["report"]}

    def _end_drill(self, run: Any, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if not run.directory.is_dir():
            return {
                "verdict": "ended",
                "headline": "the drill has already ended. Run the playbook drill again to start a new one",
                "reasons": [],
            }
        playbook_drill, report = import_library_module("lab.playbook_drill"), Path(arguments["report"])
        skew = float(arguments["options"].get("skew") or 0)
        data = self._inventory_data(task_vars)
        fleet = import_from_public_api("build_fleet")(data.hosts, data.groups)
        result = run.finish_and_judge(fleet, skew=skew, notes=playbook_drill.NOTES)
        headline = import_library_module("drills.drill_verdict").drill_headline(result)
        try:
            playbook_drill.write_drill_html_page_and_json(result, report)
        except OSError as error:
            place = _save_result_elsewhere(result)
            raise AnsibleActionFail("; ".join([headline, *result.reasons, f"{error}. {place}"])) from None
        finally:
            shutil.rmtree(run.directory, ignore_errors=True)  # The directory contains passwords.
        return {
            "verdict": result.verdict,
            "headline": headline,
            "reasons": list(result.reasons),
            "report": str(report),
        }

    def _inventory_data(self, task_vars: dict[str, Any]) -> Any:
        return import_library_module("inventory").inventory_data_of_play(task_vars["hostvars"], self._loader)


def _save_result_elsewhere(result: Any) -> str:
    """Write the result of a drill to a new temporary file, and return the sentence that names the file."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="activemq-drill-", suffix=".json", delete=False) as file:
            json.dump(result.to_dict(), file)
    except OSError as error:
        return f"The result of the drill cannot be written to a temporary file either ({error.strerror})"
    return f"The result of the drill is in {file.name}"
