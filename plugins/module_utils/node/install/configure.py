# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Implements ``activemq.fleet.configure``, both as a module and within the controller.

For a host with the connection ``local`` the action plugin calls ``install_or_restore_configuration`` directly, because
building, copying and starting a module would take longer than the installation.
"""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ..config import pending_restart
from ..config.configuration_archive import ConfigurationFile, unpack_configuration
from ..config.vendor_files import shipped_configuration_files
from ..config.versions import ConfigurationPaths
from ..errors import NodeError
from ..masking import mask_text
from ..process.proc import find_broker_process
from ..text_lines import split_lines
from .configuration_install import KEEP, InstallationOutcome, Owners, install_configuration, restore_installed_version
from .unit_files import install_unit

ARGUMENTS: dict[str, dict[str, Any]] = {
    "archive": {"type": "path"},
    "sha256": {"type": "str"},
    "base": {"type": "path", "required": True},
    "data": {"type": "path"},
    "link": {"type": "path"},
    "home": {"type": "path"},
    "user": {"type": "str"},
    "group": {"type": "str"},
    "keep": {"type": "int", "default": KEEP},
    "version": {"type": "str"},
    "unit": {"type": "path"},
    "validate": {"type": "list", "elements": "str"},
}
_TIMEOUT = 60
"""Timeout in seconds of one validation command."""
_MAX_OUTPUT_LINES = 5


def install_or_restore_configuration(parameters: Mapping[str, Any], check: bool) -> dict[str, Any]:
    """Install a configuration of a broker, agent or load balancer on its host, or restore an installed version.

    A new configuration is an archive. Returns the result of the module configure. Raises NodeError with one line for
    every error of the file system or the operating system.
    """
    base = os.path.abspath(parameters["base"])
    layout = ConfigurationPaths(base, parameters.get("link"), parameters.get("data"))
    try:
        outcome = _install_or_restore(layout, parameters, check)
        is_unit_changed = _install_unit(layout, parameters.get("unit"), check)
        is_restart_pending = _needs_restart(layout, outcome, check)
    except OSError as error:
        raise NodeError(
            f"the configuration cannot be installed ({error.filename or base}: {error.strerror}): correct this error, "
            "and run the playbook again"
        ) from None
    return {
        "changed": outcome.changed or is_unit_changed,
        "version": outcome.version,
        "previous": outcome.previous,
        "changed_files": list(outcome.changed_files),
        "drift": list(outcome.drift),
        "restart_required": is_restart_pending,
        "restart_reasons": list(outcome.reasons) if is_restart_pending else [],
        "diff": list(outcome.diff),
    }


def _install_or_restore(layout: ConfigurationPaths, parameters: Mapping[str, Any], check: bool) -> InstallationOutcome:
    if parameters.get("version"):
        return restore_installed_version(layout, parameters["version"], check)
    keep = parameters.get("keep") or KEEP
    if keep < 1:
        raise NodeError(f"the option keep of the module configure must be at least 1, not {keep}")
    with open(parameters["archive"], "rb") as file:
        data = file.read()
    expected_sha256 = parameters.get("sha256")
    if expected_sha256 and hashlib.sha256(data).hexdigest() != expected_sha256:
        raise NodeError(
            "the configuration archive of this host was damaged in transfer, so nothing was installed: its "
            "SHA-256 differs from the option sha256. Run the playbook again"
        )
    home = parameters.get("home")
    tree: dict[str, ConfigurationFile] = {
        **(shipped_configuration_files(home) if home else {}),
        **unpack_configuration(data),
    }
    owners = _numeric_owners(parameters.get("user"), parameters.get("group"), check)
    commands = parameters.get("validate") or []
    return install_configuration(
        layout, tree, owners, keep, check, validate=lambda directory: _run_validation_commands(commands, directory)
    )


def _install_unit(layout: ConfigurationPaths, path: str | None, check: bool) -> bool:
    """Copy the unit file of the version in force to ``path``, and return whether it changed.

    Without ``path``, or if the version contains no such unit, nothing is changed.
    """
    if not path:
        return False
    source = os.path.join(layout.current, "systemd", os.path.basename(path))
    return os.path.exists(source) and install_unit(path, source, check=check)


def _run_validation_commands(commands: Sequence[str], directory: str) -> None:
    """Run each validation command of a configuration, with its directory in place of ``%s``.

    Raises NodeError with the last lines of a command that fails.
    """
    for command in commands:
        command_words = [word.replace("%s", directory) for word in shlex.split(command)]
        try:
            result = subprocess.run(
                command_words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NodeError(
                f"nothing was changed, because the check program {command_words[0]} could not be run ({error}). "
                "Install this program on the host, or correct the option validate of the module configure"
            ) from None
        if result.returncode:
            last_lines = "\n".join(split_lines(result.stdout.strip())[-_MAX_OUTPUT_LINES:])
            failure_reason = "; ".join(mask_text(last_lines).split("\n")) or f"exit status {result.returncode}"
            raise NodeError(
                f"nothing was changed, because the check program {command_words[0]} rejects the new configuration "
                f"files ({failure_reason}). Correct the variables of this host, and run "
                "the playbook again"
            )


def _numeric_owners(user: str | None, group: str | None, check: bool) -> Owners:
    """Return numeric ids for installed files; in check mode, -1 for an account that does not exist yet."""
    if not user:
        return Owners()
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        if check:
            return Owners()
        raise NodeError(
            f"nothing was installed, because this host has no user {user}: create this user, or correct the "
            "option user of the module configure"
        ) from None
    try:
        gid = grp.getgrnam(group).gr_gid if group else account.pw_gid
    except KeyError:
        if check:
            return Owners()
        raise NodeError(
            f"nothing was installed, because this host has no group {group}: create this group, or correct "
            "the option group of the module configure"
        ) from None
    if os.geteuid() == 0:
        return Owners(user=account.pw_uid, root=0, group=gid)
    if os.geteuid() != account.pw_uid:
        raise NodeError(
            f"nothing was installed, because only root or the account {user} can install files of {user}: set "
            "become: true for the task"
        )
    return Owners()


def _needs_restart(layout: ConfigurationPaths, outcome: InstallationOutcome, check: bool) -> bool:
    """Return whether a broker runs that has not read the version in force (in check mode: would not have read it)."""
    if not outcome.reasons:
        return False
    process = find_broker_process(layout.base)
    if process is None:
        return False
    return (check and outcome.changed) or pending_restart.pending_restart_of_process(layout, process) is not None
