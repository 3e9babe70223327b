"""Text of strangers on terminals and pages: it can be read, and obeyed by nothing."""

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
from activemq_fleet.cli.drift import _show
from activemq_fleet.cli.formats import report_formatter
from activemq_fleet.cli.formats.report import CheckReport
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.drift.host_drift import FleetDrift, HostDriftCounts
from activemq_fleet.findings import Finding
from activemq_fleet.node.printable import escape_html, escape_unprintable, terminal_safe_json
from activemq_fleet.reports.audit import audit_html_page
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


def is_harmless(shown: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown if char not in "\n\t")


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_keeps_a_character_that_is_obeyed_or_hidden(said: str) -> None:
    assert is_harmless(escape_unprintable(said))
    assert "\n" not in escape_unprintable(said)
    assert escape_unprintable(escape_unprintable(said)) == escape_unprintable(said)
    assert is_harmless(terminal_safe_json({said: said}))
    assert json.loads(terminal_safe_json({"said": said})) == {"said": said}


def test_text_in_any_language_stays_as_it_is() -> None:
    for said in ("Köln · 東京 · Москва · ☃ · 👍 · e\u0301 · a\u00a0b", "", "plain"):
        assert escape_unprintable(said) == said
        assert is_harmless(escape_unprintable(said))


@pytest.mark.parametrize("said", HOSTILE)
def test_what_a_command_prints_moves_and_colours_nothing(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_escaped(f"{said}: a line of ours\n")
    print_escaped(said, err=True)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert is_harmless(err)


@pytest.mark.parametrize("said", HOSTILE)
@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit"])
def test_a_hostile_host_or_message_does_not_reach_the_terminal_of_who_checks(form: str, said: str) -> None:
    finding = Finding(
        rule="T001", severity="error", host=said, message=f"x {said}", fix=said, why=said, file=f"{said}.xml", line=1
    )
    waived = Finding(rule="T001", severity="error", host="a", message="x", fix="y", waived=said)
    shown = report_formatter(form)(CheckReport((said, "a"), (finding, waived), warnings=(said,)))
    own_colours = ("\x1b[1m", "\x1b[31m", "\x1b[90m", "\x1b[0m") if form == "text" else ()
    for colour in own_colours:
        shown = shown.replace(colour, "")
    assert is_harmless(shown)
    assert form != "text" or "\nhost  all is well" not in shown


@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_name_of_a_collected_host_forges_no_line_of_drift(
    said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _show(FleetDrift((HostDriftCounts(said, 1, 0, 0, 0, 1, 0, 0),), 3, (said,), (said,), 1, 1), "out")
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert len(out.splitlines()) == 5


@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_text_is_escaped_in_a_page(said: str) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    times = ReportPeriod(at, at + timedelta(seconds=1))
    figures = (
        IncidentFigures(),
        [TimeLineHost(said, said, ())],
        0,
        BridgeFigures(),
        LogLineFigures(times),
        EventFigures(times),
    )
    picture = AuditReportData(times, *figures)
    gaps = (InputGap(said, "cut off"),)
    whole = audit_html_page(
        audit.AuditResult("incomplete", AuditInputSummary("out", 1, 1, 0, 1), gaps, AuditCounts(), "out"), picture
    )
    assert is_harmless(whole)
    assert (
        whole.count(html.escape(escape_unprintable(said, lines=True))) >= 3
    )  # the head, the time line and what was missing
    etree.fromstring(f"<a b='{escape_html(said)}'>{escape_html(said)}</a>")


@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_phase_leaves_the_line_of_progress_alone(said: str) -> None:
    stream = io.StringIO()
    progress = SparkProgressDisplay(stream, enabled=True, is_terminal=False)
    with progress.show_progress_phase(said):
        pass
    assert is_harmless(stream.getvalue())


@pytest.mark.parametrize("said", [said for said in HOSTILE if said.isascii() and "\x00" not in said])
def test_a_hostile_file_name_is_named_and_not_obeyed(
    said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{said}.xml"
    path.write_text("<beans/>")
    cli.main(["check", "--file", str(path), "--release", "5.18.3"])
    out, err = capsys.readouterr()
    assert is_harmless(out.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[31m", ""))
    assert is_harmless(err)
