"""Define ``activemq-fleet lab``, which runs the fleet on loopback addresses, with real brokers."""

from __future__ import annotations

import importlib.util
import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet.cli.drill import add_drill
from activemq_fleet.cli.options import InventoryOptions, inventory_options
from activemq_fleet.cli.printing import echo
from activemq_fleet.errors import InputError
from activemq_fleet.printable import printable

if TYPE_CHECKING:
    from activemq_fleet.lab import HostStatus, Lab, Substitution

Function = Callable[..., Any]

_directory = click.option(
    "--dir", "directory", type=click.Path(), help="The lab's directory (default: one of the user's, by inventory)."
)
_difference = click.option("--show-difference", is_flag=True, help="Print what the lab substitutes for the hosts' own.")
_format = click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)


@click.group(short_help="Run the fleet on this machine, on loopback addresses.")
def command() -> None:
    """Run the fleet of an inventory on this machine: real brokers, each host on a loopback address.

    Needs no root and touches no real network. What is substituted: addresses to bind, directories,
    heap and options of the JVM, multicast interface and port, secrets that cannot be opened.
    """


@command.command("prepare", short_help="Reserve addresses and write the lab's inventory layer.")
@inventory_options()
@_directory
@_difference
def prepare_command(inventory: InventoryOptions, directory: str | None, show_difference: bool) -> None:
    """Fetch the software, claim loopback addresses and write DIR/inventory.yml.

    Then ``ansible-playbook activemq.fleet.site -i INVENTORY -i DIR/inventory.yml`` installs into the lab.
    """
    lab = _open(inventory, directory)
    substitutions = lab.prepare()
    if show_difference:
        _print_difference(substitutions)
    echo(str(lab.inventory))


@command.command("up", short_help="Start the whole fleet and wait until it is ready.")
@inventory_options()
@_directory
@_difference
@_format
@click.option("--fresh", is_flag=True, help="Begin with empty stores.")
@click.option("--foreground", is_flag=True, help="Stay, and take the fleet down with Ctrl-C.")
@click.option("--timeout", type=click.FloatRange(min=1), default=120.0, show_default=True, help="Seconds for a broker.")
def up_command(
    inventory: InventoryOptions,
    directory: str | None,
    show_difference: bool,
    output: str,
    fresh: bool,
    foreground: bool,
    timeout: float,
) -> None:
    """Start the fleet; return when every broker is ready. A failed start takes everything down."""
    lab = _open(inventory, directory)
    with _interruptible():
        if show_difference:
            _print_difference(lab.prepare())
        status = lab.up(timeout=timeout, fresh=fresh)
        _print(status, output)
        if not foreground:
            return
        try:
            echo("the fleet runs; Ctrl-C takes it down", err=True)
            threading.Event().wait()
        finally:
            lab.down()


@command.command("down", short_help="End every broker of the lab.")
@inventory_options()
@_directory
def down_command(inventory: InventoryOptions, directory: str | None) -> None:
    """End every process of the lab and give up its addresses. Stores and logs stay."""
    count = _open(inventory, directory).down()
    echo(f"{count} broker{'' if count == 1 else 's'} ended")


@command.command("status", short_help="How each broker stands now.")
@inventory_options()
@_directory
@_format
def status_command(inventory: InventoryOptions, directory: str | None, output: str) -> None:
    """Preferred role, state, address, process and bridges of every broker."""
    lab = _open(inventory, directory)
    status = lab.status()
    others = ", ".join(lab.other_sources())
    if others:
        echo(f"warning: {lab.directory} is the lab of {others}: name that, or run lab up with this one", err=True)
    _print(status, output)


def _on_host(name: str, what: str, done: str, act: Callable[[Lab, str], object]) -> None:
    @command.command(name, short_help=what)
    @click.argument("host")
    @inventory_options()
    @_directory
    def host_command(host: str, inventory: InventoryOptions, directory: str | None) -> None:
        lab = _open(inventory, directory)
        act(lab, host)
        echo(f"{host} {done}")

    host_command.help = f"{what}\n\nHOST is an inventory name or its first label."


_on_host("start", "Start a broker that does not run, and wait until it is ready.", "runs", lambda lab, h: lab.start(h))
_on_host("stop", "End a broker in good order; a pure one is killed.", "ended", lambda lab, h: lab.stop(h))
_on_host("kill", "End a broker by SIGKILL, with its process group.", "was killed", lambda lab, h: lab.kill(h))
_on_host("pause", "Freeze a broker (SIGSTOP).", "is frozen", lambda lab, h: lab.pause(h))
_on_host("resume", "Let a frozen broker go on (SIGCONT).", "goes on", lambda lab, h: lab.resume(h))


@command.command("freeze", short_help="Freeze a broker, give its lock away, and let it go on.")
@click.argument("host")
@inventory_options()
@_directory
@click.option("--steal-lock", is_flag=True, help="Give its lock to the other node, as a lost lease does.")
@click.option(
    "--thaw-after",
    type=click.FloatRange(min=0),
    default=12.0,
    show_default=True,
    help="Seconds that it stays frozen, with --steal-lock after the other node serves.",
)
def freeze_command(
    host: str, inventory: InventoryOptions, directory: str | None, steal_lock: bool, thaw_after: float
) -> None:
    """Freeze the active broker HOST with its guard, and let it go on after a while, as a paused machine does.

    With --steal-lock the other node takes over meanwhile. A broker without a fence then damages the store when it goes
    on: try it on stores that you can spare. Exit 1 when both nodes serve in the end.
    """
    lab = _open(inventory, directory)
    # Imported here, as the lab itself.
    from activemq_fleet.lab.freeze import freeze

    with _interruptible():
        found = freeze(
            lab, host, steal_lock=steal_lock, thaw_after=thaw_after, progress=lambda line: echo(line, err=True)
        )
    for sentence in found.sentences():
        echo(sentence)
    if steal_lock and found.serves:
        raise SystemExit(1)


def _open(inventory: InventoryOptions, directory: str | None) -> Lab:
    missing = [name for name in ("paho", "psutil") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the lab needs {' and '.join(missing)}: pip install 'activemq-fleet[lab]'")
    # Imported here: it brings clients and the templates along, which --help does not need.
    from activemq_fleet.lab import Lab

    return Lab.open(
        inventory.sources,
        directory,
        extra_vars=inventory.extra_vars,
        vault_ids=inventory.vault_ids,
        vault_password_files=inventory.vault_password_files,
        progress=lambda line: echo(line, err=True),
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn SIGTERM into KeyboardInterrupt within the context, so that started processes are stopped."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


add_drill(command, _directory, _open, _interruptible)


def _print(status: Sequence[HostStatus], output: str) -> None:
    if output == "json":
        echo(json.dumps([host.to_dict() for host in status], indent=2))
        return
    rows = [
        (
            host.host,
            host.role,
            host.state,
            host.address,
            str(host.pid or "-"),
            "-" if host.uptime is None else f"{host.uptime} s",
            ", ".join(host.peers) or "-",
        )
        for host in status
    ]
    _table(("host", "role", "state", "address", "pid", "uptime", "bridges to"), rows, styles=_STYLES)


def _print_difference(substitutions: Sequence[Substitution]) -> None:
    rows = [(s.host, s.variable, "(default)" if s.before is None else s.before, s.after) for s in substitutions]
    _table(("host", "variable", "of the inventory", "in the lab"), rows)


_STYLES = {"active": "green", "standby": "cyan", "starting": "yellow", "hung": "red", "stopped": "red"}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], styles: dict[str, str] | None = None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in head:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell), style=(styles or {}).get(cell, "")) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)  # piped, a line is a host, whatever its length
    console.print(table)
