"""Provide what the commands that check a fleet share: rendering, schemas, warnings."""

from __future__ import annotations

import click

from activemq_fleet import Fleet, Release
from activemq_fleet.artifacts import load_schema
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.formats import CheckReport, report_formatter
from activemq_fleet.cli.printing import print_escaped_to_stderr, print_warning
from activemq_fleet.schema import CompiledActivemqXsd
from activemq_fleet.topology.inventory_rules import inventory_warning_lines


def print_warnings(fleet: Fleet) -> None:
    """Print the warnings of a fleet to stderr, one line each."""
    for warning in fleet.warnings:
        print_warning(warning)


def print_warnings_and_inventory_findings(fleet: Fleet) -> None:
    """Print the warnings of a fleet and the findings about its inventory to stderr.

    The function is for commands that print no other findings.
    """
    for warning in inventory_warning_lines(fleet):
        print_warning(warning)


def load_schema_with_progress(release: Release) -> CompiledActivemqXsd:
    """Load the XML schema (``activemq.xsd``) of an ActiveMQ release, and show progress on stderr.

    Downloads are shown. The schema may be that of the nearest release of the release's line.

    Raises SchemaUnavailableError or ArtifactError when the line has no schema.
    """
    with ACTIVITY.spinner_with_text(f"Loading the XML schema of ActiveMQ {release}"):
        return load_schema(release, progress=print_escaped_to_stderr)


def print_warnings_and_findings(fleet: Fleet) -> None:
    """Print the warnings and the findings of a fleet to stderr."""
    print_warnings(fleet)
    click.echo(report_formatter("text")(CheckReport.check_report_of_fleet(fleet)), err=True)
