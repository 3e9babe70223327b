# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The controller's half of ``activemq.fleet.collect``: fetches a host's archive and unpacks it into the collection."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils import collected
from ansible_collections.activemq.fleet.plugins.plugin_utils.documented_options import (
    argument_spec,
    read_documentation_text,
)
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import import_module_of_node_package

parse_untrusted_json = import_module_of_node_package("foreign_data").parse_untrusted_json
escape_unprintable = import_module_of_node_package("printable").escape_unprintable

_ARGUMENTS = argument_spec(read_documentation_text("collect"))
_CONTROLLER_ARGUMENTS = ("state", "about")
_RESULT_KEYS = ("facts", "left_out", "notes", "files")
_CLOCK_READINGS = 3
_MAX_WARNING_LENGTH = 1000
"""Characters of a warning that a host returned."""


class ActionModule(ActionBase):
    """The Ansible action plugin ``collect``, which collects a host's evidence into a directory of the controller.

    It also creates that directory.
    """

    TRANSFERS_FILES = True
    _supports_check_mode = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        arguments = self.validate_argument_spec(_ARGUMENTS)[1]
        directory = collected.create_or_reuse_evidence_directory(arguments["to"])
        if arguments["state"] == "opened":
            return {"changed": False, "directory": directory}
        host = str((task_vars or {})["inventory_hostname"])
        with collected.temporary_staging_directory(directory, host) as staging_directory:
            try:
                result = self._collect_and_fetch_archive(arguments, staging_directory, task_vars)
            finally:
                self._remove_tmp_path(self._connection._shell.tmpdir)
            facts = self._host_facts(host, arguments["about"], result)
            target = os.path.join(directory, host)
            collected.replace_evidence_from_archive(
                f"{staging_directory}/archive", facts, staging_directory, target, arguments["megabytes"] << 20
            )
        for line in result["warnings_of_host"]:
            self._display.warning(f"{host}: {escape_unprintable(line[:_MAX_WARNING_LENGTH])}")
        result_keys = ("files", "left_out", "notes")
        return {"changed": False, "directory": target, "facts": facts, **{key: result[key] for key in result_keys}}

    def _collect_and_fetch_archive(
        self, arguments: Mapping[str, Any], staging_directory: str, task_vars: Any
    ) -> dict[str, Any]:
        """Collect the evidence of a host, fetch its archive, and return the module's result."""
        self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "evidence.tar.gz")
        clock = self._measure_clock_offset()
        module_arguments = {
            name: value for name, value in arguments.items() if value is not None and name not in _CONTROLLER_ARGUMENTS
        }
        result: dict[str, Any] = self._execute_module(
            "activemq.fleet.collect", module_args={**module_arguments, "archive": remote}, task_vars=task_vars
        )
        if result.get("failed") or "facts" not in result:
            raise AnsibleActionFail(
                str(
                    result.get(
                        "msg", "the module collect failed on this host without a message. Run the playbook with -vvv"
                    )
                ),
                result=result,
            )
        result = _checked_result(result)
        result["facts"]["clock"] = clock
        with collected.limit_file_size_temporarily(arguments["megabytes"] << 20):
            self._connection.fetch_file(remote, f"{staging_directory}/archive")
        return result

    def _measure_clock_offset(self) -> dict[str, float] | None:
        """Return the host's clock minus the controller's, ``offset``, and its error bound ``within``, in seconds.

        Returns None if the host's ``date`` gives no time.
        """
        best = None
        for _index in range(_CLOCK_READINGS):
            began = time.time()
            command_result = self._low_level_execute_command("date +%s.%N", sudoable=False)
            ended = time.time()
            try:
                host_time = float(str(command_result["stdout"]).split()[-1])
            except (ValueError, IndexError):
                continue
            within = (ended - began) / 2
            if best is None or within < best["within"]:
                best = {"offset": round(host_time - (began + ended) / 2, 3), "within": round(within, 3)}
        return best

    def _host_facts(self, host: str, about: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of the file ``host.json`` for a host: its collected facts and its inventory values."""
        facts = dict(result["facts"])
        broker = facts.get("broker") or {}
        return {
            **facts,
            # Values of the inventory override values of the host with the same name.
            "host": host,
            **{key: about.get(key) for key in ("group", "pair", "role", "peer", "ha")},
            # The values of the running broker, else those of the inventory.
            "release": broker.get("release") or about.get("release"),
            "store": broker.get("store") or about.get("store"),
            **{name: broker.get(name) or [] for name in ("generations", "risk_records")},
            **{key: broker.get(key) for key in ("state", "how", "since", "pid")},
            "java": about.get("java"),
            "left_out": result["left_out"],
            "notes": result["notes"],
        }


def _checked_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of the module in plain types.

    Raises AnsibleActionFail for a result that the module never returns.
    """
    try:
        plain: dict[str, Any] = parse_untrusted_json(json.dumps({name: result[name] for name in _RESULT_KEYS}))
        if not (isinstance(plain["facts"], dict) and isinstance(plain["facts"].get("broker") or {}, dict)):
            raise TypeError("facts")
        left_out = [
            f"{row['path']} is missing or incomplete in the collection: {row['why']}" for row in plain["left_out"]
        ]
        plain["warnings_of_host"] = [str(line) for line in (*left_out, *plain["notes"])]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise AnsibleActionFail(
            f"the module collect returned an unusable result on this host ({error}). Run the playbook with -vvv, which "
            "prints what the host returned"
        ) from None
    return plain
