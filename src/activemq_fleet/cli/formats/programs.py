"""Format findings for programs: JSON, SARIF, workflow commands of GitHub Actions, JUnit XML, and Code Climate."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lxml import etree

from activemq_fleet import Finding, __version__
from activemq_fleet.cli.baseline import REASON as BASELINE_REASON
from activemq_fleet.cli.formats.report import (
    CheckReport,
    finding_subject,
    reported_hosts,
)
from activemq_fleet.cli.help_pages import replace_page_links_and_remove_pictures
from activemq_fleet.documentation_links import (
    replace_paths_by_addresses_or_commands,
    rule_address,
    rule_address_or_command,
)
from activemq_fleet.errors import names_to_text
from activemq_fleet.node.printable import escape_unprintable, terminal_safe_json
from activemq_fleet.validation import lint_and_inventory_rules_by_id


def format_report_as_json(report: CheckReport) -> str:
    """Return the report of a check as JSON.

    Its keys are ``{findings, waivers, warnings, hosts or files, counts}``.
    """
    content = {
        "findings": [_json_finding(report, finding) for finding in report.findings],
        "waivers": [dict(waiver) for waiver in report.waivers],
        "warnings": list(report.warnings),
        "files" if report.is_about_files else "hosts": list(report.hosts),
        "counts": report.finding_counts_by_severity,
    }
    return terminal_safe_json(content)


def _json_finding(report: CheckReport, finding: Finding) -> dict[str, Any]:
    """Return a finding as a JSON object; without a file it has the file and line of the inventory.

    ``variable`` is where the inventory defines the variable that the finding is about, None where that is not known.
    """
    content: dict[str, Any] = {
        **finding.to_dict(),
        "hosts": list(reported_hosts(finding)),
        "fixable": bool(finding.edits),
    }
    variable = report.variable_position_of(finding)
    content["variable"] = variable and {"file": variable.file, "line": variable.line}
    if finding.file is None:
        content["file"], content["line"], content["column"] = report.user_file_position(finding)
    return content


_SARIF_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def format_report_as_sarif(report: CheckReport) -> str:
    """Return the report of a check as SARIF 2.1.0.

    Code scanning services read this OASIS standard. The run has a result for each finding; a waived finding is
    suppressed with the waiver's reason.
    """
    rules = sorted({finding.rule for finding in report.findings})
    driver = {
        "name": "activemq-fleet",
        "semanticVersion": __version__,
        "rules": [_sarif_rule(name) for name in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(report, finding, rules) for finding in report.findings],
    }
    return terminal_safe_json({"version": "2.1.0", "runs": [run]})


def _sarif_rule(name: str) -> dict[str, Any]:
    """Return a rule's SARIF description; it has a ``helpUri`` once the documentation is published."""
    rule = lint_and_inventory_rules_by_id()[name]
    title, reason, fix = (
        replace_paths_by_addresses_or_commands(replace_page_links_and_remove_pictures(text))
        for text in (rule.title, rule.why, rule.fix)
    )
    address = rule_address(name)
    return {
        "id": name,
        "shortDescription": {"text": title},
        "fullDescription": {"text": reason},
        "help": {"text": f"{fix}\n\nThe whole description of the rule: {rule_address_or_command(name)}"},
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
    }


def _sarif_result(report: CheckReport, finding: Finding, rules: list[str]) -> dict[str, Any]:
    text = report.message_with_fix_and_rendered_position(finding)
    if hosts := reported_hosts(finding):
        text = f"{names_to_text(hosts)}: {text}"
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_sarif_location(report, finding)],
    }
    if finding.edits:
        result["fixes"] = [_sarif_fix(report, finding)]
    if finding.waived is not None:
        in_source = not finding.host and finding.waived != BASELINE_REASON
        kind = "inSource" if in_source else "external"
        result["suppressions"] = [{"kind": kind, "justification": finding.waived}]
    return result


def _sarif_fix(report: CheckReport, finding: Finding) -> dict[str, Any]:
    """Return the repair of a finding in SARIF; its offsets count characters."""
    path, _, _ = _position_in_repository(report, finding)
    replacements = [
        {
            "deletedRegion": {"charOffset": edit.begin, "charLength": edit.end - edit.begin},
            "insertedContent": {"text": edit.text},
        }
        for edit in finding.edits
    ]
    change = {"artifactLocation": {"uri": _sarif_uri(path or "")}, "replacements": replacements}
    return {"description": {"text": finding.fix}, "artifactChanges": [change]}


def _sarif_uri(path: str) -> str:
    return quote(path, errors="backslashreplace")


def _sarif_location(report: CheckReport, finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"name": finding_subject(finding), "kind": "resource"}]}
    path, line, column = _position_in_repository(report, finding)
    if path is not None:
        physical_location: dict[str, Any] = {"artifactLocation": {"uri": _sarif_uri(path)}}
        if line is not None:
            physical_location["region"] = {"startLine": line, "startColumn": column or 1}
        location["physicalLocation"] = physical_location
    return location


def _position_in_repository(report: CheckReport, finding: Finding) -> tuple[str | None, int | None, int | None]:
    """Return path, line and column of a finding; a file in a Git repository has its path from the repository's root.

    Services that annotate files resolve paths from there, wherever the check runs.
    """
    path, line, column = report.user_file_position(finding)
    if path is not None and os.path.exists(path):
        absolute = Path(os.path.abspath(path))
        root = _repository_root(absolute.parent)
        path = path if root is None else str(absolute.relative_to(root))
    return path, line, column


@cache
def _repository_root(directory: Path) -> Path | None:
    """Return the root of the Git repository that contains a directory; None where no repository does."""
    return next((parent for parent in (directory, *directory.parents) if (parent / ".git").exists()), None)


_GITHUB_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def format_report_as_github(report: CheckReport) -> str:
    """Return the report of a check as annotations of GitHub Actions.

    Waived findings are left out. Equal findings about several hosts, such as those of a variable of a group, are one
    annotation for each line.
    """
    same_findings: dict[Hashable, list[Finding]] = {}
    for finding in report.findings:
        if finding.waived is None:
            key = (
                finding.rule,
                report.message_with_fix_and_rendered_position(finding),
                _position_in_repository(report, finding),
            )
            same_findings.setdefault(key, []).append(finding)
    return "\n".join(_github_command(report, findings) for findings in same_findings.values())


def _github_command(report: CheckReport, findings: Sequence[Finding]) -> str:
    finding = findings[0]
    # The annotation is shown at the file, so its title does not repeat the path.
    hosts = names_to_text(list(dict.fromkeys(host for finding in findings for host in reported_hosts(finding))))
    properties = {"title": f"{finding.rule} {hosts}".rstrip()}
    path, line, column = _position_in_repository(report, finding)
    if path is not None:
        line_and_column = {"line": line, "col": column}
        properties = {"file": path, **{n: str(v) for n, v in line_and_column.items() if v is not None}, **properties}
    property_text = ",".join(f"{name}={_github_property(value)}" for name, value in properties.items())
    message = _github_data(report.message_with_fix_and_rendered_position(finding))
    return f"::{_GITHUB_COMMANDS[finding.severity]} {property_text}::{message}"


def _github_data(text: str) -> str:
    return escape_unprintable(text, lines=True).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_property(text: str) -> str:
    return _github_data(text).replace(":", "%3A").replace(",", "%2C")


_CODE_CLIMATE_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def format_report_as_codeclimate(report: CheckReport) -> str:
    """Return the report of a check as a Code Climate (GitLab Code Quality) report in JSON.

    Waived findings are left out. A finding without a file has the host's name as its path, since the format requires
    one. The fingerprint of a finding stays the same when lines before it are added or removed.
    """
    identity_counts: Counter[str] = Counter()
    issues = []
    for finding in report.findings:
        if finding.waived is not None:
            continue
        path, line, _ = _position_in_repository(report, finding)
        path = path or finding_subject(finding)
        identity = "\0".join((finding.rule, path, finding.host, finding.message))
        identity_counts[identity] += 1
        text = f"{identity}\0{identity_counts[identity]}".encode(errors="backslashreplace")
        issues.append({
            "description": report.message_with_fix_and_rendered_position(finding),
            "check_name": finding.rule,
            "fingerprint": hashlib.sha256(text).hexdigest(),
            "severity": _CODE_CLIMATE_SEVERITIES[finding.severity],
            "location": {"path": path, "lines": {"begin": line or 1}},
        })  # fmt: skip
    return terminal_safe_json(issues)


def format_report_as_junit(report: CheckReport) -> str:
    """Return the report of a check as JUnit XML.

    There is a test case for each finding, and for each host or file without one. An error finding fails, a waived
    finding is skipped, any other passes.
    """
    suite = etree.Element("testsuite", name="activemq-fleet")
    by_host: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_host[finding_subject(finding)].append(finding)
    for host in dict.fromkeys((*report.hosts, *by_host)):
        for finding in by_host[host]:
            _add_junit_case(suite, report, finding)
        if not by_host[host]:
            etree.SubElement(suite, "testcase", classname=_visible(host), name="no findings")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("errors", "0")
    return etree.tostring(suite, encoding="unicode", pretty_print=True).rstrip()


def _add_junit_case(suite: etree._Element, report: CheckReport, finding: Finding) -> None:
    case = etree.SubElement(
        suite, "testcase", classname=_visible(finding_subject(finding)), name=_visible(finding.rule)
    )
    position = report.shown_position_text(finding)
    position_prefix = f"{position}: " if position else ""
    reason_line = f"why: {finding.why}\n" if finding.why else ""
    text = _visible(f"{position_prefix}{finding.message}\n{reason_line}fix: {finding.fix}")
    if finding.waived is not None:
        etree.SubElement(case, "skipped", message=_visible(f"waived: {finding.waived}"))
    elif finding.blocks:
        etree.SubElement(case, "failure", message=_visible(finding.message), type=finding.rule).text = text
    else:
        etree.SubElement(case, "system-out").text = f"{finding.severity}: {text}"


def _visible(text: str) -> str:
    """Return the text without characters that XML 1.0 cannot hold."""
    return escape_unprintable(text, lines=True)
