"""The agent's figures: bounded, of a registry of their own, and honest about what is not there."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
import urllib.request
from dataclasses import asdict
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, generate_latest

from activemq_agent import metrics, metrics_server
from activemq_agent.agent_errors import AgentError
from activemq_agent.config_values import Endpoint
from activemq_agent.metrics import Metrics
from activemq_agent.store import Store, StoreLimits
from tests.unit.agent.store_clock import receive

from .tiny_broker import TinyBroker


def lines(found: Metrics) -> list[str]:
    return [line for line in generate_latest(found.registry).decode().splitlines() if not line.startswith("#")]


def metrics_of(store: Store) -> Metrics:
    """Metrics of an agent whose status has nothing but its store."""
    return Metrics(lambda: {"store": asdict(store.row_and_byte_counts())})


def test_a_store_is_told_as_it_is_when_somebody_asks(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a", limits=StoreLimits(filters=("t/#",))) as store:
        found = metrics_of(store)
        assert "activemq_agent_outbox_events 0.0" in lines(found)
        store.accept_event("a/b", b"12345")
        receive(store, "t/x", b"{}")
        told = lines(found)
    assert "activemq_agent_outbox_events 1.0" in told
    assert "activemq_agent_outbox_bytes 8.0" in told
    assert 'activemq_agent_topic_events{filter="t/#"} 1.0' in told


def test_expired_events_are_told(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a", sweep=None) as store:
        store.accept_event("a/b", b"", timeout=0.0)
        store.expire_events()
        assert "activemq_agent_expired_events 1.0" in lines(metrics_of(store))


def test_names_of_events_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_EVENTS", 2)
    with Store.open(tmp_path, agent="a") as store:
        found = metrics_of(store)
        for name in ("a", "b", "c", "d", "a"):
            found.record_handler_time(name, 0.25)
        told = [line for line in lines(found) if line.startswith("activemq_agent_handler_seconds_count")]
    assert told == [
        'activemq_agent_handler_seconds_count{event="a"} 2.0',
        'activemq_agent_handler_seconds_count{event="b"} 1.0',
        'activemq_agent_handler_seconds_count{event="other"} 2.0',
    ]


def test_nothing_gets_into_the_registry_of_others(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a") as store:
        metrics_of(store)
        metrics_of(store)
    assert b"activemq_agent" not in generate_latest(REGISTRY)


def descriptors_and_threads() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def test_idle_connections_to_metrics_take_no_more_than_eight_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "SECONDS", 1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Store.open(tmp_path, agent="a") as store:
        hold_idle_connections(metrics_of(store), port)


def hold_idle_connections(served: Metrics, port: int) -> None:
    before = descriptors_and_threads()
    served.serve(Endpoint("127.0.0.1", port))
    idle: list[socket.socket] = []
    try:
        for _ in range(60):
            connection = socket.socket()
            idle.append(connection)
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.connect(("127.0.0.1", port))
        connected = {one for one in idle if select.select([], [one], [], 1.0)[1]}
        for one in connected:
            with contextlib.suppress(OSError):
                one.send(b"GET /metrics HTTP/1.1\r\nX: ")
        assert len(connected) >= 8, "the attack did not reach the server"
        most = before
        for _ in range(20):
            time.sleep(0.05)
            now = descriptors_and_threads()
            most = max(most[0], now[0]), max(most[1], now[1])
        descriptors, threads = most
        # Of each connection the test has one end, the server the other one; a connection has a thread and a timer.
        # Some of those that are closed meanwhile may still be there.
        assert descriptors - before[0] - len(idle) <= 2 * 8
        assert threads - before[1] <= 3 * 8
        # All slots are free again after a second each, also with a client that sends a byte now and then.
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
            assert b"activemq_agent_outbox_events" in answer.read()
    finally:
        for one in idle:
            one.close()
        served.close()


def test_an_address_that_is_taken_is_one_line_with_the_key(tmp_path: Path) -> None:
    expected = r"the agent cannot listen on 127\.0\.0\.1:\d+ for its metrics \(Address already"
    with Store.open(tmp_path, agent="a") as store, TinyBroker() as taken, pytest.raises(AgentError, match=expected):
        metrics_of(store).serve(Endpoint("127.0.0.1", taken.port))
