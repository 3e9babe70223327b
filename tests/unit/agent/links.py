"""A broker without a network, and a clock that tests set, for the tests of publisher and subscriber."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from activemq_agent.config import Config
from activemq_agent.config_values import Endpoint
from activemq_agent.connection_events import (
    ConnackReceived,
    ConnectionEnded,
    MessageReceived,
    PubackReceived,
    SubackReceived,
    TransportUp,
)
from activemq_agent.session import Session
from activemq_agent.store import Store
from activemq_fleet.agent_topics import CANARY


class HasStore(Protocol):
    """An object with a separate store."""

    store: Store


B = TypeVar("B", bound=HasStore)


def provide_benches(kind: Callable[..., B], directory: Path) -> Iterator[Callable[..., B]]:
    """Yield a function that creates benches in separate directories, and close their stores at the end."""
    created: list[B] = []

    def make(**options: Any) -> B:
        created.append(kind(directory / str(len(created)), **options))
        return created[-1]

    yield make
    for bench in created:
        bench.store.close()


class Clock:
    """A clock in seconds that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class RecordingLog:
    """A log that keeps its records."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.records.append((event, fields))

    warning = error = info

    def events(self) -> list[str]:
        return [event for event, _ in self.records]


@dataclass
class Conn(Session):
    """A connection to the fake broker, which the agent uses as its session. It uses no code of a real session."""

    broker: FakeBroker
    number: int
    put: Callable[[Any], None]
    published: list[tuple[int, str, bytes]] = field(default_factory=list)
    canaries: list[str] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)
    qos: dict[str, int] = field(default_factory=dict)
    acked: list[int] = field(default_factory=list)
    closed: bool = False
    mids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def publish(self, topic: str, payload: bytes, qos: int = 1) -> int | None:
        mid = next(self.mids)
        if CANARY in topic:
            self.canaries.append(topic)
        else:
            self.published.append((mid, topic, payload))
        self.broker.on_publish(self, mid, topic, payload)
        return None if self.closed else mid

    def subscribe(self, topic_filter: str, qos: int = 1) -> int | None:
        mid = next(self.mids)
        is_refused = topic_filter in self.broker.refused_filters
        if not is_refused:
            self.filters.append(topic_filter)
            self.qos[topic_filter] = qos
        self.put(SubackReceived(self.number, mid, is_refused))
        return mid

    def unsubscribe(self, topic_filter: str) -> None:
        self.filters.remove(topic_filter)

    def acknowledge(self, mid: int) -> None:
        self.acked.append(mid)

    def close(self, *, orderly: bool = False) -> None:
        self.closed = True

    def drop(self) -> None:
        self.put(ConnectionEnded(self.number, "the connection was closed"))


class FakeBroker:
    """A broker that accepts every client, acknowledges events and returns canaries, unless a test sets otherwise."""

    def __init__(self) -> None:
        self.conns: list[Conn] = []
        self.refused_filters: set[str] = set()
        self.muted_topics: set[str] = set()  # topics whose messages the broker does not deliver
        self.acknowledges = True
        self.accepts = True

    def open(self, _broker: int, conn: int, put: Callable[[Any], None]) -> Conn:
        connection = Conn(self, conn, put)
        self.conns.append(connection)
        if self.accepts:
            put(TransportUp(conn))
            put(ConnackReceived(conn, None, False))
        else:
            put(ConnectionEnded(conn, "no server listens"))
        return connection

    def on_publish(self, conn: Conn, mid: int, topic: str, payload: bytes) -> None:
        if CANARY in topic:
            # The PUBACK always arrives before publish() returns, which is the worst case.
            conn.put(PubackReceived(conn.number, mid))
            if topic in conn.filters and topic not in self.muted_topics:
                qos = conn.qos[topic]
                conn.put(MessageReceived(conn.number, topic, payload, qos, 40_000 + mid if qos else 0))
        elif self.acknowledges:
            conn.put(PubackReceived(conn.number, mid))

    @property
    def last(self) -> Conn:
        """Return the last connection."""
        return self.conns[-1]

    def sent_payloads(self) -> list[str]:
        """Return the payloads of all events that were sent on all connections."""
        return [payload.decode() for conn in self.conns for _, _, payload in conn.published]


def config(**options: Any) -> Config:
    """Return the configuration of an agent with two brokers."""
    return Config(urls=(Endpoint("b1", 1883), Endpoint("b2", 1883)), client_id="host-1", **options)
