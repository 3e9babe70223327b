"""Define options that several commands share.

A command takes them as one argument::

    @click.command()
    @inventory_options()
    def command(inventory: InventoryOptions) -> None:
        fleet = inventory.load_fleet()
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from activemq_fleet.topology import Fleet


@dataclass(frozen=True, slots=True)
class InventoryOptions:
    """The inventory to read: the values of ``-i``, ``-e`` and the vault options."""

    sources: tuple[str, ...] = ()
    extra_vars: tuple[str, ...] = ()
    vault_ids: tuple[str, ...] = ()
    vault_password_files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether an inventory was named."""
        return bool(self.sources)

    def load_fleet(self) -> Fleet:
        """Return the fleet of the inventory. Raises FleetError for an inventory that cannot be read."""
        # Imported here: it brings Ansible along, which takes a while to load.
        from activemq_fleet.inventory import load_fleet

        return load_fleet(
            self.sources,
            extra_vars=self.extra_vars,
            vault_ids=self.vault_ids,
            vault_password_files=self.vault_password_files,
        )


Function = Callable[..., Any]


def inventory_options(*, required: bool = True) -> Callable[[Function], Function]:
    """Return a decorator that adds ``-i``, ``-e`` and the vault options; the command gets them as ``inventory``.

    ``required=False`` makes ``-i`` optional.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(
            *args: Any,
            inventory: tuple[str, ...],
            extra_vars: tuple[str, ...],
            vault_ids: tuple[str, ...],
            vault_password_files: tuple[str, ...],
            **kwargs: Any,
        ) -> Any:
            options = InventoryOptions(inventory, extra_vars, vault_ids, vault_password_files)
            return function(*args, inventory=options, **kwargs)

        decorated: Function = wrapper
        for option in reversed(_options(required=required)):
            decorated = option(decorated)
        return decorated

    return decorate


def _options(*, required: bool) -> list[Callable[[Function], Function]]:
    return [
        click.option(
            "-i",
            "--inventory",
            "inventory",
            metavar="INVENTORY",
            multiple=True,
            required=required,
            help="Inventory file, directory or comma-separated host list, as for Ansible. May be repeated.",
        ),
        click.option(
            "-e",
            "--extra-vars",
            "extra_vars",
            metavar="VARS",
            multiple=True,
            help="key=value, YAML, JSON or @FILE; wins over the inventory. May be repeated.",
        ),
        click.option(
            "--vault-id",
            "vault_ids",
            metavar="ID",
            multiple=True,
            help="Vault identity, as for Ansible. May be repeated.",
        ),
        click.option(
            "--vault-password-file",
            "vault_password_files",
            metavar="FILE",
            multiple=True,
            type=click.Path(),
            help="File with a vault password. May be repeated.",
        ),
    ]
