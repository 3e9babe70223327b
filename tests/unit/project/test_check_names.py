"""The check of names reports modules and classes of the project that have the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_names import find_problems


def write_modules(root: Path, *names: str, content: str = "") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_check_names_reports_third_module_with_same_name(tmp_path: Path) -> None:
    write_modules(tmp_path, "src/a/drill.py", "plugins/module_utils/drill.py")
    assert find_problems(tmp_path) == []
    write_modules(tmp_path, "agent/drill.py")
    (problem,) = find_problems(tmp_path)
    assert problem.startswith(
        "3 modules are named drill: src/a/drill.py, plugins/module_utils/drill.py, agent/drill.py"
    )


def test_check_names_reports_second_class_with_same_name(tmp_path: Path) -> None:
    write_modules(tmp_path, "src/a.py", "agent/b.py", content="class Link:\n    class Options: ...\n")
    assert [problem.partition(";")[0] for problem in find_problems(tmp_path)] == [
        "2 classes are named Link: src/a.py:1, agent/b.py:1",
        "2 classes are named Options: src/a.py:2, agent/b.py:2",
    ]


@pytest.mark.parametrize(
    ("names", "content"),
    [
        (("src/a/__init__.py", "src/b/__init__.py", "agent/__init__.py"), ""),
        (("src/drill.py", "src/a/drill.py", "plugins/action/drill.py", "plugins/modules/drill.py"), ""),
        (("plugins/action/a.py", "plugins/action/b.py"), "class ActionModule: ...\n"),
    ],
    ids=["packages", "plugins", "class_of_plugins"],
)
def test_check_names_accepts_names_that_python_and_ansible_require(
    tmp_path: Path, names: tuple[str, ...], content: str
) -> None:
    write_modules(tmp_path, *names, content=content)
    assert find_problems(tmp_path) == []


def test_check_names_ignores_symbolic_links(tmp_path: Path) -> None:
    write_modules(tmp_path, "plugins/module_utils/node/a.py", content="class A: ...\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "node").symlink_to(tmp_path / "plugins" / "module_utils" / "node")
    (tmp_path / "src" / "a.py").symlink_to(tmp_path / "plugins" / "module_utils" / "node" / "a.py")
    assert find_problems(tmp_path) == []
