"""``lab drill``: printed and written output, and exit status."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.drills.model import DrillResult
from activemq_fleet.errors import LabError
from activemq_fleet.lab import drill as lab_drill
from tests.unit.drilled import ACCOUNT, FAULT, result_of

CLEAN = result_of([FAULT], [ACCOUNT])
LOSSY = result_of([FAULT], [replace(ACCOUNT, lost=3, handled=997)])


def fake_drill(monkeypatch: pytest.MonkeyPatch, result: DrillResult) -> list[Any]:
    """Replace the drill by one with this result, and return the list of the options that it receives."""
    received_options: list[Any] = []

    def drill(_lab: object, options: object, _progress: object) -> DrillResult:
        received_options.append(options)
        return result

    monkeypatch.setattr(lab_drill, "run_drill", drill)
    return received_options


def test_clean_drill_exits_with_0_and_prints_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    received_options = fake_drill(monkeypatch, CLEAN)
    report = tmp_path / "drill.html"

    arguments = ["--kills", "7", "--what", "stop", "--target", "orders", "--rate", "60", "--seed", "3"]
    status = main(["lab", "drill", "-i", "hosts.yml", *arguments, "--report", str(report)])

    output = capsys.readouterr().out
    assert status == 0
    assert output.startswith(
        "Nothing was lost: 1 fault, 1,000 events accepted, each event handled once. Tested release: 6.3.1.\n"
    )
    assert "orders-mq01-b took over after 3.5 s, no event for 4.5 s" in output
    assert "orders-mq01 (MQTT): 1,000 accepted, 1,000 acknowledged, 1,000 handled, 0 lost" in output
    assert (
        "\nThe counts are test events. Stuck: in transit when the drill ended. Copies dropped: events "
        "that a broker delivered again" in output
    )
    assert "<h1>Nothing was lost" in report.read_text()
    (options,) = received_options
    assert (options.faults, options.what, options.target, options.rate, options.seed) == (7, "stop", "orders", 60, 3)


def test_drill_with_loss_exits_with_1_and_prints_loss_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_drill(monkeypatch, LOSSY)

    assert main(["lab", "drill", "-i", "hosts.yml"]) == 1
    assert capsys.readouterr().out.startswith("3 events lost: 1 fault")


def test_result_line_of_drill_names_every_tested_release_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    releases = {"orders-mq01": "6.3.1", "orders-mq02": "5.18.3", "orders-mq03": "6.3.1"}
    fake_drill(monkeypatch, replace(LOSSY, conditions=replace(LOSSY.conditions, releases=releases)))

    assert main(["lab", "drill", "-i", "hosts.yml"]) == 1
    assert capsys.readouterr().out.partition("\n")[0].endswith(" Tested releases: 5.18.3, 6.3.1.")


def test_json_output_of_drill_contains_complete_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_drill(monkeypatch, LOSSY)

    assert main(["lab", "drill", "-i", "hosts.yml", "--format", "json"]) == 1
    assert DrillResult.from_dict(json.loads(capsys.readouterr().out)) == LOSSY


def test_drill_result_is_printed_if_report_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = tmp_path / "directory" / "drill.html"
    report.parent.mkdir()

    def drill(_lab: object, _options: object, _progress: object) -> DrillResult:
        report.parent.rmdir()
        report.parent.touch()
        return LOSSY

    monkeypatch.setattr(lab_drill, "run_drill", drill)

    assert main(["lab", "drill", "-i", "hosts.yml", "--report", str(report)]) == 2
    printed = capsys.readouterr()
    assert printed.out.startswith("3 events lost: 1 fault")
    assert f"{report.parent} is not a directory" in printed.err


def test_notes_of_drill_are_last_lines_of_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_drill(monkeypatch, replace(CLEAN, conditions=replace(CLEAN.conditions, notes=("no Prometheus",))))

    assert main(["lab", "drill", "-i", "hosts.yml"]) == 0
    assert capsys.readouterr().out.endswith("\n\nno Prometheus\n")


def test_report_in_missing_directory_is_refused_before_drill_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    received_options = fake_drill(monkeypatch, CLEAN)

    assert main(["lab", "drill", "-i", "hosts.yml", "--report", str(tmp_path / "none" / "x.html")]) == 2
    assert "the directory of the report does not exist: create it" in capsys.readouterr().err
    assert received_options == []


def test_lab_error_of_drill_is_printed_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> DrillResult:
        raise LabError("no pair can be drilled")

    monkeypatch.setattr(lab_drill, "run_drill", refuse)

    assert main(["lab", "drill", "-i", "hosts.yml"]) == 1
    assert capsys.readouterr().err.strip().endswith("no pair can be drilled")
