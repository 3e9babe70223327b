"""Pairs on a shared database, under load, cut off, and with shifted clocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from activemq_fleet import artifacts
from activemq_fleet.drills.model import PairEventCounts
from activemq_fleet.errors import LabError
from activemq_fleet.lab.drill_files import pair_outcomes_and_faults
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.load_process import make_load_generator
from activemq_fleet.lab.load_spec import make_load_spec, supports_mqtt_agents
from tests.integration.labs import pair
from tests.integration.relay import Relay
from tests.integration.waiting import PATIENCE, until
from tests.stomp_clients import stomp_drain, stomp_send

A, B = pair("orders")


PAIR = "orders-mq01"


RATE = 40.0


LEASE = 4.0


OUTAGE = 12.0
"""Seconds for which the database or a node is unreachable: three times the lease."""


FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


class Load:
    """The event counts of a load, and the largest number of nodes that were active at the same time."""

    account: PairEventCounts
    most_active = 0


@contextmanager
def under_load(lab: Lab, directory: Path) -> Iterator[Load]:
    """Send events inside the block, start stopped nodes as systemd does, and wait at the end for further events."""
    fleet, load, ended = lab.client_fleet, Load(), threading.Event()
    sockets = directory / "s"
    sockets.mkdir()

    def watch_nodes() -> None:
        while not ended.wait(0.2):
            with suppress(LabError):
                states = {status.host: status.state for status in lab.status()}
                load.most_active = max(load.most_active, sum(state == "active" for state in states.values()))
                for host in (host for host, state in states.items() if state == "stopped"):
                    lab.start(host, wait=False)

    generator = make_load_generator(make_load_spec(fleet, fleet.pairs_by_name[PAIR], RATE), directory / "load", sockets)
    with generator:
        generator.start_load(PATIENCE)
        until(generator.has_stable_connections, PATIENCE, "events flow")
        watcher = threading.Thread(target=watch_nodes)
        watcher.start()
        try:
            yield load
            since = time.time()
            until(lambda: generator.last_handled_time() > since + 1, 2 * PATIENCE, "events flow again")
        finally:
            ended.set()
            watcher.join()
        generator.finish_load()
    protocol = "MQTT" if supports_mqtt_agents(fleet.pairs_by_name[PAIR]) else "STOMP"
    load.account, _ = pair_outcomes_and_faults(directory / "load", PAIR, protocol, [])


def assert_no_event_lost(load: Load) -> None:
    account = load.account
    assert (account.lost, account.stuck, account.duplicate) == (0, 0, 0), account
    assert account.accepted == account.handled > 0


def assert_disconnected_node_steps_down(lab: Lab, database: tuple[str, int], directory: Path) -> None:
    """Disconnect node A from the database and connect it again, under load; assert that node B takes over."""
    lab.stop(A)
    lab.stop(B)
    with Relay(database) as relay:
        use_relay(lab, A, database, relay)
        lab.start(A)
        lab.start(B)
        with under_load(lab, directory) as load:
            relay.cut()
            began = time.monotonic()
            lab.wait_state(B, "active", PATIENCE)
            takeover_seconds = time.monotonic() - began
            until(lambda: lab.state(A) != "active", PATIENCE, "the disconnected node is not active")
            stop_seconds = time.monotonic() - began
            time.sleep(OUTAGE)
            relay.heal()
            until(lambda: lab.state(A) == "standby", PATIENCE, "the node is the standby again")
            assert lab.state(B) == "active"
    print(f"{B} was active after {takeover_seconds:.1f} s, {A} was inactive after {stop_seconds:.1f} s: {load.account}")
    assert_no_event_lost(load)


def use_relay(lab: Lab, host: str, database: tuple[str, int], relay: Relay) -> None:
    """Configure a stopped node to connect to its database through a relay."""
    file = lab.directory / "hosts" / host / "activemq/current/conf/activemq.xml"
    address, port = database
    text = file.read_text()
    assert f"{address}:{port}" in text
    file.write_text(text.replace(f"{address}:{port}", f"{address}:{relay.address[1]}"))


def shift_clock_of_standby(directory: Path, monkeypatch: pytest.MonkeyPatch, shift: str) -> None:
    """Shift the clock of node B in each lab that starts after this call."""
    home = directory / "java"
    write_shifted_java(home, artifacts.java_executable(17), shift, B)
    monkeypatch.setenv("JAVA_HOME", str(home))


def assert_lease_holds(lab: Lab) -> None:
    """Assert that node A stays active while it runs, and that node B takes over after node A is killed."""
    assert lab.wait_active(PAIR) == A
    credentials = lab.credentials(PAIR)
    sent = stomp_send(lab.addresses(A, "stomp"), "/queue/T", ["before"], credentials)
    deadline = time.monotonic() + 4 * LEASE
    while time.monotonic() < deadline:
        assert (lab.state(A), lab.state(B)) == ("active", "standby")
        time.sleep(0.5)
    lab.kill(A)
    lab.wait_state(B, "active", PATIENCE)
    sent += stomp_send(lab.addresses(B, "stomp"), "/queue/T", ["after"], credentials)
    assert stomp_drain(lab.addresses(B, "stomp"), "/queue/T", credentials, expected=2) == sent


def write_shifted_java(home: Path, java: Path, shift: str, host: str) -> None:
    """Write a Java wrapper that shifts the clock on one host, whose directory its command line contains.

    It also shifts the monotonic clock. Otherwise timed waits return immediately, and the broker loops.
    """
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *"/{host}/"*)\n'
        f"    export LD_PRELOAD={FAKETIME} FAKETIME={shift};;\n"
        "esac\n"
        f'exec {java} "$@"\n'
    )
    script.chmod(0o755)
