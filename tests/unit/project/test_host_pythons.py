"""The code of managed hosts can be imported with each Python that hosts may have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.sanity import HOST_PYTHONS, find_pythons
from tests.situations import some_situations

ROOT = Path(__file__).resolve().parents[3]
INTERPRETERS = find_pythons(HOST_PYTHONS)


@some_situations(2)
@pytest.mark.parametrize("version", HOST_PYTHONS)
def test_node_code_can_be_imported_with_standard_library_only(version: str) -> None:
    if version not in INTERPRETERS:
        pytest.skip(f"Python {version} is not installed: install it")
    command = [INTERPRETERS[version], "-I", "-S", str(ROOT / "scripts" / "import_node_code.py")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
