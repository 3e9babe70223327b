"""Use of the files of a release on another machine, without the checkout."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.situations import in_every_situation
from tests.support.command_blocks import Command, Page, read_page, read_section, run_command, run_page, run_steps
from tests.support.installed_packages import (
    DOCS,
    ROOT,
    InstalledPackages,
    install_packages,
    variables_without_checkout,
)

TYPES = {"modules": "module", "filter": "filter", "test": "test", "inventory": "inventory", "callback": "callback"}
"""Types of ansible-doc by the directory of the plugins."""

pytestmark = in_every_situation


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledPackages:
    packages = install_packages(tmp_path_factory.mktemp("packages"))
    packages.install("molecule")
    return packages


def run_installed(installed: InstalledPackages, directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    program = str(installed.environment / "bin" / command[0])
    return subprocess.run(
        [program, *command[1:]],
        cwd=directory,
        env=installed.variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(3600)
def test_install_page_works_from_files_of_release_alone(tmp_path: Path) -> None:
    checkout, reader, home = tmp_path / "checkout", tmp_path / "reader", tmp_path / "home"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)
    reader.mkdir()
    home.mkdir()
    steps = read_page(DOCS / "install.md").steps
    needs_checkout = [isinstance(step, Command) and "make package" in step.line for step in steps]
    assert needs_checkout.index(True) == 0

    for step, in_checkout in zip(steps, needs_checkout, strict=True):
        if in_checkout:
            run_page(Page((step,), ()), checkout)
        else:
            run_steps(Page((step,), ()), reader, variables_without_checkout(home))
        if not (reader / "dist").exists():
            (checkout / "dist").rename(reader / "dist")


@pytest.mark.timeout(1200)
def test_ansible_doc_documents_every_plugin_of_wheel(installed: InstalledPackages, tmp_path: Path) -> None:
    for directory, kind in TYPES.items():
        files = [path.stem for path in (ROOT / "plugins" / directory).glob("*.py") if path.stem != "__init__"]
        names = sorted(f"activemq.fleet.{name}" for name in files)
        listing = run_installed(installed, tmp_path, "ansible-doc", "--json", "--type", kind, *names)
        assert listing.returncode == 0, listing.stderr
        documented = json.loads(listing.stdout)
        assert sorted(documented) == names
        for name, documentation in documented.items():
            assert Path(documentation["doc"]["filename"]).is_relative_to(installed.environment), name


@pytest.mark.timeout(1200)
def test_ansible_doc_documents_every_role_of_wheel(installed: InstalledPackages, tmp_path: Path) -> None:
    names = sorted(f"activemq.fleet.{path.name}" for path in (ROOT / "roles").iterdir())
    listing = run_installed(installed, tmp_path, "ansible-doc", "--json", "--type", "role", *names)
    assert listing.returncode == 0, listing.stderr
    assert sorted(json.loads(listing.stdout)) == names


@pytest.mark.timeout(3000)
def test_first_failover_tutorial_works_with_built_packages(installed: InstalledPackages, tmp_path: Path) -> None:
    try:
        run_steps(read_page(DOCS / "first-failover.md"), tmp_path, installed.variables)
    finally:
        run_installed(installed, tmp_path, "activemq-fleet", "lab", "down", "-i", "hosts.yml")


@pytest.mark.timeout(3000)
def test_molecule_kit_works_with_built_packages(installed: InstalledPackages, tmp_path: Path) -> None:
    (copy,) = read_section(DOCS / "molecule.md", "2. Copy the scenario").steps
    assert isinstance(copy, Command)
    run_command(copy, tmp_path, installed.variables)
    inventory = read_page(DOCS / "first-failover.md").steps[0]
    assert not isinstance(inventory, Command)
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(inventory[1])

    test = run_installed(installed, tmp_path, "molecule", "test")

    output = re.sub(r"\s*\n\s*│\s*", " ", test.stdout + test.stderr)
    assert test.returncode == 0, output[-6000:]
    assert "Nothing was lost: 1 fault" in output
