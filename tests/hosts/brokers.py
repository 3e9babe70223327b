"""What a pair's brokers are at, as systemd, their ports and their logs show it."""

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
# What the log said last since the unit was started: one process may wait, serve, lose its lock and wait again.
_WAITS = f"""systemctl is-active --quiet {UNIT} &&
since=$(date -d "$(systemctl show -p ActiveEnterTimestamp --value {UNIT})" "+%F %T") &&
awk -v since="$since" '$0 >= since' {BASE}/data/activemq.log |
grep -E 'in slave mode waiting|exclusive lease to become|onnector [^ ]+ [Ss]tarted|is shut' | tail -n 1 |
grep -qE 'in slave mode waiting|exclusive lease to become'"""

_EVENT = re.compile(rf"(\w+ +\d+ [\d:.]+) \S+ systemd\[1\]: (?:{UNIT}: )?(Stopping|Main process exited|Started)\b")


def state(machine: Machine) -> str:
    """Active where the port is open, standby where the process waits for the lock."""
    if machine.attempt("bash", "-c", "ss -Hltn | grep -q :1883").returncode == 0:
        return "active"
    return "standby" if is_waiting(machine) else "neither"


def is_waiting(machine: Machine) -> bool:
    """Whether the newest broker of a machine says in its log that it waits for the lock."""
    return machine.attempt("bash", "-c", _WAITS).returncode == 0


def process(machine: Machine) -> str:
    """The main process of the unit; empty when there is none."""
    pid = machine.run("systemctl", "show", UNIT, "--property=MainPID", "--value").strip()
    return "" if pid == "0" else pid


def wait_until(
    condition: Callable[[], object], what: str = "it comes to pass", *machines: Machine, patience: float = PATIENCE
) -> None:
    """Return when it holds; LateError after a time that no machine under load needs, with how ``machines`` stand.

    A machine that cannot be asked says nothing: it is asked again.
    """
    waiting.wait_until(
        condition,
        what,
        seen=lambda: "\n".join(map(look, machines)),
        patience=patience,
        expected_errors=(MachinesError,),
    )


def look(machine: Machine) -> str:
    """How a machine's broker stands, for whoever reads why a wait ran out."""
    script = f"""systemctl show {UNIT} -p ActiveState -p SubState -p MainPID -p NRestarts -p Result | paste -sd' '
ss -Hltn | awk '{{print $4}}' | paste -sd' '
journalctl --unit {UNIT} --output=short-precise --lines=15 --no-pager
tail -n 25 {BASE}/data/activemq.log"""
    return f"== {machine.name}, {state(machine)}:\n{machine.attempt('bash', '-c', script).stdout}"


def journal_of(machine: Machine, unit: str = UNIT) -> str:
    """The texts of a unit's journal, all that were written until now among them."""
    return machine.run("bash", "-c", f"journalctl --sync; journalctl --unit {unit} --output=cat --no-pager")


def wait_for_pair(machines: tuple[Machine, ...]) -> tuple[Machine, Machine]:
    """The node that serves and the one that stands by, as soon as there is one of each."""
    states: dict[str, Machine] = {}

    def are_whole() -> bool:
        states.clear()
        states.update({state(machine): machine for machine in machines})
        return states.keys() == {"active", "standby"}

    wait_until(are_whole, "one node serves and the other stands by", *machines)
    return states["active"], states["standby"]


def wait_for_places(active: Machine, standby: Machine) -> None:
    """Return when the one serves and the other stands by."""
    wait_until(
        lambda: (state(active), state(standby)) == ("active", "standby"),
        f"{active.name} serves and {standby.name} stands by",
        active,
        standby,
    )


@contextmanager
def own_share(rack: Rack, directory: Path, size: str) -> Iterator[Path]:
    """The pair's share as a file system of its own, which may be filled without harm to anybody; then it is gone."""
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
    """From when to when systemd had no broker running, as the machine's journal tells it; the year is made up."""
    found: list[tuple[datetime, datetime]] = []
    ended: datetime | None = None
    for line in machine.journal(UNIT).splitlines():
        event = _EVENT.match(line)
        if event is None:
            continue
        at = datetime.strptime(f"2000 {event[1]}", "%Y %b %d %H:%M:%S.%f")
        if event[2] != "Started":
            ended = ended or at
        elif ended is not None:
            found.append((ended, at))
            ended = None
    return [*found, (ended, datetime.max)] if ended else found


def were_down_together(one: Machine, other: Machine) -> list[tuple[datetime, datetime]]:
    """When neither of two machines had a broker running."""
    return [
        (max(began, start), min(ended, end))
        for began, ended in downtimes(one)
        for start, end in downtimes(other)
        if max(began, start) < min(ended, end)
    ]
