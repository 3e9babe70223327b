"""States of the brokers of a pair according to systemd, their ports and their logs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tests import waiting
from tests.hosts.machines import Machine, MachinesError, Rack
from tests.waiting import PATIENCE

UNIT = "activemq.service"
BASE = "/var/lib/activemq/activemq"
SHARE = "/srv/activemq"
STORE = f"{SHARE}/orders-mq01"
MARKER = f"{STORE}/.activemq-fleet-pair"
# The last record since the start of the unit: one process may wait, serve, lose its lock and wait again.
_WAITS = f"""systemctl is-active --quiet {UNIT} &&
since=$(date -d "$(systemctl show -p ActiveEnterTimestamp --value {UNIT})" "+%F %T") &&
awk -v since="$since" '$0 >= since' {BASE}/data/activemq.log |
grep -E 'in slave mode waiting|exclusive lease to become|onnector [^ ]+ [Ss]tarted|is shut' | tail -n 1 |
grep -qE 'in slave mode waiting|exclusive lease to become'"""

_EVENT = re.compile(rf"(\w+ +\d+ [\d:.]+) \S+ systemd\[1\]: (?:{UNIT}: )?(Stopping|Main process exited|Started)\b")


def state(machine: Machine) -> str:
    """Return "active" if the port is open, "standby" if the broker waits for the lock, otherwise "neither"."""
    if machine.attempt("bash", "-c", "ss -Hltn | grep -q :1883").returncode == 0:
        return "active"
    return "standby" if is_waiting(machine) else "neither"


def is_waiting(machine: Machine) -> bool:
    """Return whether the log of the newest broker of a machine reports that it waits for the lock."""
    return machine.attempt("bash", "-c", _WAITS).returncode == 0


def process(machine: Machine) -> str:
    """Return the id of the main process of the unit; empty if no process exists."""
    pid = machine.run("systemctl", "show", UNIT, "--property=MainPID", "--value").strip()
    return "" if pid == "0" else pid


def wait_until(
    condition: Callable[[], object], what: str = "the condition holds", *machines: Machine, patience: float = PATIENCE
) -> None:
    """Return when a condition holds; raise LateError with the state of ``machines`` after ``patience`` seconds.

    While a machine does not respond, the condition does not hold.
    """
    waiting.wait_until(
        condition,
        what,
        seen=lambda: "\n".join(map(broker_report, machines)),
        patience=patience,
        expected_errors=(MachinesError,),
    )


def broker_report(machine: Machine) -> str:
    """Return the state, the ports and the last records of a broker, for the error of a wait that timed out."""
    script = f"""systemctl show {UNIT} -p ActiveState -p SubState -p MainPID -p NRestarts -p Result | paste -sd' '
ss -Hltn | awk '{{print $4}}' | paste -sd' '
journalctl --unit {UNIT} --output=short-precise --lines=15 --no-pager
tail -n 25 {BASE}/data/activemq.log"""
    return f"== {machine.name}, {state(machine)}:\n{machine.attempt('bash', '-c', script).stdout}"


def journal_of(machine: Machine, unit: str = UNIT) -> str:
    """Return all messages of the journal of a unit until now."""
    return machine.run("bash", "-c", f"journalctl --sync; journalctl --unit {unit} --output=cat --no-pager")


def wait_for_pair(machines: tuple[Machine, ...]) -> tuple[Machine, Machine]:
    """Wait until one node is active and the other is standby; return both in this order."""
    states: dict[str, Machine] = {}

    def are_active_and_standby() -> bool:
        states.clear()
        states.update({state(machine): machine for machine in machines})
        return states.keys() == {"active", "standby"}

    wait_until(are_active_and_standby, "one node is active and the other is standby", *machines)
    return states["active"], states["standby"]


def wait_for_places(active: Machine, standby: Machine) -> None:
    """Return when one given node is active and the other given node is standby."""
    wait_until(
        lambda: (state(active), state(standby)) == ("active", "standby"),
        f"{active.name} is active and {standby.name} is standby",
        active,
        standby,
    )


@contextmanager
def separate_share(rack: Rack, directory: Path, size: str) -> Iterator[Path]:
    """Provide the share of the pair as a separate file system, which a test may fill; unmount it at the end."""
    shared = rack.shared(SHARE)
    shared.parent.mkdir(parents=True, exist_ok=True)
    shared.unlink(missing_ok=True)
    shared.symlink_to(directory)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(directory)], check=True)
    try:
        yield directory
    finally:
        rack.down()
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def downtimes(machine: Machine) -> list[tuple[datetime, datetime]]:
    """Return the times without a running broker, according to the journal of the machine, in the year 2000."""
    times: list[tuple[datetime, datetime]] = []
    stopped_at: datetime | None = None
    for line in machine.journal(UNIT).splitlines():
        event = _EVENT.match(line)
        if event is None:
            continue
        at = datetime.strptime(f"2000 {event[1]}", "%Y %b %d %H:%M:%S.%f")
        if event[2] != "Started":
            stopped_at = stopped_at or at
        elif stopped_at is not None:
            times.append((stopped_at, at))
            stopped_at = None
    return [*times, (stopped_at, datetime.max)] if stopped_at else times


def common_downtimes(machine: Machine, other: Machine) -> list[tuple[datetime, datetime]]:
    """Return the times in which neither of two machines had a running broker."""
    return [
        (max(began, start), min(ended, end))
        for began, ended in downtimes(machine)
        for start, end in downtimes(other)
        if max(began, start) < min(ended, end)
    ]
