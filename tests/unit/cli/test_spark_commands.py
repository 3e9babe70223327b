"""Usage errors of ``plan``, ``drift`` and ``audit`` before Spark starts, and the commands that spark-submit accepts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.spark import submit

PLAN = ["plan", "-o", "out"]
DRIFT = ["drift", "--planned", "x", "--found", "y", "-o", "out"]
AUDIT = ["audit", "--logs", "x", "-o", "out"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (PLAN, "--hosts FILE or -i INVENTORY"),
        ([*PLAN, "--hosts", "x", "-i", "y"], "--hosts FILE or -i INVENTORY"),
        ([*PLAN, "--hosts", "x", "--since", "y", "--anew"], "--since and --anew cannot be used together"),
        ([*PLAN, "--hosts", "x", "--largest", "1"], "--largest"),
        ([*PLAN, "--hosts", "x", "--conf", "nonsense"], "the value must have the form NAME=VALUE"),
        (["drift", "--planned", "x", "-o", "out"], "--found"),
        ([*DRIFT, "--master", "local", "--remote", "sc://x"], "--master and --remote cannot be used together"),
        ([*AUDIT, "--skew", "-1"], "--skew"),
        ([*AUDIT, "--format", "xml"], "--format"),
        (["audit", "--logs", "x"], "--output"),
    ],
)
def test_wrong_usage_of_spark_command_is_single_line_and_exits_with_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(words) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n"), list(tmp_path.iterdir())) == ("", 1, [])


@pytest.mark.parametrize("name", ["plan", "drift"])
def test_help_of_plan_and_drift_does_not_load_spark(name: str) -> None:
    code = (
        f"import sys; from activemq_fleet.cli.main import main; main(['{name}', '--help']);"
        "sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_spark_submit_rejects_command_that_does_not_run_on_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.spark_application_main(["check", "-i", "x"]) == 2
    assert "the command check does not run on Spark: use one of plan, drift, audit" in capsys.readouterr().err
    assert submit.spark_application_main(["audit", "--logs", "x"]) == 2
    assert "--output" in capsys.readouterr().err


def test_spark_submit_entry_point_prints_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.spark_application_main([]) == 0
    assert Path(capsys.readouterr().out.strip()).name == "submit.py"
