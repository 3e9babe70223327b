"""Findings in every output format."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click
import pytest
from lxml import etree

from activemq_fleet.cli.formats import FORMATS, CheckReport, report_formatter
from activemq_fleet.cli.formats import text as text_format
from activemq_fleet.cli.formats.report import message_with_fix
from activemq_fleet.findings import Finding


def finding(**changes: Any) -> Finding:
    return Finding(
        **{
            "rule": "T006",
            "severity": "error",
            "host": "b",
            "message": "storeUsage is 100%, not 80%",
            "fix": "lower storeUsage",
        }
        | changes
    )


REPORT = CheckReport(
    hosts=("a", "b", "c"),
    findings=(
        finding(),
        finding(rule="V002", host="a", file="conf/activemq.xml", line=3, column=7, why="the broker does not start"),
        finding(rule="N001", severity="warning", host="a"),
        finding(rule="S002", severity="error", host="c", waived="isolated, and replaced in May"),
    ),
    waivers=({"rule": "S002", "reason": "isolated, and replaced in May", "hosts": ["*"], "until": None},),
    warnings=("look out",),
)
EMPTY_REPORT = CheckReport(hosts=("a",), findings=())


def formatted(form: str, report: CheckReport = REPORT) -> str:
    return report_formatter(form)(report)


def test_text_has_errors_first_and_each_severity_grouped_by_host() -> None:
    assert click.unstyle(formatted("text")) == (
        "a\n"
        "  error V002 conf/activemq.xml:3:7: storeUsage is 100%, not 80%\n"
        "      why: the broker does not start\n"
        "      fix: lower storeUsage\n"
        "\n"
        "b\n"
        "  error T006 storeUsage is 100%, not 80%\n"
        "      fix: lower storeUsage\n"
        "\n"
        "a\n"
        "  warning N001 storeUsage is 100%, not 80%\n"
        "      fix: lower storeUsage\n"
        "\n"
        "c\n"
        "  waived S002 storeUsage is 100%, not 80%\n"
        "      waived: isolated, and replaced in May\n"
        "\n"
        "3 hosts: 2 errors, 1 warning, 0 info, 1 waived"
    )


def test_text_groups_identical_findings_of_sixty_pairs() -> None:
    names = [f"orders-mq{pair:02}-{node}" for pair in range(1, 61) for node in "ab"]
    identical_findings = [finding(rule="S002", severity="warning", host=name, why="public") for name in names]
    positioned_findings = [
        finding(rule="N001", severity="warning", host=name, file="conf/activemq.xml", line=3, column=len(name))
        for name in names
    ]
    unique_finding = finding(rule="T006", host=names[4])
    report = CheckReport(tuple(names), (*identical_findings, *positioned_findings, unique_finding))
    assert click.unstyle(formatted("text", report)) == (
        "orders-mq03-a\n"
        "  error T006 storeUsage is 100%, not 80%\n"
        "      fix: lower storeUsage\n"
        "\n"
        "120 hosts: orders-mq01-a, orders-mq01-b, orders-mq02-a and 117 more\n"
        "  warning N001 conf/activemq.xml:3:13: storeUsage is 100%, not 80%\n"
        "      fix: lower storeUsage\n"
        "  warning S002 storeUsage is 100%, not 80%\n"
        "      why: public\n"
        "      fix: lower storeUsage\n"
        "\n"
        "120 hosts: 1 error, 2 warnings, 0 info"
    )
    assert len(json.loads(formatted("json", report))["findings"]) == 241
    assert len(json.loads(formatted("sarif", report))["runs"][0]["results"]) == 241


def test_text_about_file_has_errors_first_below_single_heading() -> None:
    places = [("S003", "info", 1), ("S002", "warning", 2), ("V002", "error", 3), ("N001", "error", 2)]
    findings = tuple(
        finding(rule=rule, severity=severity, host="", file="activemq.xml", line=line)
        for rule, severity, line in places
    )
    text = click.unstyle(formatted("text", CheckReport(("activemq.xml",), findings, is_about_files=True)))
    assert [line.split(":")[0] for line in text.splitlines() if "fix" not in line] == [
        "activemq.xml",
        "  error N001 2",
        "  error V002 3",
        "  warning S002 2",
        "  info S003 1",
        "",
        "1 file",
    ]


def test_text_shows_file_without_line_if_columns_of_hosts_differ() -> None:
    findings = [finding(host=name, file="conf/activemq.xml", line=3, column=n) for n, name in enumerate(("a", "b"), 1)]
    assert "error T006 conf/activemq.xml: storeUsage" in click.unstyle(
        formatted("text", CheckReport(("a", "b"), tuple(findings)))
    )


def test_json_contains_findings_and_waivers_as_in_fleet_json() -> None:
    content = json.loads(formatted("json"))
    assert content["findings"] == [
        reported.to_dict() | {"hosts": [reported.host], "fixable": False, "variable": None}
        for reported in REPORT.findings
    ]
    assert content["waivers"] == [dict(waiver) for waiver in REPORT.waivers]
    assert content["counts"] == {"error": 2, "warning": 1, "info": 0, "waived": 1}
    assert content["warnings"] == ["look out"]


def test_sarif_has_position_in_files_and_suppresses_waived_findings() -> None:
    run = json.loads(formatted("sarif"))["runs"][0]
    topology, schema, warning, waived = run["results"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["N001", "S002", "T006", "V002"]
    assert schema["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "hosts/a/conf/activemq.xml"},
        "region": {"startLine": 3, "startColumn": 7},
    }
    assert "physicalLocation" not in topology["locations"][0]
    assert topology["locations"][0]["logicalLocations"][0]["name"] == "b"
    assert warning["level"] == "warning"
    assert waived["suppressions"] == [{"kind": "external", "justification": "isolated, and replaced in May"}]


def test_workflow_commands_escape_messages_and_omit_waived_findings() -> None:
    assert formatted("github").splitlines() == [
        "::error title=T006 b::storeUsage is 100%25, not 80%25. Fix: lower storeUsage",
        "::error file=hosts/a/conf/activemq.xml,line=3,col=7,title=V002 a::"
        "storeUsage is 100%25, not 80%25. Fix: lower storeUsage",
        "::warning title=N001 a::storeUsage is 100%25, not 80%25. Fix: lower storeUsage",
    ]


def test_junit_has_case_for_each_finding_and_for_host_without_findings() -> None:
    suite = etree.fromstring(formatted("junit", CheckReport((*REPORT.hosts, "d"), REPORT.findings)))
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["5", "2", "1"]
    cases = [(case.get("classname"), case.get("name"), [child.tag for child in case]) for case in suite]
    assert cases == [
        ("a", "V002", ["failure"]),
        ("a", "N001", ["system-out"]),
        ("b", "T006", ["failure"]),
        ("c", "S002", ["skipped"]),
        ("d", "no findings", []),
    ]


def test_junit_escapes_characters_that_xml_forbids() -> None:
    report = CheckReport(("a",), (finding(host="\x00<&", message="\x1b]0;\ufffe"),))
    assert etree.fromstring(formatted("junit", report))[1].get("classname") == "\\u0000<&"


@pytest.mark.parametrize("form", FORMATS)
def test_check_report_without_findings_is_valid_in_every_format(form: str) -> None:
    text = formatted(form, EMPTY_REPORT)
    if form == "junit":
        assert etree.fromstring(text).get("failures") == "0"
    elif form in ("json", "sarif", "codeclimate"):
        json.loads(text)
    else:
        assert click.unstyle(text) in ("", "1 host: 0 errors, 0 warnings, 0 info")


def test_finding_message_that_ends_with_question_mark_receives_no_period() -> None:
    assert message_with_fix(finding(message="did you mean limit?")) == "did you mean limit? Fix: lower storeUsage"
    assert message_with_fix(finding(message="it is wrong")) == "it is wrong. Fix: lower storeUsage"


def test_codeclimate_has_position_and_fingerprint_of_unwaived_findings() -> None:
    repeated = finding(host="", file="conf/activemq.xml", line=9)
    issues = json.loads(
        formatted("codeclimate", CheckReport(("a",), (*REPORT.findings, repeated, replace(repeated, line=12))))
    )
    assert [issue["check_name"] for issue in issues] == ["T006", "V002", "N001", "T006", "T006"]
    assert [issue["severity"] for issue in issues[:3]] == ["major", "major", "minor"]
    assert issues[0]["location"] == {"path": "b", "lines": {"begin": 1}}
    assert issues[1]["location"] == {"path": "hosts/a/conf/activemq.xml", "lines": {"begin": 3}}
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


def test_codeclimate_fingerprint_is_independent_of_line() -> None:
    def fingerprint(line: int) -> str:
        report = CheckReport(("f",), (finding(host="", file="f", line=line),), is_about_files=True)
        return str(json.loads(formatted("codeclimate", report))[0]["fingerprint"])

    assert fingerprint(3) == fingerprint(4)


def test_text_report_wraps_findings_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_format, "stdout_terminal_width", lambda: 80)
    long_finding = finding(message="words " * 40, why="reasons " * 40, fix="steps " * 40)
    lines = click.unstyle(formatted("text", CheckReport(("b",), (long_finding,)))).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("  error T006 words ")


def test_title_of_workflow_command_has_no_path() -> None:
    report = CheckReport(("f.xml",), (finding(host="", file="f.xml", line=3),), is_about_files=True)
    assert formatted("github", report).startswith("::error file=f.xml,line=3,title=T006::")
