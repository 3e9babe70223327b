"""Text: grouped by host, as someone reads it on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import click

from activemq_fleet.cli.formats.report import SEVERITIES, Report, place_of, subject_of
from activemq_fleet.findings import Finding

_COLOURS = {"error": "red", "warning": "yellow", "info": "blue", "waived": "bright_black"}


def write(report: Report) -> str:
    """The report with terminal colours, which ``click.echo`` takes out where there is no terminal."""
    if report.files:
        order = sorted(report.findings, key=lambda f: (f.file or "", f.line or 0, f.column or 0, f.rule))
    else:
        order = sorted(report.findings, key=lambda f: (f.host, SEVERITIES.index(f.severity), f.rule, f.line or 0))
    lines: list[str] = []
    for host, findings in groupby(order, key=subject_of):
        lines.append(click.style(host, bold=True))
        for finding in findings:
            lines += _lines(finding)
        lines.append("")
    return "\n".join([*lines, _summary(report)])


def _lines(finding: Finding) -> Iterator[str]:
    kind = "waived" if finding.waived is not None else finding.severity
    where = f"{place_of(finding)}: " if finding.file else ""
    yield f"  {click.style(f'{kind} {finding.rule}', fg=_COLOURS[kind])} {where}{finding.message}"
    if finding.waived is not None:
        yield f"      waived: {finding.waived}"
        return
    if finding.why:
        yield f"      why: {finding.why}"
    yield f"      fix: {finding.fix}"


def _summary(report: Report) -> str:
    counts = report.counts
    found = [_counted(counts["error"], "error"), _counted(counts["warning"], "warning"), f"{counts['info']} info"]
    waived = f", {counts['waived']} waived" if counts["waived"] else ""
    return f"{_counted(len(report.hosts), 'file' if report.files else 'host')}: {', '.join(found)}{waived}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
