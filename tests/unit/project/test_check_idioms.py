"""The check of names and idioms: the names and idioms that it reports and accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_idioms import find_problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("found = 1\n", ":1: the name found does not describe its value: "),
        ("def name(one): ...\n", ":1: the name one does not describe its value: "),
        ("names = [own for own in ()]\n", ":1: the name own does not describe its value: "),
        ("sort = lambda said: said\n", ":1: the name said does not describe its value: "),
        ("if told := 1: ...\n", ":1: the name told does not describe its value: "),
        ("try: ...\nexcept OSError as mine: ...\n", ":2: the name mine does not describe its value: "),
        ("class Broker:\n    def name(self, *, found=0): ...\n", ":2: the name found does not describe its value: "),
        ("text = 's' * bool(names)\n", ":1: 's' * bool(names) multiplies by a condition: "),
        ("text = 's' * (len(names) > 1)\n", ":1: 's' * (len(names) > 1) multiplies by a condition: "),
        ("kinds = (not flag) * [kind]\n", ":1: (not flag) * [kind] multiplies by a condition: "),
        ("node = pair[number == 2]\n", ":1: pair[number == 2] selects by a condition: "),
        ("hosts = {name: next(files) for name in names}\n", ":1: next(files) in a comprehension hides a loop: "),
        ("def fill(names: list[str]):\n    names.append('')\n", ":1: fill appends to its parameter names: "),
    ],
)
def test_check_idioms_reports_nondescriptive_name_or_idiom(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "module.py").write_text(text)
    (problem,) = find_problems(tmp_path)
    assert problem.startswith(f"module.py{message}")


@pytest.mark.parametrize(
    "text",
    [
        "class Rates:\n    found: int\n    own = 1\n",
        "print(answer.found, read(one=1))\n",
        "size = count * -1\nnode = pair[0]\n",
        "firsts = [next(name for name in names) for names in groups]\n",
        "def fill():\n    names: list[str] = []\n    names.append('')\n    return names\n",
    ],
)
def test_check_idioms_accepts_field_keyword_and_plain_expression(tmp_path: Path, text: str) -> None:
    (tmp_path / "module.py").write_text(text)
    assert find_problems(tmp_path) == []
