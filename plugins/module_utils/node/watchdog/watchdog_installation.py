# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Builds, installs and removes a watchdog's program, one file that the host's Python runs, and its systemd unit.

It never changes the broker.
"""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from ..errors import NodeError
from ..files import disk
from ..install.program_archive import PROGRAM_MODE, is_program_installed, pack_program
from ..install.unit_files import install_unit
from ..process.service_names import watchdog_service_name
from ..text_lines import split_lines
from . import watchdog_cli

_SHOWN = "LoadState,ActiveState,UnitFileState,NeedDaemonReload"


def watchdog_program_content(python: str) -> bytes:
    """Return the content of the executable file of a broker's watchdog.

    ``python`` is the interpreter that runs it.
    """
    return pack_program(watchdog_cli, python)


@dataclass(frozen=True)
class WatchdogPaths:
    """The paths of the files of a broker's watchdog: its program and its systemd unit.

    With ``check`` (check mode) nothing is changed.
    """

    instance: str
    directory: str
    units: str
    check: bool = False

    @property
    def name(self) -> str:
        return f"{watchdog_service_name(self.instance)}.service"

    @property
    def program(self) -> str:
        return os.path.join(self.directory, watchdog_service_name(self.instance))

    @property
    def unit_file(self) -> str:
        return os.path.join(self.units, self.name)


def install_and_start_or_remove_watchdog(place: WatchdogPaths, python: str, unit: str | None) -> list[str]:
    """Install and start a broker's watchdog with the unit file ``unit``, or remove the watchdog if it is None.

    Returns what was done, one line each. ``python`` is the interpreter that runs the program.

    Raises NodeError, OSError.
    """
    return (
        set_up_watchdog_and_describe_changes(place, watchdog_program_content(python), unit)
        if unit
        else remove_watchdog_and_describe_changes(place)
    )


def set_up_watchdog_and_describe_changes(place: WatchdogPaths, program: bytes, unit: str) -> list[str]:
    """Install, enable and start a broker's watchdog, a systemd service, on this host.

    Returns what was done, one line each. Copies its unit. Raises NodeError, OSError.
    """
    done = []
    if not is_program_installed(place.program, program):
        done.append(f"installed {place.program}")
        if not place.check:
            os.makedirs(place.directory, 0o755, exist_ok=True)
            disk.replace_file(place.program, program, PROGRAM_MODE)
    if install_unit(place.unit_file, unit, check=place.check):
        done.append(f"installed {place.unit_file}")
    if place.check and done:
        return done
    return [*done, *_run(place, new=bool(done))]


def _run(place: WatchdogPaths, *, new: bool) -> list[str]:
    shown = _show(place)
    done = []
    if new or shown.get("NeedDaemonReload") == "yes":
        new = True
        _systemctl(place, "daemon-reload")
        shown = _show(place)
    if shown.get("LoadState") != "loaded":
        raise NodeError(
            f"systemd does not load the unit file {place.unit_file} of the watchdog (LoadState "
            f"{shown.get('LoadState')}): run systemctl status {place.name} on this host, and correct the cause"
        )
    if shown.get("UnitFileState") != "enabled":
        done.append(f"enabled {place.name}")
        _systemctl(place, "enable", place.name)
    if shown.get("ActiveState") != "active":
        done.append(f"started {place.name}")
        _systemctl(place, "start", place.name)
    elif new:
        done.append(f"restarted {place.name}")
        _systemctl(place, "restart", place.name)
    return done


def remove_watchdog_and_describe_changes(place: WatchdogPaths) -> list[str]:
    """Remove a broker's watchdog, a systemd service, from this host.

    It is stopped first. Returns what was done, one line each. Removes its program and unit file.
    """
    done = []
    if os.path.lexists(place.unit_file):
        done.append(f"removed {place.unit_file}")
        # An invalid unit, such as a link without a target, cannot be disabled, only stopped.
        _systemctl(place, "stop", place.name)
        _systemctl(place, "disable", place.name, refused=True)
        if not place.check:
            for path in (place.unit_file, os.path.join(place.units, f"{place.instance}.service.wants", place.name)):
                disk.remove_file_or_link(path)
        _systemctl(place, "daemon-reload")
    if os.path.lexists(place.program):
        done.append(f"removed {place.program}")
        if not place.check:
            disk.remove_file_or_link(place.program)
    return done


def reload_systemd_units() -> None:
    """Make systemd read changed unit files, without a restart of their services. Raises NodeError."""
    _call("systemctl", "daemon-reload")


def _show(place: WatchdogPaths) -> dict[str, str]:
    text = _call("systemctl", "show", f"--property={_SHOWN}", place.name)
    return dict(line.split("=", 1) for line in split_lines(text) if "=" in line)


def _systemctl(place: WatchdogPaths, *words: str, refused: bool = False) -> None:
    if not place.check:
        _call("systemctl", *words, refused=refused)


def _call(*command: str, refused: bool = False) -> str:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NodeError(
            f"the command {' '.join(command)} failed ({error}): run it on this host, and correct the cause"
        ) from None
    if ran.returncode and not refused:
        reason = " ".join(ran.stderr.split()) or f"exit status {ran.returncode}"
        raise NodeError(
            f"the command {' '.join(command)} failed ({reason}): run it on this host, and correct the cause"
        )
    return ran.stdout
