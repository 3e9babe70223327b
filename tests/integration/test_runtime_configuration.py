"""Test of the changes of its file that a running 5.18.3 applies without a restart, and of those that require one.

The file is installed as the playbook ``site`` installs it, while the brokers run.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.artifacts import fetch_and_unpack_distribution
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.lab_state_file import InstalledRelease
from activemq_fleet.lab.preparation import install_broker_configuration
from activemq_fleet.lab.stomp import Credentials, StompError
from activemq_fleet.node.config import pending_restart
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.releases import Release
from tests.integration.conftest import LabOf
from tests.stomp_clients import stomp_round_trip

WEST, EAST, NORTH = (f"{name}-mq01-a.example.com" for name in ("west", "east", "north"))
ONE = [{"from": "west", "to": "east"}]
TWO = [*ONE, {"from": "west", "to": "north"}]
USER = [{"name": "ann", "password": "anns-secret", "groups": "staff"}]


def write_inventory(directory: Path, **variables: Any) -> Path:
    """Write the inventory of three linked brokers; variables replace the defaults."""
    directory.mkdir(exist_ok=True)
    settings = {
        "release": "5.18.3",
        "ha": "none",
        "console": False,
        "runtime_configuration": True,
        "network_username": "net",
        "network_password": "s3cret-net",
        "links": ONE,
        **variables,
    }
    group_variables = {f"activemq_{name}": value for name, value in settings.items()}
    (directory / "hosts.yml").write_text(
        json.dumps({"all": {"hosts": {WEST: {}, EAST: {}, NORTH: {}}, "vars": group_variables}})
    )
    return directory


class RunningFleet:
    """Three brokers of 5.18.3, and their inventory."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab, self.directory = lab, directory
        home = fetch_and_unpack_distribution(Release.of("5.18.3"))
        assert home is not None
        self.software = InstalledRelease(str(home), whole=True)
        self.pids = self.process_ids()

    def process_ids(self) -> list[int | None]:
        return [status.pid for status in self.lab.status()]

    def west_paths(self) -> ConfigurationPaths:
        return ConfigurationPaths(str(self.lab.directory / "hosts" / WEST / "activemq"))

    def configure(self, **variables: Any) -> tuple[str, ...]:
        """Change the inventory and install the files of the west broker; return why it must be restarted."""
        write_inventory(self.directory, **variables)
        self.lab.prepare()
        install_broker_configuration(self.lab.fleet.broker(WEST), self.software)
        pending = pending_restart.read_pending_restart(self.west_paths())
        assert self.process_ids() == self.pids, "a broker was restarted: the installation of files must not restart it"
        return pending.reasons if pending else ()

    def log(self) -> str:
        return self.lab.log(WEST).read_text()


@pytest.fixture
def fleet(lab_of: LabOf, tmp_path: Path) -> RunningFleet:
    directory = write_inventory(tmp_path / "inventory")
    lab = lab_of(directory)
    lab.up()
    return RunningFleet(lab, directory)


def test_running_broker_applies_links_and_users_other_changes_require_restart(fleet: RunningFleet) -> None:
    lab = fleet.lab

    assert fleet.configure(links=TWO) == ()
    lab.wait_bridge(WEST, NORTH)

    ann = Credentials("ann", "anns-secret")
    address = lab.addresses(WEST, "stomp")[0]
    with pytest.raises(StompError):
        stomp_round_trip(address, ann, "news", timeout=60)
    assert fleet.configure(links=TWO, users=USER) == ()
    stomp_round_trip(address, ann, "news", timeout=60)

    # The plugin would start a changed link in addition to the existing link.
    changed = [*TWO[1:], {**ONE[0], "duplex": True}]
    log_before = fleet.log()
    assert fleet.configure(links=changed, users=USER) == ("conf/activemq.xml changed",)
    time.sleep(3)
    assert "activemq.plugin" not in fleet.log()[len(log_before) :], (
        "the plugin reloaded the file, and a restart is pending"
    )
    assert len(lab.bridges(WEST)) == 2

    # The plugin checks no file that contains a password, and it applies nothing while a restart is pending.
    changed_user = [{**USER[0], "password": "another-secret"}]
    assert fleet.configure(links=changed, users=changed_user)[1:] == ("conf/credentials.properties changed",)
    stomp_round_trip(address, ann, "news", timeout=60)
