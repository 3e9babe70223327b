"""Find test files that import another test file, and names of tests that are too long for a summary.

    python -m scripts.check_tests [DIRECTORY]

Code that several test files use is in a module of ``tests/support``, or in a module next to them whose name does not
begin with ``test_``. The name of a test states subject, condition and result in at most 80 characters.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_NAME_LENGTH = 80
"""The maximum number of characters of the name of a test function, ``test_`` included."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each problem; exit 1 if one exists."""
    names = arguments if arguments is not None else sys.argv[1:]
    problems = find_problems(Path(names[0]) if names else ROOT / "tests")
    for problem in problems:
        print(f"tests: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def find_problems(directory: Path) -> list[str]:
    """Return ``FILE:LINE: message`` for each problem of the Python files below ``directory``, in order of files."""
    return [
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: {message}"
        for path in sorted(directory.rglob("*.py"))
        for line, message in _problems(ast.parse(path.read_bytes(), str(path)))
    ]


def _problems(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            for module in _imported_modules(node):
                if any(part.startswith("test_") for part in module.split(".")):
                    yield node.lineno, f"imports {module}; move the imported names to a module of tests/support"
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) > MAX_NAME_LENGTH:
            yield (
                node.lineno,
                f"the name {node.name} has {len(node.name)} characters; state subject, condition and result in at most "
                f"{MAX_NAME_LENGTH}",
            )


def _imported_modules(node: ast.ImportFrom | ast.Import) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module or ''}.{alias.name}" for alias in node.names if alias.name.startswith("test_")] or [
        node.module or ""
    ]


if __name__ == "__main__":
    sys.exit(main())
