"""Define ``activemq-fleet adopt``, which turns existing activemq.xml files into an inventory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from activemq_fleet import InputError
from activemq_fleet.atomic_files import directory_entry_paths, replace_directory_files
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.options import format_option, output_option
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import (
    activemq_fleet_command_with_arguments,
    current_command_options_as_words,
    print_escaped,
    print_warning,
)
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.node.printable import count_with_noun

if TYPE_CHECKING:
    from activemq_fleet.adopt import AdoptedInventory


@click.command("adopt")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@output_option(
    "INVENTORY",
    "Directory for the inventory. Output of an earlier run is replaced if its files were not changed.",
    NonEmptyPath(path_type=Path),
)
@click.option(
    "--release",
    "releases",
    metavar="[HOST=]X",
    multiple=True,
    help="ActiveMQ release of all brokers, or of the broker HOST. May be repeated. Files that `render` wrote do "
    "not require it.",
)
@click.option(
    "--address",
    "addresses",
    metavar="HOST=ADDRESS",
    multiple=True,
    help="ADDRESS by which other brokers connect to the broker HOST (default: its host name). May be repeated.",
)
@click.option(
    "--properties",
    metavar="[HOST=]FILE",
    multiple=True,
    help="File with lines NAME=VALUE. Each VALUE replaces ${NAME} in all activemq.xml files. HOST=FILE applies only to "
    "the activemq.xml of HOST. May be repeated.",
)
@click.option(
    "--shared-store",
    "shared",
    metavar="PAIR",
    multiple=True,
    help="Name of a pair whose nodes share one kahaDB store, if their activemq.xml files do not show this. May "
    "be repeated.",
)
@click.option(
    "--naming-pattern",
    metavar="REGEX",
    default=DEFAULT_PATTERN,
    help="Regular expression that finds the broker group and the node in host names. Sets activemq_naming_pattern.",
)
@click.option(
    "--naming-parity",
    type=click.Choice(["odd-even", "even-odd"]),
    help="Form pairs of hosts by the numbers in their names: 1 with 2 (odd-even), or 0 with 1 (even-odd). Sets "
    "activemq_naming_parity.",
)
@click.option(
    "--node",
    metavar="MARK",
    help="Node (activemq_node), such as a, of all hosts whose names contain no node. Each of these hosts becomes a "
    "broker without a standby.",
)
@format_option(help="Format of the printed report.")
def adopt_command(
    files: tuple[str, ...],
    output: Path,
    releases: tuple[str, ...],
    addresses: tuple[str, ...],
    properties: tuple[str, ...],
    shared: tuple[str, ...],
    naming_pattern: str,
    naming_parity: str | None,
    node: str | None,
    form: str,
) -> int:
    """Convert existing activemq.xml files to an inventory, and report the settings that no inventory can express.

    FILE is HOST=PATH, or a path that contains the host name, or a directory, in which adopt searches for every
    activemq.xml. The report lists every difference between the original files and the files that the inventory
    renders. Passwords are not copied.
    """
    import json

    from activemq_fleet import adopt_files
    from activemq_fleet.adopt import UnparsedHostNamesError
    from activemq_fleet.cli.warnings_and_schemas import load_schema_with_progress

    _check_inventory_directory(output)
    try:
        with ACTIVITY.spinner_with_text("Reading the files"):
            adopted = adopt_files(
                files,
                releases=releases,
                addresses=addresses,
                properties=properties,
                shared_stores=shared,
                naming_pattern=naming_pattern,
                naming_parity=naming_parity,
                node=node,
                schema_of=load_schema_with_progress,
                warn=print_warning,
            )
    except UnparsedHostNamesError as error:
        options = current_command_options_as_words(without=("naming_pattern", "naming_parity", "node"))
        placeholder = [] if releases else ["--release", "RELEASE"]
        raise error.error_with_options_in_adopt_commands([*placeholder, *options]) from None
    replace_directory_files(output, adopted.files, check_target=_check_inventory_directory)
    if form == "json":
        print_escaped(json.dumps([asdict(difference) for difference in adopted.differences], indent=2))
        for line in (
            *_note_and_secret_lines(output, adopted),
            *_read_file_lines(adopted),
            *_next_step_lines(output, adopted),
        ):
            print_escaped(line, err=True)
    else:
        print_escaped("\n".join(_report_lines(output, adopted)))
    return 0


def _check_inventory_directory(directory: Path) -> None:
    """Check that a new inventory can be written to a directory, and raise InputError if not.

    It is absent, empty, or holds only files that ``adopt`` wrote.
    """
    from activemq_fleet.adopt import MARK, is_inventory_unedited

    files = {}
    for path in sorted(directory_entry_paths(directory, recursive=True)):
        name = str(path.relative_to(directory))
        if path.is_file():
            files[name] = path.read_bytes()
        if path.is_symlink() or MARK.encode() not in files.get(name, MARK.encode())[:200]:
            raise InputError(
                f"{directory}: the output directory contains {name}, which adopt did not write and would remove: move "
                f"{name} away, or choose another directory with -o"
            )
    if files and not is_inventory_unedited(files):
        raise InputError(
            f"{directory}: files in this directory were changed after adopt wrote them, and adopt would overwrite the "
            "changes. Choose another directory with -o"
        )


def _report_lines(output: Path, adopted: AdoptedInventory) -> Iterator[str]:
    """Yield the lines of the report of ``adopt``: actions for the operator first, what needs no action last."""
    from activemq_fleet.adopt import difference_report_lines

    hosts = count_with_noun(len(adopted.fleet.brokers), "host")
    yield f"{output}: {hosts}, {count_with_noun(len(adopted.files), 'file')}"
    yield from _note_and_secret_lines(output, adopted)
    yield from difference_report_lines(adopted)
    yield from _read_file_lines(adopted)
    yield from _next_step_lines(output, adopted)


def _next_step_lines(output: Path, adopted: AdoptedInventory) -> Iterator[str]:
    """Yield the steps from the inventory to brokers that run with it."""
    site = shlex.join(["ansible-playbook", "-i", str(output), "activemq.fleet.site"])
    pure_pairs = [name for name, pair in adopted.fleet.pairs_by_name.items() if pair.ha_profile.needs_resync]
    services = adopted.services or ("activemq",)
    yield "Next:"
    yield f"  1. Follow the notes, and set the values of your hosts in {output}/group_vars/all.yml"
    yield f"  2. {activemq_fleet_command_with_arguments('check', '-i', output)}"
    yield f"  3. {site} --check --diff  # shows what would be written, and changes nothing"
    yield "  4. On each host, keep a copy of the unit activemq.service: the playbook replaces it. Drop-ins also apply"
    yield "     to the new unit: move /etc/systemd/system/activemq.service.d away if it exists. Stop the old broker:"
    for service in services:
        yield f"     systemctl disable --now {service}  # the downtime begins"
    if pure_pairs:
        yield f"     Pure pairs ({', '.join(pure_pairs)}): stop the old slave first, then the old master. Otherwise the"
        yield "     slave becomes master, and the stores of the two nodes differ."
    yield "     To return to the old broker after step 5, remove the new units (systemctl stop activemq-watchdog"
    yield "     activemq; systemctl disable activemq-watchdog; systemctl disable activemq;"
    yield "     rm -f /etc/systemd/system/activemq.service /etc/systemd/system/activemq-watchdog.service),"
    yield "     restore the drop-ins and, if the unit was in /etc/systemd/system, the copy, and start the old unit"
    yield f"     (systemctl daemon-reload; systemctl enable --now {' or '.join(services)})."
    if pure_pairs:
        resync = shlex.join(["ansible-playbook", "-i", str(output), "activemq.fleet.resync", "-e"])
        yield f"  5. {site}  # starts new brokers with the same ports and stores, except pure pairs"
        for pair in pure_pairs:
            yield f"     {resync} activemq_target={pair}  # starts this pair; the downtime ends"
        yield "     If resync cannot determine which store is newer, the old log of each node (such as"
        yield "     /opt/activemq/data/activemq.log) shows which node served last: add -e activemq_resync_from=HOST."
    else:
        yield f"  5. {site}  # starts new brokers with the same ports and stores; the downtime ends"
    yield f"  6. {activemq_fleet_command_with_arguments('status', '-i', output)}"


def _note_and_secret_lines(output: Path, adopted: AdoptedInventory) -> Iterator[str]:
    for note in adopted.notes:
        yield f"note: {_printable(note)}"
    for label, description in adopted.secrets.items():
        path = f"{output}/.secrets/{label}"
        yield (
            f"secret: the inventory reads the {description} from the file {path}, which does not contain it yet: "
            f"write the {description} into this file, or set it in the inventory with ansible-vault"
        )


def _read_file_lines(adopted: AdoptedInventory) -> Iterator[str]:
    for host, paths in adopted.files_read.items():
        yield f"read: {host}: {', '.join(map(_printable, paths))}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
