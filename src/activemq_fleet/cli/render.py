"""Define ``activemq-fleet render``, which writes the whole fleet as files in one directory."""

from __future__ import annotations

from pathlib import Path

import click

from activemq_fleet import InputError
from activemq_fleet.atomic_files import directory_entry_paths, replace_directory_files
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.options import InventoryOptions, inventory_options, output_option
from activemq_fleet.cli.output_paths import require_output_differs_from_inputs
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.node.printable import count_with_noun

# Files and directories that `render` creates. It does not overwrite a directory with other files, such as `.git`.
_INDEX = "fleet.json"
_OURS = frozenset({_INDEX, "fleet.svg", "hosts", "clients", "prometheus"})


@click.command("render")
@inventory_options()
@output_option(
    "DIR",
    "Directory for the files. The output of an earlier `render` is replaced completely.",
    NonEmptyPath(path_type=Path),
)
def render_command(inventory: InventoryOptions, output: Path) -> int:
    """Write the generated files of every host, the index fleet.json, and a diagram of the fleet (fleet.svg).

    The playbook `site` adds the other files of `conf/` from the archive of the release. If an error finding is not
    waived, nothing is written. Secrets are written as @VARIABLE@.
    """
    from activemq_fleet import render_fleet
    from activemq_fleet.cli.warnings_and_schemas import (
        load_schema_with_progress,
        print_warnings_and_findings,
        print_warnings_and_inventory_findings,
    )
    from activemq_fleet.diagram import to_svg
    from activemq_fleet.render import activemq_xml_documents_of_rendered_files, render_hosts
    from activemq_fleet.validation import fleet_with_check_findings

    check_output_directory(output)
    require_output_differs_from_inputs("-o", output, inventory.input_paths_by_option())
    fleet = inventory.load_fleet()
    if fleet.blocking_findings:
        print_warnings_and_findings(fleet)
        return 1
    activity = ACTIVITY.spinner_with_text(f"Rendering {count_with_noun(len(fleet.brokers), 'broker')}")
    with inventory.add_positions_to_errors(), activity:
        trees = render_hosts(fleet)
        checked = fleet_with_check_findings(
            fleet, activemq_xml_documents_of_rendered_files(fleet, trees), load_schema_with_progress
        )
    if checked.blocking_findings:
        print_warnings_and_findings(checked)
        return 1
    print_warnings_and_inventory_findings(checked)
    files = render_fleet(checked, trees)  # fleet.json lists the known and the waived findings.
    replace_directory_files(
        output, {**files, "fleet.svg": to_svg(checked).encode()}, check_target=check_output_directory
    )
    numbers = [count_with_noun(len(fleet.brokers), "broker"), count_with_noun(len(fleet.agents), "agent")]
    if fleet.balancers:
        numbers.append(count_with_noun(len(fleet.balancers), "load balancer"))
    print_escaped(f"{output}: {', '.join(numbers)}, {count_with_noun(len(files) + 1, 'file')}")
    return 0


def check_output_directory(directory: Path) -> None:
    """Raise InputError if ``render`` must not write to a directory, because the directory contains other files.

    An accepted directory is absent, empty, or holds only files that ``render`` wrote.
    """
    names = {path.name for path in directory_entry_paths(directory)}
    if names and _INDEX not in names:
        raise InputError(
            f"{directory}: this directory contains files that `render` did not write, and `render` would delete "
            "them: choose another directory with -o"
        )
    if foreign := sorted(names - _OURS):
        raise InputError(
            f"{directory}: the output directory contains {foreign[0]}, which `render` did not write and would delete: "
            f"move {foreign[0]} away, or choose another directory with -o"
        )
