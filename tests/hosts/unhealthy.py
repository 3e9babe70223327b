"""States in which a pair must not be touched: how each comes about on real hosts, and what must be said of it.

Each is a context manager over the node that serves and the one that stands by. It yields what a run must say,
and puts everything right again.
"""

from __future__ import annotations

import fcntl
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.brokers import BASE, MARKER, STORE, UNIT, is_waiting, process, state, wait_until
from tests.hosts.machines import Machine
from tests.hosts.playbooks import Controller, ended

WHOLE, NEARLY_FULL = "1g", "200m"
"""Sizes of the file system that is the pair's share."""
_RELOAD = "systemctl daemon-reload"
# What is ill for good is ill after some seconds, too.
SOON = ("-e", "__activemq_settle_timeout=3")
# All that a run could change: processes and their jobs, configurations, releases.
TRACES = f"""systemctl show {UNIT} -p MainPID -p Job -p NRestarts
pgrep -u activemq java; systemctl list-units -q 'activemq*'
readlink {BASE}/current {BASE}/aside; ls {BASE}/versions /opt; ls -l /opt/activemq; true"""


@dataclass(frozen=True, slots=True)
class Pair:
    """The node that serves, the one that stands by, and the controller's directory that is their share."""

    active: Machine
    standby: Machine
    share: Path


@dataclass(frozen=True, slots=True)
class Found:
    """``says``: what must be in what the run says. ``unseen``: who cannot be asked, or changes by itself."""

    says: tuple[str, ...]
    unseen: tuple[Machine, ...] = ()


State = Callable[[Pair], AbstractContextManager[Found]]


@contextmanager
def stopped(pair: Pair) -> Iterator[Found]:
    host = pair.standby
    host.run("systemctl", "stop", UNIT)
    try:
        yield Found((f"{host.name}: the broker is stopped (", f"then run systemctl start {UNIT}"))
    finally:
        host.run("systemctl", "start", UNIT)


@contextmanager
def does_not_come_up(pair: Pair) -> Iterator[Found]:
    """Its Java cannot be run any more, and systemd tries again and again."""
    host = pair.standby
    java = host.run("readlink", "-f", "/usr/bin/java").strip()
    host.run("chmod", "a-x", java)
    try:
        host.run("systemctl", "kill", "--signal=KILL", UNIT)
        wait_until(lambda: not process(host), "its process is gone", host)
        says = (
            f"{host.name}: systemd tries to start the broker, but it does not start (",
            f"Check journalctl -u {UNIT}",
        )
        yield Found(says, unseen=(host,))
    finally:
        host.run("chmod", "a+x", java)


@contextmanager
def neither(pair: Pair) -> Iterator[Found]:
    """It lives, and nothing says that it waits for the lock."""
    host = pair.standby
    host.run("truncate", "--size=0", f"{BASE}/data/activemq.log")
    try:
        yield Found(
            (f"{host.name}: the broker is starting, so it is neither active", f"Check {BASE}/data/activemq.log")
        )
    finally:
        host.run("systemctl", "restart", UNIT)


@contextmanager
def _frozen(host: Machine) -> Iterator[Found]:
    host.run("systemctl", "kill", "--signal=STOP", "--kill-whom=main", UNIT)
    try:
        yield Found((f"{host.name}: the broker is hung (process", f"Run systemctl kill -s KILL {UNIT}"))
    finally:
        host.run("systemctl", "kill", "--signal=CONT", "--kill-whom=main", UNIT)


def hung_standby(pair: Pair) -> AbstractContextManager[Found]:
    return _frozen(pair.standby)


def hung_active(pair: Pair) -> AbstractContextManager[Found]:
    return _frozen(pair.active)


@contextmanager
def both_active(pair: Pair) -> Iterator[Found]:
    """The standby's host has mounted something else, which looks like the pair's store."""
    host = pair.standby
    host.run("systemctl", "stop", UNIT)
    host.run("mount", "-t", "tmpfs", "-o", f"size={WHOLE},mode=750,uid=977,gid=977", "tmpfs", STORE)
    try:
        host.run("sh", "-c", f"printf 'orders-mq01\\nanother\\n' > {MARKER}")
        host.run("systemctl", "start", UNIT)
        wait_until(lambda: state(host) == "active", "it serves another store", host)
        yield Found((" are both active, ", "Immediately stop the broker", "Mount the same share"))
    finally:
        host.run("systemctl", "stop", UNIT)
        host.run("umount", STORE)
        host.run("systemctl", "start", UNIT)


@contextmanager
def nobody_active(pair: Pair) -> Iterator[Found]:
    """Somebody else holds the lock."""
    hosts = (pair.active, pair.standby)
    for host in hosts:
        host.run("systemctl", "stop", UNIT)
    with (pair.share / Path(STORE).name / "lock").open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        for host in hosts:
            host.run("systemctl", "start", UNIT)
        wait_until(lambda: all(is_waiting(host) for host in hosts), "both wait for the lock", *hosts)
        yield Found(("no node is active, because ", f"run fuser -v {STORE}/lock"))


@contextmanager
def no_access(pair: Pair) -> Iterator[Found]:
    """The brokers' account could not open the lock, and the standby's log says all the same that it waits."""
    lock = f"{STORE}/lock"
    pair.active.run("sh", "-c", f"chown root {lock} && chmod 0600 {lock}")
    try:
        says = tuple(
            f"{host.name}: the account of the broker cannot lock the store {STORE}"
            for host in (pair.active, pair.standby)
        )
        yield Found((*says, "Correct the mount options of the shared directory, or the owner of the files in it"))
    finally:
        pair.active.run("sh", "-c", f"chown activemq {lock} && chmod 0644 {lock}")


@contextmanager
def _marked(pair: Pair, text: str | None, says: str) -> Iterator[Found]:
    marker = pair.share / Path(STORE).name / Path(MARKER).name
    was = marker.read_text()
    marker.unlink()
    try:
        if text is not None:
            marker.write_text(text)
        yield Found(tuple(f"{host.name}: {says}" for host in (pair.active, pair.standby)))
    finally:
        marker.write_text(was)


def no_marker(pair: Pair) -> AbstractContextManager[Found]:
    return _marked(pair, None, f"the store {STORE} has no file {Path(MARKER).name}, so the service unit would not")


def foreign_marker(pair: Pair) -> AbstractContextManager[Found]:
    says = f"directory {STORE} contains the store of pair billing-mq01, not of pair orders-mq01. Mount the store"
    return _marked(pair, "billing-mq01\nword\n", says)


@contextmanager
def nearly_full(pair: Pair) -> Iterator[Found]:
    resize(pair.share, NEARLY_FULL)
    try:
        says = tuple(f"{host.name}: directory {STORE} has " for host in (pair.active, pair.standby))
        yield Found(
            (*says, "MiB of free space, less than 256 MiB, so a restart of the broker may fail. Free disk space")
        )
    finally:
        resize(pair.share, WHOLE)


def resize(share: Path, size: str) -> None:
    """Make a tmpfs larger or smaller, with all that is on it."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(share)], check=True)


@contextmanager
def changed_by_hand(pair: Pair) -> Iterator[Found]:
    host, file = pair.standby, f"{BASE}/current/conf/activemq.xml"
    host.run("sh", "-c", f"echo >> {file}")
    try:
        says = f"{host.name}: files of the deployed configuration were changed on the host"
        yield Found((says, "conf/activemq.xml was changed by hand", "Add the changes that you want to keep"))
    finally:
        host.run("sed", "-i", "$ d", file)


@contextmanager
def no_configuration(pair: Pair) -> Iterator[Found]:
    host = pair.standby
    host.run("mv", f"{BASE}/current", f"{BASE}/aside")
    try:
        yield Found(
            (f"{host.name}: activemq.fleet has installed no configuration below", "Run the playbook site first")
        )
    finally:
        host.run("mv", f"{BASE}/aside", f"{BASE}/current")


@contextmanager
def masked(pair: Pair) -> Iterator[Found]:
    """It runs, and could not be started again."""
    host = pair.standby
    # By hand: `systemctl mask` leaves a unit alone that is a file of /etc.
    host.run("sh", "-c", f"cd /etc/systemd/system && mv {UNIT} aside && ln -s /dev/null {UNIT} && {_RELOAD}")
    try:
        says = f"{host.name}: systemd has not loaded the service unit {UNIT} (its LoadState is masked)"
        yield Found((says, "Run the playbook site"))
    finally:
        host.run("sh", "-c", f"cd /etc/systemd/system && mv aside {UNIT} && {_RELOAD}")


@contextmanager
def started_by_hand(pair: Pair) -> Iterator[Found]:
    """The standby is there, but it is not systemd's."""
    host = pair.standby
    words = host.run("cat", f"/proc/{process(host)}/cmdline").rstrip("\0").split("\0")
    said = ("grep", "-c", "in slave mode waiting", f"{BASE}/data/activemq.log")
    before = host.run(*said)
    host.run("systemctl", "stop", UNIT)
    host.run("systemd-run", "--unit=by-hand", "--uid=activemq", "--gid=activemq", "--collect", "--", *words)
    try:
        pid = host.run("systemctl", "show", "by-hand", "--property=MainPID", "--value").strip()
        wait_until(lambda: host.run(*said) != before, "it waits for the lock", host)
        says = f"{host.name}: process {pid} of the broker was started outside the service unit {UNIT}"
        yield Found((says, f"so systemd cannot restart it. Run kill {pid}, and systemctl start {UNIT}"))
    finally:
        with suppress(OSError):
            host.run("systemctl", "stop", "by-hand")
        host.run("systemctl", "start", UNIT)


@contextmanager
def port_in_use(pair: Pair) -> Iterator[Found]:
    """Another program of the standby's host listens on a port that the broker opens at a failover."""
    host = pair.standby
    program = "import socket, time; kept = socket.create_server(('0.0.0.0', 61616)); time.sleep(3600)"
    host.run("systemd-run", "--unit=port-holder", "--collect", "--", "/usr/bin/python3", "-c", program)
    try:
        pid = host.run("systemctl", "show", "port-holder", "--property=MainPID", "--value").strip()
        listening = ("sh", "-c", "grep -c ':F0B0 0*:0000 0A' /proc/net/tcp")
        wait_until(lambda: host.attempt(*listening).stdout.strip() == "1", "the program listens", host)
        yield Found((f"{host.name}: port 61616 of the standby is in use by python3, pid {pid}", "Stop this process"))
    finally:
        host.run("systemctl", "stop", "port-holder")


@contextmanager
def not_reached(pair: Pair) -> Iterator[Found]:
    host = pair.standby
    host.isolate()
    try:
        yield Found((f"{host.name} failed or was not reached, so no further host is changed",), unseen=(host,))
    finally:
        host.reconnect()


STATES: dict[str, State] = {
    one.__name__: one
    for one in (
        stopped,
        does_not_come_up,
        neither,
        hung_standby,
        hung_active,
        both_active,
        nobody_active,
        no_access,
        no_marker,
        foreign_marker,
        nearly_full,
        changed_by_hand,
        no_configuration,
        masked,
        started_by_hand,
        port_in_use,
        not_reached,
    )
}


def refuse(controller: Controller, state: State, pair: Pair, plays: Iterable[tuple[str, ...]]) -> None:
    """Bring a pair into a state, and see that playbooks (name, arguments …) refuse it, say why, and touch nothing."""
    machines = controller.rack.machines
    with state(pair) as found:
        before = settled(machines, found)
        for playbook, *arguments in plays:
            told = ended(controller.play(playbook, *arguments, *SOON), 2, 4)  # 4: a host that was not reached
            assert [says for says in found.says if says not in told] == []
            assert not re.search(r"changed=[1-9]", told)
            assert traces(machines, found) == before


def traces(machines: tuple[Machine, ...], found: Found) -> dict[str, str]:
    return {machine.name: machine.run("bash", "-c", TRACES) for machine in machines if machine not in found.unseen}


def settled(machines: tuple[Machine, ...], found: Found) -> dict[str, str]:
    """The traces, as soon as they stay: a unit that stops has another state a moment later."""
    looks: list[dict[str, str]] = [{}]

    def stay() -> bool:
        looks.append(traces(machines, found))
        return looks[-1] == looks[-2]

    wait_until(stay, f"nothing changes any more, as in {looks}", *machines)
    return looks[-1]
