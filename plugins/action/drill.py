# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.drill``: the controller's part of a drill; see ``activemq_fleet.lab.drill_hosts``."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import library

_ARGUMENTS = {
    "step": {"type": "str", "required": True, "choices": ["begin", "status", "wait", "note", "end"]},
    "directory": {"type": "path"},
    "pairs": {"type": "list", "elements": "str", "default": []},
    "options": {"type": "dict", "default": {}},
    "looks": {"type": "dict", "default": {}},
    "fault": {"type": "dict", "default": {}},
    "report": {"type": "path"},
}
_ALLOWED = "activemq_drill_allowed"


class ActionModule(ActionBase):
    """The load of a drill is one thing, whatever the number of hosts, so this runs once."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(_ARGUMENTS)[1]
        if self._task.check_mode:
            raise AnsibleActionFail("a drill strikes brokers: it cannot be done in check mode")
        errors = library("errors")
        try:
            return {"changed": False, **self._step(arguments, task_vars or {})}
        except errors.SettingsError as error:
            raise AnsibleActionFail("; ".join(error.problems)) from None
        except errors.FleetError as error:
            raise AnsibleActionFail(str(error)) from None

    def _step(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        drill, options = library("lab.drill_hosts"), arguments["options"]
        if arguments["step"] == "begin":
            return self._begin(drill, arguments, task_vars)
        directory = Path(arguments["directory"])
        if arguments["step"] == "status":
            return {"drill": drill.status(directory, arguments["looks"])}
        if arguments["step"] == "wait":
            return {"load": drill.wait(directory, options["pair"], float(options["patience"]))}
        if arguments["step"] == "note":
            return drill.note(directory, arguments["fault"])  # type: ignore[no-any-return]
        return self._end(drill, directory, arguments, task_vars)

    def _begin(self, drill: Any, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        fleet = self._fleet(task_vars)
        is_allowed = library("operations.drill").is_allowed
        allowed = {
            group.name: all(is_allowed(self._variable(task_vars, broker.host)) for broker in group.brokers)
            for group in fleet.groups
        }
        directory = Path(tempfile.mkdtemp(prefix="activemq-drill-"))
        # A worker's parent is ansible-playbook itself: with it the load ends.
        options = {**arguments["options"], "parent": os.getppid()}
        try:
            found = drill.begin(fleet, arguments["pairs"], allowed, options, directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return {**found, "directory": str(directory)}

    def _end(self, drill: Any, directory: Path, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if not directory.is_dir():
            return {"verdict": "ended", "headline": "the drill has ended already", "reasons": []}
        report = Path(arguments["report"])
        result = drill.end(directory, self._fleet(task_vars), float(arguments["options"].get("skew") or 0))
        drill.write(result, report)
        shutil.rmtree(directory, ignore_errors=True)  # it holds passwords
        return {
            "verdict": result.verdict,
            "headline": library("drills").headline(result),
            "reasons": list(result.reasons),
            "report": str(report),
        }

    def _variable(self, task_vars: dict[str, Any], host: str) -> Any:
        return self._templar.template(task_vars["hostvars"][host].get(_ALLOWED))

    def _fleet(self, task_vars: dict[str, Any]) -> Any:
        data = library("inventory").inventory_of_play(task_vars["hostvars"], task_vars["groups"], self._loader)
        return library("topology").build_fleet(data.hosts, data.groups)
