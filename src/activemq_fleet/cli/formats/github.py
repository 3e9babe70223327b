"""Format findings as workflow commands of GitHub Actions, which annotate a pull request."""

from __future__ import annotations

from activemq_fleet.cli.formats.report import Report, advice, path_of, subject_of
from activemq_fleet.findings import Finding
from activemq_fleet.printable import printable

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def write(report: Report) -> str:
    """Return a workflow command for each finding that is not waived."""
    return "\n".join(_command(finding) for finding in report.findings if finding.waived is None)


def _command(finding: Finding) -> str:
    properties = {"title": f"{finding.rule} {subject_of(finding)}"}
    path = path_of(finding)
    if path is not None:
        place = {"line": finding.line, "col": finding.column}
        properties = {"file": path, **{n: str(v) for n, v in place.items() if v is not None}, **properties}
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {shown}::{_data(advice(finding))}"


def _data(text: str) -> str:
    return printable(text, lines=True).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
