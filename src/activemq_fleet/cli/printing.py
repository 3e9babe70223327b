"""Print text and tables of commands so that text from files and hosts cannot control the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.terminal import UNFOLDED_WIDTH, colored_text_of_rich_object
from activemq_fleet.node.printable import escape_unprintable


def print_escaped(text: str, *, err: bool = False) -> None:
    """Print text to stdout, with its control characters escaped.

    With ``err`` it is printed to stderr. The function is not for colored text: it escapes the codes of colors, too.
    """
    with ACTIVITY.without_spinner():
        click.echo(escape_unprintable(text, lines=True), err=err)


def print_escaped_to_stderr(text: str) -> None:
    """Print text to stderr, with its control characters escaped, such as the progress of a command."""
    print_escaped(text, err=True)


def print_warning(text: str) -> None:
    """Print a warning to stderr, on one line."""
    print_escaped_to_stderr(f"warning: {' '.join(text.split())}")


def activemq_fleet_command_with_arguments(*words: str | Path) -> str:
    """Return the command line of ``activemq-fleet`` with the given words as arguments, quoted for a shell."""
    return shlex.join(["activemq-fleet", *map(str, words)])


def current_command_options_as_words(names: Iterable[str] = (), *, without: Iterable[str] = ()) -> list[str]:
    """Return the options of the running command as words, for a suggested command line with the same options.

    ``names`` are the parameters to repeat (default: all) and ``without`` those to leave out. An option whose value
    comes from the environment or from a configuration file applies to the suggested command, too, and is not repeated.
    Neither are options such as ``--no-color`` that change only what a command prints on a terminal.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return []
    chosen, excluded = set(names), set(without)
    return [
        word
        for parameter in context.command.params
        if isinstance(parameter, click.Option) and parameter.name in context.params and parameter.name not in excluded
        if parameter.name in chosen or not chosen
        if context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        for word in _words_of(parameter, context.params[parameter.name])
    ]


def _words_of(option: click.Option, value: object) -> Iterator[str]:
    """Yield the words that give an option its value: the shortest name, and the value unless it is a flag."""
    if option.is_flag:
        yield (option.opts if value else option.secondary_opts)[0]
        return
    for text in value if isinstance(value, tuple) else (value,):
        yield from (min(option.opts, key=len), str(text))


def table_text(
    head: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str] | None = None, *, folded: bool = True
) -> str:
    """Return a table (rows below column heads) as text.

    ``styles`` maps a cell's text to a style of rich. Without a terminal, or if it is not ``folded``, each row is a
    plain line.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in head:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(escape_unprintable(cell), style=(styles or {}).get(cell, "")) for cell in row))
    return "\n".join(
        line.rstrip()
        for line in colored_text_of_rich_object(table, width=None if folded else UNFOLDED_WIDTH).split("\n")
    )


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str] | None = None) -> None:
    """Print a table (rows below column heads) to stdout.

    ``table_text`` formats it.
    """
    click.echo(table_text(head, rows, styles))
