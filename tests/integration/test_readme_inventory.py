"""The inventory of the README works unedited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return the first YAML block of the README as a file."""
    match = re.search(r"```yaml\n(all:\n.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert match
    path = tmp_path / "inventory" / "hosts.yml"
    path.parent.mkdir()
    path.write_text(match[1])
    return path


def test_inventory_of_the_readme_is_checked_and_rendered(inventory: Path, tmp_path: Path) -> None:
    assert main(["check", "-i", str(inventory)]) == 0
    assert main(["render", "-i", str(inventory), "-o", str(tmp_path / "out")]) == 0
    assert len([*(tmp_path / "out").rglob("activemq.xml")]) == 4


@pytest.mark.timeout(600)
def test_inventory_of_the_readme_starts_in_a_lab(inventory: Path, tmp_path: Path) -> None:
    directory = str(tmp_path / "lab")
    try:
        assert main(["lab", "up", "-i", str(inventory), "--dir", directory]) == 0
    finally:
        main(["lab", "down", "--dir", directory])
