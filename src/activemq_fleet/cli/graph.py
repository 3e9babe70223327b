"""Define ``activemq-fleet graph``, which draws the topology."""

from __future__ import annotations

from pathlib import Path

import click

from activemq_fleet.cli.options import InventoryOptions, inventory_options, output_option


@click.command("graph")
@inventory_options()
@output_option("FILE", "FILE.svg or FILE.mmd.", click.Path(path_type=Path))
def command(inventory: InventoryOptions, output: Path) -> int:
    """Draw groups, pairs and links: an SVG to print, or Mermaid for Markdown.

    Findings are marked where they are, all but those of the releases' schemas, which `check` asks.
    """
    from activemq_fleet.atomic_files import write_file
    from activemq_fleet.cli.findings import print_warnings, with_lint_findings
    from activemq_fleet.diagram import to_mermaid, to_svg

    writers = {".svg": to_svg, ".mmd": to_mermaid}
    if output.suffix not in writers:
        raise click.BadParameter(f"{output} must end in .svg or .mmd", param_hint="-o")
    fleet = inventory.load_fleet()
    print_warnings(fleet)
    write_file(output, writers[output.suffix](with_lint_findings(fleet)).encode())
    return 0
