"""Comparison of generated files with golden files in the repository, so that every diff shows a change.

A test with the fixture ``golden`` calls ``golden.tree("ha-network-5.5", files)`` or
``golden.file("ha-network-5.5.svg", data)``. Only ``make golden`` writes golden files.
"""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

_HINT = "read the difference; if it is intended, run `make golden` and commit the files"
_MAX_LINES = 60


@dataclass(frozen=True, slots=True)
class Golden:
    """The golden files below ``directory``; ``update`` writes them instead of comparing them."""

    directory: Path
    update: bool

    def file(self, name: str, data: bytes | str) -> None:
        """Fail unless the golden file ``name`` contains exactly ``data``."""
        content = data.encode() if isinstance(data, str) else data
        path = self.directory / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return
        expected = path.read_bytes() if path.is_file() else None
        if expected != content:
            pytest.fail(f"{_difference(name, expected, content)}\n{_HINT}", pytrace=False)

    def tree(self, name: str, files: Mapping[str, bytes]) -> None:
        """Fail unless the golden directory ``name`` contains exactly ``files`` (path -> content)."""
        root = self.directory / name
        if self.update:
            shutil.rmtree(root, ignore_errors=True)
            for path, content in files.items():
                self.file(f"{name}/{path}", content)
            return
        expected = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        differences = [
            _difference(f"{name}/{path}", expected.get(path), files.get(path))
            for path in sorted(expected.keys() | files.keys())
            if expected.get(path) != files.get(path)
        ]
        if differences or not expected:
            report = "\n".join(differences) or f"{name}: the test generated no file"
            pytest.fail(f"{report}\n{_HINT}", pytrace=False)


def _difference(name: str, expected: bytes | None, actual: bytes | None) -> str:
    if expected is None:
        return f"{name}: the test generated a file that has no golden file"
    if actual is None:
        return f"{name}: the test did not generate the file of this golden file"
    lines = list(
        difflib.unified_diff(
            expected.decode(errors="backslashreplace").splitlines(),
            actual.decode(errors="backslashreplace").splitlines(),
            f"golden/{name}",
            f"generated/{name}",
            lineterm="",
        )
    )
    rest = [f"… {len(lines) - _MAX_LINES} more lines"] if len(lines) > _MAX_LINES else []
    return "\n".join([*lines[:_MAX_LINES], *rest])
