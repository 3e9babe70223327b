"""Rollback of configurations by the playbook ``site``, after a broker did not start with a new configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.install.configuration_install import Owners, install_configuration

REPOSITORY = Path(__file__).resolve().parents[2]
UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


class Hosts:
    """Hosts of a run of ``site`` that installed a second configuration; the broker of b1 does not start with it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.variables: dict[str, dict[str, Any]] = {}
        self.earlier: dict[str, str | None] = {}

    def add(self, host: str, *, pid: int | None, read: bool, is_new: bool = False, **variables: object) -> None:
        """Add a host whose broker runs as ``pid`` and has read the new configuration or not; ``is_new``: its first."""
        for number in range(int(is_new), 2):
            tree = {"conf/activemq.xml": ConfigurationFile(b"<beans/>" + bytes([48 + number]), 0o644)}
            outcome = install_configuration(str(self.root / host), tree, Owners())
        self.earlier[host] = outcome.previous
        self.variables[host] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            # As the module broker_info returns it: without a process, no configuration is the previous one.
            "__activemq_broker_state": {"pid": pid, "previous": None if read or pid is None else outcome.previous},
            "__activemq_installed_configuration": {
                "changed_files": list(outcome.changed_files),
                "previous": outcome.previous,
            },
            **variables,
        }

    def roll_back(self) -> subprocess.CompletedProcess[str]:
        """Run the tasks of the rollback for b1 until its files are restored."""
        tasks = yaml.safe_load((REPOSITORY / "roles/broker/tasks/rollback_site.yml").read_text())
        names = [task["name"] for task in tasks]
        variables = {
            "__activemq_site": {"brokers": {host: self._broker(host) for host in self.variables}},
            "__activemq_planned_starts": {"hosts": list(self.variables)},
            "__activemq_failure_with_logs": "its port is taken",
            "__activemq_broker": self._broker("b1"),
            "__activemq_unit_file": str(self.root / "b1.service"),
        }
        play = {
            "hosts": "b1",
            "gather_facts": False,
            "vars": variables,
            "tasks": tasks[: names.index("Start the broker with its earlier configuration")],
        }
        inventory, playbook = self.root / "inventory.yml", self.root / "play.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": self.variables}}))
        playbook.write_text(yaml.safe_dump([play]))
        return subprocess.run(
            [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook],
            env=os.environ
            | {
                "ANSIBLE_HOME": str(self.root / "ansible"),
                "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".ansible/collections"),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def _broker(self, host: str) -> dict[str, str]:
        return {"base": str(self.root / host), "instance": "made-up-instance"}

    def has_earlier_configuration(self, host: str) -> bool:
        return (self.root / host / "current").readlink().name == self.earlier[host]


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    hosts = Hosts(tmp_path)
    hosts.add("running", pid=7, read=False)
    hosts.add("stopped", pid=None, read=False)
    hosts.add("started", pid=8, read=True)
    return hosts


def test_failed_start_of_stopped_broker_restores_its_earlier_configuration(hosts: Hosts) -> None:
    hosts.add("b1", pid=None, read=False)
    completed = hosts.roll_back()
    assert completed.returncode == 0, completed.stdout
    restored = {host: hosts.has_earlier_configuration(host) for host in hosts.variables}
    assert restored == {"running": True, "stopped": True, "started": False, "b1": True}


def test_failed_start_of_new_broker_rolls_back_all_brokers_that_run_earlier_files(hosts: Hosts) -> None:
    hosts.add("b1", pid=None, read=False, is_new=True)
    completed = hosts.roll_back()
    assert completed.returncode == 2
    assert "No rollback was done, because the host has no earlier configuration" in completed.stdout
    restored = {host: hosts.has_earlier_configuration(host) for host in ("running", "stopped", "started")}
    assert restored == {"running": True, "stopped": True, "started": False}


def test_lost_host_prevents_no_rollback_of_other_brokers(hosts: Hosts) -> None:
    hosts.variables["running"] |= UNREACHABLE
    hosts.add("b1", pid=None, read=False)
    completed = hosts.roll_back()
    assert completed.returncode == 0, completed.stdout
    restored = {host: hosts.has_earlier_configuration(host) for host in hosts.variables}
    assert restored == {"running": False, "stopped": True, "started": False, "b1": True}
