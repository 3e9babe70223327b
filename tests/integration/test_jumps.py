"""What a store survives: written by one release, opened by a newer one, and opened by the first again.

The library's table is asked what to expect, so a release that behaves otherwise fails here.
``JUMPS=all`` goes all ways between all releases whose jars are to be had (78, ten seconds each).
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
from tests.integration.planted import STOMP, Ground, Planted, document
from tests.situations import fact_of_activemq

pytestmark = fact_of_activemq

RELEASES = (
    *("5.5.1", "5.6.0", "5.7.0", "5.8.0", "5.10.2", "5.11.4", "5.14.5"),
    *("5.15.16", "5.16.7", "5.17.6", "5.18.3", "6.2.7", "6.3.1"),
)
# Two ways back of four kinds: the old one does not start, or it builds the index anew. Others start without the durable
# subscriptions' messages, or have nothing between them at all.
CHOSEN = [("5.5.1", "5.8.0"), ("5.15.16", "6.3.1")]
JUMPS = list(combinations(RELEASES, 2)) if os.environ.get("JUMPS") == "all" else CHOSEN

QUEUES = ("/queue/first", "/queue/second")
TOPICS = ("/topic/first", "/topic/second")
OLD, NEW, TAKEN = 24, 8, 10
PAD = "." * 200  # so that an index has more than one page
PATIENCE = 120.0
"""Seconds for a message that must come …"""
WATCHED = 3.0
"""… and for those that must not."""


def bodies(tag: str, count: int) -> list[str]:
    return [f"{tag}{number}{PAD}" for number in range(count)]


class Store:
    """One kahaDB directory (or database), and the brokers that open it one after the other."""

    def __init__(self, ground: Ground, database: Database | None = None) -> None:
        self._ground, self._database = ground, database
        self._directory = ground.layout.directory / "store"
        self._count = 0

    def plant(self, release: str, **attributes: str) -> Planted:
        """A broker of this release on the store, not started yet."""
        self._count += 1
        store, beans, jars = f'<kahaDB directory="{self._directory}"/>', "", list[Path]()
        if self._database:
            store = '<jdbcPersistenceAdapter dataSource="#store"/>'
            beans, jars = self._database.bean("store"), [self._database.driver]
        inside = f"<persistenceAdapter>{store}</persistenceAdapter>"
        text = document("b", self._ground.address(1), inside, beans=beans, **attributes)
        return self._ground.plant(f"run{self._count}", release, text, jars=jars)

    def connect(self, destination: str = "") -> StompConnection:
        """A client; with a topic the one that has the durable subscription to it."""
        client = f"client{TOPICS.index(destination)}" if destination in TOPICS else None
        return StompConnection((self._ground.address(1), STOMP), timeout=PATIENCE, client_id=client)

    def write(self, tag: str, count: int) -> None:
        with self.connect() as client:
            for body in bodies(tag, count):
                for destination in (*QUEUES, *TOPICS):
                    client.send(destination, body)

    def subscribe(self) -> None:
        for topic in TOPICS:
            with self.connect(topic) as client:
                subscribe(client, topic)

    def take(self, count: int, patience: float) -> list[list[str]]:
        """Of every queue and durable subscription as many; fewer where none comes for ``patience`` seconds."""
        return [self._take(destination, count, patience) for destination in (*QUEUES, *TOPICS)]

    def _take(self, destination: str, count: int, patience: float) -> list[str]:
        got: list[str] = []
        with self.connect(destination) as client:
            subscribe(client, destination)
            while len(got) < count and (message := client.receive(patience)):
                got.append(message.body)
                client.acknowledge(message)
            # The acknowledgements have no receipt of their own, and go before this one's.
            client.send("/topic/nobody", "done")
        return got


def subscribe(client: StompConnection, destination: str) -> None:
    name = {"activemq.subscriptionName": "kept"} if destination in TOPICS else None
    client.subscribe(destination, headers=name)


def boot(broker: Planted) -> None:
    outcome = broker.boot(timeout=180)
    assert outcome.fate == "started", outcome.output


def go_on(store: Store, release: str, **attributes: str) -> None:
    """A release opens what another has written: all is there, in order, and more is added."""
    broker = store.plant(release, **attributes)
    boot(broker)
    assert store.take(TAKEN, PATIENCE) == [bodies("old", OLD)[:TAKEN]] * 4
    store.write("new", NEW)
    broker.stop()


def begin(store: Store, release: str) -> None:
    broker = store.plant(release)
    boot(broker)
    store.subscribe()
    store.write("old", OLD)
    broker.stop()


def come_back(store: Store, release: str, patience: float) -> Sequence[Sequence[str]]:
    """What the old release still finds; nothing where it does not start."""
    broker = store.plant(release)
    if broker.boot(timeout=180).fate != "started":
        return []
    return store.take(OLD - TAKEN + NEW, patience)


@pytest.mark.parametrize(("old", "new"), JUMPS, ids=lambda release: release)
def test_the_store_takes_the_way_there_and_back_as_the_table_says(ground: Ground, old: str, new: str) -> None:
    jump = release_change_effects(Release.of(old), Release.of(new), StoreFacts(), StoreFacts())
    assert not jump.refusal
    store = Store(ground)
    begin(store, old)
    go_on(store, new)
    everything = [[*bodies("old", OLD)[TAKEN:], *bodies("new", NEW)]] * 4
    if jump.back == "closed":
        assert come_back(store, old, WATCHED) != everything
    else:
        assert come_back(store, old, PATIENCE) == everything


def test_rows_of_a_database_from_before_5_12_need_their_openwire_version(ground: Ground) -> None:
    store = Store(ground, Database(ground, 9))
    begin(store, "5.11.4")
    unread = store.plant("5.15.16").boot(timeout=180)
    assert unread.fate == "refused"
    assert "UTFDataFormatException" in unread.output
    go_on(store, "5.15.16", storeOpenWireVersion="6")
