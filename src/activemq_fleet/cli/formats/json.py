"""JSON: findings and waivers as in fleet.json."""

from __future__ import annotations

import json

from activemq_fleet.cli.formats.report import Report


def write(report: Report) -> str:
    """``{findings, waivers, warnings, hosts, counts}``."""
    content = {
        "findings": [finding.to_dict() for finding in report.findings],
        "waivers": [dict(waiver) for waiver in report.waivers],
        "warnings": list(report.warnings),
        "files" if report.files else "hosts": list(report.hosts),
        "counts": report.counts,
    }
    return json.dumps(content, indent=2, ensure_ascii=False)
