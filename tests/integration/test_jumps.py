"""Upgrade and rollback of a store: written by a release, opened by a later one, and opened by the first again.

The tests compare the behavior of the brokers with the table of the library.
``JUMPS=all`` tests all 78 pairs of the releases whose jars are available, ten seconds each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from activemq_fleet.deployment import StoreFacts
from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.operations.release_changes import release_change_effects
from activemq_fleet.releases import Release
from tests.integration.database import Database
from tests.integration.single_brokers import STOMP, BrokerSandbox, SandboxBroker, document
from tests.situations import fact_of_activemq

pytestmark = fact_of_activemq

RELEASES = (
    *("5.5.1", "5.6.0", "5.7.0", "5.8.0", "5.10.2", "5.11.4", "5.14.5"),
    *("5.15.16", "5.16.7", "5.17.6", "5.18.3", "6.2.7", "6.3.1"),
)
# Two of four kinds of rollbacks: the old release does not start, or it rebuilds the index. In the other two kinds, it
# starts without the messages of durable subscriptions, or the releases do not differ.
CHOSEN = [("5.5.1", "5.8.0"), ("5.15.16", "6.3.1")]
JUMPS = list(combinations(RELEASES, 2)) if os.environ.get("JUMPS") == "all" else CHOSEN

QUEUES = ("/queue/first", "/queue/second")
TOPICS = ("/topic/first", "/topic/second")
OLD, NEW, TAKEN = 24, 8, 10
PADDING = "." * 200  # makes the index larger than one page
PATIENCE = 120.0
"""Seconds for which a test waits for an expected message."""
WATCHED = 3.0
"""Seconds for which a test waits for an unexpected message."""


def bodies(tag: str, count: int) -> list[str]:
    return [f"{tag}{number}{PADDING}" for number in range(count)]


class Store:
    """A kahaDB directory or a database, and the brokers that open it one after the other."""

    def __init__(self, sandbox: BrokerSandbox, database: Database | None = None) -> None:
        self._sandbox, self._database = sandbox, database
        self._directory = sandbox.lab_paths.directory / "store"
        self._count = 0

    def add_broker(self, release: str, **attributes: str) -> SandboxBroker:
        """Return a broker of the release with the store; it is not started yet."""
        self._count += 1
        store, beans, jars = f'<kahaDB directory="{self._directory}"/>', "", list[Path]()
        if self._database:
            store = '<jdbcPersistenceAdapter dataSource="#store"/>'
            beans, jars = self._database.bean("store"), [self._database.driver]
        persistence = f"<persistenceAdapter>{store}</persistenceAdapter>"
        activemq_xml = document("b", self._sandbox.address(1), persistence, beans=beans, **attributes)
        return self._sandbox.add_broker(f"run{self._count}", release, activemq_xml, jars=jars)

    def connect(self, destination: str = "") -> StompConnection:
        """Return a client; for a topic, the client that has the durable subscription to it."""
        client = f"client{TOPICS.index(destination)}" if destination in TOPICS else None
        return StompConnection((self._sandbox.address(1), STOMP), timeout=PATIENCE, client_id=client)

    def write(self, tag: str, count: int) -> None:
        with self.connect() as client:
            for body in bodies(tag, count):
                for destination in (*QUEUES, *TOPICS):
                    client.send(destination, body)

    def subscribe(self) -> None:
        for topic in TOPICS:
            with self.connect(topic) as client:
                subscribe(client, topic)

    def receive_from_all(self, count: int, patience: float) -> list[list[str]]:
        """Receive ``count`` messages per queue and durable subscription, or fewer after ``patience`` s without one."""
        return [self._receive(destination, count, patience) for destination in (*QUEUES, *TOPICS)]

    def _receive(self, destination: str, count: int, patience: float) -> list[str]:
        received: list[str] = []
        with self.connect(destination) as client:
            subscribe(client, destination)
            while len(received) < count and (message := client.receive(patience)):
                received.append(message.body)
                client.acknowledge(message)
            # Acknowledgements have no receipt. The receipt of this later message proves that they were processed.
            client.send("/topic/unused", "done")
        return received


def subscribe(client: StompConnection, destination: str) -> None:
    name = {"activemq.subscriptionName": "kept"} if destination in TOPICS else None
    client.subscribe(destination, headers=name)


def start_broker(broker: SandboxBroker) -> None:
    outcome = broker.boot(timeout=180)
    assert outcome.fate == "started", outcome.output


def open_with_new_release(store: Store, release: str, **attributes: str) -> None:
    """Open the store with another release, check that all messages exist in order, and write further ones."""
    broker = store.add_broker(release, **attributes)
    start_broker(broker)
    assert store.receive_from_all(TAKEN, PATIENCE) == [bodies("old", OLD)[:TAKEN]] * 4
    store.write("new", NEW)
    broker.stop()


def write_with_old_release(store: Store, release: str) -> None:
    broker = store.add_broker(release)
    start_broker(broker)
    store.subscribe()
    store.write("old", OLD)
    broker.stop()


def open_with_old_release(store: Store, release: str, patience: float) -> Sequence[Sequence[str]]:
    """Open the store with the old release again; return its messages, or nothing if it does not start."""
    broker = store.add_broker(release)
    if broker.boot(timeout=180).fate != "started":
        return []
    return store.receive_from_all(OLD - TAKEN + NEW, patience)


@pytest.mark.parametrize(("old", "new"), JUMPS, ids=lambda release: release)
def test_upgrade_and_rollback_of_store_match_table_of_release_changes(
    sandbox: BrokerSandbox, old: str, new: str
) -> None:
    effects = release_change_effects(Release.of(old), Release.of(new), StoreFacts(), StoreFacts())
    assert not effects.refusal
    store = Store(sandbox)
    write_with_old_release(store, old)
    open_with_new_release(store, new)
    expected = [[*bodies("old", OLD)[TAKEN:], *bodies("new", NEW)]] * 4
    if effects.back == "closed":
        assert open_with_old_release(store, old, WATCHED) != expected
    else:
        assert open_with_old_release(store, old, PATIENCE) == expected


def test_database_rows_written_before_5_12_require_their_openwire_version(sandbox: BrokerSandbox) -> None:
    store = Store(sandbox, Database(sandbox, 9))
    write_with_old_release(store, "5.11.4")
    outcome = store.add_broker("5.15.16").boot(timeout=180)
    assert outcome.fate == "refused"
    assert "UTFDataFormatException" in outcome.output
    open_with_new_release(store, "5.15.16", storeOpenWireVersion="6")
