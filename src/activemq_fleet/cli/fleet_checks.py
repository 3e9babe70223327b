"""Provide what the commands that check a fleet share: rendering, schemas, warnings."""

from __future__ import annotations

from collections.abc import Mapping

import click

from activemq_fleet.artifacts import load_schema
from activemq_fleet.cli.formats import Report, formatter
from activemq_fleet.cli.printing import echo_to_stderr, warn
from activemq_fleet.releases import Release
from activemq_fleet.routes import Routes, routes_of
from activemq_fleet.schema import Schema, XmlDocument
from activemq_fleet.topology import Fleet


def print_warnings(fleet: Fleet) -> None:
    """Print each warning of a fleet on a line of stderr."""
    for warning in fleet.warnings:
        warn(warning)


def schema_of(release: Release) -> Schema:
    """Return the compiled ``activemq.xsd`` of a release, or of the nearest one of its line; stderr shows downloads.

    Raises SchemaUnavailable or ArtifactError when the line has no schema.
    """
    return load_schema(release, progress=echo_to_stderr)


def routes_in(fleet: Fleet) -> Routes:
    """Return the routes of messages through a fleet, including links that XML fragments bring."""
    from activemq_fleet.render.activemq_xml import activemq_xml

    written = [broker for broker in fleet.brokers if broker.settings.xml_fragments]
    return routes_of(fleet, {broker.host: XmlDocument(activemq_xml(broker)) for broker in written})


def render_documents(fleet: Fleet) -> dict[str, XmlDocument]:
    """Return the activemq.xml of each broker by host."""
    from activemq_fleet.render.activemq_xml import activemq_xml

    return {broker.host: XmlDocument(activemq_xml(broker)) for broker in fleet.brokers}


def with_lint_findings(fleet: Fleet, documents: Mapping[str, XmlDocument]) -> Fleet:
    """Return the fleet with all findings except schema findings, which would need downloaded schemas."""
    from activemq_fleet.validation import check_fleet

    return check_fleet(fleet, documents, None)


def print_findings(fleet: Fleet) -> None:
    """Print the findings of a fleet as text to stderr."""
    click.echo(formatter("text")(Report.of(fleet)), err=True)
