"""The reference page of the command line, generated from the help texts of the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from activemq_fleet.cli.main import fleet_cli


def command_line_page() -> str:
    """Return the page of all commands and subcommands of ``activemq-fleet``."""
    context = click.Context(fleet_cli, info_name="activemq-fleet")
    return "".join(["# Command line\n\n", _help(fleet_cli), "\n", *_sections(fleet_cli, context)])


def _sections(commands: click.Group, parent: click.Context) -> Iterator[str]:
    for name in commands.list_commands(parent):
        command = commands.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, parent=parent, info_name=name)
        level = "#" * (context.command_path.count(" ") + 1)
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"\n{level} {context.command_path}\n\n```text\n{usage}\n```\n\n{_help(command)}\n"
        yield from _options(command, context)
        if isinstance(command, click.Group):
            yield from _sections(command, context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [record for option in command.get_params(context) if (record := option.get_help_record(context))]
    if records:
        yield "\n| option | description |\n|---|---|\n"
        for option, description in records:
            yield f"| `{option}` | {_cell(description)} |\n".replace(" | ` |", " |")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _help(command: click.Command) -> str:
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            paragraphs.append(f"```text\n{paragraph.lstrip(chr(8)).strip(chr(10))}\n```")
        else:
            paragraphs.append(paragraph.replace("<", "&lt;").replace("*", "\\*"))
    return "\n\n".join(paragraphs)
