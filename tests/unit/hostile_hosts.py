"""A hostile managed host: its Python interpreter edits the output of Ansible's modules."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

_PROGRAM = """\
#!{python}
import subprocess, sys
module = subprocess.run([{python!r}, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
printed = module.stdout
for before, after in {edits!r}.items():
    if before in printed:
        printed = printed.replace(before, after, 1)
        with open({reached!r}, "a") as file:
            file.write(before + "\\n")
sys.stdout.write(printed)
sys.exit(module.returncode)
"""


class HostilePython:
    """An interpreter for ``ansible_python_interpreter`` that replaces texts in the output of modules.

    ``reached`` is the file to which it adds a line for each text that it has replaced.
    """

    def __init__(self, directory: Path, edits: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path, self.reached = directory / "python", directory / "reached"
        self.path.write_text(_PROGRAM.format(python=sys.executable, edits=dict(edits), reached=str(self.reached)))
        self.path.chmod(0o755)

    @classmethod
    def with_facts(cls, directory: Path, facts: Mapping[str, object]) -> HostilePython:
        """Return an interpreter that adds facts to the output of ``setup``."""
        return cls(directory, {'"ansible_facts": {': f'"ansible_facts": {{{json.dumps(facts)[1:-1]}, '})

    @classmethod
    def with_results(cls, directory: Path, key: str, results: Mapping[str, object]) -> HostilePython:
        """Return an interpreter that inserts results before a key of a module's output."""
        return cls(directory, {f'"{key}": ': f'{json.dumps(results)[1:-1]}, "{key}": '})

    def edits_made(self) -> int:
        """Return how many texts have been replaced so far."""
        return len(self.reached.read_text().splitlines()) if self.reached.exists() else 0
