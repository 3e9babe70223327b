"""The scenario ``pair``: two systemd hosts, installed, struck and converged again."""

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
    """The machines that molecule starts; they go down even if molecule itself is killed."""
    with Rack(tmp_path / "rack") as rack:
        yield rack


@pytest.fixture
def molecule(scenario_rack: Rack, repository: Path) -> Molecule:
    """Runs molecule with a directory of this test's own. What is installed is up to FLEET_PAIR_INSTALL."""

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
def test_a_pair_survives_both_faults_and_a_second_converge_changes_nothing(
    molecule: Molecule, scenario_rack: Rack
) -> None:
    tested = molecule("test", "--destroy=never")
    # Shown when the test fails, and with -rP: it has the seconds of both take-overs.
    print(tested.stdout)
    if tested.returncode and scenario_rack.state.exists():
        print(*(f"{machine.name}:\n{machine.journal('activemq')[-8000:]}" for machine in scenario_rack.machines))
    assert tested.returncode == 0
    # Molecule passes over a playbook that it does not find, and calls that a success.
    assert tested.stdout.count("took over") == 2
    destroyed = molecule("destroy")
    assert destroyed.returncode == 0, destroyed.stdout
    assert not scenario_rack.state.exists()
