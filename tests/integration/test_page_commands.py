"""The commands of how-to pages that validate files print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_blocks import read_page, run_lab_page
from tests.support.documentation_pages import PAGES, REPOSITORY, WITH_SCHEMAS, pages_of


@pytest.mark.timeout(3600)  # a page of an example starts brokers
@pytest.mark.parametrize("page", pages_of(WITH_SCHEMAS))
def test_commands_of_page_print_shown_output(page: str, tmp_path: Path) -> None:
    PAGES[page].prepare(tmp_path)

    run_lab_page(read_page(REPOSITORY / page), tmp_path)
