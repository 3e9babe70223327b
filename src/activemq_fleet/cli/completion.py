"""Define ``activemq-fleet completion``, which prints the script with which a shell completes the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import click

from activemq_fleet.cli.error_lines import PROGRAM

COMPLETE_VARIABLE = "_ACTIVEMQ_FLEET_COMPLETE"
"""The environment variable by which a shell's script makes the program complete a line, and print the result."""
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the script for completion in bash, zsh or fish.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> int:
    """Print the script with which SHELL completes commands, options, hosts of the inventory and rules.

    \b
    bash: eval "$(activemq-fleet completion bash)"          in ~/.bashrc
    zsh:  eval "$(activemq-fleet completion zsh)"           in ~/.zshrc, after compinit
    fish: activemq-fleet completion fish | source           in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101 -- click supports all three shells
    click.echo(completion(context.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE).source())
    return 0


def handle_shell_completion_request(group: click.Command, instruction: str) -> int:
    """Print the shell completions of a command line.

    The value of the shell's variable, such as ``bash_complete``, selects what is printed. Return 0 on success. Nothing
    is printed to stderr, which the shell shows in the middle of the line that the user types.
    """
    from click.shell_completion import shell_complete

    with _silent_stderr():
        try:
            return shell_complete(group, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
        except Exception:  # noqa: BLE001 -- an incomplete command line is no error
            return 1


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard what this process and its libraries write to stderr."""
    with open(os.devnull, "w", encoding="utf-8") as discarded, redirect_stderr(discarded):
        yield
