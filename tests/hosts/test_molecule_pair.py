"""The scenario ``pair``: the installation of two systemd hosts, two faults, and a second converge."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosts.machines import Rack
from tests.hosts.playbooks import environment
from tests.situations import in_every_situation

Molecule = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def scenario_rack(machines_supported: None, tmp_path: Path) -> Iterator[Rack]:
    """Provide the machines that molecule starts; stop them even if molecule is killed."""
    with Rack(tmp_path / "rack") as rack:
        yield rack


@pytest.fixture
def molecule(scenario_rack: Rack, repository: Path) -> Molecule:
    """Return a function that runs molecule with a directory of this test.

    ``FLEET_PAIR_INSTALL`` selects what molecule installs.
    """

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "molecule", *arguments, "--scenario-name", "pair"],
            cwd=repository,
            env=environment(repository, scenario_rack),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    return run


@in_every_situation
def test_molecule_pair_survives_faults_and_second_converge_changes_nothing(
    molecule: Molecule, scenario_rack: Rack
) -> None:
    tested = molecule("test", "--destroy=never")
    # pytest shows the output if the test fails, and with -rP. It contains the seconds of both takeovers.
    print(tested.stdout)
    if tested.returncode and scenario_rack.state.exists():
        print(*(f"{machine.name}:\n{machine.journal('activemq')[-8000:]}" for machine in scenario_rack.machines))
    assert tested.returncode == 0
    # Molecule skips a playbook that it does not find, and reports success.
    assert tested.stdout.count("took over") == 2
    destroyed = molecule("destroy")
    assert destroyed.returncode == 0, destroyed.stdout
    assert not scenario_rack.state.exists()
