"""Format findings and waivers as JSON, as in fleet.json."""

from __future__ import annotations

from activemq_fleet.cli.formats.report import Report
from activemq_fleet.printable import printable_json


def write(report: Report) -> str:
    """Return the report as JSON: ``{findings, waivers, warnings, hosts, counts}``; ``files`` replaces ``hosts`` for
    files.
    """
    content = {
        "findings": [finding.to_dict() for finding in report.findings],
        "waivers": [dict(waiver) for waiver in report.waivers],
        "warnings": list(report.warnings),
        "files" if report.files else "hosts": list(report.hosts),
        "counts": report.counts,
    }
    return printable_json(content)
