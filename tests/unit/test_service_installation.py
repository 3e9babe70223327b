"""Pending changes of a broker's systemd service, with a systemctl that only shows the state of units."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.node.fence.guard_installation import guard_program_content
from activemq_fleet.node.service_installation import pending_service_changes
from activemq_fleet.node.watchdog.watchdog_installation import watchdog_program_content

SYSTEMCTL = """#!/bin/sh
[ "$1" = show ] || exit 1
for unit; do :; done
cat {states}/$unit
"""


class Host:
    """A host on which the service is installed completely."""

    def __init__(self, root: Path) -> None:
        self.programs, self.units, self.states = root / "sbin", root / "units", root / "states"
        self.current = root / "current"
        self.service: dict[str, Any] = {
            "instance": "x",
            "unit": f"{self.current}/x.service",
            "enabled": True,
            "guard": True,
            "watchdog": f"{self.current}/x-watchdog.service",
        }
        for directory in (self.programs, self.units, self.states, self.current):
            directory.mkdir()
        self.guard, self.watchdog = self.programs / "x-guard", self.programs / "x-watchdog"
        self.guard.write_bytes(guard_program_content(sys.executable))
        self.watchdog.write_bytes(watchdog_program_content(sys.executable))
        for program in (self.guard, self.watchdog):
            program.chmod(0o755)
        for name in ("x.service", "x-watchdog.service"):
            for unit in (self.units / name, self.current / name):
                unit.write_text(f"[Unit]\nDescription={name}\n")
                unit.chmod(0o644)
            self.set_unit_state(name)

    def set_unit_state(self, name: str, **changes: str) -> None:
        state = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}
        (self.states / name).write_text("".join(f"{key}={value}\n" for key, value in (state | changes).items()))

    def pending_changes(self, **changes: object) -> list[str]:
        return pending_service_changes(self.service | changes, sys.executable, str(self.programs), str(self.units))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/systemctl"
    program.write_text(SYSTEMCTL.format(states=host.states))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    return host


def test_complete_service_has_no_pending_changes(host: Host) -> None:
    assert host.pending_changes() == []


def test_new_host_has_pending_changes_for_each_part_of_service(host: Host) -> None:
    for path in (host.guard, host.watchdog, host.units / "x.service", host.units / "x-watchdog.service"):
        path.unlink()
    host.set_unit_state("x.service", LoadState="not-found", UnitFileState="")
    assert host.pending_changes() == [
        f"install {host.guard}",
        f"install {host.units}/x.service",
        "enable x.service",
        f"installed {host.watchdog}",
        f"installed {host.units}/x-watchdog.service",
    ]


def test_outdated_guard_and_unit_are_pending_changes(host: Host) -> None:
    host.guard.write_bytes(b"older")
    (host.units / "x.service").write_text("[Unit]\n")
    assert host.pending_changes() == [f"install {host.guard}", f"install {host.units}/x.service"]


def test_units_that_are_links_to_configuration_are_pending_changes(host: Host) -> None:
    """At boot, systemd does not find a link to a file system that is mounted later."""
    for name in ("x.service", "x-watchdog.service"):
        (host.units / name).unlink()
        (host.units / name).symlink_to(host.current / name)
    assert host.pending_changes() == [
        f"install {host.units}/x.service",
        f"installed {host.units}/x-watchdog.service",
    ]


def test_programs_that_account_of_broker_cannot_execute_are_pending_changes(host: Host) -> None:
    for program in (host.guard, host.watchdog):
        program.chmod(0o600)
    assert host.pending_changes() == [f"install {host.guard}", f"installed {host.watchdog}"]


def test_guard_and_watchdog_that_inventory_removed_are_pending_changes(host: Host) -> None:
    changes = host.pending_changes(guard=False, watchdog=None)
    assert changes == [
        f"remove {host.guard}",
        f"removed {host.units}/x-watchdog.service",
        f"removed {host.watchdog}",
    ]
    assert host.guard.exists()
    assert host.watchdog.exists()


@pytest.mark.parametrize(
    ("unit", "state", "change"),
    [
        ("x.service", {"UnitFileState": "linked"}, "enable x.service"),
        ("x.service", {"NeedDaemonReload": "yes"}, "reload x.service"),
        ("x-watchdog.service", {"UnitFileState": "disabled"}, "enabled x-watchdog.service"),
        ("x-watchdog.service", {"ActiveState": "failed"}, "started x-watchdog.service"),
        ("x-watchdog.service", {"NeedDaemonReload": "yes"}, "restarted x-watchdog.service"),
    ],
)
def test_state_of_unit_that_systemd_shows_is_pending_change(
    host: Host, unit: str, state: dict[str, str], change: str
) -> None:
    host.set_unit_state(unit, **state)
    assert host.pending_changes() == [change]


def test_service_that_must_not_start_at_boot_is_disabled(host: Host) -> None:
    assert host.pending_changes(enabled=False) == ["disable x.service"]
    host.set_unit_state("x.service", UnitFileState="linked")
    assert host.pending_changes(enabled=False) == []


def test_unit_that_systemd_does_not_load_is_pending_change(host: Host) -> None:
    host.set_unit_state("x-watchdog.service", LoadState="bad-setting")
    (change,) = host.pending_changes()
    assert "(LoadState bad-setting)" in change


def test_host_without_systemctl_has_pending_changes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "enable x.service" in host.pending_changes()
