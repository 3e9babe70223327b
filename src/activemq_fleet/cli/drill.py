"""Define ``activemq-fleet lab drill``, which injects faults under load and accounts for every event."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from activemq_fleet.atomic_files import write_file
from activemq_fleet.cli.options import InventoryOptions, inventory_options
from activemq_fleet.cli.printing import echo
from activemq_fleet.errors import InputError

if TYPE_CHECKING:
    from activemq_fleet.drills import DeliveryAccount, DrillResult
    from activemq_fleet.lab import Lab

Function = Callable[..., Any]


def add_drill(
    group: click.Group,
    directory: Callable[[Function], Function],
    open_lab: Callable[[InventoryOptions, str | None], Lab],
    interruptible: Callable[[], AbstractContextManager[None]],
) -> None:
    """Add the command ``drill`` to the group ``lab``, with the group's option ``--dir``."""

    @group.command("drill", short_help="Inject faults under load, and account for every event.")
    @inventory_options()
    @directory
    @click.option(
        "--kills",
        "faults",
        type=click.IntRange(1, 1000),
        default=5,
        show_default=True,
        help="How many faults must count.",
    )
    @click.option(
        "--what",
        type=click.Choice(["kill", "pause", "stop"]),
        default="kill",
        show_default=True,
        help="SIGKILL, SIGSTOP for 30 s, or an end in good order.",
    )
    @click.option(
        "--target", default="", metavar="PAIR|GROUP|HOST", help="Where to inject faults (default: every pair)."
    )
    @click.option(
        "--rate", type=click.FloatRange(1, 2000), default=100.0, show_default=True, help="Events a second on each pair."
    )
    @click.option("--seed", type=click.IntRange(0), help="Decides the order of the pairs (default: a new one).")
    @click.option("--report", type=click.Path(dir_okay=False), help="Write a report (HTML) here.")
    @click.option(
        "--format",
        "output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to print.",
    )
    def drill_command(
        inventory: InventoryOptions,
        directory: str | None,
        faults: int,
        what: Any,
        target: str,
        rate: float,
        seed: int | None,
        report: str | None,
        output: str,
    ) -> int:
        """Inject faults into the broker that is active, again and again, under load from real agents.

        After each fault the other node must take over and the one that had the fault come back as standby. At the
        end every event is accounted for from the agents' journals. The fleet is started if it does not
        run, and then ended again. Exit 0: clean; 1: something was lost, or nothing can be said.
        """
        if report is not None and not Path(report).resolve().parent.is_dir():
            raise InputError(f"{report}: the directory is not there: make it, or choose another --report")
        lab = open_lab(inventory, directory)
        missing = [
            name
            for name in ("activemq_agent", "structlog", "prometheus_client")
            if importlib.util.find_spec(name) is None
        ]
        if missing:
            raise InputError(f"the agents need {' and '.join(missing)}: pip install 'activemq-fleet[lab]'")
        from activemq_fleet.lab.drill import DrillOptions, drill
        from activemq_fleet.reports import drill_report

        options = DrillOptions(faults=faults, what=what, target=target, rate=rate, seed=seed)
        with interruptible():
            result = drill(lab, options, lambda line: echo(line, err=True))
        if report is not None:
            write_file(Path(report), drill_report(result).encode())
        echo(json.dumps(result.to_dict(), indent=2) if output == "json" else as_text(result))
        return 0 if result.verdict == "clean" else 1


def as_text(result: DrillResult) -> str:
    """Return a drill's result as text for a terminal: headline, faults, accounts and reasons."""
    from activemq_fleet.drills import headline

    lines = [headline(result), ""]
    for fault in result.faults:
        successor = (fault.successor or "nobody").partition(".")[0]
        took = "" if fault.takeover is None else f" after {fault.takeover:.1f} s"
        gap = "" if fault.silence is None else f", no event for {fault.silence:.1f} s"
        wrong = fault.problem or (f"void: {fault.void}" if fault.void else "")
        lines.append(
            f"{fault.number:3} {fault.what} {fault.host.partition('.')[0]}: {successor} took over{took}{gap}"
            + (f"; {wrong}" if wrong else "")
        )
    lines += ["", *map(_account_line, result.accounts)]
    lines += ["", *result.reasons] if result.reasons else []
    return "\n".join(lines)


def _account_line(account: DeliveryAccount) -> str:
    return (
        f"{account.pair} ({account.protocol}): {account.accepted:,} accepted, {account.acknowledged:,} acknowledged, "
        f"{account.handled:,} handled, {account.lost} lost, {account.stuck} stuck, {account.duplicate} handled twice, "
        f"{account.copies} copies dropped"
    )
