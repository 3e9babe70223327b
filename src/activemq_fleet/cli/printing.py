"""Print text and tables of commands so that text from files and hosts cannot control the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.terminal import console_for
from activemq_fleet.node.printable import printable


def echo(text: str, *, err: bool = False) -> None:
    """Print lines with control characters removed, to stdout, or to stderr with ``err``; not for coloured text."""
    with ACTIVITY.interrupted():
        click.echo(printable(text, lines=True), err=err)


def echo_to_stderr(text: str) -> None:
    """Print lines, such as the progress of a command, to stderr with control characters removed."""
    echo(text, err=True)


def warn(text: str) -> None:
    """Print ``warning:`` and a text, as one line, to stderr."""
    echo_to_stderr(f"warning: {' '.join(text.split())}")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str] | None = None) -> None:
    """Print rows below their titles; ``styles`` maps a cell's text to a style of rich. Without a terminal: a plain line
    a row.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in head:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell), style=(styles or {}).get(cell, "")) for cell in row))
    console_for().print(table)
