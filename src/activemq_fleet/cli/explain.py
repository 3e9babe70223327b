"""Define ``activemq-fleet explain``, which prints a host's whole explanation as a page."""

from __future__ import annotations

import shutil

import click

from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.completion_values import complete_hosts
from activemq_fleet.cli.options import InventoryOptions, format_option, inventory_options, require_option
from activemq_fleet.cli.printing import print_escaped
from activemq_fleet.cli.terminal import print_through_pager
from activemq_fleet.node.printable import terminal_safe_json

_MIN_WIDTH, _MAX_WIDTH = 80, 100
_STYLES: dict[str, dict[str, object]] = {
    "title": {"bold": True},
    "heading": {"bold": True, "underline": True},
    "label": {"fg": "cyan"},
    "variable": {"fg": "bright_black"},
    "error": {"fg": "red"},
    "warning": {"fg": "yellow"},
    "info": {"fg": "blue"},
    "waived": {"fg": "bright_black"},
}


@click.command("explain")
@inventory_options()
@click.argument("host", metavar="HOST", shell_complete=complete_hosts)
@click.option(
    "--to",
    "to",
    metavar="TARGET",
    shell_complete=complete_hosts,
    help="Show the route of a message from HOST to a consumer on the host TARGET.",
)
@click.option(
    "--destination",
    metavar="NAME",
    help="Destination of the message whose route --to shows: the name of a queue, or topic://NAME.",
)
@format_option()
def explain_command(inventory: InventoryOptions, host: str, to: str | None, destination: str | None, form: str) -> int:
    """Explain one HOST: role, release, ports, store, links, which node takes over when it fails, and why.

    HOST is an inventory name. The part before its first dot is enough if no other host has this part. A value from
    the inventory or a default is followed by its variable. With --to the command shows the route of a message from
    one host to a consumer on another, and the single failures that interrupt it.
    """
    from activemq_fleet import explain_host, find_routes
    from activemq_fleet.cli.warnings_and_schemas import print_warnings_and_inventory_findings
    from activemq_fleet.explain import explanation_to_text
    from activemq_fleet.explain.route_page import explain_route

    if not to:
        require_option("--to", "destination")
    fleet = inventory.load_fleet()
    print_warnings_and_inventory_findings(fleet)
    activity = ACTIVITY.spinner_with_text("Following the routes of messages" if to else f"Explaining {host}")
    with inventory.add_positions_to_errors(), activity:
        explanation = (
            explain_route(fleet, find_routes(fleet), host, to, destination) if to else explain_host(fleet, host)
        )
    if form == "json":
        print_escaped(terminal_safe_json(explanation.to_dict()))
    else:
        print_through_pager(explanation_to_text(explanation, width=_width(), emphasis=_styled))
    return 0


def _width() -> int:
    """Return the terminal's width, limited to 80 to 100 columns."""
    return min(max(shutil.get_terminal_size((_MIN_WIDTH, 24)).columns, _MIN_WIDTH), _MAX_WIDTH)


def _styled(text: str, kind: str) -> str:
    # click.echo removes the colors if stdout is no terminal.
    return click.style(text, **_STYLES[kind])  # type: ignore[arg-type]
