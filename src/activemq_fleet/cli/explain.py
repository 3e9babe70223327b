"""``explain``: one host's whole story in a page."""

from __future__ import annotations

import json
import shutil

import click

from activemq_fleet.cli.options import InventoryOptions, inventory_options

_LEAST, _MOST = 80, 100
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
@click.argument("host", metavar="HOST")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(inventory: InventoryOptions, host: str, form: str) -> int:
    """Tell one HOST's story: role, release, ports, store, links, who takes over when it dies, and why.

    HOST is an inventory name, or its first label where that is one host's only. A value that the
    inventory or a default decides is followed by its variable.
    """
    from activemq_fleet.cli.findings import tell_warnings
    from activemq_fleet.explain import story_of, to_text

    fleet = inventory.load_fleet()
    tell_warnings(fleet)
    story = story_of(fleet, host)
    if form == "json":
        click.echo(json.dumps(story.to_dict(), indent=2, ensure_ascii=False))
    else:
        click.echo(to_text(story, width=_width(), emphasis=_styled))
    return 0


def _width() -> int:
    """The terminal's, within what is read easily."""
    return min(max(shutil.get_terminal_size((_LEAST, 24)).columns, _LEAST), _MOST)


def _styled(text: str, kind: str) -> str:
    # click.echo takes the colours out where there is no terminal.
    return click.style(text, **_STYLES[kind])  # type: ignore[arg-type]
