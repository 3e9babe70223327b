"""The commands and the inventory of the README work unedited."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_blocks import read_page, run_lab_page

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.timeout(3000)
def test_commands_of_the_readme_work_as_written(tmp_path: Path) -> None:
    page = read_page(README)

    run_lab_page(page, tmp_path)

    assert len(page.excluded) == 2
    assert len([*(tmp_path / "out").rglob("activemq.xml")]) == 2
