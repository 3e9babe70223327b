# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The controller's half of ``activemq.fleet.configure``: brings the configuration archive to the host."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import import_module_of_node_package

NodeError = import_module_of_node_package("errors").NodeError
ARGUMENTS = import_module_of_node_package("install.configure").ARGUMENTS
install_or_restore_configuration = import_module_of_node_package("install.configure").install_or_restore_configuration


class ActionModule(ActionBase):
    """The Ansible action plugin ``configure``, which installs a broker's configuration on a host.

    It runs in the controller's process for a local connection, else as a module.
    """

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(
            ARGUMENTS, required_one_of=[["archive", "version"]], mutually_exclusive=[["archive", "version"]]
        )[1]
        archive = arguments["archive"]
        if archive and not os.path.isfile(archive):
            raise AnsibleActionFail(
                f"the configuration archive {archive} does not exist on the controller. Run a task with the "
                "module activemq.fleet.compile, which creates the archive, before this task in the same playbook run"
            )
        try:
            if self._connection.transport == "local" and not self._play_context.become:
                result = install_or_restore_configuration(arguments, self._task.check_mode)
            else:
                result = self._run_module_with_archive(archive, arguments, task_vars)
        except NodeError as error:
            raise AnsibleActionFail(str(error)) from None
        return dict(result)

    def _run_module_with_archive(
        self, archive: str | None, arguments: dict[str, Any], task_vars: Any
    ) -> dict[str, Any]:
        """Copy an archive to a private file on the host, run the module configure with it, and return the result."""
        try:
            if archive:
                self._make_tmp_path()
                remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "archive.tar")
                self._transfer_file(archive, remote)
                self._fixup_perms2((self._connection._shell.tmpdir, remote), execute=False)
                arguments = {**arguments, "archive": remote}
            module_arguments = {name: value for name, value in arguments.items() if value is not None}
            result: dict[str, Any] = self._execute_module(
                "activemq.fleet.configure", module_args=module_arguments, task_vars=task_vars
            )
            return result
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
