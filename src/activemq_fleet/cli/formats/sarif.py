"""Format findings as SARIF 2.1.0, which code scanning services read (source: the OASIS standard of that name)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from activemq_fleet import __version__
from activemq_fleet.cli.formats.report import Report, advice, path_of, subject_of
from activemq_fleet.findings import Finding
from activemq_fleet.lint import rules as lint_rules
from activemq_fleet.printable import printable_json

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def write(report: Report) -> str:
    """Return the report as a SARIF run with a result for each finding; waived ones are suppressed with their reason."""
    rules = sorted({finding.rule for finding in report.findings})
    driver = {
        "name": "activemq-fleet",
        "semanticVersion": __version__,
        "rules": [_rule(name) for name in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules) for finding in report.findings],
    }
    return printable_json({"version": "2.1.0", "runs": [run]})


def _rule(name: str) -> dict[str, Any]:
    """Return a rule's SARIF description; rules of the topology have only their id."""
    known = next((one for one in lint_rules() if one.id == name), None)
    if known is None:
        return {"id": name}
    return {
        "id": name,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.why},
        "help": {"text": known.fix},
        "defaultConfiguration": {"level": _LEVELS[known.severity]},
    }


def _result(finding: Finding, rules: list[str]) -> dict[str, Any]:
    text = f"{finding.host}: " * bool(finding.host) + advice(finding)
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding)],
    }
    if finding.waived is not None:
        result["suppressions"] = [{"kind": "external", "justification": finding.waived}]
    return result


def _location(finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"name": subject_of(finding), "kind": "resource"}]}
    path = path_of(finding)
    if path is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(path, errors="backslashreplace")}}
        if finding.line is not None:
            place["region"] = {"startLine": finding.line, "startColumn": finding.column or 1}
        location["physicalLocation"] = place
    return location
