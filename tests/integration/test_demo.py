"""The demo tells the truth: it ends well only when nothing was lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.once
def test_the_demo_kills_a_master_and_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "activemq_fleet.lab.demo", "--output", str(tmp_path / "demo")]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    table = [line.split() for line in done.stdout.splitlines() if line.startswith(("MQTT", "STOMP"))]
    assert [row[0] for row in table] == ["MQTT", "STOMP"]
    for _, accepted, delivered, lost, *_ in table:
        assert int(accepted) == int(delivered) >= 600
        assert lost == "0"
    assert (tmp_path / "demo" / "fleet" / "fleet.svg").is_file()
