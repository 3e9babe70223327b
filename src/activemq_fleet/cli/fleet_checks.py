"""Provide what the commands that check a fleet share: rendering, schemas, warnings."""

from __future__ import annotations

import click

from activemq_fleet import Fleet, Release
from activemq_fleet.artifacts import load_schema
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.formats import Report, formatter
from activemq_fleet.cli.printing import echo_to_stderr, warn
from activemq_fleet.schema import Schema

_INVENTORY_RULES = frozenset({"T036", "T037", "T038", "T039", "T040", "T041"})
"""The rules about what an inventory contains without effect, or with another effect than its author expects."""


def print_warnings(fleet: Fleet) -> None:
    """Print each warning of a fleet on a line of stderr."""
    for warning in fleet.warnings:
        warn(warning)


def print_inventory_findings(fleet: Fleet) -> None:
    """Print the findings about the inventory's structure as warnings to stderr, for commands that print no others."""
    for finding in fleet.findings:
        if finding.rule in _INVENTORY_RULES and finding.waived is None:
            warn(finding.to_line())


def schema_of(release: Release) -> Schema:
    """Return the compiled ``activemq.xsd`` of a release, or of the nearest one of its line; stderr shows downloads.

    Raises SchemaUnavailable or ArtifactError when the line has no schema.
    """
    with ACTIVITY.show_activity(f"Loading the schema of {release} (fetched through Maven once)"):
        return load_schema(release, progress=echo_to_stderr)


def print_findings(fleet: Fleet) -> None:
    """Print the findings of a fleet as text to stderr."""
    click.echo(formatter("text")(Report.of(fleet)), err=True)
