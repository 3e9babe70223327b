"""What ``check`` does once it knows what it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from activemq_fleet.cli.baseline import read_baseline, within_baseline, write_baseline
from activemq_fleet.cli.findings import schema_of, tell_warnings
from activemq_fleet.cli.formats import Report, formatter
from activemq_fleet.cli.options import InventoryOptions
from activemq_fleet.cli.printing import echo
from activemq_fleet.errors import FleetError, InputError, ReleaseError, SettingsError
from activemq_fleet.findings import Finding
from activemq_fleet.lint import ReleaseView, Selection, file_findings, release_findings, rules
from activemq_fleet.releases import Release

if TYPE_CHECKING:
    from activemq_fleet.topology import Broker

# Beside activemq.xml these say who may log in, where the console listens, and what is logged.
BESIDE = (
    "credentials-enc.properties",
    "credentials.properties",
    "groups.properties",
    "jetty-realm.properties",
    "jetty-spring.xml",
    "jetty.xml",
    "jmx.password",
    "jolokia-access.xml",
    "log4j.properties",
    "log4j2.properties",
    "login.config",
    "users.properties",
)
_TOPOLOGY = (*(f"T{number:03}" for number in range(1, 31)), *(f"R{number:03}" for number in range(1, 5)))
INPUT_ERROR = "T000"
"""The name under which formats for machines list input that cannot be used; no waiver lets it pass."""
_LARGEST = 16 << 20  # bytes; the largest activemq.xml ever seen has a few hundred thousand


def selection_of(select: Sequence[str], ignore: Sequence[str]) -> Selection:
    """The rules that were asked for. Raises InputError for a name that no rule has."""
    if not select and not ignore:
        return Selection()
    return Selection.of(select, ignore, [*(one.id for one in rules()), *_TOPOLOGY])


def report_on_files(paths: Sequence[Path], release: str | None, selection: Selection) -> Report:
    """The file and release rules on each file. Raises InputError for a file that cannot be read."""
    if release is None:
        raise InputError("--release is missing: say the release that reads the file, such as --release 5.18.3")
    read_by = Release.of(release)
    schema = schema_of(read_by)
    for warning in read_by.warnings:
        echo(f"warning: {warning}", err=True)
    findings: list[Finding] = []
    read = _read_all(list(dict.fromkeys(paths)))
    for path, data in read.items():
        beside = {name: _read(path.parent / name) for name in BESIDE if (path.parent / name).is_file()}
        findings += release_findings(ReleaseView(read_by), selection, file=str(path))
        findings += file_findings(data, read_by, schema=schema, file=str(path), selection=selection, beside=beside)
    return Report(tuple(dict.fromkeys(map(str, paths))), tuple(findings), warnings=read_by.warnings, files=True)


def report_on_fleet(inventory: InventoryOptions, selection: Selection) -> Report:
    """Everything that is known about a fleet. Raises FleetError for what cannot be read."""
    from activemq_fleet.validation import checked, of_each

    fleet = inventory.load_fleet()
    tell_warnings(fleet)
    made = of_each(fleet.brokers, _document)
    documents = {broker.host: document for broker, document in zip(fleet.brokers, made, strict=True)}
    return Report.of(checked(fleet, documents, schema_of, selection, for_site=True))


def _document(broker: Broker) -> bytes:
    """A broker's activemq.xml. Raises SettingsError for fragments or further files that cannot be used."""
    from activemq_fleet.render import ACTIVEMQ_XML, render
    from activemq_fleet.render.activemq_xml import activemq_xml

    return render(broker)[ACTIVEMQ_XML] if broker.settings.extra_files else activemq_xml(broker)


def settle(report: Report, form: str, baseline: Path | None, write_to: Path | None) -> int:
    """Print the report and return the exit code; write the baseline where one is asked for."""
    if baseline is not None:
        report = replace(report, findings=within_baseline(report.findings, read_baseline(baseline)))
    click.echo(formatter(form)(report))
    if write_to is not None:
        known = write_baseline(write_to, report.findings)
        echo(f"{write_to}: {known} findings are known from now on", err=True)
        return 0
    return 1 if any(finding.blocks for finding in report.findings) else 0


def report_on_error(error: FleetError, subject: str) -> Report:
    """Input that cannot be used, as findings, one a problem. ``subject`` is what was to be checked."""
    findings = []
    for problem in error.lines:
        hosts, colon, text = problem.partition(": ")
        of_hosts = isinstance(error, SettingsError | ReleaseError) and bool(colon)
        findings.append(
            Finding(
                rule=INPUT_ERROR,
                severity="error",
                host=hosts if of_hosts else subject,
                message=" ".join((text if of_hosts else problem).split()),
                fix="correct it: nothing else can be checked before",
            )
        )
    return Report((subject,), tuple(findings))


def _read_all(paths: Sequence[Path]) -> dict[Path, bytes]:
    """The contents of files. Raises one InputError for all that cannot be read."""
    found: dict[Path, bytes] = {}
    problems: list[str] = []
    for path in paths:
        try:
            found[path] = _read(path)
        except InputError as error:
            problems += error.lines
    if problems:
        raise InputError(*problems)
    return found


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise InputError(f"{path}: has more than {_LARGEST >> 20} MiB: no activemq.xml is so long")
    return data
