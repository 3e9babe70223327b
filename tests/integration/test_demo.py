"""Output and audit of the demo: it succeeds only if no event was lost, and its audit matches the events in the lab."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run a demo; return the directory of its output and the text that it printed."""
    output = tmp_path_factory.mktemp("run") / "demo"
    command = [sys.executable, "-m", "activemq_fleet.lab.demo", "--output", str(output)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, cwd=REPOSITORY)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return output, completed.stdout


@pytest.fixture(scope="module")
def takeovers(demo: tuple[Path, str]) -> list[Mapping[str, Any]]:
    """Return the take-overs that the audit reported."""
    parquet = pytest.importorskip("pyarrow.parquet")
    incident_rows: list[Mapping[str, Any]] = parquet.read_table(demo[0] / "audit" / "incidents").to_pylist()
    assert {row["kind"] for row in incident_rows} == {"takeover"}
    return incident_rows


@pytest.mark.timeout(1000)
def test_demo_kills_active_broker_and_reports_no_lost_event(demo: tuple[Path, str]) -> None:
    output, printed = demo

    table = [line.split() for line in printed.splitlines() if line.startswith(("MQTT", "STOMP"))]

    assert [row[0] for row in table] == ["MQTT", "STOMP"]
    for _, accepted, delivered, lost, *_ in table:
        assert int(accepted) == int(delivered) > 0  # the number depends on the speed of the machine
        assert lost == "0"
    assert (output / "fleet" / "fleet.svg").is_file()
    assert printed.rstrip().endswith("All brokers are stopped.")
    assert "audit of the logs of brokers and the journals of agents: 1 takeover, as expected after the kill" in printed


def test_audit_of_demo_reports_takeover_with_cause_and_duration(
    demo: tuple[Path, str], takeovers: list[Mapping[str, Any]]
) -> None:
    measured = json.loads((demo[0] / "measured.json").read_text())

    (takeover,) = takeovers

    assert takeover["host"] == measured["successor"]
    assert takeover["began_from"] == "agent"
    # The audit counts from the time at which an agent detected the kill, on a busy machine some seconds after it.
    assert 0 < takeover["seconds"] < 2 * measured["started"]
    assert measured["victim"].partition(".")[0] in takeover["cause"]


def test_audit_of_demo_has_verdict_for_each_event(demo: tuple[Path, str]) -> None:
    audit = json.loads((demo[0] / "audit" / "audit.json").read_text())
    accepted = next(line.split()[1] for line in demo[1].splitlines() if line.startswith("MQTT"))

    assert audit["verdict"] == "findings"  # the take-over; no event is missing
    assert audit["counts"]["messages"] == {"delivered": int(accepted)}


def test_report_of_demo_names_kill_takeover_and_verdicts(
    demo: tuple[Path, str], takeovers: list[Mapping[str, Any]]
) -> None:
    page = (demo[0] / "audit" / "report.html").read_text()

    assert takeovers[0]["host"].partition(".")[0] in page
    assert f"{takeovers[0]['seconds']:.1f} s" in page
    assert "kill -9" in page
    assert re.search(r"None of [\d,]+ events lost; 1 takeover", page)
