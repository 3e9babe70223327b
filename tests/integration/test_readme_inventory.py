"""The commands and the inventory of the README work unedited."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from tests.support.command_blocks import read_page, run_page

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.timeout(3000)
def test_commands_of_the_readme_work_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = read_page(README)

    try:
        run_page(page, tmp_path)
    finally:
        main(["lab", "down", "-i", "hosts.yml"])

    assert len(page.excluded) == 2
    assert len([*(tmp_path / "out").rglob("activemq.xml")]) == 2
