"""Installation and removal of a watchdog, with a systemctl that only records its calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.node.config import pending_restart
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.watchdog.watchdog_installation import (
    WatchdogPaths,
    remove_watchdog_and_describe_changes,
    set_up_watchdog_and_describe_changes,
)

SYSTEMCTL = """#!/bin/sh
echo "$*" >> {log}
case $1 in
show) cat {state} ;;
daemon-reload) sed -i -e s/=not-found/=loaded/ -e s/Reload=yes/Reload=no/ {state} ;;
enable) sed -i s/UnitFileState=.*/UnitFileState=enabled/ {state} ;;
start) sed -i s/=inactive/=active/ {state} ;;
disable) exit 1 ;;
esac
"""


class Host:
    """The directories to which the module writes, and the calls of systemctl."""

    def __init__(self, root: Path) -> None:
        self.log, self.state = root / "log", root / "state"
        (root / "units").mkdir()
        self.unit = root / "x-watchdog.service"
        self.unit.write_text("[Unit]\n")
        self.paths = WatchdogPaths("x", str(root / "sbin"), str(root / "units"))
        self.set_unit_state(LoadState="not-found", ActiveState="inactive", UnitFileState="", NeedDaemonReload="no")

    def set_unit_state(self, **state: str) -> None:
        self.state.write_text("".join(f"{key}={value}\n" for key, value in state.items()))

    def take_calls(self) -> list[str]:
        """Return the calls of systemctl without ``show``, and remove them from the log."""
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line for line in calls if not line.startswith("show")]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/systemctl"
    program.write_text(SYSTEMCTL.format(log=host.log, state=host.state))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    return host


def test_watchdog_is_installed_linked_enabled_and_started_once(host: Host) -> None:
    assert set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit)) == [
        f"installed {host.paths.program}",
        f"installed {host.paths.unit_file}",
        "enabled x-watchdog.service",
        "started x-watchdog.service",
    ]
    assert host.take_calls() == ["daemon-reload", "enable x-watchdog.service", "start x-watchdog.service"]
    assert Path(host.paths.program).read_bytes() == b"program"
    assert Path(host.paths.program).stat().st_mode & 0o777 == 0o755
    assert not Path(host.paths.unit_file).is_symlink()
    assert Path(host.paths.unit_file).read_bytes() == host.unit.read_bytes()
    assert Path(host.paths.unit_file).stat().st_mode & 0o7777 == 0o644
    assert set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit)) == []
    assert host.take_calls() == []


def test_new_program_or_unit_restarts_watchdog(host: Host) -> None:
    set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit))
    assert (
        set_up_watchdog_and_describe_changes(host.paths, b"newer", str(host.unit))[-1] == "restarted x-watchdog.service"
    )
    host.take_calls()
    host.set_unit_state(LoadState="loaded", ActiveState="active", UnitFileState="enabled", NeedDaemonReload="yes")
    assert set_up_watchdog_and_describe_changes(host.paths, b"newer", str(host.unit)) == [
        "restarted x-watchdog.service"
    ]
    assert host.take_calls() == ["daemon-reload", "restart x-watchdog.service"]


def test_watchdog_unit_that_is_link_is_replaced_by_copy(host: Host) -> None:
    set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit))
    Path(host.paths.unit_file).unlink()
    Path(host.paths.unit_file).symlink_to(host.unit)
    assert set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit)) == [
        f"installed {host.paths.unit_file}",
        "restarted x-watchdog.service",
    ]
    assert not Path(host.paths.unit_file).is_symlink()
    assert host.unit.read_text() == "[Unit]\n"


def test_mode_of_watchdog_program_is_repaired(host: Host) -> None:
    set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit))
    Path(host.paths.program).chmod(0o600)
    assert (
        set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit))[0]
        == f"installed {host.paths.program}"
    )
    assert Path(host.paths.program).stat().st_mode & 0o7777 == 0o755


def test_watchdog_module_in_check_mode_reports_changes_and_makes_none(host: Host) -> None:
    paths = WatchdogPaths("x", host.paths.directory, host.paths.units, check=True)
    assert set_up_watchdog_and_describe_changes(paths, b"program", str(host.unit)) == [
        f"installed {paths.program}",
        f"installed {paths.unit_file}",
    ]
    set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit))
    host.take_calls()
    assert remove_watchdog_and_describe_changes(paths) == [f"removed {paths.unit_file}", f"removed {paths.program}"]
    assert host.take_calls() == []
    assert Path(paths.program).exists()


def test_watchdog_is_removed_even_if_systemd_cannot_disable_unit(host: Host) -> None:
    set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit))
    host.take_calls()
    assert remove_watchdog_and_describe_changes(host.paths) == [
        f"removed {host.paths.unit_file}",
        f"removed {host.paths.program}",
    ]
    assert host.take_calls() == ["stop x-watchdog.service", "disable x-watchdog.service", "daemon-reload"]
    assert not Path(host.paths.program).exists()
    assert remove_watchdog_and_describe_changes(host.paths) == []


def test_watchdog_unit_that_systemd_does_not_load_is_error(host: Host) -> None:
    host.set_unit_state(LoadState="bad-setting", ActiveState="inactive", UnitFileState="", NeedDaemonReload="no")
    with pytest.raises(NodeError, match=r"does not load .* \(LoadState bad-setting\)"):
        set_up_watchdog_and_describe_changes(host.paths, b"program", str(host.unit))


def test_new_unit_of_watchdog_requires_no_restart_of_broker() -> None:
    changed = ["systemd/x-watchdog.service", "systemd/x.service"]
    assert pending_restart.restart_reasons(changed, None, {}) == ["systemd/x.service changed"]
