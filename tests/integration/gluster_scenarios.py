"""One fault of a pair whose store is on GlusterFS, with a separate client for each node.

python -m tests.integration.gluster_scenarios FAULT RELEASE FENCE DIRECTORY

It prints as JSON the outcome of the acknowledged messages, and how long no node served.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import psutil

from activemq_fleet.lab.connector_and_port_checks import is_port_taken
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.status_evidence import lab_status
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.fence.old_generations import uncopied_messages
from activemq_fleet.node.fence.replay import MessageReplayConnection
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.watchdog.watchdog import Watchdog
from activemq_fleet.node.watchdog.watchdog_cli import parse_options
from activemq_fleet.render.broker_paths import paths_of_broker
from scripts.attacks.clients import consume, sending
from tests.integration.gluster import GlusterFS
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.waiting import PATIENCE, until

A, B = pair("orders")
PAIR = "orders-mq01"
_TAKEOVER = 120.0
_FAULTY, _WITHOUT_QUORUM = 20.0, 60.0
"""Seconds of a fault during which no other node takes over; a brick releases a lock after 43 s."""
_HEALED = 60.0
_SERVED = 3.0
"""Seconds for which the successor serves before the fault ends."""
_ANSWERED, _GIVEN_UP = 30.0, 10.0
"""Seconds for which clients of node a wait for a response: if a response may still come, and if none comes."""
_SETTLED = 20.0
"""Seconds within which the node with the fault must stop serving."""
_NAMED = 90.0
"""Seconds for a guard to list what only an old generation contains, and for the bricks to deliver it to the guard."""


class Scenario:
    """A pair on a volume with node a active; each node has a separate lab, whose stores are on a separate mount."""

    def __init__(self, directory: Path, release: str, fence: str) -> None:
        self.volume = GlusterFS(directory)
        self.is_fenced = fence == "guard"
        inventory = write_inventory(
            directory / "inventory",
            (A, B),
            release=release,
            fence=fence,
            network_username="network",
            network_password="s3cret-network",
        )
        self.labs = {host: Lab.open([inventory.parent], directory / host.partition(".")[0]) for host in (A, B)}
        self.labs[B].up()  # installs both nodes, whose files are then hidden by the mount
        self.labs[B].down()
        for host in (A, B):
            self.volume.mount(self.mount_of(host))
        self.labs[A].up()
        self.labs[A].kill(B)
        address = self.labs[B].addresses(B, "openwire")[0]
        until(lambda: not self.processes(A, B) and not is_port_taken(address), PATIENCE, "node b can start")
        self.labs[B].start(B)

    def mount_of(self, host: str) -> Path:
        return self.labs[host].directory / "stores"

    def state(self, host: str) -> str:
        return self.labs[host].state(host)

    def processes(self, host: str, of: str = "") -> list[psutil.Process]:
        """Return the processes of the lab of a node: guards and Java; with ``of``, only those of one host."""
        processes = map(psutil.Process, processes_of(self.labs[host].directory))
        return [process for process in processes if not of or any(f"/{of}/" in word for word in process.cmdline())]

    def lock(self) -> str:
        """Return the path of the lock of the pair in the volume."""
        return f"/{PAIR}/fence/lock" if self.is_fenced else f"/{PAIR}/lock"

    def close(self) -> None:
        for lab in self.labs.values():
            lab.down()
            lab.__exit__()


def _kill_host(scenario: Scenario) -> Callable[[], None]:
    """Kill all processes of node a at once: broker, guard and client."""
    client = scenario.volume.client(scenario.mount_of(A))
    for process in (client, *scenario.processes(A)):
        process.kill()
    return lambda: None


def _lose_power(scenario: Scenario) -> Callable[[], None]:
    """Disconnect node a from the bricks, and kill its processes.

    A killed process still closes its connections to the bricks. A machine without power does not.
    """
    scenario.volume.cut(scenario.mount_of(A))
    return _kill_host(scenario)


def _cut(scenario: Scenario) -> Callable[[], None]:
    """Disconnect node a from the store."""
    scenario.volume.cut(scenario.mount_of(A))
    return lambda: scenario.volume.join(scenario.mount_of(A))


def _freeze(scenario: Scenario) -> Callable[[], None]:
    """Freeze node a and its client, and clear its lock, as an operator does."""
    frozen = [*scenario.processes(A), scenario.volume.client(scenario.mount_of(A))]
    for process in frozen:
        process.suspend()
    time.sleep(1)
    scenario.volume.clear_locks(scenario.lock())

    def thaw() -> None:
        for process in reversed(frozen):
            process.resume()

    return thaw


def _clear(scenario: Scenario) -> Callable[[], None]:
    """Clear the lock of node a while it serves; the lock file stays the same."""
    scenario.volume.clear_locks(scenario.lock())
    return lambda: None


def _kill_brick(scenario: Scenario) -> Callable[[], None]:
    """Kill one of the two bricks, and start it again at the end."""
    scenario.volume.brick(1).kill()
    return lambda: print(scenario.volume.gluster("volume", "start", "store", "force"))


def _split(scenario: Scenario) -> Callable[[], None]:
    """Connect node a to brick 1 only and node b to brick 2 only, while no daemon heals the bricks."""
    volume = scenario.volume
    volume.gluster("volume", "set", "store", "cluster.self-heal-daemon", "off")
    volume.cut_from_brick(scenario.mount_of(A), 2)
    volume.cut_from_brick(scenario.mount_of(B), 1)

    def heal() -> None:
        for host in (A, B):
            volume.join_bricks(scenario.mount_of(host))
        volume.gluster("volume", "set", "store", "cluster.self-heal-daemon", "on")
        poll_for_true_result(lambda: _starts_heal(volume), _HEALED, 2)

    return heal


def _starts_heal(volume: GlusterFS) -> bool:
    """Return whether the bricks are connected and a heal of all files starts."""
    with suppress(AssertionError):
        volume.gluster("volume", "heal", "store")
        return True
    return False


def _split_with_quorum(scenario: Scenario) -> Callable[[], None]:
    """Split the bricks, with clients that write only while they reach the first brick (cluster.quorum-type auto)."""
    scenario.volume.gluster("volume", "set", "store", "cluster.quorum-type", "auto")
    return _split(scenario)


def _fill(scenario: Scenario) -> Callable[[], None]:
    """Fill the volume."""
    filler = scenario.volume.fill()

    def remove_filler() -> None:
        filler.unlink()
        for host in (A, B):
            if scenario.state(host) == "stopped":  # as systemd does
                scenario.labs[host].start(host, wait=False)

    return remove_filler


_ANSWERED_FAULTS = ("freeze", "cut", "brick", "full", "split", "quorum")
"""Faults after which node a may still respond to earlier messages."""
_FAULTS = {
    "kill": _kill_host,
    "power": _lose_power,
    "cut": _cut,
    "freeze": _freeze,
    "clear": _clear,
    "brick": _kill_brick,
    "full": _fill,
    "split": _split,
    "quorum": _split_with_quorum,
}
_FAULTS_WITHOUT_TAKEOVER = ("brick", "full", "quorum")
"""Faults during which no other node takes over."""


def run(fault: str, release: str, fence: str, directory: Path) -> dict[str, Any]:
    """Inject a fault under load, end it, kill both nodes, and count the remaining messages."""
    scenario = Scenario(directory, release, fence)
    is_taken_over = fault not in _FAULTS_WITHOUT_TAKEOVER
    try:
        addresses = {host: lab.addresses(host, "stomp") for host, lab in scenario.labs.items()}
        credentials = scenario.labs[A].credentials(PAIR)
        patience = _ANSWERED if fault in _ANSWERED_FAULTS else _GIVEN_UP
        with sending((*addresses[A], *addresses[B]), addresses[A], credentials, stay_patience=patience) as senders:
            heal = _FAULTS[fault](scenario)
            began = time.monotonic()
            served = None
            if is_taken_over and poll_for_true_result(lambda: scenario.state(B) == "active", _TAKEOVER, 0.1):
                served = time.monotonic() - began
            time.sleep(_SERVED if is_taken_over else _WITHOUT_QUORUM if fault == "quorum" else _FAULTY)
            reports = {host.partition(".")[0]: _reports(scenario, host) for host in (A, B)}
            heal()
            healed = time.monotonic()
            ended = None
            if is_taken_over and poll_for_true_result(lambda: scenario.state(A) != "active", _SETTLED, 0.1):
                ended = time.monotonic() - healed
            poll_for_true_result(lambda: "active" in (scenario.state(A), scenario.state(B)), _TAKEOVER, 0.2)
            time.sleep(3)
            silence = senders[0].silence
        states = {host.partition(".")[0]: scenario.state(host) for host in (A, B)}
        counts = _count(scenario, senders, is_taken_over)
        times = {"served": served, "ended": ended, "silence": silence}
        return {"fault": fault, **times, "states": states, "reports": reports, **counts}
    finally:
        scenario.close()


def _reports(scenario: Scenario, host: str) -> dict[str, Any]:
    """Return the reports of ``status`` and the watchdog on a node during the fault."""
    lab = scenario.labs[host]
    hosts = (host,)
    status = lab_status(lab.fleet, hosts, hosts, 10)
    base = paths_of_broker(lab.fleet.broker(host)).base
    watchdog = Watchdog(parse_options(["--base", base, "--unit", "x.service", "--ha", "shared-file", "warn"]), None)
    watchdog.check_broker()
    return {
        "state": scenario.state(host),
        "status": sorted({f"{finding.rule} {finding.message}" for finding in status.findings}),
        "watchdog": f"{watchdog._streak.kind}",
    }


def _count(scenario: Scenario, senders: Any, is_taken_over: bool) -> dict[str, Any]:
    """Kill both nodes, start the one whose client works, replay, and count what each sender misses."""
    host = B if is_taken_over else A
    running = [process for node in (A, B) for process in scenario.processes(node)]
    for process in running:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(running, 10)
    lab = scenario.labs[host]
    lab.start(host, wait=False)
    if not poll_for_true_result(lambda: lab.state(host) == "active", _TAKEOVER, 0.2):
        return {"lost": None, "why": f"{host} does not start: {lab.state(host)}"}
    credentials = lab.credentials(PAIR)
    named = 0
    if scenario.is_fenced:
        store = SharedStore(lab.fleet.broker(host).store_directory)
        poll_for_true_result(
            lambda: _old_generations(store) <= set(store.generation_numbers_with_uncopied_messages()), _NAMED, 0.5
        )
        for number in store.generation_numbers_with_uncopied_messages():
            login = Login(*astuple(credentials) if credentials else ("", ""))
            with MessageReplayConnection(lab.addresses(host, "openwire")[0], login) as connection:
                named += connection.resend_uncopied_messages(uncopied_messages(store, number))
    stomp = lab.addresses(host, "stomp")[0]
    lost = {sender.queue: len(consume(stomp, sender.queue, credentials, sender.accepted)) for sender in senders}
    return {
        "accepted": sum(sender.accepted for sender in senders),
        "lost": sum(lost.values()),
        "by": lost,
        "named": named,
    }


def _old_generations(store: SharedStore) -> set[int]:
    highest = store.highest_claim()
    return {number for number in store.generation_names_by_number() if highest and number < highest.number}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
