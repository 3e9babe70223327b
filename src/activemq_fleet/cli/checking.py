"""Run the checks of ``activemq-fleet check`` and print the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from activemq_fleet import (
    Finding,
    InputError,
    Release,
    check_fleet,
    lint_file,
    lint_links_between_files,
    repair_file,
)
from activemq_fleet.atomic_files import write_file_atomically
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.baseline import read_baseline, with_baseline_waived, write_baseline
from activemq_fleet.cli.broker_file_search import find_activemq_xml_and_broker_files, has_activemq_xml_name
from activemq_fleet.cli.checked_files import (
    AllFilesUnreadableError,
    UnreadableFileError,
    read_companion_files,
    read_file_to_check,
    unreadable_file_finding,
)
from activemq_fleet.cli.file_releases import (
    header_release_warnings,
    read_releases_by_file_pattern,
    releases_of_files,
)
from activemq_fleet.cli.file_repairs import colored_repair_diff, repairs_with_changes_by_path, write_repair_and_backup
from activemq_fleet.cli.formats import CheckReport, report_formatter
from activemq_fleet.cli.formats.report import INPUT_ERROR
from activemq_fleet.cli.options import InventoryOptions
from activemq_fleet.cli.printing import print_escaped_to_stderr, print_warning
from activemq_fleet.cli.terminal import print_through_pager
from activemq_fleet.cli.warnings_and_schemas import load_schema_with_progress, print_warnings
from activemq_fleet.lint.file_kinds import KIND_RULE, NO_BROKER_RULE, foreign_file_kind
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.validation import mark_findings_waived_by_comments

_ANY_RELEASE = "5.18.3"
"""The release that is passed for files whose check does not depend on a release."""


def report_on_files(
    paths: Sequence[Path],
    release: str | None,
    select: Sequence[str],
    ignore: Sequence[str],
    release_from: Path | None = None,
    configured_releases: Sequence[tuple[str, str]] = (),
) -> CheckReport:
    """Check configuration files such as activemq.xml by lint rules, and return the report.

    A file that cannot be read becomes a finding. ``configured_releases`` map patterns of file names to the release that
    reads a file, if no option sets it.

    A file that another one of them reads needs no broker, nor does one that the operator does not name itself. Raises
    InputError where no file can be read.
    """
    files_to_check = find_activemq_xml_and_broker_files(paths)
    contents, findings = _read_files(files_to_check)
    rules = read_releases_by_file_pattern(release_from) if release_from else ()
    of_other_kinds = {path for path, content in contents.items() if foreign_file_kind(content, str(path))}
    brokers_files = {path: contents[path] for path in files_to_check if path in contents and path not in of_other_kinds}
    configured = () if release or rules else configured_releases
    source = "the project's configuration" if configured else "--release-from"
    releases = releases_of_files(brokers_files, release, rules or configured, source)
    texts = {path: file_release.text for path, file_release in releases.items()}
    schemas = {Release.of(text): load_schema_with_progress(Release.of(text)) for text in dict.fromkeys(texts.values())}
    warnings = [warning for read_by in schemas for warning in read_by.warnings]
    warnings += header_release_warnings(brokers_files, releases)
    for warning in warnings:
        print_warning(warning)
    read_with_others: set[Path] = set()
    xml_files = {str(path): content for path, content in contents.items()}
    companions: dict[Path, Mapping[str, bytes]] = {}
    for path, content in contents.items():
        other_files, missing = read_companion_files(path, content)
        companions[path] = other_files
        read_with_others |= {path.parent / name for name in other_files}
        xml_files |= {str(path.parent / name): data for name, data in other_files.items() if name.endswith(".xml")}
        findings += (finding for finding in missing if finding not in findings)
        with ACTIVITY.spinner_with_text(f"Checking {path}"):
            findings += lint_file(
                content,
                Release.of(texts.get(path, _ANY_RELEASE)),
                file=str(path),
                other_files=other_files,
                schema_of=schemas.__getitem__ if path in texts else None,
                select=select,
                ignore=ignore,
            )
    exempt = {(rule, str(path)) for path in read_with_others for rule in (KIND_RULE, NO_BROKER_RULE)}
    exempt |= {
        (NO_BROKER_RULE, str(path)) for path in files_to_check if path not in paths and not has_activemq_xml_name(path)
    }
    findings = [finding for finding in findings if (finding.rule, finding.file) not in exempt]
    findings += lint_links_between_files(
        {str(path): content for path, content in contents.items() if path in texts},
        {str(path): Release.of(texts[path]) for path in contents if path in texts},
        select=select,
        ignore=ignore,
    )
    suppressed = mark_findings_waived_by_comments(findings, xml_files, select=select, ignore=ignore)
    with_edits = {finding.file for finding in suppressed if finding.edits}
    repairs = {}
    for path, content in contents.items():
        if path in texts and str(path) in with_edits:
            with ACTIVITY.spinner_with_text(f"Repairing {path}"):
                repairs[path] = repair_file(
                    content,
                    Release.of(texts[path]),
                    file=str(path),
                    other_files=companions[path],
                    schema_of=schemas.__getitem__,
                    select=select,
                    ignore=ignore,
                )
    proven = {replace(finding, waived=None) for repair in repairs.values() for finding in repair.repaired}
    marked = tuple(f if f.waived is None and f in proven else replace(f, edits=()) for f in suppressed)
    return CheckReport(
        tuple(map(str, files_to_check)), marked, warnings=tuple(warnings), is_about_files=True, repairs=repairs
    )


def print_proposed_repairs(report: CheckReport) -> int:
    """Print the repairs of files that ``check --fix`` would write, as a diff for each file; nothing is written.

    Returns the exit code. It is 2 where a file was not read, 1 where a file would change, else 0.
    """
    changed = repairs_with_changes_by_path(report.repairs)
    for path, repair in changed.items():
        click.echo(colored_repair_diff(path, repair))
    _print_withheld(report)
    repaired = sum(len(repair.repaired) for repair in changed.values())
    print_escaped_to_stderr(
        f"--fix would repair {count_with_noun(repaired, 'finding')} in {count_with_noun(len(changed), 'file')}"
    )
    if any(finding.rule == INPUT_ERROR for finding in report.findings):
        return 2
    return 1 if changed else 0


def write_repairs_and_print_diffs(report: CheckReport, *, keep_original: bool, to_stderr: bool) -> bool:
    """Write the repairs of ``check --fix`` to the checked files, print the diffs, and return whether all were written.

    ``to_stderr``: print the differences to stderr, because stdout is for a program.
    """
    written = True
    for path, repair in repairs_with_changes_by_path(report.repairs).items():
        try:
            original = write_repair_and_backup(path, repair, keep_original=keep_original)
        except InputError as error:
            print_escaped_to_stderr(f"error: {error}")
            written = False
            continue
        click.echo(colored_repair_diff(path, repair), err=to_stderr)
        copy_note = f"; the previous content is in {original}" if original else ""
        print_escaped_to_stderr(f"{path}: {count_with_noun(len(repair.repaired), 'finding')} repaired{copy_note}")
    _print_withheld(report)
    return written


def _print_withheld(report: CheckReport) -> None:
    for path, repair in report.repairs.items():
        for withheld in repair.withheld:
            finding, error = withheld.finding, withheld.error
            print_escaped_to_stderr(
                f"{path}:{finding.line}: --fix does not repair the finding {finding.rule}, because the repair would "
                f"cause the error {error.rule} ({error.message}): correct the file by hand"
            )


def report_on_fleet(inventory: InventoryOptions, select: Sequence[str], ignore: Sequence[str]) -> CheckReport:
    """Check the fleet of an inventory, and return the report.

    It covers topology, schema, lint rules and routes. Raises FleetError.
    """
    fleet, positions = inventory.load_fleet_and_positions()
    print_warnings(fleet)
    activity = ACTIVITY.spinner_with_text(f"Checking {count_with_noun(len(fleet.brokers), 'broker')}")
    with inventory.add_positions_to_errors(), activity:
        findings = check_fleet(fleet, schema_of=load_schema_with_progress, select=select, ignore=ignore)
    return replace(CheckReport.check_report_of_fleet(replace(fleet, findings=findings)), positions=positions)


def print_report_and_return_exit_code(
    report: CheckReport,
    form: str,
    baseline: Path | None,
    write_to: Path | None,
    output: Path | None = None,
    *,
    strict: bool = False,
) -> int:
    """Print the report of a check, and return the exit code.

    The baseline is written where a path for it is given. ``output``: write the report in its
    format to this file, and print it as text.

    2: a file was not read; 1: an error finding, with ``strict`` also a warning, is neither waived nor in the baseline;
    0 otherwise, and after writing a baseline.
    """
    not_read = tuple(finding for finding in report.findings if finding.rule == INPUT_ERROR)
    # A new baseline also has the findings that the present one waives.
    findings_of_baseline = [finding for finding in report.findings if finding.rule != INPUT_ERROR]
    if baseline is not None:
        report = replace(report, findings=with_baseline_waived(report.findings, read_baseline(baseline)))
    if output is not None:
        write_report_file(output, report_formatter(form)(report))
        form = "text"
    (print_through_pager if form == "text" else click.echo)(report_formatter(form)(report))
    if write_to is not None:
        known = write_baseline(write_to, findings_of_baseline)
        print_escaped_to_stderr(
            f"{write_to}: the baseline contains {count_with_noun(known, 'finding')}, which check ignores with "
            f"--baseline {write_to}"
        )
    if not_read:
        return 2
    if write_to is not None:
        return 0
    counts = report.finding_counts_by_severity
    return 1 if counts["error"] or (strict and counts["warning"]) else 0


def write_report_file(path: Path, text: str) -> None:
    """Write the formatted report of ``activemq-fleet check`` to a file.

    Terminal colors are removed. Raises OutputError.
    """
    write_file_atomically(path, f"{click.unstyle(text)}\n".encode(errors="backslashreplace"))


def _read_files(paths: Sequence[Path]) -> tuple[dict[Path, bytes], list[Finding]]:
    """Return the contents of the readable files, and an error finding for each unreadable file.

    Raises InputError where no file can be read.
    """
    contents: dict[Path, bytes] = {}
    errors: dict[Path, UnreadableFileError] = {}
    for path in paths:
        try:
            contents[path] = read_file_to_check(path)
        except UnreadableFileError as error:
            errors[path] = error
    if not contents:
        raise AllFilesUnreadableError(errors)
    return contents, [unreadable_file_finding(path, error) for path, error in errors.items()]
