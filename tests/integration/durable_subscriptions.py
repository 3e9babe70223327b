"""A broker with a durable subscription that is older than its journal, and with messages that wait for it.

An index that a broker of 5.5 to 5.13.0 builds from this journal lacks the messages: the record of the subscription was
removed with its file (5.5), or was moved after the messages (5.9 to 5.13.0, AMQ-6131).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.node.fence.shared_store import current_store_directory
from activemq_fleet.node.kahadb import journal
from activemq_fleet.node.kahadb.index import INDEX, journal_file_numbers_for_recovery
from activemq_fleet.node.kahadb.kept_index import KeptIndex
from activemq_fleet.releases import Release
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from tests.integration.labs import write_inventory
from tests.integration.waiting import PATIENCE, until

HOSTS = ("orders-mq01-a.example.com", "orders-mq01-b.example.com")
CLIENT, NAME, TOPIC = "reporting", "daily", "prices"
KEY = f"{CLIENT}:{NAME}"
_DURABLE = {"activemq.subscriptionName": NAME, "activemq.prefetchSize": "1000"}
_KAHADB = {"journalMaxFileLength": "1mb", "checkpointInterval": "500", "cleanupInterval": "1000"}
_MEGABYTE = ["x" * 4000] * 250


class AgedSubscription:
    """Messages that wait for a durable subscriber, in the store of a running broker."""

    def __init__(self, lab: Lab, waiting: int = 50) -> None:
        self.lab = lab
        self.active = lab.wait_active("orders-mq01") if len(lab.fleet.brokers) > 1 else lab.fleet.brokers[0].host
        self.credentials = lab.credentials(self.active)
        self.sent = [f"price-{number}" for number in range(waiting)]
        self.store = Path(current_store_directory(kahadb_directory_in_xml(lab.fleet.broker(self.active))))
        with self.connect(CLIENT) as subscriber:
            subscriber.subscribe(f"/topic/{TOPIC}", headers=_DURABLE)
        if lab.fleet.brokers[0].release.loses_subscriptions_on_rebuild:
            # The cleanup runs every second here (by default every 30 s), and a busy machine is slower.
            until(self.has_kept_index, PATIENCE, "a copy of the index with the subscription is kept")
        self.pass_through(2)
        until(lambda: not (self.store / "db-1.log").exists(), PATIENCE, "the file of the subscription is removed")
        with self.connect() as publisher:
            for body in self.sent:
                publisher.send(f"/topic/{TOPIC}", body)
        self.pass_through(3)
        # Later releases move the record only when no message waits.
        poll_for_true_result(self.has_lost_its_record, 8, 0.2)
        if lab.fleet.brokers[0].release.loses_subscriptions_on_rebuild:
            # The cleanup may remove a data file within 0.5 s of its creation; then the copy is made again.
            until(self.has_kept_index, PATIENCE, "the copy of the index has every later data file")

    def connect(self, client: str | None = None) -> StompConnection:
        return StompConnection(
            self.lab.addresses(self.active, "stomp")[0], self.credentials, timeout=PATIENCE, client_id=client
        )

    def pass_through(self, megabytes: int) -> None:
        """Send messages through a queue, so that the broker starts new data files and removes older ones."""
        with self.connect() as client:
            client.subscribe("/queue/passing", headers={"activemq.prefetchSize": "1000"})
            for _ in range(megabytes):
                client.send_transaction("/queue/passing", _MEGABYTE)
                messages = [client.receive(PATIENCE) for _ in _MEGABYTE]
                assert messages[-1]
                client.acknowledge(messages[-1])

    def has_kept_index(self) -> bool:
        """Return whether the broker keeps a complete copy of the index that contains the subscription."""
        index = KeptIndex(str(self.store))
        return index.is_complete() and bool(index.subscriptions_in_copy())

    def has_lost_its_record(self) -> bool:
        """Return whether the journal has no record of the subscription before the messages that wait for it."""
        for command in journal.read_journal_commands_and_set_tail(str(self.store), journal.JournalEnd()):
            if command.destination == f"1:{TOPIC}":
                return command.kind != journal.SUBSCRIPTION
        return True

    def kill(self) -> None:
        for broker in sorted(self.lab.fleet.brokers, key=lambda broker: broker.host == self.active):
            if self.lab.is_alive(broker.host):
                self.lab.kill(broker.host)

    def start_and_drain(self) -> list[str]:
        """Start the pair; return the distinct bodies that the subscriber receives."""
        self.lab.up()
        hosts = self.lab.fleet.brokers
        self.active = self.lab.wait_active("orders-mq01") if len(hosts) > 1 else hosts[0].host
        with self.connect(CLIENT) as subscriber:
            subscriber.subscribe(f"/topic/{TOPIC}", headers=_DURABLE)
            bodies = []
            while (message := subscriber.receive(4)) is not None:
                bodies.append(message.body)
                subscriber.acknowledge(message)
        return list(dict.fromkeys(bodies))


def need_removed_file(store: Path) -> None:
    """Set the position of the index to a data file that a cleanup removed, as in an index older than the cleanup."""
    path = store / INDEX[0]
    index_bytes = bytearray(path.read_bytes())
    offset = 4096 + 21 + 12
    assert index_bytes[offset] == 1
    assert not (store / "db-1.log").exists()
    for position in (offset, offset + 9):
        if index_bytes[position]:
            index_bytes[position + 1 : position + 5] = (1).to_bytes(4, "big")
    path.write_bytes(index_bytes)
    path.with_name(INDEX[1]).unlink()  # a broker would restore the page from this file
    assert 1 in journal_file_numbers_for_recovery(str(path))


def remove_index(store: Path) -> None:
    """Remove the index, as an operator does who expects that the broker builds it again."""
    for name in INDEX:
        (store / name).unlink(missing_ok=True)


DISCARD_FUNCTIONS = {"needs-removed-file": need_removed_file, "index-removed": remove_index}
"""Functions that make an index unusable for the broker, by name."""


@contextmanager
def aged_subscription(directory: Path, release: str, **variables: Any) -> Iterator[AgedSubscription]:
    """Run a broker, or a pair with a guard, with messages that wait for a durable subscriber."""
    hosts = HOSTS[:1] if variables.get("ha") == "none" else HOSTS
    attributes = _KAHADB | ({"compactAcksAfterNoGC": "2"} if Release.of(release).is_within_span("5.14.0") else {})
    attributes_xml = " ".join(f"{name}='{value}'" for name, value in attributes.items())
    inventory = write_inventory(
        directory / "inventory",
        hosts,
        release=release,
        network_username="network",
        network_password="s3cret-network",
        xml_fragments=[{"xml": f"<persistenceAdapter><kahaDB {attributes_xml}/></persistenceAdapter>"}],
        **variables,
    )
    with Lab.open([inventory.parent], directory / "lab") as lab:
        lab.up()
        yield AgedSubscription(lab)
