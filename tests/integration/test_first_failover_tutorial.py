"""The first tutorial works as it is written, on real brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from tests.support.command_blocks import read_page, run_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-failover.md"


@pytest.mark.timeout(3000)
def test_first_failover_tutorial_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = read_page(PAGE)

    try:
        run_page(page, tmp_path)
    finally:
        main(["lab", "down", "-i", "hosts.yml"])

    assert page.excluded == ()
    assert (tmp_path / "out" / "fleet.svg").is_file()
    assert (tmp_path / "drill.html").is_file()
