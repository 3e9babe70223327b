"""The check of test files: imports between them, and long names."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_tests import find_problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from tests.unit.test_status import usage\n", ":1: imports tests.unit.test_status; "),
        ("from tests.unit import test_status\n", ":1: imports tests.unit.test_status; "),
        ("import tests.unit.test_status as status\n", ":1: imports tests.unit.test_status; "),
        ("def helper():\n    from . import test_status\n", ":2: imports .test_status; "),
        (f"class TestLong:\n    def test_{'a' * 76}(self): ...\n", f":2: the name test_{'a' * 76} has 81 characters; "),
    ],
)
def test_check_tests_reports_import_of_test_file_and_long_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(text)
    (problem,) = find_problems(tmp_path)
    assert problem.startswith(f"{path}{message}")


def test_check_tests_accepts_import_of_helper_and_name_of_80_characters(tmp_path: Path) -> None:
    text = f"from tests.support.lab_status import finding_rules\nimport pytest\ndef test_{'a' * 75}(): ...\n"
    (tmp_path / "test_it.py").write_text(text)
    assert find_problems(tmp_path) == []
