"""Publisher and subscriber on a real pair whose active broker is killed and frozen under load.

KILLS (1) sets how often it is killed: each time once 50 events a second flow and a publish is in flight.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
import structlog

from activemq_agent import publishing
from activemq_agent.config import Config
from activemq_agent.config_values import Endpoint, Password
from activemq_agent.connecting import ConnectionPolicy
from activemq_agent.connection_events import ConnectionEnded
from activemq_agent.publishing import Publisher
from activemq_agent.store import Store
from activemq_agent.subscribing import Subscriber
from activemq_fleet.agent_topics import is_barrier_topic
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import in_every_situation
from tests.waiting import LateError

KILLS = int(os.environ.get("KILLS") or "1")
ACQUIRE = 1.0
"""Seconds between a waiting broker's looks at the lock, in these tests."""
RATE = 200.0
TOPIC = "instance/status/{}"


class Agent:
    """Store, publisher and subscriber of one agent, without the rest."""

    def __init__(
        self,
        name: str,
        lab: Lab,
        directory: Path,
        topics: tuple[str, ...] = (),
        who: Credentials | None = None,
        policy: ConnectionPolicy | None = None,
    ) -> None:
        group = lab.fleet.groups[0].name
        who = who or lab.credentials(group)
        urls = tuple(Endpoint(host=host, port=port, tls=False) for host, port in lab.addresses(group, "mqtt"))
        self.config = Config(
            urls=urls,
            username=who.username if who else None,
            password=Password(who.password) if who else None,
            topics=topics,
            client_id=name,
            state_directory=directory / name,
            policy=policy or ConnectionPolicy(),
        )
        # Nothing is handled here: with many kills on a slow machine more is received than a topic's bound.
        limits = replace(self.config.store_limits, topic_rows=1_000_000)
        self.store = Store.open(directory / name, agent=name, limits=limits)
        self.stored_at: list[float] = []
        log = structlog.get_logger().bind(agent=name)
        numbers = itertools.count(1)
        self.publisher = Publisher(self.config, self.store, log=log, numbers=numbers)
        self.subscriber = Subscriber(
            self.config, self.store, log=log, numbers=numbers, on_stored=lambda _: self.stored_at.append(time.time())
        )
        self._stop = threading.Event()
        loops: tuple[Callable[[threading.Event], None], ...] = (self.publisher.run, self.subscriber.run)
        self._threads = [threading.Thread(target=loop, args=(self._stop,), daemon=True) for loop in loops]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        self.store.close()

    def journal(self) -> list[dict[str, Any]]:
        """Every record so far."""
        return [
            json.loads(line) for record in self.store.oldest_journal_records(10**9) for line in record.line.splitlines()
        ]

    def ids(self, kind: str) -> list[str]:
        """Event ids of the records of a kind, barriers left out."""
        return [r["event_id"] for r in self.journal() if r["kind"] == kind and not is_barrier_topic(r["topic"])]


class Load(threading.Thread):
    """Accepts events at a steady rate until it is told to end."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(daemon=True)
        self._agent = agent
        self._end = threading.Event()
        self.accepted: list[str] = []

    def run(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            if self._end.wait(max(0.0, began + number / RATE - time.monotonic())):
                return
            event = json.dumps({"number": number}).encode()
            self.accepted.append(self._agent.store.accept_event(TOPIC.format(f"E{number % 3}"), event))
            self._agent.publisher.wake()

    def finish(self) -> list[str]:
        self._end.set()
        self.join(10)
        return self.accepted


def until_received(accepted: list[str], sender: Agent, receiver: Agent) -> None:
    """Wait for the rest of the events, as long as they keep coming; what stays away is told, and is lost or not.

    Raises LateError for what is late: kept by the sender, or delivered once the receiver connects anew.
    """
    if arrives(accepted, receiver):
        return
    received = set(receiver.ids("received"))
    missing = [event_id for event_id in accepted if event_id not in received]
    told = [record["kind"] for record in sender.journal() if missing and record.get("event_id") == missing[0]]
    kept = sender.store.row_and_byte_counts().outbox_rows
    seen = (
        f"for 60 s no more came: {len(missing)} of {len(accepted)} events were missing; the sender kept {kept}, with "
        f"{len(sender.publisher._flying)} on the wire, and said of the first that was missing: {told}"
    )
    link = receiver.subscriber.link
    link.queue_for_connection_loop(ConnectionEnded(link.conn, "the test connects again"))
    if kept or arrives(accepted, receiver):
        raise LateError(seen)
    raise AssertionError(f"{seen}; a new connection brought no more")


def recent(receiver: Agent) -> int:
    """Events that came in the last three seconds."""
    return sum(at > time.time() - 3 for at in list(receiver.stored_at))


def arrives(accepted: list[str], receiver: Agent) -> bool:
    """Whether all arrive before 60 s pass without a new one; no handler takes anything out of the inbox."""
    newest, since = -1, time.monotonic()
    while newest < len(accepted):
        if (count := receiver.store.row_and_byte_counts().inbox_rows) > newest:
            newest, since = count, time.monotonic()
        elif time.monotonic() - since > 60:
            return False
        time.sleep(0.2)
    return True


def inventory_of(tmp_path: Path, **variables: Any) -> Path:
    """A pair of 5.18.3."""
    return write_inventory(
        tmp_path / "inventory",
        pair("orders"),
        release="5.18.3",
        lock_acquire_interval=int(ACQUIRE * 1000),
        network_username="network",
        network_password="s3cret-network",
        **variables,
    )


@pytest.fixture
def lab(lab_of: LabOf, tmp_path: Path) -> Lab:
    lab = lab_of(inventory_of(tmp_path))
    lab.up()
    return lab


@pytest.fixture
def agents(lab: Lab, tmp_path: Path) -> Iterator[tuple[Agent, Agent]]:
    with ExitStack() as stack:
        receiver = stack.enter_context(Agent("receiver", lab, tmp_path, ("instance/#",)))
        until(lambda: receiver.subscriber.granted == {"instance/#"}, PATIENCE, "the receiver is subscribed")
        sender = stack.enter_context(Agent("sender", lab, tmp_path))
        until(lambda: sender.publisher.link.broker is not None, PATIENCE, "the sender is connected")
        yield sender, receiver


@in_every_situation
@pytest.mark.timeout(600 + 240 * KILLS)
def test_nothing_accepted_is_lost_when_the_active_broker_is_killed_again_and_again(
    lab: Lab, agents: tuple[Agent, Agent]
) -> None:
    sender, receiver = agents
    load = Load(sender)
    load.start()
    for _ in range(KILLS):
        active = lab.wait_active("orders-mq01")
        time.sleep(3 if KILLS <= 5 else 15)
        until(lambda: recent(receiver) >= 150, PATIENCE, lambda: f"{recent(receiver)} of 150 events in 3 s")
        until(lambda: bool(sender.publisher._flying), PATIENCE, "a publish is in flight", pause=0)
        wanted = len(receiver.stored_at) + 50
        lab.kill(active)
        until(lambda: len(receiver.stored_at) > wanted, PATIENCE, "events come again")  # noqa: B023
        lab.start(active)
    accepted = load.finish()
    until_received(accepted, sender, receiver)

    received = receiver.ids("received")
    silence = max(after - before for before, after in itertools.pairwise(receiver.stored_at))
    print(
        f"\n{KILLS} kills, {len(accepted)} accepted, {len(set(accepted) - set(received))} lost, "
        f"{sender.publisher.sent - len(accepted)} copies sent, {receiver.subscriber.duplicates} duplicates dropped, "
        f"longest silence {silence:.1f} s"
    )
    assert set(accepted) == set(received)
    assert len(received) == len(set(received))


@in_every_situation
@pytest.mark.timeout(900)
def test_a_frozen_broker_is_left_and_delivery_resumes_when_it_is_gone(lab: Lab, agents: tuple[Agent, Agent]) -> None:
    """It keeps its connections and its lock: nobody can take over before it is killed."""
    sender, receiver = agents
    load = Load(sender)
    load.start()
    until(lambda: len(receiver.stored_at) > 100, PATIENCE, "events come")
    active = lab.wait_active("orders-mq01")

    lab.pause(active)
    links = sender.publisher.link, receiver.subscriber.link
    left = until(lambda: not any(link.broker for link in links), PATIENCE, "both leave the frozen broker")
    lab.kill(active)
    killed_at = len(receiver.stored_at)
    resumed = until(lambda: len(receiver.stored_at) > killed_at, PATIENCE, "events come again")
    accepted = load.finish()
    until_received(accepted, sender, receiver)

    print(f"\nleft a frozen broker after {left:.1f} s, received again {resumed:.1f} s after its end")
    assert set(accepted) == set(receiver.ids("received"))


AGENT_USER = {"name": "agent", "password": "s3cret-agent", "groups": "agents"}


@in_every_situation
def test_what_the_broker_denies_alarms_is_kept_and_stops_nothing_else(
    lab_of: LabOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that stands still for some seconds is no broker that denies.
    monkeypatch.setattr(publishing, "ANSWER", 15.0)
    rights = [{"destination": "instance.>", "kind": "topic", "read": "agents", "write": "agents", "admin": "agents"}]
    lab = lab_of(inventory_of(tmp_path, users=[AGENT_USER], acl=rights))
    lab.up()
    who, brisk = Credentials("agent", "s3cret-agent"), ConnectionPolicy(canary_interval=8, canary_timeout=8)

    with Agent("receiver", lab, tmp_path, ("secret/#", "instance/#"), who, brisk) as agent:
        subscriber = agent.subscriber
        until(
            lambda: subscriber.granted == {"instance/#"} and "secret/#" in subscriber.refused,
            PATIENCE,
            lambda: f"granted: {subscriber.granted}, refused: {subscriber.refused}",
        )
        delivered = agent.store.accept_event("instance/status/E", b"{}")
        denied = agent.store.accept_event("secret/status/E", b"{}")
        until(
            lambda: agent.store.row_and_byte_counts().outbox_rows == 0 and delivered in agent.ids("received"),
            PATIENCE,
            lambda: f"the outbox is empty: {agent.store.row_and_byte_counts()}; received: {agent.ids('received')}",
        )

        assert agent.ids("unconfirmed") == [denied]
        assert agent.ids("acknowledged") == [delivered]
        time.sleep(20)  # longer than two canaries take to be missed
        assert agent.subscriber.link.connections == agent.publisher.link.connections == 1
