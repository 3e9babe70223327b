"""The agent's figures: bounded, of a registry of their own, and honest about what is not there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, generate_latest

from activemq_agent import metrics
from activemq_agent.errors import AgentError
from activemq_agent.metrics import Metrics
from activemq_agent.store import Limits, Store
from tests.unit.agent.store_clock import receive

from .tiny_broker import TinyBroker


def lines(found: Metrics) -> list[str]:
    return [line for line in generate_latest(found.registry).decode().splitlines() if not line.startswith("#")]


def metrics_of(store: Store) -> Metrics:
    """Metrics of an agent whose status has nothing but its store."""
    return Metrics(lambda: {"store": asdict(store.counts())})


def test_a_store_is_told_as_it_is_when_somebody_asks(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a", limits=Limits(filters=("t/#",))) as store:
        found = metrics_of(store)
        assert "activemq_agent_outbox_events 0.0" in lines(found)
        store.accept("a/b", b"12345")
        receive(store, "t/x", b"{}")
        told = lines(found)
    assert "activemq_agent_outbox_events 1.0" in told
    assert "activemq_agent_outbox_bytes 8.0" in told
    assert 'activemq_agent_topic_events{filter="t/#"} 1.0' in told


def test_expired_events_are_told(tmp_path: Path) -> None:
    with Store.open(tmp_path, agent="a", sweep=None) as store:
        store.accept("a/b", b"", timeout=0.0)
        store.expire()
        assert "activemq_agent_expired_events 1.0" in lines(metrics_of(store))


def test_names_of_events_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_EVENTS", 2)
    with Store.open(tmp_path, agent="a") as store:
        found = metrics_of(store)
        for name in ("a", "b", "c", "d", "a"):
            found.observe(name, 0.25)
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


def test_an_address_that_is_taken_is_one_line_with_the_key(tmp_path: Path) -> None:
    expected = r"metrics\.address: 127\.0\.0\.1:\d+ cannot be served: Address already"
    with Store.open(tmp_path, agent="a") as store, TinyBroker() as taken, pytest.raises(AgentError, match=expected):
        metrics_of(store).serve(("127.0.0.1", taken.port))
