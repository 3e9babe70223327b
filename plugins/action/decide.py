# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.decide``: returns the library's decision on the next step of an operation, from hosts' evidence."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.activemq.fleet.plugins.modules.decide import DOCUMENTATION
from ansible_collections.activemq.fleet.plugins.plugin_utils.compiled_fleet import read_compiled_fleet
from ansible_collections.activemq.fleet.plugins.plugin_utils.documented_options import argument_spec
from ansible_collections.activemq.fleet.plugins.plugin_utils.fleet_action import OncePerFleetAction
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_from_public_api,
    import_library_module,
)
from ansible_collections.activemq.fleet.plugins.plugin_utils.release_archives import release_archive_facts

# Ansible loads an action in the process from which it forks a worker for every task. Importing the library in each
# worker took 0.4 s per step of an operation. If the library is missing, the task reports the error.
with suppress(AnsibleError):
    import_library_module("operations")

_ARGUMENTS = argument_spec(DOCUMENTATION)


class ActionModule(OncePerFleetAction):
    """The Ansible action plugin ``decide``, which returns the next step of a playbook on all hosts of the play.

    It runs once per play.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(_ARGUMENTS)[1]
        self._check_variables(task_vars or {})
        operations, name = import_library_module("operations"), arguments.pop("operation")
        try:
            progress = operations.RunProgress.progress_from_dict(arguments.pop("progress"))
            request = operations.OperationDecisionRequest(
                **arguments,
                progress=progress,
                fleet=read_compiled_fleet(),
                warn=self._display.warning,
                release_archive_facts=self._release_archive_facts,
            )
            return {"changed": False, **operations.decide_operation(name, request)}
        except operations.RefusalError as error:
            raise AnsibleActionFail("\n".join([error.head, *error.problems])) from None
        except import_from_public_api("FleetError") as error:
            raise AnsibleActionFail(str(error)) from None

    def _release_archive_facts(self, path: str, install: str) -> dict[str, Any] | None:
        archive: dict[str, Any] | None = release_archive_facts(path, install, self._find_on_controller)
        return archive

    def _find_on_controller(self, path: str) -> str | None:
        """Return the file on the controller that the module ``copy`` would use for a relative path, or None."""
        try:
            return str(self._find_needle("files", path))
        except AnsibleError:
            return None
