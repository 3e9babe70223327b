"""Decide how commands print on a terminal: with which colors, how wide, and through which pager."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
from io import StringIO
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

UNFOLDED_WIDTH = 10_000
"""The width of output that no terminal wraps: a line per row, whatever its length."""
_NO_PAGER = "activemq_fleet.no_pager"
_COLORS: dict[str, bool | None] = {"auto": None, "always": True, "never": False}


def color_off_in_environment() -> bool:
    """Return whether an environment variable, such as NO_COLOR, turns colors off.

    Either NO_COLOR (https://no-color.org) is set, or the terminal has no escape codes.
    """
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def add_color_and_pager_options(command: click.Command) -> click.Command:
    """Add the options for color and pager to a command and its subcommands.

    The options are ``--color``, ``--no-color`` and ``--no-pager``; they are added once. Return the command.
    """
    if not any(parameter.name == "no_pager" for parameter in command.params):
        command.params += [
            click.Option(
                ["--color"],
                type=click.Choice([*_COLORS]),
                expose_value=False,
                callback=_set_color,
                help="Select when to print colors. With auto, only a terminal gets colors, unless NO_COLOR is set.",
            ),
            click.Option(
                ["--no-color"],
                is_flag=True,
                expose_value=False,
                callback=_set_no_color,
                help="Print no colors, as --color never does.",
            ),
            click.Option(
                ["--no-pager"],
                is_flag=True,
                expose_value=False,
                callback=_set_no_pager,
                help="Print long output directly, and not through a pager ($PAGER, by default less).",
            ),
        ]
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_color_and_pager_options(subcommand)
    return command


def _set_color(context: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.color = _COLORS[value]


def _set_no_color(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        context.color = False


def _set_no_pager(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_NO_PAGER] = True


def user_color_choice() -> bool | None:
    """Return True if the user requests colors in the output, False if the user excludes them, None without a choice.

    Without a choice only a terminal gets colors.
    """
    context = click.get_current_context(silent=True)
    if context:
        return context.color
    return False if color_off_in_environment() else None


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return whether a stream, by default stdout, is a terminal."""
    output = sys.stdout if stream is None else stream
    return bool(getattr(output, "isatty", bool)())


def stdout_terminal_width() -> int | None:
    """Return the width of the terminal on stdout in columns; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def _rich_console_for(file: TextIO | None = None, *, width: int | None = None) -> Console:
    """Return a rich console for a file or stdout, with the colors that the user chose.

    Where stdout is no terminal, it is so wide that no line is wrapped, unless ``width`` is given.
    """
    from rich.console import Console

    color = user_color_choice()
    has_color = is_terminal() if color is None else color
    return Console(
        file=file or sys.stdout,
        force_terminal=has_color,
        color_system="auto" if has_color else None,
        no_color=None if color is None else not color,
        width=width or stdout_terminal_width() or UNFOLDED_WIDTH,
        highlight=False,
    )


def colored_text_of_rich_object(renderable: RenderableType, *, width: int | None = None) -> str:
    """Return the text of an object of the library ``rich``, such as a table, with the escape codes of its colors."""
    buffer = StringIO()
    _rich_console_for(buffer, width=width).print(renderable)
    return buffer.getvalue().rstrip("\n")


def print_through_pager(text: str) -> None:
    """Print text through a pager, or directly if it fits on the terminal.

    The text may have escape codes of colors.
    """
    if _is_paged(text):
        # Options as in git: quit if the text fits one screen, show colors, keep the text on the screen.
        os.environ.setdefault("LESS", "FRX")
        click.echo_via_pager(text + "\n")
    else:
        click.echo(text)


def _is_paged(text: str) -> bool:
    context = click.get_current_context(silent=True)
    if context is None or context.meta.get(_NO_PAGER) or not (is_terminal() and is_terminal(sys.stdin)):
        return False
    if os.environ.get("PAGER", "less").strip() in ("", "cat"):
        return False
    size = shutil.get_terminal_size()
    lines = click.unstyle(text).split("\n")
    return sum(max(1, math.ceil(len(line) / size.columns)) for line in lines) >= size.lines


def wrap_text(text: str, width: int | None, *, first: str = "", rest: str = "") -> str:
    """Return a one-line text with line breaks, so that each line fits in a width in columns.

    Without a width (None) the text stays on one line. ``first`` precedes the first line, ``rest`` each other one;
    neither may hold escape codes.
    """
    if width is None:
        return first + text
    return textwrap.fill(
        text,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
