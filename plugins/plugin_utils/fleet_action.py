# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of actions that run once on the controller, for all hosts of a play."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import (
    import_from_public_api,
    import_library_module,
)


class OncePerFleetAction(ActionBase):
    """The base class of action plugins that run once for the whole fleet, not once per host.

    They also run in check mode.
    """

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def _check_variables(self, task_vars: dict[str, Any]) -> None:
        """Raise AnsibleActionFail, naming host and variable, for ``activemq_…`` variables that facts or tasks have set.

        A host can return any facts, which override its inventory variables. They must not configure the fleet or name
        files of the controller. The arguments of this task may already contain them.
        """
        try:
            import_library_module("inventory").raise_for_variables_set_at_runtime(task_vars["hostvars"])
        except import_from_public_api("SettingsError") as error:
            raise AnsibleActionFail("\n".join(error.problems)) from None
