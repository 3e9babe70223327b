"""The built wheels, without the checkout: what a user does with them on a machine of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.situations import in_every_situation
from tests.support.installed_packages import ROOT, InstalledPackages, install_packages

TYPES = {"modules": "module", "filter": "filter", "test": "test", "inventory": "inventory", "callback": "callback"}
"""Directory of plugins -> the type of ansible-doc."""

pytestmark = in_every_situation


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledPackages:
    return install_packages(tmp_path_factory.mktemp("packages"))


def run(installed: InstalledPackages, directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
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


@pytest.mark.timeout(1200)
def test_ansible_doc_documents_every_plugin_of_wheel(installed: InstalledPackages, tmp_path: Path) -> None:
    for directory, kind in TYPES.items():
        files = [path.stem for path in (ROOT / "plugins" / directory).glob("*.py") if path.stem != "__init__"]
        names = sorted(f"activemq.fleet.{name}" for name in files)
        shown = run(installed, tmp_path, "ansible-doc", "--json", "--type", kind, *names)
        assert shown.returncode == 0, shown.stderr
        documented = json.loads(shown.stdout)
        assert sorted(documented) == names
        for name, entry in documented.items():
            assert Path(entry["doc"]["filename"]).is_relative_to(installed.environment), name


@pytest.mark.timeout(1200)
def test_ansible_doc_documents_every_role_of_wheel(installed: InstalledPackages, tmp_path: Path) -> None:
    names = sorted(f"activemq.fleet.{path.name}" for path in (ROOT / "roles").iterdir())
    shown = run(installed, tmp_path, "ansible-doc", "--json", "--type", "role", *names)
    assert shown.returncode == 0, shown.stderr
    assert sorted(json.loads(shown.stdout)) == names
