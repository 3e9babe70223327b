"""Metrics of the agent: their number is bounded, their registry is separate, and their server limits its clients."""

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


def sample_lines(agent_metrics: Metrics) -> list[str]:
    return [line for line in generate_latest(agent_metrics.registry).decode().splitlines() if not line.startswith("#")]


def metrics_of(store: Store) -> Metrics:
    """Return the metrics of an agent whose status contains only its store."""
    return Metrics(lambda: {"store": asdict(store.row_and_byte_counts())})


def test_agent_metrics_contain_counts_of_store_at_time_of_scrape(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a", limits=StoreLimits(filters=("t/#",))) as store:
        agent_metrics = metrics_of(store)
        assert "activemq_agent_outbox_events 0.0" in sample_lines(agent_metrics)
        store.accept_event("a/b", b"12345")
        receive(store, "t/x", b"{}")
        samples = sample_lines(agent_metrics)
    assert "activemq_agent_outbox_events 1.0" in samples
    assert "activemq_agent_outbox_bytes 8.0" in samples
    assert 'activemq_agent_topic_events{filter="t/#"} 1.0' in samples


def test_agent_metrics_count_expired_events(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a", sweep=None) as store:
        store.accept_event("a/b", b"", timeout=1e-9)
        store.move_or_drop_expired_events()
        assert "activemq_agent_expired_events 1.0" in sample_lines(metrics_of(store))


def test_number_of_event_names_in_metrics_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_EVENTS", 2)
    with Store.open(tmp_path, agent="a") as store:
        agent_metrics = metrics_of(store)
        for name in ("a", "b", "c", "d", "a"):
            agent_metrics.record_handler_time(name, 0.25)
        samples = [
            line for line in sample_lines(agent_metrics) if line.startswith("activemq_agent_handler_seconds_count")
        ]
    assert samples == [
        'activemq_agent_handler_seconds_count{event="a"} 2.0',
        'activemq_agent_handler_seconds_count{event="b"} 1.0',
        'activemq_agent_handler_seconds_count{event="other"} 2.0',
    ]


def test_default_registry_contains_no_metrics_of_agent(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a") as store:
        metrics_of(store)
        metrics_of(store)
    assert b"activemq_agent" not in generate_latest(REGISTRY)


def count_descriptors_and_threads() -> tuple[int, int]:
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


def hold_idle_connections(agent_metrics: Metrics, port: int) -> None:
    counts_before = count_descriptors_and_threads()
    agent_metrics.serve(Endpoint("127.0.0.1", port))
    connections: list[socket.socket] = []
    try:
        for _ in range(60):
            connection = socket.socket()
            connections.append(connection)
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.connect(("127.0.0.1", port))
        connected = {connection for connection in connections if select.select([], [connection], [], 1.0)[1]}
        for connection in connected:
            with contextlib.suppress(OSError):
                connection.send(b"GET /metrics HTTP/1.1\r\nX: ")
        assert len(connected) >= 8, "fewer than 8 connections reached the server"
        highest_counts = counts_before
        for _ in range(20):
            time.sleep(0.05)
            current = count_descriptors_and_threads()
            highest_counts = max(highest_counts[0], current[0]), max(highest_counts[1], current[1])
        descriptors, threads = highest_counts
        # The test holds one end of each connection, the server the other end. A connection has a thread and a timer.
        # Some of the connections that the server closes may still exist.
        assert descriptors - counts_before[0] - len(connections) <= 2 * 8
        assert threads - counts_before[1] <= 3 * 8
        # Each slot is free again after a second, even if a client occasionally sends a byte.
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as response:
            assert b"activemq_agent_outbox_events" in response.read()
    finally:
        for connection in connections:
            connection.close()
        agent_metrics.close()


def test_metrics_address_in_use_raises_error_with_address(tmp_path: Path) -> None:
    expected = r"the agent cannot listen on 127\.0\.0\.1:\d+ for its metrics \(Address already"
    with Store.open(tmp_path, agent="a") as store, TinyBroker() as broker, pytest.raises(AgentError, match=expected):
        metrics_of(store).serve(Endpoint("127.0.0.1", broker.port))
