# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The systemd service of a broker as a whole: its unit, its guard and its watchdog.

Determines whether the service is installed completely, and restores it together with an earlier configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .config.versions import ConfigurationPaths
from .errors import NodeError
from .fence.guard_installation import guard_program_path, install_or_remove_guard
from .host_paths import PROGRAM_DIRECTORY
from .install.configure import install_or_restore_configuration
from .install.unit_files import is_unit_installed
from .process.proc import properties_of_systemd_units
from .watchdog.watchdog_installation import WatchdogPaths, install_and_start_or_remove_watchdog, reload_systemd_units

UNIT_DIRECTORY = "/etc/systemd/system"


def pending_service_changes(
    service: Mapping[str, Any], python: str, programs: str = PROGRAM_DIRECTORY, units: str = UNIT_DIRECTORY
) -> list[str]:
    """Return the changes that the installation of a broker's systemd service would make, one line each.

    Nothing is changed. ``service`` has the ``instance``, the path of its ``unit`` file, ``enabled`` (whether it starts
    at boot), ``guard`` (whether a guard starts the broker), and the path of the unit file of its ``watchdog`` or None.
    ``python`` is the interpreter of the programs. ``programs`` and ``units`` are the directories of the programs and of
    the units. Raises OSError.
    """
    instance = service["instance"]
    guard = guard_program_path(programs, instance)
    has_guard_change = install_or_remove_guard(guard, python, is_required=service["guard"], check=True)
    changes = [f"{'install' if service['guard'] else 'remove'} {guard}"] if has_guard_change else []
    name = f"{instance}.service"
    path = os.path.join(units, name)
    if not is_unit_installed(path, service["unit"]):
        changes.append(f"install {path}")
    properties = properties_of_systemd_units("UnitFileState,NeedDaemonReload", [name])
    if not properties or (properties[0].get("UnitFileState") == "enabled") != service["enabled"]:
        changes.append(f"{'enable' if service['enabled'] else 'disable'} {name}")
    if properties and properties[0].get("NeedDaemonReload") == "yes":
        changes.append(f"reload {name}")
    watchdog = WatchdogPaths(instance, programs, units, check=True)
    try:
        changes += install_and_start_or_remove_watchdog(watchdog, python, service["watchdog"])
    except NodeError as error:  # The installation of the watchdog raises it again if the cause remains.
        changes.append(str(error))
    return changes


def restore_configuration_and_service(
    base: str,
    instance: str,
    version: str,
    *,
    python: str,
    programs: str = PROGRAM_DIRECTORY,
    units: str = UNIT_DIRECTORY,
) -> dict[str, Any]:
    """Restore an earlier version of a broker's configuration with the systemd service of this version.

    Returns ``{"changed": whether a file was changed, "warnings": lines}``. The program of the guard is installed if the
    unit of the version starts it; it is never removed, because removing a fence also requires it. The watchdog is
    removed if the version has none. A watchdog that cannot be installed, started or removed is a warning, because the
    broker runs without it. The arguments ``python``, ``programs`` and ``units`` are those of
    ``pending_service_changes``. The broker is not restarted. Raises NodeError, OSError.
    """
    unit_name = f"{instance}.service"
    parameters = {"base": base, "version": version, "unit": os.path.join(units, unit_name)}
    is_changed: bool = install_or_restore_configuration(parameters, check=False)["changed"]
    directory = os.path.join(ConfigurationPaths(base).directory(version), "systemd")
    unit = os.path.join(directory, unit_name)
    if not os.path.exists(unit):
        return {"changed": is_changed, "warnings": []}
    guard = guard_program_path(programs, instance)
    with open(unit, encoding="utf-8") as file:
        is_guard_required = guard in file.read()
    if is_guard_required:
        is_changed |= install_or_remove_guard(guard, python, is_required=True)
    reload_systemd_units()
    watchdog = WatchdogPaths(instance, programs, units)
    watchdog_unit = os.path.join(directory, watchdog.name)
    has_watchdog = os.path.exists(watchdog_unit)
    try:
        is_changed |= bool(
            install_and_start_or_remove_watchdog(watchdog, python, watchdog_unit if has_watchdog else None)
        )
    except (NodeError, OSError) as error:
        warning = (
            f"the broker in {base} has its earlier configuration {version} again, but its watchdog {watchdog.name} "
            f"was not restored: {error}. Then run the playbook site again"
        )
        return {"changed": True, "warnings": [warning]}
    return {"changed": is_changed, "warnings": []}
