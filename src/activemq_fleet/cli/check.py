"""``check``: what is wrong with a fleet, before any host is touched."""

from __future__ import annotations

import click

from activemq_fleet.cli.formats import FORMATS
from activemq_fleet.cli.options import InventoryOptions, inventory_options


@click.command("check")
@inventory_options()
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def command(inventory: InventoryOptions, form: str) -> int:
    """Check the topology, and every activemq.xml against its release's schema.

    Exit code 1 for an error finding that is not waived.
    """
    from activemq_fleet.cli.findings import schema_of, tell_findings, tell_warnings
    from activemq_fleet.render.activemq_xml import activemq_xml
    from activemq_fleet.validation import with_schema_findings

    fleet = inventory.load_fleet()
    tell_warnings(fleet)
    documents = {broker.host: activemq_xml(broker) for broker in fleet.brokers}
    checked = with_schema_findings(fleet, documents, schema_of)
    tell_findings(checked, form)
    return 1 if checked.blocking else 0
