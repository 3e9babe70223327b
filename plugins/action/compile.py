# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.compile``: compiles and checks the configuration of the whole fleet, once, on the controller."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.activemq.fleet.plugins.modules.compile import DOCUMENTATION
from ansible_collections.activemq.fleet.plugins.plugin_utils.compiled_fleet import write_compiled_fleet_file
from ansible_collections.activemq.fleet.plugins.plugin_utils.documented_options import argument_spec
from ansible_collections.activemq.fleet.plugins.plugin_utils.fleet_action import OncePerFleetAction
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_from_public_api,
    import_library_module,
)

# Ansible forks its workers from this process, which imports the library once. See the comment in ``decide``.
with suppress(AnsibleError):
    import_library_module("fleet_compilation")


class ActionModule(OncePerFleetAction):
    """The Ansible action plugin ``compile``, which renders the configuration of every host of the inventory.

    It runs once per play.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(argument_spec(DOCUMENTATION))[1]
        variables = task_vars or {}
        self._check_variables(variables)
        archives, library = arguments.pop("archives"), import_library_module("fleet_compilation")
        try:
            data = import_library_module("inventory").inventory_data_of_play(variables["hostvars"], self._loader)
            expected = variables.get("ansible_play_hosts_all")
            compiled = library.compile_fleet(data, expected, **arguments, warn=self._display.warning)
        except import_from_public_api("FleetError") as error:
            raise AnsibleActionFail(library.error_list_text(error)) from None
        write_compiled_fleet_file(compiled.facts)
        result = {"changed": False, **compiled.returned}
        if archives and arguments["checked"]:
            result |= library.write_archives(compiled.files, constants.DEFAULT_LOCAL_TMP)
        return result
