"""Print text of commands so that text from files and hosts cannot control the terminal."""

from __future__ import annotations

import click

from activemq_fleet.node.printable import printable


def echo(text: str, *, err: bool = False) -> None:
    """Print lines with control characters removed, to stdout, or to stderr with ``err``; not for coloured text."""
    click.echo(printable(text, lines=True), err=err)


def echo_to_stderr(text: str) -> None:
    """Print lines, such as the progress of a command, to stderr with control characters removed."""
    echo(text, err=True)


def warn(text: str) -> None:
    """Print ``warning:`` and a text, as one line, to stderr."""
    echo_to_stderr(f"warning: {' '.join(text.split())}")
