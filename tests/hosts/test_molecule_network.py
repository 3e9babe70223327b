"""The scenario ``network``: operations on two pairs of one group under the load of agents.

``FLEET_NETWORK=upgrade`` upgrades the pairs once with the playbooks of the scenario. ``FLEET_NETWORK=full``, as in
``make test-full``, runs the scenario: a restart, a switchover and two upgrades, from 5.17.6. ``make test`` has no time
for four machines and four agents: it tests the same operations on one pair (``test_restart.py``, ``test_upgrade.py``).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hosts import load
from tests.hosts.machines import Rack
from tests.hosts.playbooks import environment

SIZE = os.environ.get("FLEET_NETWORK", "")
FULL = SIZE == "full"
RELEASES = ("5.17.6", "5.18.3", "6.3.1") if FULL else ("5.18.3", "6.3.1")


@dataclass(frozen=True, slots=True)
class Scenario:
    """The scenario of a checkout, and the rack of this test."""

    repository: Path
    rack: Rack

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        variables = {
            "FLEET_NETWORK_RELEASES": " ".join(RELEASES),
            "FLEET_NETWORK_MORE": "side_effect upgrade.yml",
        }
        completed = subprocess.run(
            command,
            cwd=self.repository,
            env=environment(self.repository, self.rack) | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        # pytest shows the output if the test fails, and with -rP. It contains the interruptions of every pair.
        print(completed.stdout)
        return completed

    def molecule(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "molecule", *arguments, "--scenario-name", "network")

    def play(self, playbook: str) -> str:
        """Run a playbook of the scenario as molecule would; return its output."""
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        directory = self.repository / "molecule/network"
        completed = self.run(program, f"--inventory={directory}/inventory", str(directory / f"{playbook}.yml"))
        assert completed.returncode == 0, f"{playbook} failed"
        return completed.stdout


@pytest.fixture
def scenario(machines_supported: None, repository: Path, tmp_path: Path) -> Iterator[Scenario]:
    """Provide the machines and the load; stop both even if a run is killed."""
    with Rack(tmp_path / "rack") as rack:
        try:
            yield Scenario(repository, rack)
        finally:
            load.main(["stop", f"{rack.state}.load"])


def measured_operations(output: str) -> list[str]:
    """Return the operations under load, in order. Molecule skips a playbook that it does not find."""
    return re.findall(r"measured: (\S+)", output)


def upgrade_once(scenario: Scenario) -> None:
    for playbook in ("create", "converge", "load"):
        scenario.play(playbook)
    assert measured_operations(scenario.play("upgrade")) == [f"upgrade-{RELEASES[-1]}"]
    again = scenario.play("converge")
    assert again.count("changed=0 ") == again.count("changed=")
    scenario.play("verify")
    assert "settled:" in scenario.play("settle")


def run_full_scenario(scenario: Scenario) -> None:
    tested = scenario.molecule("test", "--destroy=never")
    if tested.returncode and scenario.rack.state.exists():
        print(*(f"{machine.name}:\n{machine.journal('activemq')[-8000:]}" for machine in scenario.rack.machines))
    assert tested.returncode == 0
    assert measured_operations(tested.stdout) == [
        "restart",
        "switchover",
        *(f"upgrade-{release}" for release in RELEASES[1:]),
    ]
    assert tested.stdout.count("settled:") == 1
    destroyed = scenario.molecule("destroy")
    assert destroyed.returncode == 0
    assert not scenario.rack.state.exists()


@pytest.mark.skipif(not SIZE, reason="the test of two pairs takes long: set FLEET_NETWORK to upgrade or full")
@pytest.mark.timeout(3600)
def test_molecule_network_upgrades_two_pairs_under_load_without_loss(scenario: Scenario) -> None:
    (run_full_scenario if FULL else upgrade_once)(scenario)
