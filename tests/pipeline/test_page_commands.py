"""The commands of pages about Spark work as the pages show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_blocks import read_page, run_page
from tests.support.documentation_pages import ON_SPARK, PAGES, REPOSITORY, pages_of


@pytest.mark.parametrize("page", pages_of(ON_SPARK))
def test_commands_of_page_print_shown_output(page: str, tmp_path: Path) -> None:
    PAGES[page].prepare(tmp_path)

    run_page(read_page(REPOSITORY / page), tmp_path)
