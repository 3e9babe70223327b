# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.plan``: asks the library what comes next, from what the hosts have shown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import library

_ARGUMENTS = {
    "question": {"type": "str", "required": True, "choices": ["preflight", "roll", "stores"]},
    "brokers": {"type": "dict", "required": True},
    "looks": {"type": "dict", "required": True},
    "configured": {"type": "dict", "default": {}},
    "waivers": {"type": "list", "elements": "dict", "default": []},
}


class ActionModule(ActionBase):
    """One plan for all hosts of the play, so it runs once."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(_ARGUMENTS)[1]
        brokers, looks = arguments["brokers"], arguments["looks"]
        unseen = sorted(looks.keys() - brokers.keys())
        if unseen:
            raise AnsibleActionFail(f"{', '.join(unseen)}: not a broker of this fleet")
        if arguments["question"] == "preflight":
            return self._preflight(brokers, looks, arguments["waivers"])
        if arguments["question"] == "stores":
            return self._stores(brokers, looks)
        # In check mode the hosts cannot know what the files that were not installed would need.
        owing = {host for host, result in arguments["configured"].items() if result["restart_required"]}
        for host in owing & looks.keys():
            looks[host] = {**looks[host], "restart_required": True}
        return self._roll(brokers, looks)

    def _preflight(self, brokers: dict[str, Any], looks: dict[str, Any], waivers: list[Any]) -> dict[str, Any]:
        findings = library("validation").preflight(brokers, looks, waivers)
        blocking = [finding.to_line() for finding in findings if finding.blocks]
        if blocking:
            raise AnsibleActionFail("\n".join(["nothing was changed, because of what the hosts show:", *blocking]))
        for finding in findings:
            if finding.severity != "info":
                self._display.warning(finding.to_line())
        return {"changed": False, "findings": [finding.to_dict() for finding in findings]}

    def _roll(self, brokers: dict[str, Any], looks: dict[str, Any]) -> dict[str, Any]:
        operate = library("operate")
        seen = [
            operate.Look(
                host=host,
                **{key: brokers[host][key] for key in ("pair", "role", "ha")},
                **{key: look[key] for key in ("state", "how", "restart_required", "store_used")},
            )
            for host, look in looks.items()
        ]
        plan = operate.plan_roll(seen)
        for note in plan.notes:
            self._display.warning(note)
        return {
            "changed": False,
            "order": [step.host for step in plan.steps],
            "steps": {step.host: step.to_dict() for step in plan.steps},
            "notes": list(plan.notes),
        }

    def _stores(self, brokers: dict[str, Any], looks: dict[str, Any]) -> dict[str, Any]:
        operate = library("operate")
        seen = [
            operate.StoreLook(
                host=host,
                pair=brokers[host]["pair"],
                directory=brokers[host]["store"],
                marked=None if look["marked"] is None else tuple(look["marked"]),
                **{key: look[key] for key in ("exists", "mounted", "used")},
            )
            for host, look in looks.items()
        ]
        plan = operate.plan_stores(seen, Counter(broker["pair"] for broker in brokers.values()))
        if plan.problems:
            raise AnsibleActionFail("\n".join(["no broker is started, because of a shared store:", *plan.problems]))
        firsts = {hosts[0]: list(hosts[1:]) for hosts in plan.claims.values()}
        return {"changed": False, "claims": firsts, "hosts": [host for hosts in plan.claims.values() for host in hosts]}
