"""The examples against the real schemas, taken from the releases' own jars."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from activemq_fleet.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# The releases that an example is meant for, one of each schema that differs.
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
def test_every_document_is_valid_for_its_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, release: str
) -> None:
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".secrets"))
    # L004 tells of what no setting of 5.5 to 5.8 mends, and the example is for newer ones too; T030 of an archive,
    # which an example leaves to who installs it.
    code = main(["check", "-i", str(tmp_path / name), "-e", f"activemq_release={release}", "--ignore", "L004,T030"])
    out, err = capsys.readouterr()
    assert code == 0
    assert " hosts: 0 errors, 0 warnings, " in out.splitlines()[-1]
    assert "warning" not in err
