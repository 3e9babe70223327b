"""The files of a release, without the checkout, on two systemd hosts: the first pair, and the Molecule kit."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.hosts.first_pair_page import HOSTS, SHARE, check_first_pair
from tests.hosts.machines import Rack
from tests.hosts.page_pair import HOSTS as NODES
from tests.hosts.page_pair import inventory_of
from tests.hosts.reader_shell import ReaderShell
from tests.situations import in_every_situation
from tests.support.command_blocks import Command, read_section
from tests.support.installed_packages import DOCS, ROOT, InstalledPackages, install_packages

pytestmark = in_every_situation
_PRINT_MODULE_PATHS = (
    "import activemq_agent, activemq_fleet; print(activemq_agent.__file__, activemq_fleet.__file__, sep='\\n')"
)


@pytest.fixture(scope="module")
def installed(machines_supported: None, tmp_path_factory: pytest.TempPathFactory) -> InstalledPackages:
    return install_packages(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def shell(installed: InstalledPackages, rack: Rack, tmp_path: Path) -> ReaderShell:
    """Return a shell in an empty directory, whose variables do not name the checkout; both hosts are new."""
    rack.down()
    rack.up(HOSTS, shares=[SHARE], owner=os.getpid())
    shell = ReaderShell(installed.variables, rack, HOSTS, tmp_path)
    assert [name for name, value in shell.variables.items() if str(ROOT) in value] == []
    return shell


def check_module_paths(shell: ReaderShell, environment: Path, collection: Path) -> None:
    """Check that the library, the agent and the collection are those of the release."""
    for file in shell(f'python -c "{_PRINT_MODULE_PATHS}"').split():
        assert Path(file).is_relative_to(environment)
    documentation = json.loads(shell("ansible-doc --json activemq.fleet.broker_info"))
    assert Path(documentation["activemq.fleet.broker_info"]["doc"]["filename"]).is_relative_to(collection)


@pytest.mark.timeout(3000)
def test_first_pair_tutorial_works_with_wheels(installed: InstalledPackages, rack: Rack, shell: ReaderShell) -> None:
    check_module_paths(shell, installed.environment, installed.environment)
    check_first_pair(rack, shell)


@pytest.mark.timeout(3000)
def test_first_pair_tutorial_works_with_archive(installed: InstalledPackages, rack: Rack, shell: ReaderShell) -> None:
    collection = installed.install_collection()
    check_module_paths(shell, installed.environment, collection)
    check_first_pair(rack, shell)


def write_project(shell: ReaderShell, **variables: object) -> None:
    """Copy the scenario as the page shows it, and write an inventory of both hosts."""
    copy, _ = read_section(DOCS / "molecule.md", "Test hosts with systemd").steps
    assert isinstance(copy, Command)
    shell(copy.line)
    inventory = json.loads(inventory_of("6.3.1"))
    inventory["all"]["vars"] |= variables
    (shell.directory / "inventory").mkdir()
    (shell.directory / "inventory" / "hosts.yml").write_text(json.dumps(inventory))


def run_molecule(shell: ReaderShell, rack: Rack) -> subprocess.CompletedProcess[str]:
    """Run the command of the page on a controller that can connect to the brokers."""
    _, test = read_section(DOCS / "molecule.md", "Test hosts with systemd").steps
    assert isinstance(test, Command)
    return subprocess.run(
        rack.lan.inside("bash", "-ec", test.line),
        cwd=shell.directory,
        env=dict(shell.variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def unwrapped_output(molecule_run: subprocess.CompletedProcess[str]) -> str:
    """Return the output without the line breaks in Molecule's frames."""
    return re.sub(r"\s*\n\s*│\s*", " ", molecule_run.stdout)


@pytest.mark.timeout(3000)
def test_molecule_kit_installs_drills_and_removes_brokers(
    installed: InstalledPackages, rack: Rack, tmp_path: Path
) -> None:
    installed.install("molecule")
    rack.down()
    rack.up(NODES, shares=[SHARE], owner=os.getpid())
    shell = ReaderShell(installed.variables, rack, NODES, tmp_path)
    write_project(shell, activemq_drill_allowed=True)

    test = run_molecule(shell, rack)

    assert test.returncode == 0, test.stdout[-8000:]
    assert "Nothing was lost: 1 fault" in unwrapped_output(test)
    assert (tmp_path / "drill.html").exists()
    for host in NODES:
        assert "activemq" not in rack[host].run("ls", "/opt", "/etc/systemd/system")
        assert rack[host].run("systemctl", "is-system-running").strip() == "running"
        assert rack[host].run("find", f"{SHARE}/orders-mq01", "-mindepth", "1") == ""


@pytest.mark.timeout(1200)
def test_molecule_kit_refuses_hosts_that_are_not_for_tests(
    installed: InstalledPackages, rack: Rack, tmp_path: Path
) -> None:
    installed.install("molecule")
    rack.up(NODES, shares=[SHARE], owner=os.getpid())
    shell = ReaderShell(installed.variables, rack, NODES, tmp_path)
    write_project(shell)

    test = run_molecule(shell, rack)

    assert test.returncode != 0
    assert "this scenario removes the broker and its messages" in unwrapped_output(test)
    assert "TASK [Find the units]" not in test.stdout
