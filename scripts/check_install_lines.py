"""Report text that instructs a user to install one of this project's names from an index.

    python -m scripts.check_install_lines

The project has registered neither name in a public index, so any account could register one, and its code would run.
Every tracked text names the built files instead. The metadata of the wheels must not require the names either.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The changelog describes earlier versions, and tests contain hostile examples.
SKIPPED = ("CHANGELOG.md", "tests/", "scripts/check_install_lines.py", "requirements/")
_COMMAND = re.compile(r"\b(?:pip3?|pipx|uv pip|uv tool|uv)\s+(?:install|wheel|download|run|add)\b(?P<words>[^\n]*)")
_NAME = re.compile(r"(?<![\w./*-])activemq[-_.](?:fleet|agent)(?![\w/*-])", re.IGNORECASE)


def main() -> int:
    """Print one line for each instruction that installs by name; exit 1 if one exists."""
    problems = [*find_instructions(ROOT), *find_requirements(ROOT)]
    for problem in problems:
        print(f"install lines: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def find_instructions(root: Path) -> Iterator[str]:
    """Yield ``FILE:LINE: message`` for each command in tracked files that installs a name of this project."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        path = root / name
        if name.startswith(SKIPPED) or not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        for match in _COMMAND.finditer(text):
            if _NAME.search(match["words"]):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{name}:{line}: the command installs a name that anyone can register; name the file in dist/"


def find_requirements(root: Path) -> Iterator[str]:
    """Yield a message for each requirement in the metadata of both wheels that names a distribution of this project."""
    for name in ("pyproject.toml", "agent/pyproject.toml"):
        project = tomllib.loads((root / name).read_text("utf-8"))["project"]
        requirements = [
            *project.get("dependencies", ()),
            *chain.from_iterable(project.get("optional-dependencies", {}).values()),
        ]
        for requirement in filter(_NAME.match, requirements):
            yield f"{name}: with {requirement}, pip searches an index for the name; remove the requirement"


if __name__ == "__main__":
    sys.exit(main())
