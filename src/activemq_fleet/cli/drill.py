"""Define ``activemq-fleet lab drill``, which injects faults under load and accounts for every event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet import InputError
from activemq_fleet.atomic_files import check_writable, write_file_atomically
from activemq_fleet.cli.lab_options import (
    inventory_options_of_current_command,
    lab_options,
    require_lab_packages,
    stop_signals_as_interrupt,
)
from activemq_fleet.cli.options import format_option
from activemq_fleet.cli.output_paths import require_output_differs_from_inputs
from activemq_fleet.cli.path_parameters import NonEmptyPath
from activemq_fleet.cli.printing import print_escaped, print_escaped_to_stderr
from activemq_fleet.node.state.fault_kinds import FAULT_KINDS

if TYPE_CHECKING:
    from activemq_fleet.drills import DrillResult, PairEventCounts
    from activemq_fleet.lab import Lab


@click.command("drill", short_help="Inject faults into brokers under load, and account for every test event.")
@lab_options
@click.option(
    "--kills",
    "faults",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Number of faults to inject. A fault during which the load was too low does not count, and is repeated.",
)
@click.option(
    "--what",
    type=click.Choice(FAULT_KINDS),
    default="kill",
    show_default=True,
    help="Fault to inject into the active broker. kill: SIGKILL to its JVM and its guard (activemq_fence). "
    "crash: SIGKILL to its JVM only. pause: SIGSTOP to its JVM for 30 s. stop: an orderly stop.",
)
@click.option(
    "--target",
    default="",
    metavar="PAIR|GROUP|HOST",
    help="Pair, broker group or host whose active brokers receive faults (default: every pair).",
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 2000),
    default=100.0,
    show_default=True,
    help="Test events that are published per second and pair.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Seed of the random order in which pairs receive faults (default: a random seed).",
)
@click.option(
    "--prometheus",
    is_flag=True,
    help="Also run Prometheus, which measures each downtime independently of the test load.",
)
@click.option("--report", type=NonEmptyPath(dir_okay=False), help="Write a report of the drill in HTML to this file.")
@format_option(help="Output format.")
def drill_command(lab: Lab, report: str | None, form: str, **options: Any) -> int:
    """Inject faults into active brokers, one after the other, under load from real agents.

    After each fault the other node must take over, and the failed node must return as standby. At the
    end the agents' journals account for every event. A stopped fleet is started, and stopped again
    at the end. Exit codes: 0 clean; 1 events were lost, or the result is incomplete.
    """
    if report is not None and not Path(report).resolve().parent.is_dir():
        raise InputError(f"{report}: the directory of the report does not exist: create it, or choose another --report")
    if report is not None:
        inputs = inventory_options_of_current_command().input_paths_by_option()
        require_output_differs_from_inputs("--report", Path(report), {**inputs, "--dir": lab.content_paths})
        check_writable(Path(report))
    require_lab_packages("the agent of the drill", "activemq_agent", "structlog", "prometheus_client")
    from activemq_fleet.lab.drill import DrillOptions, run_drill
    from activemq_fleet.reports.drill_page import drill_html_page

    with stop_signals_as_interrupt():
        result = run_drill(lab, DrillOptions(**options), print_escaped_to_stderr)
    try:
        print_escaped(json.dumps(result.to_dict(), indent=2) if form == "json" else _drill_result_text(result))
    finally:  # The result exists nowhere else: neither output depends on the other.
        if report is not None:
            write_file_atomically(Path(report), drill_html_page(result).encode())
    return 0 if result.verdict == "clean" else 1


_LEGEND = (
    "The counts are test events. Stuck: in transit when the drill ended. Copies dropped: events that a broker "
    "delivered again, and that the subscriber did not handle again."
)


def _drill_result_text(result: DrillResult) -> str:
    """Return the result of a drill as text for a terminal.

    It has a headline with tested releases, faults, accounts, reasons and notes.
    """
    from activemq_fleet.drills import drill_headline

    lines = [f"{drill_headline(result)} {_tested_releases(result)}", ""]
    for fault in result.faults:
        takeover_time = "" if fault.takeover is None else f" after {fault.takeover:.1f} s"
        downtime = "" if fault.silence is None else f", no event for {fault.silence:.1f} s"
        if fault.unserved is not None:
            downtime += f", no active node for {fault.unserved:.1f} s according to Prometheus"
        remark = fault.problem or (f"void: {fault.void}" if fault.void else "") or fault.note
        lines.append(
            f"{fault.number:3} {fault.what} {fault.short_host_name}: {fault.short_successor_name or 'none'} took "
            f"over{takeover_time}{downtime}" + (f"; {remark}" if remark else "")
        )
    lines += ["", *map(_account_line, result.accounts), _LEGEND]
    lines += ["", *result.reasons] if result.reasons else []
    lines += ["", *result.conditions.notes] if result.conditions.notes else []
    return "\n".join(lines)


def _tested_releases(result: DrillResult) -> str:
    releases = sorted(set(result.conditions.releases.values()))
    return f"Tested release{'' if len(releases) == 1 else 's'}: {', '.join(releases)}."


def _account_line(account: PairEventCounts) -> str:
    return (
        f"{account.pair} ({account.protocol}): {account.accepted:,} accepted, {account.acknowledged:,} acknowledged, "
        f"{account.handled:,} handled, {account.lost} lost, {account.stuck} stuck, {account.duplicate} handled twice, "
        f"{account.copies} copies dropped"
    )
