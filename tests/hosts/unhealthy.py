"""States in which no playbook may change a pair: how each is created on real hosts, and what a refusal must contain.

Each state is a context manager over the active node and the standby. It yields the messages that a run must print, and
restores the pair at the end.
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
from tests.hosts.playbooks import Controller, checked_output

FULL_SIZE, NEARLY_FULL_SIZE = "1g", "200m"
"""Sizes of the file system that is the pair's share."""
_RELOAD = "systemctl daemon-reload"
# A state that does not resolve without action is the same after a few seconds.
SHORT_WAIT = ("-e", "__activemq_settle_timeout=3")
# The commands print all that a run could change: processes and their jobs, configurations, releases.
TRACES = f"""systemctl show {UNIT} -p MainPID -p Job -p NRestarts
pgrep -u activemq java; systemctl list-units -q 'activemq*'
readlink {BASE}/current {BASE}/aside; ls {BASE}/versions /opt; ls -l /opt/activemq; true"""


@dataclass(frozen=True, slots=True)
class Pair:
    """The active node, the standby, and the directory of the controller that is their share."""

    active: Machine
    standby: Machine
    share: Path


@dataclass(frozen=True, slots=True)
class Refusal:
    """Texts that the output of a run must contain, and the machines whose traces are not compared.

    Traces of a machine in ``unobserved`` cannot be read, or change without a playbook.
    """

    messages: tuple[str, ...]
    unobserved: tuple[Machine, ...] = ()


State = Callable[[Pair], AbstractContextManager[Refusal]]


@contextmanager
def stopped(pair: Pair) -> Iterator[Refusal]:
    host = pair.standby
    host.run("systemctl", "stop", UNIT)
    try:
        yield Refusal((f"{host.name}: the broker is stopped (", f"then run systemctl start {UNIT}"))
    finally:
        host.run("systemctl", "start", UNIT)


@contextmanager
def does_not_start(pair: Pair) -> Iterator[Refusal]:
    """Make Java of the standby not executable, so that systemd starts the broker repeatedly."""
    host = pair.standby
    java = host.run("readlink", "-f", "/usr/bin/java").strip()
    host.run("chmod", "a-x", java)
    try:
        host.run("systemctl", "kill", "--signal=KILL", UNIT)
        wait_until(lambda: not process(host), "the process of the broker has exited", host)
        messages = (
            f"{host.name}: systemd tries to start the broker, but it does not start (",
            f"Check journalctl -u {UNIT}",
        )
        yield Refusal(messages, unobserved=(host,))
    finally:
        host.run("chmod", "a+x", java)


@contextmanager
def neither_active_nor_standby(pair: Pair) -> Iterator[Refusal]:
    """Empty the log of the standby, so that no record shows that the broker waits for the lock."""
    host = pair.standby
    host.run("truncate", "--size=0", f"{BASE}/data/activemq.log")
    try:
        yield Refusal(
            (f"{host.name}: the broker is starting, so it is neither active", f"Check {BASE}/data/activemq.log")
        )
    finally:
        host.run("systemctl", "restart", UNIT)


@contextmanager
def _frozen(host: Machine) -> Iterator[Refusal]:
    host.run("systemctl", "kill", "--signal=STOP", "--kill-whom=main", UNIT)
    try:
        yield Refusal((f"{host.name}: the broker is hung (process", f"Run systemctl kill -s KILL {UNIT}"))
    finally:
        host.run("systemctl", "kill", "--signal=CONT", "--kill-whom=main", UNIT)


def hung_standby(pair: Pair) -> AbstractContextManager[Refusal]:
    return _frozen(pair.standby)


def hung_active(pair: Pair) -> AbstractContextManager[Refusal]:
    return _frozen(pair.active)


@contextmanager
def both_active(pair: Pair) -> Iterator[Refusal]:
    """Mount another file system with the marker of the pair on the host of the standby."""
    host = pair.standby
    host.run("systemctl", "stop", UNIT)
    host.run("mount", "-t", "tmpfs", "-o", f"size={FULL_SIZE},mode=750,uid=977,gid=977", "tmpfs", STORE)
    try:
        host.run("sh", "-c", f"printf 'orders-mq01\\nanother\\n' > {MARKER}")
        host.run("systemctl", "start", UNIT)
        wait_until(lambda: state(host) == "active", "the broker serves from the other store", host)
        yield Refusal((" are both active, ", "Immediately stop the broker", "Mount the same share"))
    finally:
        host.run("systemctl", "stop", UNIT)
        host.run("umount", STORE)
        host.run("systemctl", "start", UNIT)


@contextmanager
def no_node_active(pair: Pair) -> Iterator[Refusal]:
    """Hold the lock in another process, so that both brokers wait."""
    hosts = (pair.active, pair.standby)
    for host in hosts:
        host.run("systemctl", "stop", UNIT)
    with (pair.share / Path(STORE).name / "lock").open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        for host in hosts:
            host.run("systemctl", "start", UNIT)
        wait_until(lambda: all(is_waiting(host) for host in hosts), "both wait for the lock", *hosts)
        yield Refusal(("no node is active, because ", f"run fuser -v {STORE}/lock"))


@contextmanager
def no_access(pair: Pair) -> Iterator[Refusal]:
    """Deny the account of the brokers access to the lock, while the log of the standby still shows that it waits."""
    lock = f"{STORE}/lock"
    pair.active.run("sh", "-c", f"chown root {lock} && chmod 0600 {lock}")
    try:
        messages = tuple(
            f"{host.name}: the broker cannot lock the store {STORE}" for host in (pair.active, pair.standby)
        )
        yield Refusal((*messages, "the mount options of the shared directory, or the owner of the files in it"))
    finally:
        pair.active.run("sh", "-c", f"chown activemq {lock} && chmod 0644 {lock}")


@contextmanager
def _marked(pair: Pair, text: str | None, message: str) -> Iterator[Refusal]:
    marker = pair.share / Path(STORE).name / Path(MARKER).name
    original = marker.read_text()
    marker.unlink()
    try:
        if text is not None:
            marker.write_text(text)
        yield Refusal(tuple(f"{host.name}: {message}" for host in (pair.active, pair.standby)))
    finally:
        marker.write_text(original)


def no_marker(pair: Pair) -> AbstractContextManager[Refusal]:
    return _marked(pair, None, f"the store {STORE} has no file {Path(MARKER).name}, so the service unit would not")


def foreign_marker(pair: Pair) -> AbstractContextManager[Refusal]:
    message = f"directory {STORE} contains the store of pair billing-mq01, not of pair orders-mq01. Mount the store"
    return _marked(pair, "billing-mq01\nword\n", message)


@contextmanager
def nearly_full(pair: Pair) -> Iterator[Refusal]:
    resize(pair.share, NEARLY_FULL_SIZE)
    try:
        messages = tuple(f"{host.name}: directory {STORE} has " for host in (pair.active, pair.standby))
        yield Refusal(
            (*messages, "MiB of free space, less than 256 MiB, so a restart of the broker may fail. Free disk space")
        )
    finally:
        resize(pair.share, FULL_SIZE)


def resize(share: Path, size: str) -> None:
    """Change the size of a tmpfs without a change of its content."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(share)], check=True)


@contextmanager
def changed_by_hand(pair: Pair) -> Iterator[Refusal]:
    host, file = pair.standby, f"{BASE}/current/conf/activemq.xml"
    host.run("sh", "-c", f"echo >> {file}")
    try:
        message = f"{host.name}: files of the deployed configuration were changed on the host"
        yield Refusal((message, "conf/activemq.xml was changed by hand", "Add the changes that you want to keep"))
    finally:
        host.run("sed", "-i", "$ d", file)


@contextmanager
def no_configuration(pair: Pair) -> Iterator[Refusal]:
    host = pair.standby
    host.run("mv", f"{BASE}/current", f"{BASE}/aside")
    try:
        yield Refusal(
            (f"{host.name}: activemq.fleet has installed no configuration below", "Run the playbook site first")
        )
    finally:
        host.run("mv", f"{BASE}/aside", f"{BASE}/current")


@contextmanager
def masked_unit(pair: Pair) -> Iterator[Refusal]:
    """Mask the unit of the standby: the broker runs, and systemd cannot start it again."""
    host = pair.standby
    # `systemctl mask` does not mask a unit that is a file in /etc.
    host.run("sh", "-c", f"cd /etc/systemd/system && mv {UNIT} aside && ln -s /dev/null {UNIT} && {_RELOAD}")
    try:
        message = f"{host.name}: systemd has not loaded the service unit {UNIT} (its LoadState is masked)"
        yield Refusal((message, "Run the playbook site"))
    finally:
        host.run("sh", "-c", f"cd /etc/systemd/system && mv aside {UNIT} && {_RELOAD}")


@contextmanager
def started_by_hand(pair: Pair) -> Iterator[Refusal]:
    """Start the standby outside its service unit."""
    host = pair.standby
    words = host.run("cat", f"/proc/{process(host)}/cmdline").rstrip("\0").split("\0")
    count_waits = ("grep", "-c", "in slave mode waiting", f"{BASE}/data/activemq.log")
    waits_before = host.run(*count_waits)
    host.run("systemctl", "stop", UNIT)
    host.run("systemd-run", "--unit=by-hand", "--uid=activemq", "--gid=activemq", "--collect", "--", *words)
    try:
        pid = host.run("systemctl", "show", "by-hand", "--property=MainPID", "--value").strip()
        wait_until(lambda: host.run(*count_waits) != waits_before, "the broker waits for the lock", host)
        message = f"{host.name}: process {pid} of the broker was started outside the service unit {UNIT}"
        yield Refusal((message, f"so systemd cannot restart it. Run kill {pid}, and systemctl start {UNIT}"))
    finally:
        with suppress(OSError):
            host.run("systemctl", "stop", "by-hand")
        host.run("systemctl", "start", UNIT)


@contextmanager
def port_in_use(pair: Pair) -> Iterator[Refusal]:
    """Start another program on the host of the standby; it listens on a port that the broker opens at a failover."""
    host = pair.standby
    program = "import socket, time; listener = socket.create_server(('0.0.0.0', 61616)); time.sleep(3600)"
    host.run("systemd-run", "--unit=port-holder", "--collect", "--", "/usr/bin/python3", "-c", program)
    try:
        pid = host.run("systemctl", "show", "port-holder", "--property=MainPID", "--value").strip()
        listening = ("sh", "-c", "grep -c ':F0B0 0*:0000 0A' /proc/net/tcp")
        wait_until(lambda: host.attempt(*listening).stdout.strip() == "1", "the program listens", host)
        yield Refusal((f"{host.name}: port 61616 of the standby is in use by python3, pid {pid}", "Stop this process"))
    finally:
        host.run("systemctl", "stop", "port-holder")


@contextmanager
def unreachable(pair: Pair) -> Iterator[Refusal]:
    host = pair.standby
    host.isolate()
    try:
        yield Refusal((f"{host.name} failed or was not reached, so no further host is changed",), unobserved=(host,))
    finally:
        host.reconnect()


STATES: dict[str, State] = {
    create.__name__: create
    for create in (
        stopped,
        does_not_start,
        neither_active_nor_standby,
        hung_standby,
        hung_active,
        both_active,
        no_node_active,
        no_access,
        no_marker,
        foreign_marker,
        nearly_full,
        changed_by_hand,
        no_configuration,
        masked_unit,
        started_by_hand,
        port_in_use,
        unreachable,
    )
}


def assert_refused(controller: Controller, state: State, pair: Pair, plays: Iterable[tuple[str, ...]]) -> None:
    """Create a state of a pair; check that playbooks refuse it with the cause, and change nothing.

    Each element of ``plays`` is the name of a playbook and its arguments.
    """
    machines = controller.rack.machines
    with state(pair) as refusal:
        traces_before = settled_traces(machines, refusal)
        for playbook, *arguments in plays:
            output = checked_output(
                controller.run_playbook(playbook, *arguments, *SHORT_WAIT), 2, 4
            )  # 4: a host is unreachable
            assert [message for message in refusal.messages if message not in output] == []
            assert not re.search(r"changed=[1-9]", output)
            assert traces(machines, refusal) == traces_before


def traces(machines: tuple[Machine, ...], refusal: Refusal) -> dict[str, str]:
    return {
        machine.name: machine.run("bash", "-c", TRACES) for machine in machines if machine not in refusal.unobserved
    }


def settled_traces(machines: tuple[Machine, ...], refusal: Refusal) -> dict[str, str]:
    """Return the traces as soon as they no longer change: the state of a unit that stops changes a moment later."""
    observations: list[dict[str, str]] = [{}]

    def are_unchanged() -> bool:
        observations.append(traces(machines, refusal))
        return observations[-1] == observations[-2]

    wait_until(are_unchanged, "the traces no longer change", *machines)
    return observations[-1]
