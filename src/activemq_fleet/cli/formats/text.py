"""Format findings as text for a terminal: errors first, grouped by host; a finding of many hosts is shown once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

import click

from activemq_fleet import Finding
from activemq_fleet.cli.formats.report import KINDS, CheckReport, finding_grouping_key, finding_subject
from activemq_fleet.cli.terminal import stdout_terminal_width, wrap_text
from activemq_fleet.errors import names_to_text, positions_to_text
from activemq_fleet.node.printable import escape_unprintable

_COLORS = {"error": "red", "warning": "yellow", "info": "blue", "waived": "bright_black"}


def format_report_as_text(report: CheckReport) -> str:
    """Return the report of the command ``check`` (its findings) as text with terminal colors.

    ``click.echo`` removes the colors where stdout is no terminal. Errors come first, then warnings, infos and waived
    findings, each of these grouped by host or file. Equal findings about several hosts, or about several files as a
    whole, are shown once, below a heading that counts the hosts or files and names a few.
    """
    if report.is_about_files:
        order = sorted(report.findings, key=lambda f: (f.file or "", f.line or 0, f.column or 0, f.rule))
    else:
        order = sorted(report.findings, key=lambda f: (f.host, f.rule, f.line or 0))
    same_findings: dict[Hashable, list[Finding]] = {}
    for finding in order:
        same_findings.setdefault(finding_grouping_key(finding), []).append(finding)
    groups: dict[tuple[int, tuple[str, ...]], list[list[Finding]]] = {}
    for findings in same_findings.values():
        subjects = tuple(dict.fromkeys(map(finding_subject, findings)))
        groups.setdefault((KINDS.index(_kind(findings[0])), subjects), []).append(findings)
    lines: list[str] = []
    last_subjects: tuple[str, ...] = ()
    for (_, subjects), same in sorted(groups.items(), key=lambda group: (group[0][0], -len(group[0][1]))):
        if subjects != last_subjects:
            lines += [""] if lines else []
            lines.append(click.style(escape_unprintable(_heading(subjects, report)), bold=True))
            last_subjects = subjects
        for findings in same:
            lines += _finding_lines(report, findings, subjects)
    return "\n".join([*lines, *([""] if lines else []), _summary(report)])


def _kind(finding: Finding) -> str:
    return finding.severity if finding.waived is None else "waived"


def _heading(subjects: Sequence[str], report: CheckReport) -> str:
    if len(subjects) == 1:
        return subjects[0]
    counted = _count_text(len(subjects), "file" if report.is_about_files else "host")
    return f"{counted}: {names_to_text(subjects)}"


def _finding_lines(report: CheckReport, findings: Sequence[Finding], subjects: Sequence[str]) -> Iterator[str]:
    finding, width = findings[0], stdout_terminal_width()
    detail = partial(wrap_text, width=width, first="      ", rest="           ")
    kind = _kind(finding)
    position = _position_text(report, findings) if finding.host or finding.line else None
    if position and len(subjects) == 1:
        position = position.removeprefix(f"{subjects[0]}:")  # The heading contains the path.
    fixable_label = " [fixable]" if finding.edits else ""
    label = f"  {kind} {finding.rule}{fixable_label} "
    text = wrap_text(
        escape_unprintable(f"{position}: {finding.message}" if position else finding.message),
        width,
        first=label,
        rest="      ",
    )
    yield text.replace(label, f"  {click.style(f'{kind} {finding.rule}', fg=_COLORS[kind])}{fixable_label} ", 1)
    if finding.waived is not None:
        yield detail(f"waived: {escape_unprintable(finding.waived)}")
        return
    if finding.why:
        yield detail(f"why: {escape_unprintable(finding.why)}")
    yield detail(f"fix: {escape_unprintable(finding.fix)}")


def _position_text(report: CheckReport, findings: Sequence[Finding]) -> str | None:
    """Return the findings' common position; where they differ, their file, or a few positions in the inventory.

    Columns of a rendered file differ where hosts' names differ in length.
    """
    places = dict.fromkeys(place for finding in findings if (place := report.shown_position_text(finding)))
    if len(places) == 1:
        return next(iter(places))
    file = findings[0].file
    if file is None:
        return positions_to_text(list(places)) or None
    sources = [position for finding in findings if (position := report.variable_position_of(finding))]
    lines = positions_to_text(list(dict.fromkeys(f"{position.file}:{position.line}" for position in sources)))
    return f"{lines} ({file})" if lines else file


def _summary(report: CheckReport) -> str:
    counts = report.finding_counts_by_severity
    severity_counts = [
        _count_text(counts["error"], "error"),
        _count_text(counts["warning"], "warning"),
        f"{counts['info']} info",
    ]
    waived = f", {counts['waived']} waived" if counts["waived"] else ""
    subjects = _count_text(len(report.hosts), "file" if report.is_about_files else "host")
    summary = f"{subjects}: {', '.join(severity_counts)}{waived}"
    if report.fixable_count:
        verb = "is" if report.fixable_count == 1 else "are"
        summary += (
            f"\n{_count_text(report.fixable_count, 'finding')} {verb} fixable with --fix (to only show the changes, "
            "use --diff instead of --fix)"
        )
    return summary


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
