"""Define options that several commands share; options that belong together reach a command as one argument."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from activemq_fleet.cli.activity import ACTIVITY
from activemq_fleet.cli.path_parameters import NonEmptyPath, require_files_in_vault_ids

if TYPE_CHECKING:
    from activemq_fleet import Fleet
    from activemq_fleet.inventory import InventoryData, Position
    from activemq_fleet.spark.session_options import SessionOptions

_COMMAND_LINE = ParameterSource.COMMANDLINE
Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def options_as_argument(parameter: str, make: Callable[..., object], *options: Decorator) -> Decorator:
    """Return a decorator that passes a command's options as one argument.

    The argument ``parameter`` is ``make(**values)``. Each parameter of ``make`` is the name of one of the options::

        @click.command()
        @options_as_argument("inventory", InventoryOptions, click.option("-i", "sources"), ...)
        def command(inventory: InventoryOptions) -> None: ...
    """
    names = tuple(inspect.signature(make).parameters)

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            values = {name: kwargs.pop(name) for name in names}
            return function(*args, **{parameter: make(**values)}, **kwargs)

        decorated: Command = wrapper
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


INVENTORY_VARIABLE_OPTIONS = ("extra_vars", "vault_ids", "vault_password_files")
"""The parameters of the options that have an effect only if an inventory is read: ``-e`` and the vault options."""


def require_option(required: str, *dependent_parameters: str) -> None:
    """Raise click.UsageError if the command line has an option that has no effect without the option ``required``.

    A command calls this function if ``required`` was not used. ``dependent_parameters`` are the parameters of the
    options that require it.
    """
    for option in _given_options(dependent_parameters):
        raise click.UsageError(f"{option} requires {required}: add {required}, or remove {option}")


def refuse_options_with(other: str, reason: str, *parameters: str) -> None:
    """Raise click.UsageError if the command line has an option that has no effect together with the option ``other``.

    A command calls this function if ``other`` was used. ``parameters`` are the parameters of the options.
    """
    for option in _given_options(parameters):
        raise click.UsageError(f"{other} and {option} cannot be used together: {reason}. Remove one of the options")


def _given_options(parameters: Collection[str]) -> Iterator[str]:
    """Yield the names of the options with the given parameters that the command line of the current command has.

    An option with its default value is omitted, because it changes nothing.
    """
    context = click.get_current_context()
    for option in context.command.params:
        if option.name not in parameters or context.get_parameter_source(option.name) is not _COMMAND_LINE:
            continue
        value = context.params[option.name]
        if value != option.get_default(context):
            yield (option.secondary_opts if value is False else option.opts)[-1]


def format_option(*formats: str, help: str = "Output format.") -> Decorator:
    """Return a decorator that adds the option ``--format``, for the format of the output, to a command.

    A command gets the option's value as ``form``; the default is ``text``.
    """
    choice = click.Choice(formats or ("text", "json"))
    return click.option("--format", "form", type=choice, default="text", show_default=True, help=help)


def output_option(metavar: str, help: str, type: click.Path | None = None, default: str | None = None) -> Decorator:
    """Return a decorator that adds the option ``-o``, for the file or directory of the output, to a command.

    A command gets the option's value as ``output``, by default as text; it is required without a default.
    """
    # click treats an explicit default of None as a value of the option.
    presence = {"required": True} if default is None else {"default": default, "show_default": True}
    return click.option("-o", "--output", metavar=metavar, type=type or NonEmptyPath(), help=help, **presence)


@dataclass(frozen=True, slots=True)
class InventoryOptions:
    """The command-line options that name the inventory: ``-i``, ``-e`` and the vault options."""

    sources: tuple[str, ...] = ()
    extra_vars: tuple[str, ...] = ()
    vault_ids: tuple[str, ...] = ()
    vault_password_files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether an inventory was named."""
        return bool(self.sources)

    def command_line_words(self) -> list[str]:
        """Return the inventory options as words of a command line."""
        options = {
            "-i": self.sources,
            "-e": self.extra_vars,
            "--vault-id": self.vault_ids,
            "--vault-password-file": self.vault_password_files,
        }
        return [word for name, values in options.items() for value in values for word in (name, value)]

    def input_paths_by_option(self) -> dict[str, list[Path]]:
        """Return the files and directories that the inventory options name, by option.

        The directories ``group_vars`` and ``host_vars`` next to an inventory file are included.
        """
        sources = [Path(source) for source in self.sources if "," not in source]
        parents = [source.parent for source in sources if not os.path.isdir(source)]
        variables = [parent / name for parent in parents for name in ("group_vars", "host_vars")]
        identities = [Path(identity.rpartition("@")[2]) for identity in self.vault_ids]
        return {
            "-i": [*sources, *variables],
            "-e": [Path(words.removeprefix("@")) for words in self.extra_vars if words.startswith("@")],
            "--vault-id": identities,
            "--vault-password-file": [Path(path) for path in self.vault_password_files],
        }

    @property
    def prompts_for_vault_password(self) -> bool:
        """Whether reading the inventory prompts for a vault password."""
        configured = os.environ.get("ANSIBLE_VAULT_IDENTITY_LIST", "")
        return any("prompt" in identity for identity in (*self.vault_ids, configured))

    def with_inventory_from_ansible_config(self) -> InventoryOptions:
        """Return the inventory options, completed with the inventory of Ansible's configuration if they name none.

        The configuration of Ansible is ``ansible.cfg`` or the environment.
        """
        if self.sources:
            return self
        from activemq_fleet.inventory import configured_inventory_sources

        return dataclasses.replace(self, sources=configured_inventory_sources())

    def load_fleet(self) -> Fleet:
        """Load the fleet from the inventory that the options name.

        Raises FleetError for an inventory that cannot be read. Errors about variables name the file and line of the
        variable, for which the inventory is read again.
        """
        # The import is here because it also imports Ansible, which loads slowly.
        from activemq_fleet import InputError, ReleaseError, load_fleet
        from activemq_fleet.inventory_error_positions import mentions_activemq_variable

        try:
            with ACTIVITY.spinner_with_text("Reading the inventory", prompts=self.prompts_for_vault_password):
                return load_fleet(**dataclasses.asdict(self))
        except InputError as error:
            if not mentions_activemq_variable(error):
                raise
            return self.load_fleet_and_positions()[0]  # This call raises the error with positions.
        except ReleaseError:
            return self.load_fleet_and_positions()[0]

    def load_fleet_and_positions(self) -> tuple[Fleet, Mapping[str, Mapping[str, Position]]]:
        """Load the fleet from the inventory that the options name, and the positions of its variables by host.

        Raises FleetError.
        """
        from activemq_fleet.inventory import fleet_from_inventory_data

        data = self.read_hosts_and_groups(with_positions=True)
        return fleet_from_inventory_data(data), data.positions

    @contextmanager
    def add_positions_to_errors(self) -> Iterator[None]:
        """Add the file and line that define the variable to each SettingsError that is raised inside a ``with`` block.

        The inventory is read again for the positions.
        """
        from activemq_fleet import SettingsError
        from activemq_fleet.inventory_error_positions import error_with_positions

        try:
            yield
        except SettingsError as error:
            raise error_with_positions(error, self.read_hosts_and_groups(with_positions=True)) from None

    def read_hosts_and_groups(self, *, with_positions: bool = False) -> InventoryData:
        """Read the hosts and groups of the inventory that the options name.

        Raises FleetError for an inventory that cannot be read. ``with_positions`` also returns where each variable is
        defined.
        """
        from activemq_fleet.inventory import read_inventory

        with ACTIVITY.spinner_with_text("Reading the inventory", prompts=self.prompts_for_vault_password):
            return read_inventory(**dataclasses.asdict(self), with_positions=with_positions)


def _required_inventory(
    sources: tuple[str, ...],
    extra_vars: tuple[str, ...],
    vault_ids: tuple[str, ...],
    vault_password_files: tuple[str, ...],
) -> InventoryOptions:
    inventory = InventoryOptions(
        sources, extra_vars, vault_ids, vault_password_files
    ).with_inventory_from_ansible_config()
    if not inventory:
        raise click.UsageError(
            "Missing option '-i': set an inventory with -i, with the environment variable ANSIBLE_INVENTORY, or with "
            "the setting inventory of ansible.cfg"
        )
    return inventory


def inventory_options(*, required: bool = True) -> Decorator:
    """Return a decorator that adds the inventory options to a command.

    The options are ``-i``, ``-e`` and the vault options; the command gets them as ``inventory``. Without ``-i`` a
    command gets the inventory that Ansible is configured to read, and is wrong usage without one. ``required=False``
    leaves the inventory empty instead: the command decides.
    """
    several = functools.partial(click.option, multiple=True)
    return options_as_argument(
        "inventory",
        _required_inventory if required else InventoryOptions,
        several(
            "-i",
            "--inventory",
            "sources",
            metavar="INVENTORY",
            type=NonEmptyPath(readable=False),  # It may also be a list of hosts.
            help="Inventory file, directory or comma-separated host list, as for Ansible. May be repeated. "
            "Default: ANSIBLE_INVENTORY, or inventory of ansible.cfg.",
        ),
        several(
            "-e",
            "--extra-vars",
            metavar="VARS",
            help="Variable as key=value, YAML, JSON or @FILE; overrides the inventory. May be repeated.",
        ),
        several(
            "--vault-id",
            "vault_ids",
            metavar="ID",
            callback=require_files_in_vault_ids,
            help="Vault identity, as for Ansible. May be repeated.",
        ),
        several(
            "--vault-password-file",
            "vault_password_files",
            metavar="FILE",
            type=NonEmptyPath(),
            help="File with a vault password. May be repeated.",
        ),
    )


def _session_options(
    master: str | None, remote: str | None, conf: tuple[str, ...], archives: tuple[str, ...], progress: bool | None
) -> SessionOptions:
    from activemq_fleet.spark.session_options import SessionOptions

    if master and remote:
        raise click.UsageError(
            "--master and --remote cannot be used together: set --master for a cluster, or --remote for a Spark "
            "Connect server"
        )
    return SessionOptions(master, remote, dict(map(_spark_setting, conf)), archives, progress)


def _spark_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(
            f"--conf {text}: the value must have the form NAME=VALUE, such as spark.executor.memory=4g"
        )
    return name.strip(), value


spark_options = options_as_argument(
    "spark",
    _session_options,
    click.option(
        "--master",
        metavar="URL",
        help="URL of the Spark master: local[*] (this machine, the default), spark://HOST:7077, yarn or k8s://URL.",
    ),
    click.option(
        "--remote", metavar="URL", help="URL of a Spark Connect server, such as sc://HOST:15002, in place of --master."
    ),
    click.option(
        "--conf",
        metavar="K=V",
        multiple=True,
        help="Spark configuration property, such as spark.executor.memory=4g. May be repeated.",
    ),
    click.option(
        "--archives",
        metavar="FILE#NAME",
        multiple=True,
        help="Archive with the Python environment for the Spark executors, such as env.tar.gz#environment. Create the "
        "archive with `activemq-fleet pack`. Executors unpack it into the directory NAME. May be repeated.",
    ),
    click.option(
        "--progress/--no-progress",
        default=None,
        help="Whether to print the progress of the Spark job on stderr. Default: only if stderr is a terminal.",
    ),
)
"""Adds the options of commands that run on Spark, where and with which settings; the command gets them as ``spark``."""
