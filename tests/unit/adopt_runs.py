"""Runs of the command adopt."""

from __future__ import annotations

from pathlib import Path

from activemq_fleet.cli.main import main
from tests.unit.adopt_files import document

HANDWRITTEN = document("", brokerName="hand")


def run_adopt(*arguments: object) -> int:
    """Run adopt and return its exit status."""
    return main(["adopt", *map(str, arguments)])


def snapshot(root: Path) -> dict[str, bytes]:
    """Return the content of each file below a directory, by its relative path."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
