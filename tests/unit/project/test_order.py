"""What is said of test files is said of files that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.order import LONGEST

TESTS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", LONGEST)
def test_a_file_that_is_named_is_there(name: str) -> None:
    assert (TESTS / name).is_file()
