"""Untrusted text on terminals and pages: it stays readable and has no effect."""

from __future__ import annotations

import html
import io
import json
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.audit import result as audit
from activemq_fleet.audit.report_figures import (
    AuditReportData,
    BridgeFigures,
    EventFigures,
    IncidentFigures,
    LogLineFigures,
    ReportPeriod,
    TimeLineHost,
)
from activemq_fleet.audit.result import AuditCounts, AuditInputSummary, InputGap
from activemq_fleet.cli import main as cli
from activemq_fleet.cli.drift import _print_drift
from activemq_fleet.cli.formats import report_formatter
from activemq_fleet.cli.formats.report import CheckReport
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.drift.host_drift import FleetDrift, HostDriftCounts
from activemq_fleet.findings import Finding
from activemq_fleet.node.printable import escape_html, escape_unprintable, terminal_safe_json
from activemq_fleet.reports.audit_page import audit_html_page
from activemq_fleet.spark.progress import SparkProgressDisplay

HOSTILE = [
    "red\x1b[31m",
    "title\x1b]0;mine\x07",
    "csi\x9b31m",
    "over\rwritten",
    "second\nhost  all is well",
    "left\u202etxt.exe",
    "isolate\u2066x\u2069",
    "line\u2028end",
    "nothing\u200bhere",
    "bom\ufeff",
    "tag\U000e0041",
    "half\ud800",
    "delete\x7f",
    "null\x00",
]


def is_harmless(output: str) -> bool:
    return not any(
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        for character in output
        if character not in "\n\t"
    )


@given(st.text(st.characters(exclude_categories=())))
def test_escaped_text_has_no_control_or_hidden_character(text: str) -> None:
    assert is_harmless(escape_unprintable(text))
    assert "\n" not in escape_unprintable(text)
    assert escape_unprintable(escape_unprintable(text)) == escape_unprintable(text)
    assert is_harmless(terminal_safe_json({text: text}))
    assert json.loads(terminal_safe_json({"text": text})) == {"text": text}


def test_printable_text_of_any_language_is_unchanged() -> None:
    for text in ("Köln · 東京 · Москва · ☃ · 👍 · e\u0301 · a\u00a0b", "", "plain"):
        assert escape_unprintable(text) == text
        assert is_harmless(escape_unprintable(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_printed_text_has_no_control_character(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_escaped(f"{text}: a line of the program\n")
    print_escaped(text, err=True)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert is_harmless(err)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit"])
def test_hostile_host_or_message_is_escaped_in_report_of_check(form: str, text: str) -> None:
    finding = Finding(
        rule="T001", severity="error", host=text, message=f"x {text}", fix=text, why=text, file=f"{text}.xml", line=1
    )
    waived = Finding(rule="T001", severity="error", host="a", message="x", fix="y", waived=text)
    output = report_formatter(form)(CheckReport((text, "a"), (finding, waived), warnings=(text,)))
    own_colors = ("\x1b[1m", "\x1b[31m", "\x1b[90m", "\x1b[0m") if form == "text" else ()
    for color in own_colors:
        output = output.replace(color, "")
    assert is_harmless(output)
    assert form != "text" or "\nhost  all is well" not in output


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_host_name_adds_no_line_to_output_of_drift(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    _print_drift(FleetDrift((HostDriftCounts(text, 1, 0, 0, 0, 1, 0, 0),), 3, (text,), (text,), 1, 1), "out")
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert len(printed.splitlines()) == 5


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_escaped_in_audit_page(text: str) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    period = ReportPeriod(start, start + timedelta(seconds=1))
    figures = (
        IncidentFigures(),
        [TimeLineHost(text, text, ())],
        0,
        BridgeFigures(),
        LogLineFigures(period),
        EventFigures(period),
    )
    report_data = AuditReportData(period, *figures)
    gaps = (InputGap(text, "cut off"),)
    page = audit_html_page(
        audit.AuditResult("incomplete", AuditInputSummary("out", 1, 1, 0, 1), gaps, AuditCounts(), "out"), report_data
    )
    assert is_harmless(page)
    assert (
        page.count(html.escape(escape_unprintable(text, lines=True))) >= 3
    )  # the header, the timeline and the input gap
    etree.fromstring(f"<a b='{escape_html(text)}'>{escape_html(text)}</a>")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_phase_is_escaped_in_progress_display(text: str) -> None:
    stream = io.StringIO()
    progress = SparkProgressDisplay(stream, enabled=True, is_terminal=False)
    with progress.show_progress_phase(text):
        pass
    assert is_harmless(stream.getvalue())


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.isascii() and "\x00" not in text])
def test_hostile_file_name_is_escaped_in_output_of_check(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{text}.xml"
    path.write_text("<beans/>")
    cli.main(["check", "--file", str(path), "--release", "5.18.3"])
    out, err = capsys.readouterr()
    assert is_harmless(out.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[31m", ""))
    assert is_harmless(err)
