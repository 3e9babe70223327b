"""Define ``activemq-fleet lab``, which runs the fleet on loopback addresses, with real brokers."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from activemq_fleet.cli.completion_values import complete_hosts
from activemq_fleet.cli.drill import drill_command
from activemq_fleet.cli.lab_options import (
    command_line_of_lab_subcommand,
    existing_lab_options,
    lab_options,
    stop_signals_as_interrupt,
)
from activemq_fleet.cli.options import format_option
from activemq_fleet.cli.printing import print_escaped, print_escaped_to_stderr, print_table, print_warning
from activemq_fleet.node.printable import count_with_noun

if TYPE_CHECKING:
    from activemq_fleet.lab import Lab
    from activemq_fleet.lab.loopback_overlay import ReplacedHostVariable
    from activemq_fleet.lab.status import HostStatus

_difference_option = click.option(
    "--show-difference", is_flag=True, help="Show the inventory settings that the lab replaces."
)
_format_option = format_option(help="Output format.")


@click.group(short_help="Run the fleet on this machine, on loopback addresses.")
def lab_command() -> None:
    """Run the fleet of an inventory on this machine: real brokers, each host on a loopback address.

    The lab requires no root and uses no real network. It replaces listen addresses, directories,
    heap and options of the JVM, multicast interface and port, and secrets that cannot be decrypted.
    """


@lab_command.command("prepare", short_help="Write the inventory with which the site playbook installs into the lab.")
@lab_options
@_difference_option
def prepare_command(lab: Lab, show_difference: bool) -> None:
    """Prepare the lab: fetch the software, reserve loopback addresses and write DIR/inventory.yml.

    Then ``ansible-playbook activemq.fleet.site -i INVENTORY -i DIR/inventory.yml`` installs into the lab.
    """
    substitutions = lab.prepare()
    if show_difference:
        _print_difference(substitutions)
    print_escaped(str(lab.overlay_inventory_path))


@lab_command.command("up", short_help="Start the whole fleet and wait until it is ready.")
@lab_options
@_difference_option
@_format_option
@click.option("--fresh", is_flag=True, help="Delete the messages of earlier runs: start all brokers with empty stores.")
@click.option(
    "--prometheus",
    is_flag=True,
    help="Also run Prometheus, which collects the metrics of the brokers, and Alertmanager, which sends its alerts.",
)
@click.option("--foreground", is_flag=True, help="Run in the foreground until Ctrl-C, which stops the fleet.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds for which `lab up` waits for each broker to start.",
)
def up_command(
    lab: Lab,
    show_difference: bool,
    form: str,
    fresh: bool,
    prometheus: bool,
    foreground: bool,
    timeout: float,
) -> None:
    """Start the fleet and wait until every broker is ready. A failed start stops all brokers."""
    with stop_signals_as_interrupt():
        if show_difference:
            _print_difference(lab.prepare())
        status = lab.up(timeout=timeout, fresh=fresh, prometheus=prometheus)
        _print_status(status, form)
        if prometheus:
            url_of = lab.monitoring.program_url
            print_escaped_to_stderr(f"Prometheus: {url_of('prometheus')}  Alertmanager: {url_of('alertmanager')}")
        if not foreground:
            removal = shlex.join(["rm", "-r", str(lab.directory)])
            print_escaped_to_stderr(
                f"the files of the lab are in {lab.directory}; after `{command_line_of_lab_subcommand('down')}`, "
                f"remove them with: {removal}"
            )
            return
        try:
            print_escaped_to_stderr("the fleet runs; press Ctrl-C to stop it")
            threading.Event().wait()
        finally:
            lab.down()


@lab_command.command("down", short_help="Stop all brokers of the lab.")
@existing_lab_options
def down_command(lab: Lab) -> None:
    """Stop every process of the lab and release its addresses. Stores and logs are kept."""
    stopped = lab.down()
    print_escaped(f"{count_with_noun(stopped, 'broker')} stopped" if stopped else "no broker was running")
    if lab.exists:
        removal = shlex.join(["rm", "-r", str(lab.directory)])
        print_escaped_to_stderr(f"stores and logs are kept in {lab.directory}; remove them with: {removal}")
    elif not stopped:
        print_warning(
            f"the directory {lab.directory} contains no lab, so nothing was stopped: set the same -i or --dir as for "
            "`lab up`"
        )


@lab_command.command("status", short_help="Show the state of each broker of the lab.")
@existing_lab_options
@_format_option
def status_command(lab: Lab, form: str) -> None:
    """Show preferred role, state, address, process and bridges of every broker."""
    status = lab.status()
    others = ", ".join(lab.original_sources_if_different())
    if others:
        print_warning(
            f"the lab in the directory {lab.directory} was started with another inventory ({others}), and the output "
            "shows the hosts of that inventory: set -i to that inventory, or run `lab up` with the inventory of this "
            "command"
        )
    _print_status(status, form)


def _add_host_command(name: str, summary: str, result_text: str) -> None:
    """Add a command that calls the lab's method of the same name for one host."""

    @lab_command.command(
        name,
        short_help=summary,
        help=f"{summary}\n\nHOST is an inventory name, or the part of an inventory name before the first dot.",
    )
    @click.argument("host", shell_complete=complete_hosts)
    @existing_lab_options
    def host_command(host: str, lab: Lab) -> None:
        getattr(lab, name)(host)
        print_escaped(f"{host} {result_text}")


_add_host_command("start", "Start a stopped broker, and wait until it is ready.", "runs")
_add_host_command(
    "stop", "Stop a broker cleanly. With activemq_ha: pure, kill it, because a clean stop loses messages.", "stopped"
)
_add_host_command("kill", "Kill a broker (SIGKILL), with its process group.", "was killed")
_add_host_command("pause", "Freeze a broker (SIGSTOP).", "is frozen")
_add_host_command("resume", "Resume a frozen broker (SIGCONT).", "was resumed")
lab_command.add_command(drill_command)


@lab_command.command(
    "freeze",
    short_help="Freeze the active broker, and resume it later. Meanwhile, optionally give its lock to the other node.",
)
@click.argument("host", shell_complete=complete_hosts)
@existing_lab_options
@click.option(
    "--steal-lock",
    is_flag=True,
    help="Give the lock of the frozen broker to the other node of its pair, as if a lease had expired.",
)
@click.option(
    "--thaw-after",
    type=click.FloatRange(min=0),
    default=12.0,
    show_default=True,
    help="Seconds until the frozen broker resumes. With --steal-lock, this time begins when the other node "
    "serves clients.",
)
def freeze_command(host: str, lab: Lab, steal_lock: bool, thaw_after: float) -> int:
    """Freeze the active broker HOST and its guard (activemq_fence), and resume both, like a paused virtual machine.

    With --steal-lock, the other node takes over while HOST is frozen. A broker without activemq_fence then damages the
    store when it resumes: use --steal-lock only with test data. Exit code 1: after HOST resumed, both nodes could write
    to the store, at least for a short time, or no node took over although --steal-lock released the lock.
    """
    from activemq_fleet.lab.freeze import freeze_and_resume_active_broker

    with stop_signals_as_interrupt():
        freeze_result = freeze_and_resume_active_broker(
            lab, host, steal_lock=steal_lock, thaw_after=thaw_after, progress=print_escaped_to_stderr
        )
    for sentence in freeze_result.freeze_effect_sentences():
        print_escaped(sentence)
    return int(freeze_result.is_store_endangered or (steal_lock and freeze_result.served_after is None))


def _print_status(status: Sequence[HostStatus], form: str) -> None:
    if form == "json":
        print_escaped(json.dumps([host.to_dict() for host in status], indent=2))
        return
    rows = [
        (
            host.host,
            host.preferred_role_or_single,
            host.state,
            host.address,
            str(host.pid or "-"),
            "-" if host.uptime is None else f"{host.uptime} s",
            _describe_bridges(host),
        )
        for host in status
    ]
    print_table(("host", "role", "state", "address", "pid", "uptime", "bridges to"), rows, styles=_STYLES)


def _describe_bridges(host: HostStatus) -> str:
    """Return one cell of a table about a broker's bridges (connections to other brokers).

    The cell has the peers of the bridges, and the peers whose bridges break repeatedly.
    """
    lasting = [peer for peer in host.established_bridge_peers if peer not in host.breaking]
    return ", ".join([*lasting, *(f"{peer} (breaks repeatedly)" for peer in host.breaking)]) or "-"


def _print_difference(substitutions: Sequence[ReplacedHostVariable]) -> None:
    rows = [(s.host, s.variable, "(default)" if s.before is None else s.before, s.after) for s in substitutions]
    print_table(("host", "variable", "of the inventory", "in the lab"), rows)


_STYLES = {
    "active": "green",
    "standby": "cyan",
    "starting": "yellow",
    "unhealthy": "red",
    "hung": "red",
    "stopped": "red",
}
