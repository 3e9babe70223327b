"""The list of the longest test files names existing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.order import LONGEST

TESTS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", LONGEST)
def test_each_listed_test_file_exists(name: str) -> None:
    assert (TESTS / name).is_file()
