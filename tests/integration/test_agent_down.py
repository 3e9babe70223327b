"""Memory, processor time and events of an agent whose brokers are stopped for long, or start and stop in turn.

DOWN_SECONDS sets the duration. Without it the test is skipped, because it mostly waits.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.integration.agents import Agent, sockets, write_fleet
from tests.integration.conftest import LabOf
from tests.integration.labs import pair
from tests.integration.waiting import PATIENCE, until

__all__ = ["sockets"]  # the fixture

SECONDS = float(os.environ.get("DOWN_SECONDS", "0"))
SHOP = "shop01.example.com"
WARM_UP = 20.0
"""Seconds after which a process has loaded all its modules."""
UP, DOWN = 1.0, 2.0
"""Seconds in which a flapping broker accepts connections and closes them immediately, and in which it is down."""
MAX_GROWTH = 16 << 20  # bytes


@contextmanager
def flapping(addresses: Sequence[tuple[str, int]]) -> Iterator[list[int]]:
    """Accept connections at the addresses periodically for a short time; yield a list with an entry per connection."""
    stopped, connections_made = threading.Event(), list[int]()

    def accept_periodically() -> None:
        while not stopped.is_set():
            servers = [socket.create_server(address) for address in addresses]
            deadline = time.monotonic() + UP
            while time.monotonic() < deadline:
                for server in servers:
                    server.settimeout(0.1)
                    with suppress(TimeoutError):
                        server.accept()[0].close()
                        connections_made.append(1)
            for server in servers:
                server.close()
            stopped.wait(DOWN)

    thread = threading.Thread(target=accept_periodically)
    thread.start()
    try:
        yield connections_made
    finally:
        stopped.set()
        thread.join()


def processes_of_agent(agent: Agent) -> list[psutil.Process]:
    process = psutil.Process(agent._running().pid)
    return [process, *process.children(recursive=True)]


class Strain(NamedTuple):
    """Growth of an agent's memory in bytes, its share of a core, and the number of events that were published to it."""

    growth: int
    cpu_share: float
    published: int


def measure_strain(agent: Agent, seconds: float) -> Strain:
    """Measure the strain on an agent that accepts one event per second."""
    processes = processes_of_agent(agent)

    def resident_bytes() -> int:
        return sum(process.memory_info().rss for process in processes)

    def processor_seconds() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    bytes_at_start, started_at, seconds_at_start, published = resident_bytes(), time.monotonic(), processor_seconds(), 0
    with agent.client() as client:
        while time.monotonic() - started_at < seconds:
            client.publish("events/OrderEvent", "{}")
            published += 1
            time.sleep(1)
    return Strain(
        resident_bytes() - bytes_at_start,
        (processor_seconds() - seconds_at_start) / (time.monotonic() - started_at),
        published,
    )


@pytest.mark.skipif(not SECONDS, reason="DOWN_SECONDS is not set: set the seconds for which the brokers are stopped")
@pytest.mark.timeout(600 + 2 * SECONDS)
@pytest.mark.parametrize("is_flapping", [False, True], ids=["stopped", "flapping"])
def test_memory_of_agent_without_broker_does_not_grow(
    lab_of: LabOf, tmp_path: Path, sockets: Path, capsys: pytest.CaptureFixture[str], is_flapping: bool
) -> None:
    fleet = write_fleet(
        tmp_path / "inventory", sockets, pair("orders"), {SHOP: {"topics": ["events/#"]}}, release="6.3.1"
    )
    lab = lab_of([fleet])
    lab.up()
    with Agent(lab, SHOP) as agent:
        until(lambda: "subscribed" in agent.log_tail, PATIENCE, "its durable subscription exists")
        with agent.client() as client:
            client.publish("events/OrderEvent", "{}")
        until(lambda: agent.journal.ids("handled"), PATIENCE, "it handles its event")
        lab.down()
        time.sleep(WARM_UP)
        connections: AbstractContextManager[list[int]] = (
            flapping(lab.addresses("orders-mq01", "mqtt")) if is_flapping else nullcontext([])
        )
        with connections as connections_made:
            strain = measure_strain(agent, SECONDS)
        with capsys.disabled():
            growth = strain.growth / (1 << 20)
            print(
                f"\n{SECONDS:g} s: {growth:.1f} MiB more, {strain.cpu_share:.2%} of a core; "
                f"{len(connections_made)} connections"
            )
        lab.up()
        accepted = agent.journal.ids("accepted")
        until(
            lambda: set(accepted) <= {*agent.journal.ids("handled"), *agent.journal.ids("expired")},
            PATIENCE + SECONDS,
            lambda: f"all {len(accepted)} events are handled or expired: {agent.log_tail}",
        )
    assert len(accepted) > strain.published / 2
    assert strain.growth < MAX_GROWTH
    assert bool(connections_made) == is_flapping
