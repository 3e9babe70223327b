"""Rollback of configurations by the playbook ``site``, after a broker did not start with a new configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.install.configuration_install import Owners, install_configuration

REPOSITORY = Path(__file__).resolve().parents[2]
START_TASKS = ("Start the broker with its earlier configuration", "Wait until it is ready again")
UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


class Hosts:
    """Hosts of a run of ``site`` that installed a second configuration; the broker of b1 does not start with it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.variables: dict[str, dict[str, Any]] = {}
        self.earlier: dict[str, str | None] = {}
        self.unplanned: set[str] = set()
        """The hosts that the run does not start or restart."""
        self.install = "archive"

    def add(
        self, host: str, *, pid: int | None, read: bool, is_new: bool = False, unchanged: bool = False, **more: object
    ) -> None:
        """Add a host whose broker runs as ``pid`` and has read the new configuration or not; ``is_new``: its first.

        ``unchanged``: an interrupted run has installed it before.
        """
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
                "changed_files": [] if unchanged else list(outcome.changed_files),
                "previous": outcome.previous,
            },
            "__activemq_next_step": {"progress": {"done": []}},
            **more,
        }

    def roll_back(self) -> str:
        """Run the tasks of the rollback for b1 except its start, and return the message of the failed run."""
        tasks = yaml.safe_load((REPOSITORY / "roles/broker/tasks/rollback_site.yml").read_text())
        variables = {
            "__activemq_site": {"brokers": {host: self._broker(host) for host in self.variables}},
            "__activemq_planned_starts": {"hosts": [host for host in self.variables if host not in self.unplanned]},
            "__activemq_failure_with_logs": "its port is taken",
            "__activemq_state_after_rollback": {"state": "standby"},
        }
        play = {
            "hosts": "b1",
            "gather_facts": False,
            "vars": variables,
            "tasks": [task for task in tasks if task["name"] not in START_TASKS],
        }
        inventory, playbook = self.root / "inventory.yml", self.root / "play.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": self.variables}}))
        playbook.write_text(yaml.safe_dump([play]))
        completed = subprocess.run(
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
        assert completed.returncode == 2, completed.stdout
        (message,) = re.findall(r'FAILED! => .*"msg": "(b1 did not become ready: .*)"}', completed.stdout)
        return str(message)

    def _broker(self, host: str) -> dict[str, str]:
        return {"base": str(self.root / host), "instance": "made-up-instance", "install": self.install}

    def has_earlier_configuration(self, host: str) -> bool:
        return (self.root / host / "current").readlink().name == self.earlier[host]


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    hosts = Hosts(tmp_path)
    hosts.add("running", pid=7, read=False)
    hosts.add("stopped", pid=None, read=False)
    hosts.add("applied", pid=8, read=True)
    return hosts


def test_failed_start_of_stopped_broker_restores_its_earlier_configuration(hosts: Hosts) -> None:
    hosts.add("b1", pid=None, read=False)
    message = hosts.roll_back()
    assert f"Rollback: the host has configuration {hosts.earlier['b1']} again, and is standby. No other" in message
    restored = {host: hosts.has_earlier_configuration(host) for host in hosts.variables}
    assert restored == {"running": True, "stopped": True, "applied": False, "b1": True}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_new": True}, "it has no earlier configuration. No other"),
        ({"unchanged": True}, "this run did not change its configuration. If an interrupted run changed it, restore"),
    ],
)
def test_failed_start_without_rollback_rolls_back_other_brokers_and_names_the_rest(
    hosts: Hosts, changes: dict[str, Any], reason: str
) -> None:
    hosts.add("b1", pid=None, read=False, **changes)
    hosts.add("b2", pid=None, read=False, **changes)
    message = hosts.roll_back()
    assert f"No rollback was done on this host, because {reason}" in message
    assert "They read the present configuration at the next start: b2. Do not start these brokers before" in message
    assert message.endswith(
        "This run has not started or restarted these brokers, and they keep the new configuration: applied. "
        "All other brokers of this run have their earlier configuration. Correct the cause on b1, and run the playbook "
        "site again."
    )
    restored = {host: hosts.has_earlier_configuration(host) for host in ("running", "stopped", "applied")}
    assert restored == {"running": True, "stopped": True, "applied": False}


def test_failed_first_start_after_adoption_names_return_to_old_brokers(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    hosts.install = "none"
    hosts.add("b1", pid=None, read=False, is_new=True)
    hosts.add("b2", pid=None, read=False, is_new=True)
    message = hosts.roll_back()
    assert message.endswith(
        "They read the present configuration at the next start: b2. Do not start these brokers before the playbook "
        "site has run again. Correct the cause on b1, and run the playbook site again. If these brokers were adopted, "
        "you can instead return to the old brokers: `activemq-fleet help adopting 5. Deploy it` lists the commands."
    )


def test_failed_start_names_all_brokers_that_keep_new_configuration(hosts: Hosts) -> None:
    hosts.add("b1", pid=None, read=False)
    hosts.add("done", pid=9, read=True)
    hosts.add("unplanned", pid=10, read=True)
    hosts.add("unplanned-and-unchanged", pid=11, read=True, unchanged=True)
    hosts.unplanned = {"unplanned", "unplanned-and-unchanged"}
    hosts.variables["b1"]["__activemq_next_step"] = {"progress": {"done": ["done"]}}
    message = hosts.roll_back()
    assert (
        "This run started these brokers before, and they keep the new configuration: done. This run has not started or "
        "restarted these brokers, and they keep the new configuration: applied, unplanned. All other brokers"
    ) in message


def test_lost_host_prevents_no_rollback_of_other_brokers(hosts: Hosts) -> None:
    hosts.variables["running"] |= UNREACHABLE
    hosts.add("damaged", pid=9, read=False)
    hosts.variables["damaged"]["__activemq_broker_state"]["previous"] = "removed"
    hosts.add("b1", pid=None, read=False)
    assert "The rollback failed on these hosts, which still have the new configuration" in (
        message := hosts.roll_back()
    )
    assert "at the next start: running, damaged. Do not start these brokers before" in message
    assert "no earlier configuration" not in message
    restored = {host: hosts.has_earlier_configuration(host) for host in hosts.variables}
    assert restored == {"running": False, "stopped": True, "applied": False, "damaged": False, "b1": True}


def test_failed_rollback_of_failed_broker_is_reported_with_other_brokers(hosts: Hosts) -> None:
    hosts.add("b1", pid=7, read=False)
    hosts.variables["b1"]["__activemq_broker_state"]["previous"] = "removed"
    message = hosts.roll_back()
    assert message.startswith("b1 did not become ready: its port is taken. No other broker was started or restarted.")
    assert "read it at the next start: b1. Do not start these brokers" in message
    assert hosts.has_earlier_configuration("stopped")
