"""The programs that are installed on hosts as one file hold every module that they import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.activemq.fleet.plugins.module_utils.node.fence import program as guard
from ansible_collections.activemq.fleet.plugins.module_utils.node.watchdog import program as watchdog


@pytest.mark.parametrize("program", [guard.program, watchdog.program])
def test_a_packed_program_starts_where_nothing_else_is_installed(
    program: Callable[[str], bytes], tmp_path: Path
) -> None:
    # The interpreter of no virtual environment, so that this project cannot be imported from anywhere else.
    python = getattr(sys, "_base_executable", sys.executable)
    path = tmp_path / "program"
    path.write_bytes(program(python))
    path.chmod(0o700)
    done = subprocess.run([str(path), "--help"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--" in done.stdout
