"""Define ``activemq-fleet init``, which writes a first inventory."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import click

from activemq_fleet import FleetError, InputError
from activemq_fleet.atomic_files import directory_entry_paths, replace_directory_files
from activemq_fleet.cli.completion_values import complete_releases
from activemq_fleet.cli.options import output_option
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import activemq_fleet_command_with_arguments, print_escaped, print_warning
from activemq_fleet.node.printable import count_with_noun

_SHOWN_NAMES = 3  # Number of existing files that the error names.


@click.command("init")
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@click.option(
    "--release",
    metavar="X",
    required=True,
    shell_complete=complete_releases,
    help="ActiveMQ release of the brokers, such as 5.18.3.",
)
@output_option(
    "DIR", "Directory for the inventory. It must be absent or empty.", NonEmptyPath(path_type=Path), "inventory"
)
@click.option(
    "--archive",
    metavar="FILE",
    type=NonEmptyPath(exists=True, dir_okay=False, path_type=Path),
    help="Path of apache-activemq-X-bin.tar.gz, which the playbook `site` installs. `init` computes its checksum.",
)
@click.option(
    "--tls",
    is_flag=True,
    help="Use TLS for connectors and links of brokers. It requires keystores "
    "on the hosts, which you install before the playbook `site` runs.",
)
def init_command(hosts: tuple[str, ...], release: str, output: Path, archive: Path | None, tls: bool) -> int:
    """Write an Ansible inventory for the brokers HOST..., which `check` accepts.

    `init HOST HOST` derives pairs and groups from the host names. It uses the default naming convention, or the
    convention that `activemq-fleet names` proposes for these hosts. A host whose name does not match becomes a broker
    without a peer. To make a pair of two such hosts, write HOST1,HOST2: the name of the pair then consists of both
    names. Safe values are set explicitly: a guard for shared stores, limits, the console on loopback. No password is
    written: the files show where passwords come from.
    """
    from activemq_fleet import Release
    from activemq_fleet.inventory_scaffold import InventoryScaffoldRequest, scaffold_inventory

    occupied = _occupied_directory_message(output)
    checksum = _sha512(archive) if archive else None
    request = InventoryScaffoldRequest(hosts, release, str(archive.absolute()) if archive else None, checksum, tls)
    try:
        inventory = scaffold_inventory(request)
    except FleetError as error:
        if occupied is None:
            raise
        raise InputError(occupied, *error.lines, remedies=error.remedies) from None
    if occupied is not None:
        raise InputError(occupied)
    for warning in Release.of(release).warnings:
        print_warning(warning)
    replace_directory_files(output, inventory.files, check_target=_check_directory_empty)
    for reading in inventory.readings:
        print_escaped(reading)
    print_escaped(
        f"To change the pair or node of a host above, set its activemq_pair and activemq_node in "
        f"{output / 'hosts.yml'}. You can also remove {output} and run init with HOST,HOST for each pair."
    )
    print_escaped(
        f"{output}: {count_with_noun(len(inventory.files), 'file')}. Next: "
        f"{activemq_fleet_command_with_arguments('check', '-i', output)}, "
        f"then ansible-playbook -i {shlex.quote(str(output))} activemq.fleet.site --check --diff"
    )
    return 0


def _check_directory_empty(directory: Path) -> None:
    """Raise InputError if a directory exists and is not empty."""
    occupied = _occupied_directory_message(directory)
    if occupied is not None:
        raise InputError(occupied)


def _occupied_directory_message(directory: Path) -> str | None:
    """Return the error message about a directory that exists and is not empty; None for any other path."""
    names = sorted(path.name for path in directory_entry_paths(directory))
    if not names:
        return None
    shown = names[:_SHOWN_NAMES]
    rest = f" and {count_with_noun(len(names) - len(shown), 'other path')}" if len(names) > len(shown) else ""
    return (
        f"{directory}: the directory is not empty (it contains {', '.join(shown)}{rest}), and init would replace "
        f"it: set another directory with -o, or move or remove {'this path' if len(names) == 1 else 'these paths'}"
    )


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()
