"""The documentation keeps up with the code."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_topology_error_has_its_row() -> None:
    sources = (REPOSITORY / "src" / "activemq_fleet" / "topology").glob("*.py")
    fired = {rule for source in sources for rule in re.findall(r'"(T\d{3})"', source.read_text())}
    told = set(re.findall(r"^\| (T\d{3}) \|", (REPOSITORY / "docs" / "topology-errors.md").read_text(), re.MULTILINE))

    assert fired == told
