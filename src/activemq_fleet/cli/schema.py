"""Define ``activemq-fleet schema``, which manages the XSDs that files of a release are checked against."""

from __future__ import annotations

from pathlib import Path

import click

from activemq_fleet.cli.printing import echo, echo_to_stderr


@click.group()
def command() -> None:
    """Fetch and keep the XML schemas that a release's files are checked against."""


@command.command()
@click.argument("release")
@click.option(
    "--from",
    "source",
    metavar="JAR|ARCHIVE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The release's own jar (activemq-spring, activemq-core to 5.7, activemq-all) or its tar.gz or zip.",
)
def fetch(release: str, source: Path | None) -> None:
    """Take the XSD of RELEASE from its own jar or archive into the cache.

    Without --from the jar comes through Maven. A schema given by --from replaces the cached one.
    """
    from activemq_fleet import Release
    from activemq_fleet.artifacts import fetch_schema

    asked = Release.of(release)
    path = fetch_schema(asked, source, progress=echo_to_stderr)
    echo(f"schema of {asked}: {path}")
