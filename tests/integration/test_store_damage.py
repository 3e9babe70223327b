"""A damaged record in a broker's store: a broker with the settings of a repair loses what ``store inspect`` names.

With ``SITUATIONS=all`` also on older releases, and what a broker loses without those settings.
"""

from __future__ import annotations

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
from activemq_fleet.node.kahadb.journal import data_file_number
from activemq_fleet.releases import Release
from activemq_fleet.render.broker_paths import kahadb_directory_in_xml
from tests.integration.labs import write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain, stomp_send
from tests.unit.kahadb_journals import batch, moved_acks

HOST = "orders-mq01-a.example.com"
CHECKSUMS = {"checksumJournalFiles": "true", "checkpointInterval": "500"}
REPAIR = CHECKSUMS | {"checkForCorruptJournalFiles": "true", "ignoreMissingJournalfiles": "true"}
COUNT = 100


class DamagedStore:
    """A broker's store with two queues, whose message ``one-40`` cannot be read any more."""

    def __init__(self, directory: Path, release: str) -> None:
        self.directory, self.release = directory, release
        self.sent = {queue: [f"{queue}-{number}-{'x' * 300}" for number in range(COUNT)] for queue in ("one", "two")}
        with self.broker(CHECKSUMS) as lab:
            lab.up()
            for queue, bodies in self.sent.items():
                stomp_send(lab.addresses(HOST, "stomp"), f"/queue/{queue}", bodies, lab.credentials(HOST))
            time.sleep(2)  # The index knows them: a broker reads behind its last checkpoint in another way.
            lab.kill(HOST)
            self.store = Path(lab.fleet.broker(HOST).store_directory)
            self.before = inspect_store_journal(str(self.store))
        path = self.store / "db-1.log"
        data = bytearray(path.read_bytes())
        at = data.index(b"one-40-")
        # Its destination and id. No setting lets 5.11.4 and earlier start with those damaged: there its body.
        is_old = Release.of(release).is_within_span("5.3.0 !5.12.0")
        start = at + 10 if is_old else data.rindex(b"WRITE BATCH", 0, at) + 30
        for place in range(start, start + 30):
            data[place] ^= 0x5A
        path.write_bytes(data)
        self.after: StoreInspection = inspect_store_journal(str(self.store))

    def broker(self, settings: dict[str, str]) -> Lab:
        text = " ".join(f'{name}="{value}"' for name, value in settings.items())
        inventory = write_inventory(
            self.directory / "inventory",
            [HOST],
            release=self.release,
            ha="none",
            network_username="network",
            network_password="s3cret-network",
            xml_fragments=[{"xml": f"<persistenceAdapter><kahaDB {text}/></persistenceAdapter>"}],
        )
        return Lab.open([inventory.parent], self.directory / "lab")

    def lost_with(self, settings: dict[str, str]) -> dict[str, list[str]]:
        """Start the broker with these settings; return which messages of each queue it does not deliver."""
        with self.broker(settings) as lab:
            lab.up()
            found = {}
            for queue, bodies in self.sent.items():
                got = stomp_drain(
                    lab.addresses(HOST, "stomp"), f"/queue/{queue}", lab.credentials(HOST), idle=3, timeout=20
                )
                found[queue] = [body.rstrip("x") for body in bodies if body not in got]
        return found


RELEASES = ["6.3.1", *further("5.18.3", "5.11.4", "5.8.0", "5.5.1")]


@in_every_situation
@pytest.mark.parametrize("release", RELEASES)
def test_a_repair_loses_the_one_message_that_was_named_as_damaged(tmp_path: Path, release: str) -> None:
    damaged = DamagedStore(tmp_path, release)
    assert damaged.before.counts.queues == {"one": COUNT, "two": COUNT}
    assert damaged.before.damaged == 0
    assert damaged.before.checked_batches == damaged.before.batches > 0
    assert {damage.file for damage in damaged.after.damages} == {"db-1.log"}
    assert damaged.lost_with(REPAIR) == {"one": ["one-40-"], "two": []}


@pytest.mark.parametrize("release", further("6.3.1", "5.18.3"))
def test_without_the_settings_of_a_repair_more_is_lost_than_what_is_damaged(tmp_path: Path, release: str) -> None:
    assert len(DamagedStore(tmp_path, release).lost_with({})["one"]) > COUNT // 2


STORE_PER_DESTINATION: dict[str, Any] = {"by_destination": [{"per_destination": True}]}


def store_of_queue_one(lab: Lab, host: str) -> Path:
    """The directory of the kahaDB store with the queue, which may be one of several stores."""
    root = Path(current_store_directory(kahadb_directory_in_xml(lab.fleet.broker(host))))
    return next(root.glob("queue#*one"), root)


class LackingStore:
    """A broker that was killed, whose index needs a journal file that is gone; half of its messages came after the
    index's last checkpoint."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        hosts = [broker.host for broker in lab.fleet.brokers]
        self.active = lab.wait_active("orders-mq01") if len(hosts) > 1 else HOST
        self.sent = [f"one-{number}" for number in range(2 * COUNT)]
        self._send(self.sent[:COUNT])
        self.store = store_of_queue_one(lab, self.active)
        path = self.store / "db.data"
        until(
            lambda: bool(journal_file_numbers_for_recovery(str(path))),
            PATIENCE,
            "a checkpoint has written where the index is",
        )
        self._send(self.sent[COUNT:])
        for host in sorted(hosts, key=lambda host: host == self.active):
            lab.kill(host)
        let_index_go_on_in(path, 77)
        assert inspect_store_journal(str(self.store)).index_lacks == ("db-77.log",)

    def _send(self, bodies: list[str]) -> None:
        stomp_send(self.lab.addresses(self.active, "stomp"), "/queue/one", bodies, self.lab.credentials(self.active))

    def start_and_drain(self) -> list[str]:
        self.lab.up()
        active = self.lab.wait_active("orders-mq01") if len(self.lab.fleet.brokers) > 1 else HOST
        addresses, credentials = self.lab.addresses(active, "stomp"), self.lab.credentials(active)
        return stomp_drain(addresses, "/queue/one", credentials, expected=len(self.sent))


@contextmanager
def lacking_store(directory: Path, release: str, **more: Any) -> Iterator[LackingStore]:
    account = {"network_username": "network", "network_password": "s3cret-network"}
    hosts = [HOST] if more.get("ha") == "none" else [HOST, "orders-mq01-b.example.com"]
    inventory = write_inventory(directory / "inventory", hosts, release=release, **account, **more)
    with Lab.open([inventory.parent], directory / "lab") as lab:
        lab.up()
        yield LackingStore(lab)


@pytest.mark.parametrize(
    ("release", "tuning"),
    [
        ("5.5.1", {}),
        *further(("5.11.4", {}), ("5.8.0", {}), ("5.11.4", STORE_PER_DESTINATION), ("5.8.0", STORE_PER_DESTINATION)),
    ],
)
def test_an_index_that_needs_a_file_that_is_gone_is_moved_aside_before_a_start(
    tmp_path: Path, release: str, tuning: dict[str, Any]
) -> None:
    with lacking_store(tmp_path, release, ha="none", kahadb=tuning) as killed:
        assert killed.start_and_drain() == killed.sent
        assert (killed.store / "db.data.unusable").exists()


@pytest.mark.parametrize("release", further("5.11.4", "5.8.0", "5.5.1"))
def test_a_guard_leaves_an_index_out_that_needs_a_file_that_is_gone(tmp_path: Path, release: str) -> None:
    with lacking_store(tmp_path, release, fence="guard") as killed:
        assert killed.start_and_drain() == killed.sent


@pytest.mark.parametrize(("release", "comes_back"), further(("5.11.4", True), ("5.8.0", False), ("5.5.1", True)))
def test_broker_without_both_fails_then_starts_without_messages_after_checkpoint(
    tmp_path: Path, release: str, comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.lab.lab_brokers.repair_store_command", lambda _broker: ())
    with lacking_store(tmp_path, release, ha="none") as killed:
        for _ in range(1 if comes_back else 2):
            with pytest.raises(LabError, match="stopped while it was starting"):
                killed.lab.up(timeout=60)
            killed.lab.down()
        if comes_back:
            assert killed.start_and_drain() == killed.sent[:COUNT]


class MovedAcksStore:
    """A broker that was killed while the last data file of its store held moved acknowledgements of the one before.

    The broker writes no checkpoint for a minute, as one may not that is killed soon.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.sent: list[str] = []
        self.send()
        self.kill()
        store = store_of_queue_one(lab, HOST)
        last = max(data_file_number(path.name) for path in store.glob("db-*.log"))
        (store / f"db-{last + 1}.log").write_bytes(batch(moved_acks(last), checksum=True))

    def send(self) -> None:
        bodies = [f"one-{len(self.sent) + number}" for number in range(COUNT)]
        active = self.lab.wait_active("orders-mq01")
        stomp_send(self.lab.addresses(active, "stomp"), "/queue/one", bodies, self.lab.credentials(active))
        self.sent += bodies

    def kill(self) -> None:
        for broker in self.lab.fleet.brokers:
            if self.lab.is_alive(broker.host):
                self.lab.kill(broker.host)

    def lost_after_two_kills(self) -> list[str]:
        """Start, send, kill; start, and return which messages do not come."""
        self.lab.up()
        self.send()
        self.kill()
        self.lab.up()
        active = self.lab.wait_active("orders-mq01")
        addresses, credentials = self.lab.addresses(active, "stomp"), self.lab.credentials(active)
        got = set(stomp_drain(addresses, "/queue/one", credentials, idle=3, timeout=30))
        return [body for body in self.sent if body not in got]


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


MOVING = ("6.3.1", "6.1.6", "5.18.3", "5.15.16", "5.14.5")
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
            *((one, more) for one in MOVING[1:] for more in (_ALONE, _GUARDED, _SEVERAL)),
        ),
    ],
)
def test_no_message_is_lost_behind_moved_acknowledgements(tmp_path: Path, release: str, more: dict[str, Any]) -> None:
    with moved_acks_store(tmp_path, release, **more) as killed:
        assert killed.lost_after_two_kills() == []


@pytest.mark.parametrize(("release", "more"), further(*((one, more) for one in MOVING for more in (_ALONE, _SEVERAL))))
def test_a_broker_loses_what_it_writes_behind_moved_acknowledgements(
    tmp_path: Path, release: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.lab.lab_brokers.repair_store_command", lambda _broker: ())
    with moved_acks_store(tmp_path, release, **more) as killed:
        assert killed.lost_after_two_kills() == killed.sent[COUNT:]


def let_index_go_on_in(path: Path, number: int) -> None:
    """Change the position of the last update, and of the first transaction in progress if there is one."""
    data = bytearray(path.read_bytes())
    at = 4096 + 21 + 12
    assert data[at] == 1
    data[at + 1 : at + 5] = number.to_bytes(4, "big")
    if data[at + 9]:
        data[at + 10 : at + 14] = number.to_bytes(4, "big")
    path.write_bytes(data)
    path.with_name("db.redo").unlink()  # from it a broker would restore the page
