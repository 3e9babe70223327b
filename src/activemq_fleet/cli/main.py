"""Define ``activemq-fleet``: the group of commands, each imported when it is called."""

from __future__ import annotations

import gc
import importlib
import locale
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from activemq_fleet import __version__
from activemq_fleet.cli.completion import COMPLETE_VARIABLE, handle_shell_completion_request
from activemq_fleet.cli.error_lines import PROGRAM, open_closed_standard_streams, run_and_print_errors
from activemq_fleet.cli.terminal import add_color_and_pager_options, color_off_in_environment
from activemq_fleet.similar_names import most_similar_name

_UTF8_LOCALE = "C.UTF-8"

# The commands are in the order of use.
COMMANDS = (
    *("init", "names", "render", "check", "explain", "graph", "schema", "lab", "status", "adopt"),
    *("pack", "plan", "drift", "audit", "store", "rule", "help", "completion"),
)


def collect_garbage_rarely() -> None:
    """Set Python's thresholds so that it collects garbage rarely.

    A fleet of 10,000 brokers has millions of permanent objects; the search through them took 4 to 12 % of the time.
    """
    gc.set_threshold(100_000, 20, 100)


class LazyGroup(click.Group):
    """A click group that imports its commands lazily, on first use.

    Each command is in the module ``activemq_fleet.cli.NAME``. Importing all commands would make ``--version`` as slow
    as the slowest import.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"activemq_fleet.cli.{cmd_name}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return add_color_and_pager_options(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            suggestion = most_similar_name(name, COMMANDS)
            hint = f"; did you mean {suggestion}?" if suggestion else ""
            ctx.fail(f"No such command '{name}'{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def fleet_cli() -> None:
    """Generate, verify and operate highly available ActiveMQ Classic clusters from an Ansible inventory.

    Exit codes: 0 success; 1 error findings, or a failed run; 2 wrong usage or unreadable input.
    `activemq-fleet help command-line exit codes` explains them.
    """


add_color_and_pager_options(fleet_cli)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``activemq-fleet``. Return its exit code.

    ``arguments`` default to ``sys.argv[1:]``. A command sets an exit code other than 0 by returning it, by
    ``context.exit`` or by raising an error.
    """
    if arguments is None:
        open_closed_standard_streams()
        collect_garbage_rarely()
        _use_utf8_locale()
    exit_code = run_and_print_errors(lambda: _invoke(arguments))
    if arguments is None:
        # Otherwise, Python searches all objects for cycles before it exits: 0.1 s after the check of a small fleet.
        gc.freeze()
    return exit_code


def _use_utf8_locale() -> None:
    """Replace a locale without UTF-8, such as C in cron jobs, because Ansible rejects such a locale."""
    try:
        locale.setlocale(locale.LC_ALL, "")
        encoding = locale.getlocale()[1] or ""
    except (locale.Error, ValueError):
        encoding = ""
    if encoding.lower() not in ("utf-8", "utf8"):
        with suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, _UTF8_LOCALE)
            os.environ["LC_ALL"] = _UTF8_LOCALE


def _invoke(arguments: Sequence[str] | None) -> int:
    # fleet_cli.main() would exit for a closed pipe.
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None and (instruction := os.environ.get(COMPLETE_VARIABLE)):
        return handle_shell_completion_request(fleet_cli, instruction)
    color = False if color_off_in_environment() else None
    with fleet_cli.make_context(PROGRAM, words, color=color) as context:
        result = fleet_cli.invoke(context)
    return result if isinstance(result, int) else 0
