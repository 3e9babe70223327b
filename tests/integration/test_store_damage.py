"""Tests of a damaged record in a broker's store: with repair settings, a broker loses only what ``inspect`` reports.

``SITUATIONS=all`` also tests older releases, and what a broker loses without those settings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.fence.shared_store import current_store_directory
from activemq_fleet.node.fence.store_inspection import StoreInspection, inspect_store_journal
from activemq_fleet.node.kahadb.index import journal_file_numbers_for_recovery
from activemq_fleet.node.kahadb.indexed_messages import read_journal_positions_in_index
from activemq_fleet.node.kahadb.journal import data_file_number
from activemq_fleet.node.kahadb.journal_end_check import describe_missing_journal_end
from activemq_fleet.releases import Release
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from tests.integration.labs import write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain, stomp_send
from tests.unit.kahadb_journals import moved_acks_record, record_batch

HOST = "orders-mq01-a.example.com"
CHECKSUMS = {"checksumJournalFiles": "true", "checkpointInterval": "500"}
REPAIR = CHECKSUMS | {"checkForCorruptJournalFiles": "true", "ignoreMissingJournalfiles": "true"}
COUNT = 100


class DamagedStore:
    """The store of a broker with two queues, in which the message ``one-40`` is unreadable."""

    def __init__(self, directory: Path, release: str) -> None:
        self.directory, self.release = directory, release
        self.sent = {queue: [f"{queue}-{number}-{'x' * 300}" for number in range(COUNT)] for queue in ("one", "two")}
        with self.open_lab(CHECKSUMS) as lab:
            lab.up()
            for queue, bodies in self.sent.items():
                stomp_send(lab.addresses(HOST, "stomp"), f"/queue/{queue}", bodies, lab.credentials(HOST))
            time.sleep(2)  # so that the index has the messages: later ones are read in a different way
            lab.kill(HOST)
            self.store = Path(lab.fleet.broker(HOST).store_directory)
            self.before = inspect_store_journal(str(self.store))
        path = self.store / "db-1.log"
        journal_bytes = bytearray(path.read_bytes())
        at = journal_bytes.index(b"one-40-")
        # Damage destination and id. 5.11.4 and earlier do not start then with any setting: there, damage the body.
        is_old = Release.of(release).is_within_span("5.3.0 !5.12.0")
        start = at + 10 if is_old else journal_bytes.rindex(b"WRITE BATCH", 0, at) + 30
        for position in range(start, start + 30):
            journal_bytes[position] ^= 0x5A
        path.write_bytes(journal_bytes)
        self.after: StoreInspection = inspect_store_journal(str(self.store))

    def open_lab(self, settings: dict[str, str]) -> Lab:
        attributes_xml = " ".join(f'{name}="{value}"' for name, value in settings.items())
        inventory = write_inventory(
            self.directory / "inventory",
            [HOST],
            release=self.release,
            ha="none",
            network_username="network",
            network_password="s3cret-network",
            xml_fragments=[{"xml": f"<persistenceAdapter><kahaDB {attributes_xml}/></persistenceAdapter>"}],
        )
        return Lab.open([inventory.parent], self.directory / "lab")

    def messages_lost_with(self, settings: dict[str, str]) -> dict[str, list[str]]:
        """Start the broker with these settings; return the messages of each queue that it does not deliver."""
        with self.open_lab(settings) as lab:
            lab.up()
            lost = {}
            for queue, bodies in self.sent.items():
                delivered = stomp_drain(
                    lab.addresses(HOST, "stomp"), f"/queue/{queue}", lab.credentials(HOST), idle=3, timeout=20
                )
                lost[queue] = [body.rstrip("x") for body in bodies if body not in delivered]
        return lost


RELEASES = ["6.3.1", *further("5.18.3", "5.11.4", "5.8.0", "5.5.1")]


@in_every_situation
@pytest.mark.parametrize("release", RELEASES)
def test_repair_loses_only_damaged_message(tmp_path: Path, release: str) -> None:
    damaged = DamagedStore(tmp_path, release)
    assert damaged.before.counts.queues == {"one": COUNT, "two": COUNT}
    assert damaged.before.damaged == 0
    assert damaged.before.checked_batches == damaged.before.batches > 0
    assert {damage.file for damage in damaged.after.damages} == {"db-1.log"}
    assert damaged.messages_lost_with(REPAIR) == {"one": ["one-40-"], "two": []}


@pytest.mark.parametrize("release", further("6.3.1", "5.18.3"))
def test_start_without_repair_settings_loses_more_than_damaged_message(tmp_path: Path, release: str) -> None:
    assert len(DamagedStore(tmp_path, release).messages_lost_with({})["one"]) > COUNT // 2


@pytest.mark.parametrize("release", ["6.3.1", *further("5.18.3", "5.11.4", "5.8.0", "5.5.1")])
def test_broker_removes_messages_that_inspect_reports_after_end_of_cut_off_journal(
    tmp_path: Path, release: str
) -> None:
    account = {"network_username": "network", "network_password": "s3cret-network"}
    inventory = write_inventory(tmp_path / "inventory", [HOST], release=release, ha="none", **account)
    with Lab.open([inventory.parent], tmp_path / "lab") as lab:
        lab.up()
        store = Path(lab.fleet.broker(HOST).store_directory)
        credentials = lab.credentials(HOST)
        stomp_send(lab.addresses(HOST, "stomp"), "/queue/one", [f"one-{n}" for n in range(COUNT)], credentials)
        until(
            lambda: sum(map(len, read_journal_positions_in_index(str(store)).offsets.values())) == COUNT,
            PATIENCE,
            "a checkpoint writes the positions of all messages to the index",
        )
        assert not inspect_store_journal(str(store)).is_damaged
        lab.kill(HOST)
        assert not inspect_store_journal(str(store)).is_damaged
        data_file = store / "db-1.log"
        with data_file.open("r+b") as file:
            file.truncate(data_file.read_bytes().index(b"one-40"))
        inspection = inspect_store_journal(str(store))
        assert inspection.is_damaged
        assert inspection.cut_off is not None
        assert inspection.cut_off.messages == {"0:one": COUNT - 40}
        lab.up()
        delivered = stomp_drain(lab.addresses(HOST, "stomp"), "/queue/one", credentials, expected=40)
        assert delivered == [f"one-{n}" for n in range(40)]


@contextmanager
def store_with_cut_batch(directory: Path, release: str, **more: Any) -> Iterator[Lab]:
    """Kill a broker with ``COUNT`` messages, and cut its store journal off inside of the last one."""
    account = {"network_username": "network", "network_password": "s3cret-network"}
    hosts = [HOST] if more.get("ha") == "none" else [HOST, "orders-mq01-b.example.com"]
    # Without a checkpoint, the last record of the journal is that of the last message.
    settings = {"kahadb": {"checkpoint_interval": 60_000}, **account, **more}
    inventory = write_inventory(directory / "inventory", hosts, release=release, **settings)
    with Lab.open([inventory.parent], directory / "lab") as lab:
        lab.up()
        active = lab.wait_active("orders-mq01")
        bodies = [f"one-{n}" for n in range(COUNT)]
        stomp_send(lab.addresses(active, "stomp"), "/queue/one", bodies, lab.credentials(active))
        store = directory_of_queue_store(lab, active)
        for host in sorted(hosts, key=lambda host: host == active):
            lab.kill(host)
        inspection = inspect_store_journal(str(store))
        assert not inspection.is_damaged
        os.truncate(store / inspection.end[0], inspection.end[1] - 3)
        assert inspect_store_journal(str(store)).is_last_batch_cut
        yield lab


def delivered_messages(lab: Lab) -> list[str]:
    active = lab.wait_active("orders-mq01")
    return stomp_drain(
        lab.addresses(active, "stomp"), "/queue/one", lab.credentials(active), expected=COUNT - 1, timeout=30
    )


@pytest.mark.parametrize(
    ("release", "more"),
    [("5.5.1", {"ha": "none"}), *further(("5.8.0", {"ha": "none"}), ("5.5.1", {"fence": "guard"}))],
)
def test_cut_batch_is_removed_before_start(tmp_path: Path, release: str, more: dict[str, Any]) -> None:
    with store_with_cut_batch(tmp_path, release, **more) as lab:
        lab.up()
        assert delivered_messages(lab) == [f"one-{n}" for n in range(COUNT - 1)]


@pytest.mark.parametrize("release", further("5.8.0", "5.5.1"))
def test_unrepaired_broker_does_not_start_with_cut_batch(
    tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.lab.lab_brokers.repair_store_command_words", lambda _broker: ())
    with store_with_cut_batch(tmp_path, release, ha="none") as lab, pytest.raises(LabError, match="EOFException"):
        lab.up(timeout=60)


@in_every_situation
@pytest.mark.parametrize("release", ["6.3.1", *further("5.18.3", "5.15.16", "5.11.4")])
def test_guard_reports_lost_messages_of_cut_off_journal(tmp_path: Path, release: str) -> None:
    account = {"network_username": "network", "network_password": "s3cret-network"}
    hosts = [HOST, "orders-mq01-b.example.com"]
    inventory = write_inventory(tmp_path / "inventory", hosts, release=release, fence="guard", **account)
    with Lab.open([inventory.parent], tmp_path / "lab") as lab:
        lab.up()
        active = lab.wait_active("orders-mq01")
        bodies = [f"one-{n}" for n in range(COUNT)]
        stomp_send(lab.addresses(active, "stomp"), "/queue/one", bodies, lab.credentials(active))
        store = directory_of_queue_store(lab, active)
        until(
            lambda: sum(map(len, read_journal_positions_in_index(str(store)).offsets.values())) == COUNT,
            PATIENCE,
            "a checkpoint writes the positions of all messages to the index",
        )
        for host in sorted(hosts, key=lambda host: host == active):
            lab.kill(host)
        assert describe_missing_journal_end(str(store)) == ""
        data_file = store / "db-1.log"
        os.truncate(data_file, data_file.read_bytes().index(b"one-40"))
        assert inspect_store_journal(str(store)).is_damaged
        lab.up()
        texts = [path.read_text(errors="replace") for path in (tmp_path / "lab").glob("hosts/*/*/data/console.log")]
        assert any(f"queue://one ({COUNT - 40} messages)" in text for text in texts)
        assert (
            stomp_drain(
                lab.addresses(lab.wait_active("orders-mq01"), "stomp"),
                "/queue/one",
                lab.credentials(active),
                expected=40,
            )
            == bodies[:40]
        )


STORE_PER_DESTINATION: dict[str, Any] = {"by_destination": [{"per_destination": True}]}


def directory_of_queue_store(lab: Lab, host: str) -> Path:
    """Return the directory of the kahaDB store that has the queue ``one``, which may be one of several stores."""
    root = Path(current_store_directory(kahadb_directory_in_xml(lab.fleet.broker(host))))
    return next(root.glob("queue#*one"), root)


class StoreWithMissingFile:
    """The store of a killed broker whose index needs a missing journal file.

    Half of the messages were sent after the last checkpoint of the index.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        hosts = [broker.host for broker in lab.fleet.brokers]
        self.active = lab.wait_active("orders-mq01") if len(hosts) > 1 else HOST
        self.sent = [f"one-{number}" for number in range(2 * COUNT)]
        self._send(self.sent[:COUNT])
        self.store = directory_of_queue_store(lab, self.active)
        path = self.store / "db.data"
        until(
            lambda: bool(journal_file_numbers_for_recovery(str(path))),
            PATIENCE,
            "a checkpoint writes the position of the index",
        )
        self._send(self.sent[COUNT:])
        for host in sorted(hosts, key=lambda host: host == self.active):
            lab.kill(host)
        set_file_number_in_index(path, 77)
        assert inspect_store_journal(str(self.store)).index_lacks == ("db-77.log",)

    def _send(self, bodies: list[str]) -> None:
        stomp_send(self.lab.addresses(self.active, "stomp"), "/queue/one", bodies, self.lab.credentials(self.active))

    def start_and_drain(self) -> list[str]:
        self.lab.up()
        active = self.lab.wait_active("orders-mq01") if len(self.lab.fleet.brokers) > 1 else HOST
        addresses, credentials = self.lab.addresses(active, "stomp"), self.lab.credentials(active)
        return stomp_drain(addresses, "/queue/one", credentials, expected=len(self.sent))


@contextmanager
def store_with_missing_file(directory: Path, release: str, **more: Any) -> Iterator[StoreWithMissingFile]:
    account = {"network_username": "network", "network_password": "s3cret-network"}
    hosts = [HOST] if more.get("ha") == "none" else [HOST, "orders-mq01-b.example.com"]
    inventory = write_inventory(directory / "inventory", hosts, release=release, **account, **more)
    with Lab.open([inventory.parent], directory / "lab") as lab:
        lab.up()
        yield StoreWithMissingFile(lab)


@pytest.mark.parametrize(
    ("release", "tuning"),
    [
        ("5.5.1", {}),
        *further(("5.11.4", {}), ("5.8.0", {}), ("5.11.4", STORE_PER_DESTINATION), ("5.8.0", STORE_PER_DESTINATION)),
    ],
)
def test_index_that_needs_missing_file_is_renamed_before_start(
    tmp_path: Path, release: str, tuning: dict[str, Any]
) -> None:
    with store_with_missing_file(tmp_path, release, ha="none", kahadb=tuning) as killed:
        assert killed.start_and_drain() == killed.sent
        assert (killed.store / "db.data.unusable").exists()


@pytest.mark.parametrize("release", further("5.11.4", "5.8.0", "5.5.1"))
def test_guard_does_not_use_index_that_needs_missing_file(tmp_path: Path, release: str) -> None:
    with store_with_missing_file(tmp_path, release, fence="guard") as killed:
        assert killed.start_and_drain() == killed.sent


@pytest.mark.parametrize(("release", "starts_later"), further(("5.11.4", True), ("5.8.0", False), ("5.5.1", True)))
def test_unrepaired_broker_fails_to_start_then_loses_messages_after_checkpoint(
    tmp_path: Path, release: str, starts_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.lab.lab_brokers.repair_store_command_words", lambda _broker: ())
    with store_with_missing_file(tmp_path, release, ha="none") as killed:
        for _ in range(1 if starts_later else 2):
            with pytest.raises(LabError, match="stopped while it was starting"):
                killed.lab.up(timeout=60)
            killed.lab.down()
        if starts_later:
            assert killed.start_and_drain() == killed.sent[:COUNT]


class MovedAcksStore:
    """The store of a broker that was killed when its last data file had moved acknowledgements of the previous file.

    The broker writes no checkpoint for a minute, as a broker that is killed early may not.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.sent: list[str] = []
        self.send()
        self.kill()
        store = directory_of_queue_store(lab, HOST)
        last = max(data_file_number(path.name) for path in store.glob("db-*.log"))
        (store / f"db-{last + 1}.log").write_bytes(record_batch(moved_acks_record(last), checksum=True))

    def send(self) -> None:
        bodies = [f"one-{len(self.sent) + number}" for number in range(COUNT)]
        active = self.lab.wait_active("orders-mq01")
        stomp_send(self.lab.addresses(active, "stomp"), "/queue/one", bodies, self.lab.credentials(active))
        self.sent += bodies

    def kill(self) -> None:
        for broker in self.lab.fleet.brokers:
            if self.lab.is_alive(broker.host):
                self.lab.kill(broker.host)

    def messages_lost_after_two_kills(self) -> list[str]:
        """Start, send and kill; start again, and return the messages that are not delivered."""
        self.lab.up()
        self.send()
        self.kill()
        self.lab.up()
        active = self.lab.wait_active("orders-mq01")
        addresses, credentials = self.lab.addresses(active, "stomp"), self.lab.credentials(active)
        delivered = set(stomp_drain(addresses, "/queue/one", credentials, idle=3, timeout=30))
        return [body for body in self.sent if body not in delivered]


@contextmanager
def moved_acks_store(directory: Path, release: str, *, several: bool = False, **more: Any) -> Iterator[MovedAcksStore]:
    hosts = [HOST] if more.get("ha") == "none" else [HOST, "orders-mq01-b.example.com"]
    inventory = write_inventory(
        directory / "inventory",
        hosts,
        release=release,
        network_username="network",
        network_password="s3cret-network",
        kahadb={"checkpoint_interval": 60_000} | (STORE_PER_DESTINATION if several else {}),
        **more,
    )
    with Lab.open([inventory.parent], directory / "lab") as lab:
        lab.up()
        yield MovedAcksStore(lab)


RELEASES_THAT_MOVE_ACKS = ("6.3.1", "6.1.6", "5.18.3", "5.15.16", "5.14.5")
"""Releases that move acknowledgements."""
_ALONE: dict[str, Any] = {"ha": "none"}
_GUARDED: dict[str, Any] = {"fence": "guard"}
_SEVERAL: dict[str, Any] = {"ha": "none", "several": True}


@in_every_situation
@pytest.mark.parametrize(
    ("release", "more"),
    [
        ("6.3.1", _ALONE),
        *further(
            *(("6.3.1", more) for more in (_GUARDED, _SEVERAL)),
            *((release, more) for release in RELEASES_THAT_MOVE_ACKS[1:] for more in (_ALONE, _GUARDED, _SEVERAL)),
        ),
    ],
)
def test_no_message_after_moved_acknowledgements_is_lost(tmp_path: Path, release: str, more: dict[str, Any]) -> None:
    with moved_acks_store(tmp_path, release, **more) as killed:
        assert killed.messages_lost_after_two_kills() == []


@pytest.mark.parametrize(
    ("release", "more"),
    further(*((release, more) for release in RELEASES_THAT_MOVE_ACKS for more in (_ALONE, _SEVERAL))),
)
def test_unrepaired_broker_loses_messages_after_moved_acknowledgements(
    tmp_path: Path, release: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.lab.lab_brokers.repair_store_command_words", lambda _broker: ())
    with moved_acks_store(tmp_path, release, **more) as killed:
        assert killed.messages_lost_after_two_kills() == killed.sent[COUNT:]


def set_file_number_in_index(path: Path, number: int) -> None:
    """Set the file number of the last update in an index, and of the first transaction in progress if one exists."""
    index_bytes = bytearray(path.read_bytes())
    position = 4096 + 21 + 12
    assert index_bytes[position] == 1
    index_bytes[position + 1 : position + 5] = number.to_bytes(4, "big")
    if index_bytes[position + 9]:
        index_bytes[position + 10 : position + 14] = number.to_bytes(4, "big")
    path.write_bytes(index_bytes)
    path.with_name("db.redo").unlink()  # otherwise, a broker would restore the page from it
