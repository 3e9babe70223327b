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


AWAY = 12.0
"""Seconds for which the database or a node is away: three times a lease."""


FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


class Load:
    """The account of a load, and the most nodes that were active at once while it ran."""

    account: PairEventCounts
    most_active = 0


@contextmanager
def under_load(lab: Lab, directory: Path) -> Iterator[Load]:
    """Events flow inside the block, and again before it is left; whatever has ended is started, as systemd does."""
    fleet, load, over = lab.client_fleet, Load(), threading.Event()
    sockets = directory / "s"
    sockets.mkdir()

    def watch() -> None:
        while not over.wait(0.2):
            with suppress(LabError):
                states = {status.host: status.state for status in lab.status()}
                load.most_active = max(load.most_active, sum(state == "active" for state in states.values()))
                for host in (host for host, state in states.items() if state == "stopped"):
                    lab.start(host, wait=False)

    generator = make_load_generator(make_load_spec(fleet, fleet.pairs_by_name[PAIR], RATE), directory / "load", sockets)
    with generator:
        generator.start_load(PATIENCE)
        until(generator.has_stable_connections, PATIENCE, "events flow")
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield load
            since = time.time()
            until(lambda: generator.last_handled_time() > since + 1, 2 * PATIENCE, "events flow again")
        finally:
            over.set()
            watcher.join()
        generator.finish_load()
    protocol = "MQTT" if supports_mqtt_agents(fleet.pairs_by_name[PAIR]) else "STOMP"
    load.account, _ = pair_outcomes_and_faults(directory / "load", PAIR, protocol, [])


def assert_no_event_lost(load: Load) -> None:
    account = load.account
    assert (account.lost, account.stuck, account.duplicate) == (0, 0, 0), account
    assert account.accepted == account.handled > 0


def assert_disconnected_node_steps_down(lab: Lab, database: tuple[str, int], directory: Path) -> None:
    """Cut node A off from the database, and join it again, under load."""
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
            served = time.monotonic() - began
            until(lambda: lab.state(A) != "active", PATIENCE, "the node that is cut off serves no more")
            closed = time.monotonic() - began
            time.sleep(AWAY)
            relay.heal()
            until(lambda: lab.state(A) == "standby", PATIENCE, "it stands by again")
            assert lab.state(B) == "active"
    print(f"{B} served after {served:.1f} s, {A} did not any more after {closed:.1f} s: {load.account}")
    assert_no_event_lost(load)


def use_relay(lab: Lab, host: str, database: tuple[str, int], relay: Relay) -> None:
    """Let a node that does not run reach its database through a relay."""
    file = lab.directory / "hosts" / host / "activemq/current/conf/activemq.xml"
    address, port = database
    text = file.read_text()
    assert f"{address}:{port}" in text
    file.write_text(text.replace(f"{address}:{port}", f"{address}:{relay.address[1]}"))


def shift_clock_of_standby(directory: Path, monkeypatch: pytest.MonkeyPatch, shift: str) -> None:
    """Let node B of a lab that starts from now on see another time."""
    home = directory / "java"
    write_shifted_java(home, artifacts.java_executable(17), shift, B)
    monkeypatch.setenv("JAVA_HOME", str(home))


def assert_lease_holds(lab: Lab) -> None:
    """Node A stays active while it lives, and node B takes over when it is dead."""
    assert lab.wait_active(PAIR) == A
    who = lab.credentials(PAIR)
    sent = stomp_send(lab.addresses(A, "stomp"), "/queue/T", ["before"], who)
    deadline = time.monotonic() + 4 * LEASE
    while time.monotonic() < deadline:
        assert (lab.state(A), lab.state(B)) == ("active", "standby")
        time.sleep(0.5)
    lab.kill(A)
    lab.wait_state(B, "active", PATIENCE)
    sent += stomp_send(lab.addresses(B, "stomp"), "/queue/T", ["after"], who)
    assert stomp_drain(lab.addresses(B, "stomp"), "/queue/T", who, expected=2) == sent


def write_shifted_java(home: Path, java: Path, shift: str, host: str) -> None:
    """A Java whose clock is shifted on one host: its command line names the host's directory.

    Its monotonic clock is shifted as well: with that left alone timed waits return at once, and the broker spins.
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
