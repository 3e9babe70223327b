"""Installing and removing a watchdog, with a systemctl that only remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.node.config import pending_restart
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.watchdog.installation import (
    WatchdogPaths,
    install_and_start_watchdog,
    remove_watchdog,
)

UNIT = "/var/lib/activemq/x/current/systemd/x-watchdog.service"
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
    """A directory with the places that the module writes to, and what systemd was told."""

    def __init__(self, root: Path) -> None:
        self.log, self.state = root / "log", root / "state"
        (root / "units").mkdir()
        self.place = WatchdogPaths("x", str(root / "sbin"), str(root / "units"))
        self.says(LoadState="not-found", ActiveState="inactive", UnitFileState="", NeedDaemonReload="no")

    def says(self, **state: str) -> None:
        self.state.write_text("".join(f"{key}={value}\n" for key, value in state.items()))

    def told(self) -> list[str]:
        words = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line for line in words if not line.startswith("show")]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/systemctl"
    program.write_text(SYSTEMCTL.format(log=host.log, state=host.state))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    return host


def test_it_is_installed_linked_enabled_and_started_and_then_left_alone(host: Host) -> None:
    assert install_and_start_watchdog(host.place, b"program", UNIT) == [
        f"installed {host.place.program}",
        f"linked {host.place.link}",
        "enabled x-watchdog.service",
        "started x-watchdog.service",
    ]
    assert host.told() == ["daemon-reload", "enable x-watchdog.service", "start x-watchdog.service"]
    assert Path(host.place.program).read_bytes() == b"program"
    assert Path(host.place.program).stat().st_mode & 0o777 == 0o755
    assert str(Path(host.place.link).readlink()) == UNIT
    assert install_and_start_watchdog(host.place, b"program", UNIT) == []
    assert host.told() == []


def test_a_new_program_and_a_new_unit_restart_it(host: Host) -> None:
    install_and_start_watchdog(host.place, b"program", UNIT)
    assert install_and_start_watchdog(host.place, b"newer", UNIT)[-1] == "restarted x-watchdog.service"
    host.told()
    host.says(LoadState="loaded", ActiveState="active", UnitFileState="enabled", NeedDaemonReload="yes")
    assert install_and_start_watchdog(host.place, b"newer", UNIT) == ["restarted x-watchdog.service"]
    assert host.told() == ["daemon-reload", "restart x-watchdog.service"]


def test_check_mode_says_what_would_be_done_and_does_nothing(host: Host) -> None:
    place = WatchdogPaths("x", host.place.directory, host.place.units, check=True)
    assert install_and_start_watchdog(place, b"program", UNIT) == [f"installed {place.program}", f"linked {place.link}"]
    install_and_start_watchdog(host.place, b"program", UNIT)
    host.told()
    assert remove_watchdog(place) == [f"removed {place.link}", f"removed {place.program}"]
    assert host.told() == []
    assert Path(place.program).exists()


def test_it_is_stopped_and_removed_even_if_its_unit_is_gone(host: Host) -> None:
    install_and_start_watchdog(host.place, b"program", UNIT)
    host.told()
    assert remove_watchdog(host.place) == [f"removed {host.place.link}", f"removed {host.place.program}"]
    assert host.told() == ["stop x-watchdog.service", "disable x-watchdog.service", "daemon-reload"]
    assert not Path(host.place.program).exists()
    assert remove_watchdog(host.place) == []


def test_a_unit_that_systemd_does_not_load_is_an_error(host: Host) -> None:
    host.says(LoadState="bad-setting", ActiveState="inactive", UnitFileState="", NeedDaemonReload="no")
    with pytest.raises(NodeError, match=r"does not load .* \(LoadState bad-setting\)"):
        install_and_start_watchdog(host.place, b"program", UNIT)


def test_a_new_unit_of_the_watchdog_owes_no_restart_of_the_broker() -> None:
    changed = ["systemd/x-watchdog.service", "systemd/x.service"]
    assert pending_restart.restart_reasons(changed, None, {}) == ["systemd/x.service changed"]
