"""The Molecule scenario that users copy as described in ``docs/molecule.md``, with real brokers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.situations import in_every_situation
from tests.support.command_blocks import Command, read_section, run_command

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "molecule.md"
INVENTORY = """\
all:
  hosts:
    orders-mq01-a.example.com:
    orders-mq01-b.example.com:
  vars:
    activemq_release: 6.3.1
    activemq_fence: guard
    activemq_users: [{name: app, password: s3cret-of-the-app, groups: [apps]}]
"""


def molecule(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "MOLECULE_EPHEMERAL_DIRECTORY": str(project / "ephemeral"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible" / "collections"),
        "NO_COLOR": "1",
    }
    command = [sys.executable, "-m", "molecule", *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (copy,) = read_section(PAGE, "2. Copy the scenario").steps
    assert isinstance(copy, Command)
    assert read_section(PAGE, "4. Run it").steps == (Command("molecule test\n", None),)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".ansible").symlink_to(ROOT / ".ansible")
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run_command(copy, tmp_path, os.environ | {"HOME": str(home), "PATH": programs})
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(INVENTORY)
    return tmp_path


@in_every_situation
@pytest.mark.timeout(1200)
def test_copied_molecule_scenario_kills_broker_and_loses_no_message(project: Path) -> None:
    test = molecule(project, "test")
    output = re.sub(r"\s*\n\s*│\s*", " ", test.stdout + test.stderr)
    assert test.returncode == 0, output[-6000:]
    assert "Nothing was lost: 1 fault" in output
    assert re.search(r"actions=8 +successful=8", output)
    assert not (project / "ephemeral" / "lab").exists()


@pytest.mark.timeout(600)
def test_create_of_copied_molecule_scenario_fails_at_invalid_variable(project: Path) -> None:
    inventory = project / "inventory" / "hosts.yml"
    inventory.write_text(INVENTORY.replace("activemq_fence: guard", "activemq_fence: sheep"))
    create = molecule(project, "create")
    output = re.sub(r"\s*\n\s*│\s*", " ", create.stdout + create.stderr)
    assert create.returncode != 0
    assert "activemq_fence" in output
    assert "Traceback" not in output
