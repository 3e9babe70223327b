"""An agent whose brokers are away for long, or come and go: its memory and processor time, and what it accepted.

DOWN_SECONDS sets how long that lasts; without it the test is skipped, for it only waits.
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
WARM = 20.0
"""Seconds after which a process has loaded what it needs."""
UP, DOWN = 1.0, 2.0
"""Seconds for which a flapping broker takes connections, and closes each at once, and for which it takes none."""
MOST_GROWTH = 16 << 20  # bytes


@contextmanager
def flapping(addresses: Sequence[tuple[str, int]]) -> Iterator[list[int]]:
    """Take connections at the addresses, again and again for a moment; yields a list with an entry for each."""
    over, taken = threading.Event(), list[int]()

    def come_and_go() -> None:
        while not over.is_set():
            servers = [socket.create_server(address) for address in addresses]
            end = time.monotonic() + UP
            while time.monotonic() < end:
                for server in servers:
                    server.settimeout(0.1)
                    with suppress(TimeoutError):
                        server.accept()[0].close()
                        taken.append(1)
            for server in servers:
                server.close()
            over.wait(DOWN)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def family(agent: Agent) -> list[psutil.Process]:
    process = psutil.Process(agent._running().pid)
    return [process, *process.children(recursive=True)]


class Strain(NamedTuple):
    """How many bytes an agent's memory grew by, its part of a core, and how many events were published to it."""

    growth: int
    part: float
    published: int


def measured(agent: Agent, seconds: float) -> Strain:
    """Return the strain on an agent that accepts one event a second."""
    processes = family(agent)

    def memory() -> int:
        return sum(process.memory_info().rss for process in processes)

    def processor() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before, began, used, published = memory(), time.monotonic(), processor(), 0
    with agent.client() as client:
        while time.monotonic() - began < seconds:
            client.publish("events/OrderEvent", "{}")
            published += 1
            time.sleep(1)
    return Strain(memory() - before, (processor() - used) / (time.monotonic() - began), published)


@pytest.mark.skipif(not SECONDS, reason="DOWN_SECONDS is not set: for how long brokers are away")
@pytest.mark.timeout(600 + 2 * SECONDS)
@pytest.mark.parametrize("is_flapping", [False, True], ids=["away", "flapping"])
def test_an_agent_without_a_broker_takes_no_more_memory(
    lab_of: LabOf, tmp_path: Path, sockets: Path, capsys: pytest.CaptureFixture[str], is_flapping: bool
) -> None:
    fleet = write_fleet(
        tmp_path / "inventory", sockets, pair("orders"), {SHOP: {"topics": ["events/#"]}}, release="6.3.1"
    )
    lab = lab_of([fleet])
    lab.up()
    with Agent(lab, SHOP) as agent:
        until(lambda: "subscribed" in agent.log_tail, PATIENCE, "its durable subscription is there")
        with agent.client() as client:
            client.publish("events/OrderEvent", "{}")
        until(lambda: agent.journal.ids("handled"), PATIENCE, "it handles its event")
        lab.down()
        time.sleep(WARM)
        connections: AbstractContextManager[list[int]] = (
            flapping(lab.addresses("orders-mq01", "mqtt")) if is_flapping else nullcontext([])
        )
        with connections as taken:
            strain = measured(agent, SECONDS)
        with capsys.disabled():
            growth = strain.growth / (1 << 20)
            print(f"\n{SECONDS:g} s: {growth:.1f} MiB more, {strain.part:.2%} of a core; {len(taken)} connections")
        lab.up()
        accepted = agent.journal.ids("accepted")
        until(
            lambda: set(accepted) <= {*agent.journal.ids("handled"), *agent.journal.ids("expired")},
            PATIENCE + SECONDS,
            lambda: f"all {len(accepted)} events are handled, or too old: {agent.log_tail}",
        )
    assert len(accepted) > strain.published / 2
    assert strain.growth < MOST_GROWTH
    assert bool(taken) == is_flapping
