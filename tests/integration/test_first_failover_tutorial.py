"""The commands of the first tutorial, on real brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.situations import in_every_situation
from tests.support.command_blocks import read_page, run_lab_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-failover.md"


@in_every_situation
@pytest.mark.timeout(3000)
def test_first_failover_tutorial_works_as_written(tmp_path: Path) -> None:
    page = read_page(PAGE)

    run_lab_page(page, tmp_path)

    assert page.excluded == ()
    assert (tmp_path / "out" / "fleet.svg").is_file()
    assert (tmp_path / "drill.html").is_file()
