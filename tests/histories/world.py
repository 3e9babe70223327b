"""Seeded histories of small fleets: each event with its publisher, its receipts and its true outcome."""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SKEW = 300.0
"""Seconds by which the clock of a machine may be wrong."""
PREFIXES = ("orders", "orders/eu", "pay", "stock")
NAMES = ("new", "paid", "gone")


def matches(topic_filter: str, topic: str) -> bool:
    """Return whether a topic filter matches a topic, as MQTT defines it."""
    filter_levels, topic_levels = topic_filter.split("/"), topic.split("/")
    if filter_levels[-1] == "#":
        filter_levels = filter_levels[:-1]
        topic_levels = topic_levels[: len(filter_levels)] if len(topic_levels) >= len(filter_levels) else []
    return len(filter_levels) == len(topic_levels) and all(
        filter_level in ("+", level) for filter_level, level in zip(filter_levels, topic_levels, strict=True)
    )


@dataclass(slots=True)
class Line:
    """A record of an agent. ``at`` is its position among all records of the agent, and ``jseq`` that in its epoch."""

    at: int
    epoch: str
    jseq: int
    ts: str
    kind: str
    fields: dict[str, Any]


class Agent:
    """An agent that writes a journal, with a clock that is wrong."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name, self.rng = name, rng
        self.offset = rng.uniform(-SKEW, SKEW)
        self.lines: list[Line] = []
        self.conn = 1
        self.begin_epoch()

    def begin_epoch(self) -> None:
        self.epoch, self.jseq, self.seq = str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), 0, 0

    def write(self, clock: float, kind: str, **fields: Any) -> int:
        self.jseq += 1
        ts = NOON + timedelta(seconds=clock + self.offset, microseconds=len(self.lines))
        text = ts.isoformat(timespec="microseconds").replace("+00:00", "Z")
        self.lines.append(Line(len(self.lines), self.epoch, self.jseq, text, kind, fields))
        return len(self.lines) - 1

    def new_id(self) -> str:
        self.seq += 1
        return f"{self.name}:{self.epoch}:{self.seq}"


@dataclass(slots=True)
class Event:
    """An event. ``stream``: publisher and epoch. ``accepted``, ``states``: positions of records of its publisher.

    ``has_sequence_number``: the publisher named the event, and not its caller.
    """

    id: str
    topic: str
    stream: tuple[str, str]
    has_sequence_number: bool
    is_barrier: bool
    accepted: list[int] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        return (
            self.topic.partition("/__barrier__")[0] if self.is_barrier else self.topic.rpartition("/")[0] or self.topic
        )


@dataclass(slots=True)
class World:
    """A history: agents, events, the records of each event by subscriber, and the deliveries that the broker owed."""

    agents: dict[str, Agent] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    receipts: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    routed: set[tuple[str, str]] = field(default_factory=set)
    subscriptions: dict[str, dict[str, list[tuple[int, int | None]]]] = field(default_factory=dict)


def _barrier(agent: Agent, prefix: str) -> str:
    """Return the topic of the barriers of an agent; that of older agents does not contain their name."""
    return f"{prefix}/__barrier__" if sum(agent.name.encode()) % 3 == 0 else f"{prefix}/__barrier__/{agent.name}"


class Simulation:
    """Draws one history. The broker has a queue per subscriber, which keeps the order and loses some copies."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name, self.rng, self.world, self.clock = name, rng, World(), 0.0
        self.publishers = [self._agent(f"{name}-pub{n}") for n in range(rng.choice((1, 1, 2, 3)))]
        self.subscribers = [self._agent(f"{name}-sub{n}") for n in range(rng.choice((1, 2, 2, 3, 4)))]
        if rng.random() < 0.1:
            self.subscribers.append(self.publishers[0])  # an agent that also publishes
        self.queues: dict[str, list[Event]] = {agent.name: [] for agent in self.subscribers}
        self.used: dict[str, list[str]] = {agent.name: [] for agent in self.publishers}
        self.silent = {agent.name for agent in self.subscribers if rng.random() < 0.15}  # disconnected before the end

    def run(self, count: int) -> World:
        rng, pick = self.rng, self.rng.choice
        for agent in self.subscribers:
            filters = [*PREFIXES, *(f"{prefix}/#" for prefix in PREFIXES), "#", "orders/+", "+/new", "+/__barrier__"]
            filters.append("+/__barrier__/+")
            for topic_filter in rng.sample(filters, rng.choice((1, 2, 3))) if rng.random() < 0.5 else ["#"]:
                self._subscribe(agent, topic_filter)
        for number in range(count):
            self.clock += rng.uniform(0.01, 20)
            publisher = pick(self.publishers)
            draw = rng.random()
            if draw < 0.06 and self.used[publisher.name]:
                self._publish(publisher, _barrier(publisher, pick(self.used[publisher.name])), barrier=True)
            elif draw < 0.08:
                self._change_subscription(pick(self.subscribers))
            elif draw < 0.09:
                self._begin_epoch(publisher)
            else:
                self._publish(publisher, "/".join((pick(PREFIXES), *((pick(NAMES),) if rng.random() < 0.8 else ()))))
            if number > count * 2 // 3:
                self._drain(set(self.silent))
            elif rng.random() < 0.5:
                self._drain(set())
        self._end()
        return self.world

    def _agent(self, name: str) -> Agent:
        agent = self.world.agents[name] = Agent(name, self.rng)
        agent.write(self.clock, "started")
        agent.write(self.clock, "connected", broker="mq01", conn=1)
        return agent

    def _end(self) -> None:
        for publisher in self.publishers:
            for prefix in self.used[publisher.name] if self.rng.random() < 0.7 else ():
                self._publish(publisher, _barrier(publisher, prefix), barrier=True)
        self._drain(set(self.silent))
        for agent in self.world.agents.values():
            if self.rng.random() < 0.5:
                agent.write(self.clock, "stopped")

    def _begin_epoch(self, agent: Agent) -> None:
        self._drain(set())
        if agent.name in self.queues:
            return  # a new epoch would have to repeat the records of its subscriptions
        if self.rng.random() < 0.5:
            agent.write(self.clock, "stopped")
        self.clock += 1
        agent.begin_epoch()
        self.used[agent.name] = []
        agent.write(self.clock, "started")

    # -- subscriptions ------------------------------------------------------------------------------

    def _subscribe(self, agent: Agent, topic_filter: str) -> None:
        at = agent.write(self.clock, "subscribed", filters=[topic_filter], broker="mq01", conn=agent.conn)
        spans = self.world.subscriptions.setdefault(agent.name, {}).setdefault(topic_filter, [])
        if not spans or spans[-1][1] is not None:
            spans.append((at, None))

    def _change_subscription(self, agent: Agent) -> None:
        """Start a subscription, end one, or reconnect; the subscriber first receives what is queued."""
        self._drain(set())
        spans = self.world.subscriptions[agent.name]
        lasting = [topic_filter for topic_filter, known in spans.items() if known[-1][1] is None]
        draw = self.rng.random()
        if draw < 0.4:
            self._subscribe(agent, self.rng.choice((*(f"{prefix}/#" for prefix in PREFIXES), "stock/+")))
        elif draw < 0.6 and lasting:
            topic_filter = self.rng.choice(lasting)
            at = agent.write(self.clock, "unsubscribed", filters=[topic_filter])
            spans[topic_filter][-1] = (spans[topic_filter][-1][0], at)
        else:
            agent.write(self.clock, "connection_lost", conn=agent.conn, reason="it was cut")
            agent.conn += 1
            agent.write(self.clock, "connected", broker="mq02", conn=agent.conn)
            for topic_filter in lasting:
                self._subscribe(agent, topic_filter)

    # -- publishers -----------------------------------------------------------------------------------

    def _publish(self, agent: Agent, topic: str, *, barrier: bool = False) -> None:
        has_sequence_number = barrier or self.rng.random() > 0.08
        event_id = agent.new_id() if has_sequence_number else f"caller-{self.rng.getrandbits(64):x}"
        event = Event(event_id, topic, (agent.name, agent.epoch), has_sequence_number, barrier)
        self.world.events.append(event)
        self._write_state(agent, event, "accepted")
        if barrier:
            agent.write(self.clock, "barrier", event_id=event.id, topic=topic)
        elif event.prefix not in self.used[agent.name]:
            self.used[agent.name].append(event.prefix)
        fate = 1.0 if barrier else self.rng.random()
        if fate < 0.03:  # never acknowledged; a broker received half of them
            if self.rng.random() < 0.5:
                self._send(agent, event)
            return
        if fate < 0.09 and not self._expire(agent, event, fate):
            return
        is_doubtful = fate > 0.9 and not barrier
        self._send(agent, event, loss_rate=0.3 if is_doubtful else 0.05)
        self.clock += 0.01
        if is_doubtful:
            self._write_state(agent, event, "unconfirmed")
            if self.rng.random() < 0.5:
                return
        self._write_state(agent, event, "acknowledged")

    def _expire(self, agent: Agent, event: Event, fate: float) -> bool:
        """Keep, drop or re-queue an event that waited too long; return whether it is sent."""
        if fate < 0.05:
            self._write_state(agent, event, "expired")
            return False
        if fate < 0.06:
            self._write_state(agent, event, "expired", reason="dropped")
            return False
        self._write_state(agent, event, "expired")
        for prefix in self.used[agent.name] if self.rng.random() < 0.7 else ():
            self._publish(agent, _barrier(agent, prefix), barrier=True)  # sent before the re-queued event
        if self.rng.random() < 0.5:
            self._drain(set())
        self._write_state(agent, event, "accepted", reason="requeued")
        return True

    def _write_state(self, agent: Agent, event: Event, kind: str, **fields: Any) -> None:
        at = agent.write(self.clock, kind, event_id=event.id, topic=event.topic, **fields)
        event.states.append((at, "dropped" if fields.get("reason") == "dropped" else kind))
        if kind == "accepted":
            event.accepted.append(at)

    def _send(self, agent: Agent, event: Event, loss_rate: float = 0.05) -> None:
        """Send an event; ``loss_rate`` is the share of copies that the broker loses."""
        agent.write(self.clock, "sent", event_id=event.id, topic=event.topic, broker="mq01", conn=agent.conn, mid=7)
        for subscriber in self.subscribers:
            spans = self.world.subscriptions[subscriber.name]
            if any(
                known[-1][1] is None and matches(topic_filter, event.topic) for topic_filter, known in spans.items()
            ):
                self.world.routed.add((event.id, subscriber.name))
                if event.is_barrier or self.rng.random() > loss_rate:
                    self.queues[subscriber.name].append(event)

    # -- subscribers ----------------------------------------------------------------------------------

    def _drain(self, excluded: set[str]) -> None:
        for agent in self.subscribers:
            if agent.name not in excluded:
                queue, self.queues[agent.name] = self.queues[agent.name], []
                for event in queue:
                    self.clock += 0.001
                    self._receive(agent, event)

    def _receive(self, agent: Agent, event: Event) -> None:
        draw, wire = self.rng.random(), {"broker": "mq01", "conn": agent.conn}
        if event.is_barrier:
            self._write_receipt(agent, event, "barrier", **wire)
            return
        if draw < 0.05:
            agent.write(self.clock, "received", rx_id=f"{agent.name}:rx{len(agent.lines)}", topic=event.topic, **wire)
        self._write_receipt(agent, event, "received", **wire)
        if draw > 0.97:
            return  # a handler that hangs
        for _ in range(self.rng.choice((0, 1, 1, 1, 2))):
            self._write_receipt(agent, event, "handling")
        if draw > 0.95:
            self._write_receipt(agent, event, "quarantined", reason="its handler failed")
            return
        self._write_receipt(agent, event, "handled")
        if draw > 0.90:
            self._write_receipt(agent, event, "duplicate", **wire)
        if draw > 0.93:
            self._write_receipt(agent, event, "handled")

    def _write_receipt(self, agent: Agent, event: Event, kind: str, **fields: Any) -> None:
        at = agent.write(self.clock, kind, event_id=event.id, topic=event.topic, **fields)
        self.world.receipts[event.id, agent.name].append((at, kind))
