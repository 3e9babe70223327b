"""Validation of the examples against the schemas from the jars of the releases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# The releases that an example supports, one for each different schema.
CASES = [
    ("ha-network-5.5", "5.5.1"),
    ("ha-network-5.5", "5.7.0"),
    ("single-machine", "5.18.3"),
    ("bridged-pairs", "5.5.1"),
    ("bridged-pairs", "5.8.0"),
    ("bridged-pairs", "5.18.3"),
    ("bridged-pairs", "6.3.1"),
    ("shared-store", "6.3.1"),
    ("two-machines", "6.3.1"),
    ("hub-and-sites", "6.3.1"),
    ("move-to-6", "5.18.3"),
    ("move-to-6", "6.3.1"),
]


@pytest.mark.parametrize(("name", "release"), CASES)
def test_check_of_example_reports_no_error_or_warning_for_its_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, release: str
) -> None:
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".secrets"))
    # L004 reports a problem that no setting of 5.5 to 5.8 fixes, and the example is also for later releases. T030
    # reports a missing archive, and an example leaves the archive to the operator.
    exit_code = main(
        ["check", "-i", str(tmp_path / name), "-e", f"activemq_release={release}", "--ignore", "L004,T030"]
    )
    output, errors = capsys.readouterr()
    assert exit_code == 0
    assert " hosts: 0 errors, 0 warnings, " in output.splitlines()[-1]
    assert "warning" not in errors
