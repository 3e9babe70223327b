"""Define ``activemq-fleet schema``: the XSDs of releases, and the JSON Schemas of variables and inventories."""

from __future__ import annotations

from pathlib import Path

import click

from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.completion_values import complete_releases
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped, print_escaped_to_stderr


@click.group()
def schema_command() -> None:
    """Fetch the XML schemas of releases, and print the JSON Schemas of variables and inventories."""


@schema_command.command("fetch")
@click.argument("releases", metavar="RELEASE...", nargs=-1, required=True, shell_complete=complete_releases)
@click.option(
    "--from",
    "source",
    metavar="JAR|ARCHIVE",
    type=NonEmptyPath(exists=True, dir_okay=False, path_type=Path),
    help="Jar of the ActiveMQ release (activemq-spring, activemq-core up to 5.7, or activemq-all), or the "
    "tar.gz or zip of the release.",
)
def copy_schemas_to_cache_command(releases: tuple[str, ...], source: Path | None) -> None:
    """Copy the XSD of each RELEASE from its jar or archive to the cache.

    Without --from, the command uses the schema in the installed Python package activemq-fleet. If the package does not
    contain the release, the command downloads the schema with Maven. A schema from --from replaces the schema in the
    cache. You can copy the cache to a machine without a network.
    """
    from activemq_fleet import Release
    from activemq_fleet.artifacts import fetch_schema_to_cache

    if source is not None and len(releases) > 1:
        raise click.UsageError(f"--from {source} is the file of a single release: name only one RELEASE")
    for release in map(Release.of, releases):
        with ACTIVITY.spinner_with_text(f"Fetching the XML schema of ActiveMQ {release}"):
            path = fetch_schema_to_cache(release, source, progress=print_escaped_to_stderr)
        print_escaped(f"XML schema of ActiveMQ {release}: {path}")


def _add_print_command(name: str, files: str) -> None:
    """Add a command that prints the JSON Schema of one kind of file."""

    @schema_command.command(
        name,
        help=f"Print the JSON Schema (draft 2020-12) of {files}.\n\nAn editor with a YAML language server validates "
        "and completes a file that begins with the line: # yaml-language-server: $schema=PATH",
        short_help=f"Print the JSON Schema of {files}.",
    )
    def print_command() -> None:
        from activemq_fleet.settings.json_schemas import read_json_schema_text

        click.echo(read_json_schema_text(name), nl=False)


_add_print_command("variables", "group_vars/*.yml and host_vars/*.yml")
_add_print_command("inventory", "an inventory such as hosts.yml")
