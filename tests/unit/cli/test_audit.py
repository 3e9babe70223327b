"""``audit`` on the command line: its summary, and the arguments that it refuses before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from activemq_fleet.cli.audit import _summary
from activemq_fleet.cli.main import main

RESULT: dict[str, Any] = {
    "verdict": "incomplete",
    "inputs": {"logs": 2, "journals": 1, "hosts": 3},
    "gaps": [
        {"host": "a", "file": "activemq.log", "line": 7, "what": "the file is cut off", "weighs": True},
        {"host": "b", "file": None, "line": None, "what": "1 of 900 records could not be read", "weighs": False},
    ],
    "unexplained": [{"host": "c", "level": "WARN", "message": "The frob is late", "count": 7}],
    "counts": {
        "events": 12345,
        "incidents": {"failed_takeover": 1, "takeover": 2},
        "planned": 0,
        "unexplained": 7,
        "messages": {"delivered": 9, "lost": 1},
        "bridges": {},
    },
}


def test_audit_summary_names_verdict_incidents_events_and_gaps() -> None:
    summary = _summary(RESULT, "/out")

    for part in ("incomplete", "12,345 records", "1 failed takeover, 2 takeover", "9 delivered, 1 lost", "/out/report"):
        assert part in summary, f"the summary does not contain {part}"
    assert "a/activemq.log: the file is cut off" in summary
    assert "others     7 unexplained warnings and errors" in summary
    assert "c: 7 × WARN “The frob is late”" in summary
    assert "900" not in summary  # a gap that does not weigh


@pytest.mark.parametrize(("all_gaps", "more"), [(30, "and 15 more"), (31, "and at least 15 more")])
def test_audit_summary_states_whether_audit_json_lists_all_gaps(all_gaps: int, more: str) -> None:
    result = {**RESULT, "gaps": RESULT["gaps"][:1] * 30, "counts": {**RESULT["counts"], "gaps": all_gaps}}

    assert f"missing    … {more}, in /out/audit.json" in _summary(result, "/out")


def test_audit_refuses_option_until_idle_without_follow(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--logs", "x", "-o", "y", "--until-idle", "3"]) == 2
    assert "--follow" in capsys.readouterr().err


def test_audit_help_does_not_load_spark() -> None:
    code = (
        "import sys; from activemq_fleet.cli.main import main; main(['audit', '--help']);"
        "sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
