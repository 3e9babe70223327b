"""What is said of test files is said of files that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.order import APART, LONGEST

TESTS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted({*LONGEST, *APART}))
def test_a_file_that_is_named_is_there(name: str) -> None:
    assert (TESTS / name).is_file()


@pytest.mark.parametrize("name", APART)
def test_a_file_whose_tests_run_apart_has_nothing_that_they_share(name: str) -> None:
    assert "scope=" not in (TESTS / name).read_text()
