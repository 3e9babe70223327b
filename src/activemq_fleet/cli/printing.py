"""How commands print: text of strangers can neither colour, move nor hide what stands on a terminal."""

from __future__ import annotations

import click

from activemq_fleet.printable import printable


def echo(text: str, *, err: bool = False) -> None:
    """Print lines, to standard error with ``err``. Text that has colours of our own goes to ``click.echo``."""
    click.echo(printable(text, lines=True), err=err)
