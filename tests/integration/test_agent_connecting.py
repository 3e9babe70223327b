"""Publisher and subscriber of an agent on a real pair whose active broker is killed or frozen under load.

KILLS (default 1) sets the number of kills. Each waits until 50 events per second arrive and a publish is in flight.
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
from activemq_agent.connecting import ConnectionSettings
from activemq_agent.connection_events import ConnectionEnded
from activemq_agent.publishing import Publisher
from activemq_agent.store import Store
from activemq_agent.subscribing import InboxSubscriber
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
"""Seconds between two attempts of a standby to acquire the lock, in these tests."""
RATE = 200.0
TOPIC = "instance/status/{}"


class Agent:
    """Store, publisher and subscriber of an agent, without its other parts."""

    def __init__(
        self,
        name: str,
        lab: Lab,
        directory: Path,
        topics: tuple[str, ...] = (),
        credentials: Credentials | None = None,
        policy: ConnectionSettings | None = None,
    ) -> None:
        group = lab.fleet.groups[0].name
        credentials = credentials or lab.credentials(group)
        urls = tuple(Endpoint(host=host, port=port, tls=False) for host, port in lab.addresses(group, "mqtt"))
        self.config = Config(
            urls=urls,
            username=credentials.username if credentials else None,
            password=Password(credentials.password) if credentials else None,
            topics=topics,
            client_id=name,
            state_directory=directory / name,
            policy=policy or ConnectionSettings(),
        )
        # No handler runs here: with many kills on a slow machine, the inbox exceeds the default limit of a topic.
        limits = replace(self.config.store_limits, topic_rows=1_000_000)
        self.store = Store.open(directory / name, agent=name, limits=limits)
        self.stored_at: list[float] = []
        log = structlog.get_logger().bind(agent=name)
        numbers = itertools.count(1)
        self.publisher = Publisher(self.config, self.store, log=log, numbers=numbers)
        self.subscriber = InboxSubscriber(
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
        """Return all records of the journal."""
        return [
            json.loads(line) for record in self.store.oldest_journal_records(10**9) for line in record.line.splitlines()
        ]

    def ids(self, kind: str) -> list[str]:
        """Return the event IDs of the records of a kind, without barriers."""
        return [r["event_id"] for r in self.journal() if r["kind"] == kind and not is_barrier_topic(r["topic"])]


class Load(threading.Thread):
    """A thread that accepts events at a steady rate until ``finish`` is called."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(daemon=True)
        self._agent = agent
        self._stop_requested = threading.Event()
        self.accepted: list[str] = []

    def run(self) -> None:
        started_at = time.monotonic()
        for number in itertools.count():
            if self._stop_requested.wait(max(0.0, started_at + number / RATE - time.monotonic())):
                return
            event = json.dumps({"number": number}).encode()
            self.accepted.append(self._agent.store.accept_event(TOPIC.format(f"E{number % 3}"), event))
            self._agent.publisher.wake()

    def finish(self) -> list[str]:
        self._stop_requested.set()
        self.join(10)
        return self.accepted


def wait_until_received(accepted: list[str], sender: Agent, receiver: Agent) -> None:
    """Wait for the remaining events while further events arrive; raise an error with the missing events.

    The error is a LateError if the missing events are late: kept by the sender, or delivered after the receiver has
    connected again.
    """
    if all_arrive(accepted, receiver):
        return
    received = set(receiver.ids("received"))
    missing = [event_id for event_id in accepted if event_id not in received]
    kinds = [record["kind"] for record in sender.journal() if missing and record.get("event_id") == missing[0]]
    kept = sender.store.row_and_byte_counts().outbox_rows
    message = (
        f"no further event arrived for 60 s: {len(missing)} of {len(accepted)} events are missing; the sender keeps "
        f"{kept}, of which {len(sender.publisher._unacknowledged)} are in flight; its records of the first missing "
        f"event: {kinds}"
    )
    link = receiver.subscriber.link
    link.queue_for_connection_loop(ConnectionEnded(link.conn, "the test connects again"))
    if kept or all_arrive(accepted, receiver):
        raise LateError(message)
    raise AssertionError(f"{message}; no further event arrived over a new connection")


def recently_stored(receiver: Agent) -> int:
    """Return the number of events that the receiver stored in the last 3 seconds."""
    return sum(at > time.time() - 3 for at in list(receiver.stored_at))


def all_arrive(accepted: list[str], receiver: Agent) -> bool:
    """Return whether all events arrive before 60 s pass without a new event; no handler empties the inbox."""
    received, since = -1, time.monotonic()
    while received < len(accepted):
        if (inbox_count := receiver.store.row_and_byte_counts().inbox_rows) > received:
            received, since = inbox_count, time.monotonic()
        elif time.monotonic() - since > 60:
            return False
        time.sleep(0.2)
    return True


def write_pair_inventory(tmp_path: Path, **variables: Any) -> Path:
    """Write the inventory of a pair of 5.18.3."""
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
    lab = lab_of(write_pair_inventory(tmp_path))
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
def test_repeated_kills_of_active_broker_lose_no_accepted_event(lab: Lab, agents: tuple[Agent, Agent]) -> None:
    sender, receiver = agents
    load = Load(sender)
    load.start()
    for _ in range(KILLS):
        active = lab.wait_active("orders-mq01")
        time.sleep(3 if KILLS <= 5 else 15)
        until(
            lambda: recently_stored(receiver) >= 150,
            PATIENCE,
            lambda: f"the receiver has stored 150 events in 3 s, not {recently_stored(receiver)}",
        )
        until(lambda: bool(sender.publisher._unacknowledged), PATIENCE, "a publish is in flight", pause=0)
        target = len(receiver.stored_at) + 50
        lab.kill(active)
        until(lambda: len(receiver.stored_at) > target, PATIENCE, "events arrive again")  # noqa: B023
        lab.start(active)
    accepted = load.finish()
    wait_until_received(accepted, sender, receiver)

    received = receiver.ids("received")
    interruption = max(after - before for before, after in itertools.pairwise(receiver.stored_at))
    print(
        f"\n{KILLS} kills, {len(accepted)} accepted, {len(set(accepted) - set(received))} lost, "
        f"{sender.publisher.sent - len(accepted)} copies sent, {receiver.subscriber.duplicates} duplicates dropped, "
        f"longest interruption {interruption:.1f} s"
    )
    assert set(accepted) == set(received)
    assert len(received) == len(set(received))


@in_every_situation
@pytest.mark.timeout(900)
def test_agents_leave_frozen_broker_and_delivery_resumes_after_its_kill(lab: Lab, agents: tuple[Agent, Agent]) -> None:
    """A frozen broker keeps its connections and its lock: its peer can take over only after the broker was killed."""
    sender, receiver = agents
    load = Load(sender)
    load.start()
    until(lambda: len(receiver.stored_at) > 100, PATIENCE, "events arrive")
    active = lab.wait_active("orders-mq01")

    lab.pause(active)
    links = sender.publisher.link, receiver.subscriber.link
    disconnected = until(lambda: not any(link.broker for link in links), PATIENCE, "both leave the frozen broker")
    lab.kill(active)
    stored_at_kill = len(receiver.stored_at)
    resumed = until(lambda: len(receiver.stored_at) > stored_at_kill, PATIENCE, "events arrive again")
    accepted = load.finish()
    wait_until_received(accepted, sender, receiver)

    print(f"\nagents left the frozen broker after {disconnected:.1f} s, events arrived {resumed:.1f} s after its kill")
    assert set(accepted) == set(receiver.ids("received"))


AGENT_USER = {"name": "agent", "password": "s3cret-agent", "groups": "agents"}


@in_every_situation
def test_denied_event_is_recorded_as_unconfirmed_and_blocks_no_other_event(
    lab_of: LabOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that pauses for some seconds must not count as a broker that denies.
    monkeypatch.setattr(publishing, "ANSWER", 15.0)
    rights = [{"destination": "instance.>", "kind": "topic", "read": "agents", "write": "agents", "admin": "agents"}]
    lab = lab_of(write_pair_inventory(tmp_path, users=[AGENT_USER], acl=rights))
    lab.up()
    credentials = Credentials("agent", "s3cret-agent")
    policy = ConnectionSettings(canary_interval=8, canary_timeout=8)

    with Agent("receiver", lab, tmp_path, ("secret/#", "instance/#"), credentials, policy) as agent:
        subscriber = agent.subscriber
        until(
            lambda: subscriber.granted == {"instance/#"} and "secret/#" in subscriber.refused,
            PATIENCE,
            lambda: f"secret/# is refused; granted: {subscriber.granted}, refused: {subscriber.refused}",
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
        time.sleep(20)  # longer than the time after which two canaries count as missing
        assert agent.subscriber.link.connections == agent.publisher.link.connections == 1
