# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.store_copy``: carries the files of a store, chunk by chunk, between a host and the controller."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import import_module_of_node_package

NodeError = import_module_of_node_package("errors").NodeError
store_copy = import_module_of_node_package("kahadb.store_copy")

_MODULE = "activemq.fleet.store_copy"
_SPARE_BYTES = 64 << 20
_SPOOL_SUBDIRECTORY = "activemq-fleet/resync"


def _spool_directory(arguments: dict[str, Any]) -> Path:
    """Return the spool directory on the controller, in which a copied store's files are kept until all have arrived."""
    directory = arguments.get("spool") or os.path.join(
        constants.config.get_config_value("ANSIBLE_HOME"), _SPOOL_SUBDIRECTORY
    )
    return Path(os.path.expanduser(directory), store_copy.store_fingerprint(arguments["files"]))


def _spooled_part(spool: Path, name: str, offset: int) -> Path:
    """Return the path of the spooled part of a store's file.

    The part begins at ``offset``, up to which the other host already has the file.
    """
    return spool / f"{store_copy.controller_spool_file_name(name)}.from-{offset}"


def _spooled_size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _store_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments ``directory`` and ``user``, if given, which name a store and its account."""
    return {name: arguments[name] for name in ("directory", "user") if name in arguments}


class ActionModule(ActionBase):
    """The Ansible action plugin ``store_copy``, which copies a store's files between hosts in chunks.

    The chunks pass through the controller. The module of the same name does the rest.
    """

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        variables = task_vars or {}
        try:
            if arguments.get("state") == "fetched":
                return result | self._fetch_missing_files(arguments, variables)
            if arguments.get("state") == "placed":
                return result | self._send_spooled_files(arguments, variables)
        except NodeError as error:
            raise AnsibleActionFail(str(error)) from None
        except OSError as error:
            path = error.filename or _spool_directory(arguments)
            raise AnsibleActionFail(
                f"the controller cannot use its directory {path} for the copy of the store "
                f"({error.strerror or error}). Correct the cause, and run the playbook resync again"
            ) from None
        return result | self._run_module(arguments, variables)

    def _fetch_missing_files(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Fetch the files of a store that the spool directory lacks from the host into this directory.

        Bytes that the spool directory already contains are not fetched again.
        """
        files, spool = arguments["files"], _spool_directory(arguments)
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        required_bytes = 0
        for name, offset in arguments["missing"].items():
            spooled_size = _spooled_size(_spooled_part(spool, name, int(offset)))
            required_bytes += max(0, files[name]["size"] - int(offset) - spooled_size)
        if shutil.disk_usage(spool).free < required_bytes + _SPARE_BYTES:
            raise NodeError(
                f"the copy of the store requires {required_bytes + _SPARE_BYTES >> 20} MiB of free space below {spool} "
                "on the controller. Free disk space, and run the playbook resync again"
            )
        for name in arguments["missing"]:
            self._fetch_file(arguments, variables, name, spool)
        return {"changed": bool(arguments["missing"])}

    def _fetch_file(self, arguments: dict[str, Any], variables: dict[str, Any], name: str, spool: Path) -> None:
        entry, offset = arguments["files"][name], int(arguments["missing"][name])
        part = _spooled_part(spool, name, offset)
        spooled_size = _spooled_size(part)
        with part.open("ab") as file:
            os.chmod(part, 0o600)
            while offset + spooled_size < entry["size"]:
                request = {"state": "read", **_store_arguments(arguments), "files": {name: entry}, "name": name}
                chunk = store_copy.unpack_chunk(
                    self._run_module(request | {"offset": offset + spooled_size}, variables)["data"]
                )
                if not chunk:
                    raise NodeError(
                        f"the file {name} of the store became shorter during the copy, because a process still "
                        "writes to the store. Find this process with fuser -v on the files of the store, stop it, and "
                        "run the playbook resync again"
                    )
                file.write(chunk)
                file.flush()
                spooled_size += len(chunk)

    def _send_spooled_files(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Send the spooled files of a store to the host, which verifies each complete file; then delete the spool."""
        files, spool = arguments["files"], _spool_directory(arguments)
        for name, start_offset in arguments["missing"].items():
            offset = int(start_offset)
            path = _spooled_part(spool, name, offset)
            with path.open("rb") as file:
                while data := file.read(store_copy.CHUNK):
                    request = {"state": "written", **_store_arguments(arguments), "files": files, "name": name}
                    try:
                        self._run_module(request | {"offset": offset, "data": store_copy.pack_chunk(data)}, variables)
                    except NodeError:
                        path.unlink(missing_ok=True)  # The file may be damaged, so the next run fetches it again.
                        raise
                    offset += len(data)
        with suppress(FileNotFoundError):
            shutil.rmtree(spool)
        return {"changed": bool(arguments["missing"])}

    def _run_module(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(_MODULE, module_args=arguments, task_vars=variables)
        if result.get("failed") and arguments["state"] in ("read", "written"):
            default_message = "the module store_copy failed on this host without a message. Run the playbook with -vvv"
            raise NodeError(result.get("msg") or default_message)
        return result
