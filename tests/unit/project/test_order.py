"""The list of the longest test files names existing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.order import LONGEST

TESTS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", LONGEST)
def test_each_test_file_in_list_of_longest_files_exists(name: str) -> None:
    assert (TESTS / name).is_file()
