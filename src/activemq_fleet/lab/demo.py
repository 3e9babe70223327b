"""Run ``make demo``: start real brokers from an inventory, kill a master under load, and audit every event.

Ansible and the collection check and install the fleet as on real hosts; the lab only defines the hosts and starts them.
The events over MQTT go through real agents. At the end, ``audit`` reconstructs the events from the logs and journals
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from activemq_fleet.drills.model import Fault, PairEventCounts
from activemq_fleet.errors import FleetError, LabError
from activemq_fleet.lab import demo_audit_process
from activemq_fleet.lab.drill_files import pair_outcomes_and_faults
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.load_generator import LoadGenerator
from activemq_fleet.lab.load_process import make_load_generator
from activemq_fleet.lab.load_spec import make_load_spec, stomp_load_spec
from activemq_fleet.lab.log_collection import collect_logs
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.startup import Progress
from activemq_fleet.lab.status import HostStatus
from activemq_fleet.node.printable import count_with_noun, escape_unprintable
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.topology import Fleet

_RATE = 150.0  # Events per second over each protocol.
_LOAD_SECONDS = 2.0  # Seconds of load before the kill, and after the takeover.
_PATIENCE = 120.0
_SHOWN_LINES = 12
# The keys are the sources that an audit names for the beginning of an incident.
_BEGINNINGS = {
    "agent": "the lost connection of an agent",
    "bridge": "a broken bridge",
    "watchdog": "a check of the watchdog",
    "systemd": "a record of systemd about the service unit",
    "log": "a record in the log of a broker",
}
_ROLES = ("publisher", "subscriber")


@dataclass(frozen=True, slots=True)
class MeasuredTakeover:
    """A takeover in the failover demo with its measured times.

    An active broker was killed, and its peer took over. Times are in seconds. ``seconds`` counts from the kill until
    the other node answered a round trip, ``started`` until its log reported that it is started. ``silences`` holds, for
    each account, the longest time between two acknowledgements.
    """

    pair: str
    victim: str
    pid: int
    successor: str
    seconds: float
    started: float
    accounts: tuple[PairEventCounts, ...]
    silences: tuple[float, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the failover demo, and return the exit code.

    The exit code is 0 when no event was lost, 1 when some were, 2 for unusable input.
    """
    parser = argparse.ArgumentParser(prog="python -m activemq_fleet.lab.demo", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("build/demo"), help="Directory to which the demo writes all files."
    )
    parser.add_argument("--inventory", type=Path, default=Path("examples/shared-store"))
    chosen = parser.parse_args(arguments)
    try:
        return _run_demo(chosen.inventory.resolve(), chosen.output.resolve())
    except FleetError as error:
        print(escape_unprintable(f"demo: {error}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("demo: the demo was interrupted, and has stopped every broker", file=sys.stderr)
        return 130


def _run_demo(inventory: Path, output: Path) -> int:
    began = time.monotonic()

    def step(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        lab = stack.enter_context(Lab.open([inventory], output / "lab", progress=step))
        lab.down()
        shutil.rmtree(output / "lab", ignore_errors=True)
        lab.prepare()
        _install(inventory, lab.overlay_inventory_path, output / "fleet", step)
        step(f"starting {count_with_noun(len(lab.fleet.brokers), 'broker')}")
        lab.up()
        # The auditor loads while messages flow, because the machine has free capacity then.
        auditor = stack.enter_context(_start_audit(output))
        before = lab.status()
        step("publishing events over MQTT and STOMP, then killing the active broker of a pair with kill -9")
        takeover = _kill_under_load(lab)
        after = lab.status()
        agents = {name: (lab.directory / "demo" / takeover.pair / name, takeover.pair) for name in _ROLES}
        collect_logs(lab, agents, output / "collected")
        (output / "measured.json").write_text(json.dumps(asdict(takeover), indent=1), encoding="utf-8")
        fleet = lab.client_fleet
        lab.down()
        step("all brokers are stopped")
        step("auditing the logs of the brokers and the journals of the agents")
        text, _ = auditor.communicate("audit\n")
        _check_exit_code("the audit", auditor.returncode, text)
    step("done")
    audit = _read_audit_result(output / "audit")
    _print_result(fleet, before, after, takeover, output)
    _show_audit(audit, takeover, output)
    return 1 if any(map(_unhandled_event_count, takeover.accounts)) else 0


def _install(inventory: Path, layer: Path, rendered: Path, step: Progress) -> None:
    """Render and check the fleet at the same time, then install it on the lab's hosts."""
    render: list[str | Path] = [_program_path("activemq-fleet"), "render", "-i", inventory, "-o", rendered]
    playbook, sources = _program_path("ansible-playbook"), ("-i", inventory, "-i", layer)
    step(f"rendering and checking {inventory.name}: activemq-fleet render, ansible-playbook activemq.fleet.check")
    with ThreadPoolExecutor() as pool:
        list(pool.map(_run_quietly, (render, [playbook, "activemq.fleet.check", *sources])))
    step("installing the brokers of the inventory: ansible-playbook activemq.fleet.site")
    _run_quietly([playbook, "activemq.fleet.site", *sources])


def _start_audit(output: Path) -> subprocess.Popen[str]:
    """Start the process that audits the collected logs on request; it exits at the end of its input."""
    command = [sys.executable, "-m", demo_audit_process.__name__, str(output / "collected"), str(output / "audit")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _kill_under_load(lab: Lab) -> MeasuredTakeover:
    pair = lab.client_fleet.agents[0].pair
    victim = lab.wait_active(pair)
    pid = next((status.pid for status in lab.status() if status.host == victim), None)
    directory = lab.directory / "demo"
    directory.mkdir(mode=0o700)
    with ExitStack() as stack:
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demo-")))
        fleet = lab.client_fleet
        stomp = replace(stomp_load_spec(fleet, fleet.pairs_by_name[pair], _RATE), name=f"{pair}-stomp")
        specs = {"MQTT": make_load_spec(fleet, fleet.pairs_by_name[pair], _RATE), "STOMP": stomp}
        generators = [make_load_generator(spec, directory, sockets) for spec in specs.values()]
        for generator in generators:
            stack.callback(generator.__exit__)
            generator.start_load(_PATIENCE)
        _wait_for_events(lab, generators, time.time() + _LOAD_SECONDS)
        began = lab.kill(victim)
        successor = lab.wait_active(pair)
        seconds = time.time() - began
        started = (lab.started_at(successor) or time.time()) - began
        _wait_for_events(lab, generators, time.time() + _LOAD_SECONDS)
        for generator in generators:
            generator.finish_load()
            generator.delete_durable_session()
    fault = Fault(number=1, what="kill", pair=pair, host=victim, at=began, successor=successor, takeover=started)
    accounts, silences = [], []
    for protocol, spec in specs.items():
        account, (measured,) = pair_outcomes_and_faults(directory, spec.name, protocol, [fault])
        accounts.append(account)
        silences.append(measured.publish_gap or 0.0)
    return MeasuredTakeover(pair, victim, pid or 0, successor, seconds, started, tuple(accounts), tuple(silences))


def _wait_for_events(lab: Lab, generators: Sequence[LoadGenerator], moment: float) -> None:
    """Wait until each generator has handled an event after a moment. Raises LabError when one does not."""

    def have_all_handled_events() -> bool:
        for generator in generators:
            generator.raise_if_ended()
        return min(generator.last_handled_time() for generator in generators) > moment

    if not poll_for_true_result(have_all_handled_events, _PATIENCE, 0.05):
        raise LabError(
            f"the test load of the demo handled no event within {_PATIENCE:g} s: check the logs of the brokers in "
            f"{lab.directory}"
        )


def _unhandled_event_count(account: PairEventCounts) -> int:
    """Return the number of a pair's events that were accepted and not handled."""
    return account.lost + account.stuck + account.indeterminate


def _read_audit_result(out: Path) -> Mapping[str, Any]:
    """Return the result of the audit: ``audit.json``, with the rows of the dataset ``incidents``."""
    import pyarrow.parquet as pq  # pyarrow is part of the extra that the audit requires.

    audit: dict[str, Any] = json.loads((out / "audit.json").read_text(encoding="utf-8"))
    return {**audit, "incidents": pq.read_table(out / "incidents").to_pylist()}


def _show_audit(audit: Mapping[str, Any], takeover: MeasuredTakeover, output: Path) -> None:
    console = _console()
    console.print(*audit_lines(audit, takeover), sep="\n", markup=False)
    console.print(f"\nreport             {output / 'audit'}/report.html\n\nAll brokers are stopped.\n", soft_wrap=True)


def audit_lines(audit: Mapping[str, Any], takeover: MeasuredTakeover) -> list[str]:
    """Return lines of text about the failover demo: the incidents and message counts that the audit of its logs found.

    The first line states whether the audit reports only what the kill had to cause: one takeover by the successor, and
    all events delivered. Lines about each incident and about the events follow.
    """
    incidents, messages = audit["incidents"], audit["counts"]["messages"]
    is_expected = [(each["kind"], each["host"]) for each in incidents] == [("takeover", takeover.successor)]
    if is_expected and set(messages) <= {"delivered"}:
        result = "1 takeover, as expected after the kill, and every event delivered"
    else:
        result = f"the verdict is {audit['verdict']!r}, but 1 takeover with every event delivered was expected"
    lines = [f"audit of the logs of brokers and the journals of agents: {result}"]
    for incident in incidents:
        lines.append(f"  {incident['kind'].replace('_', ' ')} at {incident['host']}: {incident['cause']}")
        if incident["seconds"] is not None:
            begin = _BEGINNINGS.get(incident["began_from"], "the beginning of the incident")
            end = (
                f"the start record in the log of {incident['host']}"
                if incident["kind"] == "takeover"
                else "the end of the incident"
            )
            lines.append(f"    {incident['seconds']:.1f} s from {begin} to {end}")
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in messages.items())
    return [
        escape_unprintable(line)
        for line in [
            *lines,
            f"  events over MQTT, according to the journals of the agents: {verdicts} (the STOMP clients write no "
            "journal)",
        ]
    ]


def takeover_lines(takeover: MeasuredTakeover) -> list[str]:
    """Return lines of text about the failover demo's takeover: the killed broker, its successor and measured durations.

    One line is about the kill; each measured duration has one.
    """
    return [
        f"kill -9 of {takeover.victim} (active, pid {takeover.pid}) under load: {takeover.successor} took over",
        f"  {takeover.started:.1f} s from the kill to the start record in the log of {takeover.successor}",
        f"  {takeover.seconds:.1f} s from the kill until a message completed a round trip through {takeover.successor}",
    ]


def _program_path(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _run_quietly(command: Sequence[str | Path]) -> None:
    """Run a program quietly. Raises LabError with its last lines when it fails."""
    warning_settings = {"ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false"}
    result = subprocess.run(
        [str(word) for word in command], env=os.environ | warning_settings, capture_output=True, text=True, check=False
    )
    _check_exit_code(f"{Path(command[0]).name} {command[1]}", result.returncode, result.stdout + result.stderr)


def _check_exit_code(name: str, exit_code: int, output: str) -> None:
    """Raise LabError for a program that failed, after printing the last lines of its output."""
    if exit_code:
        lines = [line for line in split_lines(output) if line.strip()]
        print(escape_unprintable("\n".join(lines[-_SHOWN_LINES:]), lines=True), file=sys.stderr)
        raise LabError(f"the command {name} failed with exit code {exit_code}: correct the error in the output above")


def _print_result(
    fleet: Fleet, before: Sequence[HostStatus], after: Sequence[HostStatus], takeover: MeasuredTakeover, output: Path
) -> None:
    console = _console()
    release = fleet.brokers[0].release.text
    console.print(
        f"\n[bold]{len(fleet.brokers)} brokers[/] of {len(fleet.pairs_by_name)} pairs in {len(fleet.groups)} groups, "
        f"release {release}. The hosts with the node letter a are the preferred masters\n"
    )
    console.print(_fleet_table(before, after, takeover))
    console.print("", *takeover_lines(takeover), "", sep="\n", markup=False)
    console.print(_account_table(takeover))
    console.print(
        f"\npicture and files  {output / 'fleet'}/fleet.svg, hosts/\nlogs of the run    {output / 'lab'}\n",
        soft_wrap=True,
    )


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 110)


def _fleet_table(before: Sequence[HostStatus], after: Sequence[HostStatus], takeover: MeasuredTakeover) -> Table:
    table = Table("host", "address", "role", "before", "after", "bridges to", box=None, pad_edge=False)
    for earlier, later in zip(before, after, strict=True):
        style = "[bold]" if later.host in (takeover.victim, takeover.successor) else ""
        states = earlier.state, later.state
        table.add_row(
            style + later.host,
            later.address,
            later.preferred_role_or_single,
            *states,
            ", ".join(later.established_bridge_peers) or "-",
        )
    return table


def _account_table(takeover: MeasuredTakeover) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("events over")
    for title in ("accepted", "delivered", "lost", "duplicated", "longest time without\nan acknowledgement"):
        table.add_column(title, justify="right")
    for account, silence in zip(takeover.accounts, takeover.silences, strict=True):
        counts = (account.accepted, account.handled, _unhandled_event_count(account), account.duplicate)
        table.add_row(account.protocol, *map(str, counts), f"{silence:.1f} s")
    return table


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
