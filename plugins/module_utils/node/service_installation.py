# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determines whether a broker's systemd service is installed completely: its unit, its guard and its watchdog."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .errors import NodeError
from .fence.guard_installation import guard_program_path, install_or_remove_guard
from .host_paths import PROGRAM_DIRECTORY
from .install.unit_files import is_unit_installed
from .process.proc import properties_of_systemd_units
from .watchdog.watchdog_installation import WatchdogPaths, install_or_remove_watchdog

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
        changes += install_or_remove_watchdog(watchdog, python, service["watchdog"])
    except NodeError as error:  # The installation of the watchdog raises it again if the cause remains.
        changes.append(str(error))
    return changes
