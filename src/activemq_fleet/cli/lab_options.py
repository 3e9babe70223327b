"""Define what all commands of ``activemq-fleet lab`` share: options that choose a lab, and how one is interrupted."""

from __future__ import annotations

import dataclasses
import importlib.util
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from activemq_fleet import InputError
from activemq_fleet.cli.options import Decorator, InventoryOptions, inventory_options, options_as_argument
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import (
    activemq_fleet_command_with_arguments,
    current_command_options_as_words,
    print_escaped_to_stderr,
)
from activemq_fleet.install_hint import install_hint

if TYPE_CHECKING:
    from activemq_fleet.lab import Lab


def require_lab_packages(part: str, *names: str) -> None:
    """Raise InputError if Python packages of the extra ``lab`` are not installed.

    ``part``, such as "the lab", imports the packages.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"Python packages that {part} requires are not installed ({', '.join(missing)}): {install_hint('lab')}"
        )


def _open_lab(inventory: InventoryOptions, directory: str | None) -> Lab:
    if directory is None:
        inventory = inventory.with_inventory_from_ansible_config()
    if not (inventory or directory):
        raise click.UsageError("no lab is selected: set -i INVENTORY, or set --dir to the directory of a lab")
    require_lab_packages("the lab", "paho", "psutil")
    # The import is here because it also imports clients and templates, which --help does not need.
    from activemq_fleet.lab import Lab

    return Lab.open(directory=directory, progress=print_escaped_to_stderr, **dataclasses.asdict(inventory))


def _lab_options(*, inventory_required: bool) -> Decorator:
    return options_as_argument(
        "lab",
        _open_lab,
        inventory_options(required=inventory_required),
        click.option(
            "--dir",
            "directory",
            type=NonEmptyPath(),
            help="Directory with the files of the lab (default: a separate directory for each user and inventory).",
        ),
    )


lab_options = _lab_options(inventory_required=True)
"""Adds the options of the inventory and ``--dir``; the command gets the lab that they name as ``lab``."""
existing_lab_options = _lab_options(inventory_required=False)
"""Adds the same options to commands that read no inventory, for which ``--dir`` is sufficient."""


_INVENTORY_PARAMETERS = ("sources", "extra_vars", "vault_ids", "vault_password_files")
_LAB_PARAMETERS = (*_INVENTORY_PARAMETERS, "directory")


def inventory_options_of_current_command() -> InventoryOptions:
    """Return the inventory options, such as ``-i``, of the current ``lab`` command.

    Without such options, the inventory is that of Ansible's configuration.
    """
    parameters = click.get_current_context().params
    inventory = InventoryOptions(**{name: parameters[name] for name in _INVENTORY_PARAMETERS})
    return inventory.with_inventory_from_ansible_config()


def command_line_of_lab_subcommand(subcommand: str) -> str:
    """Return the command line of a ``lab`` subcommand for the lab (local test brokers) of the current command.

    The options that select the lab are those of the current command.
    """
    return activemq_fleet_command_with_arguments("lab", subcommand, *current_command_options_as_words(_LAB_PARAMETERS))


@contextmanager
def stop_signals_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as KeyboardInterrupt inside a ``with`` block, so that started processes are stopped.

    A terminal that is closed, or an SSH connection that is lost, sends SIGHUP, often twice. Only the first signal
    interrupts the block, so that the cleanup is not interrupted. SIGHUP stays ignored under ``nohup``.
    """
    is_interrupted = False

    # Not SIG_IGN after the first signal: the processes that the cleanup starts would ignore the signals, too.
    def interrupt(_number: int, _frame: object) -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            raise KeyboardInterrupt

    previous_handlers = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
