"""Restoration of an earlier configuration of a broker with its systemd service, with a systemctl that only records."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.fence.guard_installation import guard_program_content
from activemq_fleet.node.install.configuration_install import Owners, install_configuration
from activemq_fleet.node.service_installation import restore_configuration_and_service
from activemq_fleet.node.watchdog.watchdog_installation import watchdog_program_content

SYSTEMCTL = """#!/bin/sh
echo "$*" >> {log}
[ "$1" != show ] || printf 'LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\nNeedDaemonReload=no\\n'
"""


class Host:
    """A host with an earlier and a present version of a configuration, and the service of the present version."""

    def __init__(self, root: Path) -> None:
        self.base, self.programs, self.units, self.log = root / "x", root / "sbin", root / "units", root / "log"
        self.programs.mkdir()
        self.units.mkdir()
        self.guard, self.watchdog = self.programs / "x-guard", self.programs / "x-watchdog"

    def install(self, unit: str, watchdog: str = "") -> str:
        """Install a version with the text of its units as ``site`` does, and return its name."""
        texts = {"systemd/x.service": unit} | ({"systemd/x-watchdog.service": watchdog} if watchdog else {})
        tree = {path: ConfigurationFile(text.encode(), 0o644) for path, text in texts.items()}
        (self.units / "x-watchdog.service").unlink(missing_ok=True)
        self.watchdog.unlink(missing_ok=True)
        for path, text in texts.items():
            (self.units / Path(path).name).write_text(text)
        if watchdog:
            self.watchdog.write_bytes(watchdog_program_content(sys.executable))
            self.watchdog.chmod(0o755)
        return install_configuration(str(self.base), tree, Owners()).version

    def restore(self, version: str) -> tuple[bool, list[str]]:
        """Restore a version; return whether a file was changed, and the warnings."""
        result = restore_configuration_and_service(
            str(self.base), "x", version, python=sys.executable, programs=str(self.programs), units=str(self.units)
        )
        return result["changed"], result["warnings"]

    def installed_units(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.units.iterdir() if path.is_file()}

    def commands(self) -> list[str]:
        """Return the calls of systemctl without ``show``."""
        return [line for line in self.log.read_text().splitlines() if not line.startswith("show")]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/systemctl"
    program.write_text(SYSTEMCTL.format(log=host.log))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    return host


def test_rollback_restores_units_of_broker_and_watchdog_and_reloads_them(host: Host) -> None:
    earlier = host.install("earlier", "earlier watchdog")
    host.install("present", "present watchdog")

    assert host.restore(earlier) == (True, [])

    assert (host.base / "current").readlink().name == earlier
    assert host.installed_units() == {"x.service": "earlier", "x-watchdog.service": "earlier watchdog"}
    assert host.commands() == ["daemon-reload", "daemon-reload", "restart x-watchdog.service"]


def test_rollback_reloads_unit_of_broker_that_has_no_watchdog(host: Host) -> None:
    earlier = host.install("earlier")
    host.install("present")
    assert host.restore(earlier) == (True, [])
    assert host.installed_units() == {"x.service": "earlier"}
    assert host.commands() == ["daemon-reload"]


def test_rollback_removes_watchdog_that_earlier_version_lacks(host: Host) -> None:
    earlier = host.install("earlier")
    host.install("present", "present watchdog")
    host.restore(earlier)
    assert host.installed_units() == {"x.service": "earlier"}
    assert not host.watchdog.exists()
    assert "stop x-watchdog.service" in host.commands()


def test_rollback_installs_watchdog_and_guard_that_present_version_lacks(host: Host) -> None:
    earlier = host.install(f"ExecStart={host.guard} --store /srv/x -- java", "earlier watchdog")
    host.install("ExecStart=java")
    host.restore(earlier)
    assert host.guard.read_bytes() == guard_program_content(sys.executable)
    assert host.watchdog.read_bytes() == watchdog_program_content(sys.executable)
    assert host.installed_units()["x-watchdog.service"] == "earlier watchdog"


def test_rollback_keeps_guard_that_earlier_unit_does_not_start(host: Host) -> None:
    """The playbook unfence runs the program, too."""
    earlier = host.install("ExecStart=java")
    host.install(f"ExecStart={host.guard} --store /srv/x -- java")
    host.guard.write_text("guard")
    host.restore(earlier)
    assert host.guard.read_text() == "guard"


def test_second_rollback_to_same_version_changes_nothing(host: Host) -> None:
    earlier = host.install("earlier", "earlier watchdog")
    host.install("present", "present watchdog")
    assert host.restore(earlier) == (True, [])
    assert host.restore(earlier) == (False, [])
    assert host.commands().count("restart x-watchdog.service") == 1


@pytest.mark.parametrize(("watchdog", "command"), [("earlier watchdog", "restart"), ("", "stop")])
def test_rollback_with_failed_watchdog_restores_broker_and_warns(host: Host, watchdog: str, command: str) -> None:
    earlier = host.install("earlier", watchdog)
    host.install("present", "present watchdog")
    with (host.log.parent / "bin/systemctl").open("a") as program:
        program.write(f'case $1 in {command}) echo "Job failed." >&2; exit 1; esac\n')

    is_changed, (warning,) = host.restore(earlier)

    assert is_changed
    assert warning == (
        f"the broker in {host.base} has its earlier configuration {earlier} again, but its watchdog x-watchdog.service "
        f"was not restored: the command systemctl {command} x-watchdog.service failed (Job failed.): run it on this "
        "host, and correct the cause. Then run the playbook site again"
    )
    assert (host.base / "current").readlink().name == earlier
    assert host.installed_units()["x.service"] == "earlier"


def test_rollback_to_removed_version_changes_nothing(host: Host) -> None:
    present = host.install("present", "present watchdog")
    with pytest.raises(NodeError, match="contains no configuration version 'removed'"):
        host.restore("removed")
    assert (host.base / "current").readlink().name == present
    assert host.installed_units() == {"x.service": "present", "x-watchdog.service": "present watchdog"}
    assert not host.log.exists()
