"""Report names of modules and classes that are ambiguous in the project.

    python -m scripts.check_names

At most two modules share a name, and the name of each class is unique. Some names are exempt, because Ansible
prescribes them: those of modules and their action plugins, and of the class in a plugin.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_MODULES = 2
"""The maximum number of modules with the same name."""
_SOURCES = ("src", "plugins", "agent")
_MODULES_OF_ANSIBLE = ("plugins/action", "plugins/doc_fragments", "plugins/modules")
_CLASSES_OF_ANSIBLE = frozenset({"ActionModule", "FilterModule", "ModuleDocFragment", "TestModule"})


def main() -> int:
    """Print one line for each problem; exit 1 if one exists."""
    problems = find_problems(ROOT)
    for problem in problems:
        print(f"names: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def find_problems(root: Path) -> list[str]:
    """Return a message for each name that too many modules or several classes below ``root`` share."""
    modules: dict[str, list[str]] = defaultdict(list)
    classes: dict[str, list[str]] = defaultdict(list)
    for path in _source_files(root):
        relative_path = path.relative_to(root).as_posix()
        if not path.stem.startswith("__") and not relative_path.startswith(_MODULES_OF_ANSIBLE):
            modules[path.stem].append(relative_path)
        for node in ast.walk(ast.parse(path.read_bytes(), relative_path)):
            if isinstance(node, ast.ClassDef) and node.name not in _CLASSES_OF_ANSIBLE:
                classes[node.name].append(f"{relative_path}:{node.lineno}")
    return [
        *_shared_names(modules, MAX_MODULES, "modules", "rename one after its content"),
        *_shared_names(classes, 1, "classes", "rename the class that fewer modules use, after its meaning"),
    ]


def _source_files(root: Path) -> list[Path]:
    """Return the Python files of the distributions in order, without symbolic links."""
    return [
        path
        for directory in _SOURCES
        for path in sorted((root / directory).rglob("*.py"))
        if not any(part.is_symlink() for part in (path, *path.parents))
    ]


def _shared_names(places_by_name: Mapping[str, Iterable[str]], limit: int, kind: str, advice: str) -> list[str]:
    return [
        f"{len(places)} {kind} are named {name}: {', '.join(places)}; {advice}"
        for name, places in sorted((name, list(places)) for name, places in places_by_name.items())
        if len(places) > limit
    ]


if __name__ == "__main__":
    sys.exit(main())
