"""A broker without a network, and a clock that tests move, for the tests of publisher and subscriber."""

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
    """What stands on a store of its own."""

    store: Store


B = TypeVar("B", bound=HasStore)


def provide_benches(kind: Callable[..., B], directory: Path) -> Iterator[Callable[..., B]]:
    """For a fixture: makes benches, each in a directory of its own, and closes their stores at the end."""
    made: list[B] = []

    def make(**options: Any) -> B:
        made.append(kind(directory / str(len(made)), **options))
        return made[-1]

    yield make
    for bench in made:
        bench.store.close()


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class RecordingLog:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.records.append((event, fields))

    warning = error = info

    def events(self) -> list[str]:
        return [event for event, _ in self.records]


@dataclass
class Conn(Session):
    """One connection to the fake broker, which the link holds as its session; nothing of a real one is used."""

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
        refused = topic_filter in self.broker.refused_filters
        if not refused:
            self.filters.append(topic_filter)
            self.qos[topic_filter] = qos
        self.put(SubackReceived(self.number, mid, refused))
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
    """Accepts everybody, acknowledges and gives canaries back, as far as it is not told otherwise."""

    def __init__(self) -> None:
        self.conns: list[Conn] = []
        self.refused_filters: set[str] = set()
        self.muted_topics: set[str] = set()  # topics whose messages go nowhere
        self.acknowledges = True
        self.accepts = True

    def open(self, _broker: int, conn: int, put: Callable[[Any], None]) -> Conn:
        made = Conn(self, conn, put)
        self.conns.append(made)
        if self.accepts:
            put(TransportUp(conn))
            put(ConnackReceived(conn, None, False))
        else:
            put(ConnectionEnded(conn, "no server listens"))
        return made

    def on_publish(self, conn: Conn, mid: int, topic: str, payload: bytes) -> None:
        if CANARY in topic:
            conn.put(
                PubackReceived(conn.number, mid)
            )  # before publish() has returned: the worst case is the normal one
            if topic in conn.filters and topic not in self.muted_topics:
                qos = conn.qos[topic]
                conn.put(MessageReceived(conn.number, topic, payload, qos, 40_000 + mid if qos else 0))
        elif self.acknowledges:
            conn.put(PubackReceived(conn.number, mid))

    @property
    def last(self) -> Conn:
        return self.conns[-1]

    def sent_payloads(self) -> list[str]:
        """Payloads of every event sent, over all connections."""
        return [payload.decode() for conn in self.conns for _, _, payload in conn.published]


def config(**options: Any) -> Config:
    """The configuration of an agent with two brokers."""
    return Config(urls=(Endpoint("b1", 1883), Endpoint("b2", 1883)), client_id="host-1", **options)
