"""The demo tells the truth: it ends well only when nothing was lost, and its audit says what the lab saw."""

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
    """Where a demo wrote, and what it said."""
    output = tmp_path_factory.mktemp("run") / "demo"
    command = [sys.executable, "-m", "activemq_fleet.lab.demo", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr
    return output, done.stdout


@pytest.fixture(scope="module")
def takeovers(demo: tuple[Path, str]) -> list[Mapping[str, Any]]:
    """The take-overs that the audit found."""
    parquet = pytest.importorskip("pyarrow.parquet")
    rows: list[Mapping[str, Any]] = parquet.read_table(demo[0] / "audit" / "incidents").to_pylist()
    assert {row["kind"] for row in rows} == {"takeover"}
    return rows


@pytest.mark.timeout(1000)
def test_the_demo_kills_a_master_and_loses_nothing(demo: tuple[Path, str]) -> None:
    output, said = demo

    table = [line.split() for line in said.splitlines() if line.startswith(("MQTT", "STOMP"))]

    assert [row[0] for row in table] == ["MQTT", "STOMP"]
    for _, accepted, delivered, lost, *_ in table:
        assert int(accepted) == int(delivered) > 0  # how many, a busy machine decides
        assert lost == "0"
    assert (output / "fleet" / "fleet.svg").is_file()
    assert said.rstrip().endswith("All brokers are stopped.")
    assert "audit of the logs of brokers and the journals of agents: 1 takeover, as expected after the kill" in said


def test_its_audit_finds_the_kill_and_how_long_it_took(
    demo: tuple[Path, str], takeovers: list[Mapping[str, Any]]
) -> None:
    measured = json.loads((demo[0] / "measured.json").read_text())

    (takeover,) = takeovers

    assert takeover["host"] == measured["successor"]
    assert takeover["began_from"] == "agent"
    # The audit counts from when an agent noticed: no earlier than the kill, and on a busy machine some seconds later.
    assert 0 < takeover["seconds"] < 2 * measured["started"]
    assert measured["victim"].partition(".")[0] in takeover["cause"]


def test_its_audit_has_a_verdict_for_each_event(demo: tuple[Path, str]) -> None:
    told = json.loads((demo[0] / "audit" / "audit.json").read_text())
    accepted = next(line.split()[1] for line in demo[1].splitlines() if line.startswith("MQTT"))

    assert told["verdict"] == "findings"  # the take-over; nothing is missing
    assert told["counts"]["messages"] == {"delivered": int(accepted)}


def test_its_report_names_the_kill_the_takeover_and_the_verdicts(
    demo: tuple[Path, str], takeovers: list[Mapping[str, Any]]
) -> None:
    page = (demo[0] / "audit" / "report.html").read_text()

    assert takeovers[0]["host"].partition(".")[0] in page
    assert f"{takeovers[0]['seconds']:.1f} s" in page
    assert "kill -9" in page
    assert re.search(r"None of [\d,]+ events lost; 1 takeover", page)
