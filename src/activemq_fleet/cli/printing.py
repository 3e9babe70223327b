"""Print text of commands so that text from files and hosts cannot control the terminal."""

from __future__ import annotations

import click

from activemq_fleet.printable import printable


def echo(text: str, *, err: bool = False) -> None:
    """Print lines without control characters, to stderr with ``err``; coloured text needs ``click.echo`` instead."""
    click.echo(printable(text, lines=True), err=err)
