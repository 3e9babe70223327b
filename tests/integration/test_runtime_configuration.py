"""What a running 5.18.3 takes from its file without a restart, and what it must be restarted for.

The file is installed as the playbook site installs it, while the brokers run.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.artifacts import fetch_and_unpack_distribution
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.preparation import install_broker_configuration
from activemq_fleet.lab.state import InstalledRelease
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


def write(directory: Path, **variables: Any) -> Path:
    directory.mkdir(exist_ok=True)
    known = {
        "release": "5.18.3",
        "ha": "none",
        "console": False,
        "runtime_configuration": True,
        "network_username": "net",
        "network_password": "s3cret-net",
        "links": ONE,
        **variables,
    }
    named = {f"activemq_{name}": value for name, value in known.items()}
    (directory / "hosts.yml").write_text(json.dumps({"all": {"hosts": {WEST: {}, EAST: {}, NORTH: {}}, "vars": named}}))
    return directory


class Running:
    """Three brokers of 5.18.3, and their inventory."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab, self.directory = lab, directory
        home = fetch_and_unpack_distribution(Release.of("5.18.3"))
        assert home is not None
        self.software = InstalledRelease(str(home), whole=True)
        self.pids = self.processes()

    def processes(self) -> list[int | None]:
        return [status.pid for status in self.lab.status()]

    def layout(self) -> ConfigurationPaths:
        return ConfigurationPaths(str(self.lab.directory / "hosts" / WEST / "activemq"))

    def configure(self, **variables: Any) -> tuple[str, ...]:
        """Change the inventory and install the west broker's files; returns why it must be restarted."""
        write(self.directory, **variables)
        self.lab.prepare()
        install_broker_configuration(self.lab.fleet.broker(WEST), self.software)
        owed = pending_restart.read_pending_restart(self.layout())
        assert self.processes() == self.pids, "nobody was restarted"
        return owed.reasons if owed else ()

    def log(self) -> str:
        return self.lab.log(WEST).read_text()


@pytest.fixture
def running(lab_of: LabOf, tmp_path: Path) -> Running:
    directory = write(tmp_path / "inventory")
    lab = lab_of(directory)
    lab.up()
    return Running(lab, directory)


def test_links_and_users_are_taken_by_a_running_broker_and_the_rest_is_owed(running: Running) -> None:
    lab = running.lab

    assert running.configure(links=TWO) == ()
    lab.wait_bridge(WEST, NORTH)

    ann = Credentials("ann", "anns-secret")
    address = lab.addresses(WEST, "stomp")[0]
    with pytest.raises(StompError):
        stomp_round_trip(address, ann, "news", timeout=60)
    assert running.configure(links=TWO, users=USER) == ()
    stomp_round_trip(address, ann, "news", timeout=60)

    # A link that changes: the plugin would start it beside the one that is there.
    changed = [*TWO[1:], {**ONE[0], "duplex": True}]
    before = running.log()
    assert running.configure(links=changed, users=USER) == ("conf/activemq.xml changed",)
    time.sleep(3)
    assert "activemq.plugin" not in running.log()[len(before) :], "it does not even look"
    assert len(lab.bridges(WEST)) == 2

    # A password stands in no file that the plugin looks at, and nothing is left to it while a restart is owed.
    other = [{**USER[0], "password": "another-secret"}]
    assert running.configure(links=changed, users=other)[1:] == ("conf/credentials.properties changed",)
    stomp_round_trip(address, ann, "news", timeout=60)
