"""Define ``activemq-fleet graph``, which draws the topology."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from activemq_fleet import InputError
from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.options import InventoryOptions, inventory_options, output_option
from activemq_fleet.cli.output_paths import require_output_differs_from_inputs
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.node.printable import count_with_noun


@click.command("graph")
@inventory_options()
@output_option(
    "FILE", "The file to write: NAME.svg, or NAME.mmd for Mermaid.", NonEmptyPath(path_type=Path), "fleet.svg"
)
@click.option(
    "--status",
    "status",
    metavar="FILE",
    type=NonEmptyPath(exists=True, dir_okay=False, path_type=Path),
    help="File with the output of `status --format json`. Show the states and findings of this file in the "
    "graph, in place of findings of `check`.",
)
def graph_command(inventory: InventoryOptions, output: Path, status: Path | None) -> int:
    """Draw groups, pairs and links: an SVG to print, or Mermaid for Markdown.

    The drawing marks the findings at the brokers and links that they concern. It does not mark schema errors: run
    `activemq-fleet check` to see them.
    """
    from activemq_fleet.atomic_files import write_file_atomically
    from activemq_fleet.cli.warnings_and_schemas import print_warnings_and_inventory_findings
    from activemq_fleet.diagram import to_mermaid, to_svg
    from activemq_fleet.topology import pair_and_single_broker_count_texts

    writers = {".svg": to_svg, ".mmd": to_mermaid}
    if output.suffix not in writers:
        raise click.BadParameter(
            f"the name of the output file {output} must end in .svg (SVG image) or .mmd "
            "(Mermaid text). Set -o to such a name",
            param_hint="-o",
        )
    inputs = {**inventory.input_paths_by_option(), "--status": [status] if status else []}
    require_output_differs_from_inputs("-o", output, inputs)
    fleet = inventory.load_fleet()
    print_warnings_and_inventory_findings(fleet)
    states: dict[str, str] = {}
    if status is None:
        from activemq_fleet.render import render_activemq_xml_documents_by_host
        from activemq_fleet.validation import fleet_with_lint_findings

        with ACTIVITY.spinner_with_text("Checking the fleet"):
            displayed_fleet = fleet_with_lint_findings(fleet, render_activemq_xml_documents_by_host(fleet))
    else:
        from activemq_fleet.status import parse_states_and_findings

        states, findings = parse_states_and_findings(status.read_text(encoding="utf-8", errors="replace"), str(status))
        if states and not any(broker.host in states for broker in fleet.brokers):
            raise InputError(
                f"the file {status} contains no broker of this inventory: set --status to the output of "
                "`status --format json` for the same inventory"
            )
        displayed_fleet = replace(fleet, findings=findings)
    with ACTIVITY.spinner_with_text("Drawing the fleet"):
        write_file_atomically(output, writers[output.suffix](displayed_fleet, states).encode())
    numbers = pair_and_single_broker_count_texts(fleet.brokers)
    if any(broker.ha_profile.has_peer for broker in fleet.brokers):
        numbers.insert(0, count_with_noun(len(fleet.brokers), "broker"))
    print_escaped(f"{output}: {', '.join(numbers)}")
    return 0
