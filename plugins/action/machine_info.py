# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The controller's half of ``activemq.fleet.machine_info``: answers for a local connection itself."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import import_module_of_node_package

ARGUMENTS = import_module_of_node_package("state.machine").ARGUMENTS
gather_machine_facts = import_module_of_node_package("state.machine").gather_machine_facts


class ActionModule(ActionBase):
    """The Ansible action plugin ``machine_info``, which gathers facts about a machine.

    It runs in the controller's process for a local connection, else as a module.
    """

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        if self._connection.transport != "local" or self._play_context.become:
            result: dict[str, Any] = self._execute_module(task_vars=task_vars)
            return result
        arguments = self.validate_argument_spec(ARGUMENTS)[1]
        try:
            return {"changed": False, **gather_machine_facts(arguments)}
        except OSError as error:
            raise AnsibleActionFail(
                f"the host of the broker in {arguments['base']} cannot be inspected: {error}. Correct this error, and "
                "run the playbook again"
            ) from None
