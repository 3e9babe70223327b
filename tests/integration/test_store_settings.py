"""Tests of ``activemq_kahadb``: the stores of one real broker, each with other settings and separate queues.

test_running_store.py tests the settings that only the running store itself reports.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from tests.integration.setting_clients import (
    HOST,
    Client,
    broker_process,
    broker_with,
    connect_client,
    release_of,
    skip_without,
)
from tests.situations import further, in_every_situation
from tests.waiting import wait_until

MIB = 1 << 20
NEVER = 3_600_000
"""Milliseconds that are longer than the tests run."""
QUICK = {"checkpoint_interval": 200, "cleanup_interval": 400}
RESERVED = ("sparse_file", "os_kernel_copy", "zeros", "chunked_zeros")
STORES: dict[str, dict[str, Any]] = {
    "kept": {},
    "swept": QUICK,
    "stopped": {"cleanup_on_stop": False},
    "grown": {"preallocation_scope": "none"},
    "ahead": {"preallocation_scope": "entire_journal_async"},
    **{kind: {"preallocation_scope": "entire_journal", "preallocation_strategy": kind} for kind in RESERVED},
    "summed": {"checksum_journal_files": True},
    "unsummed": {"checksum_journal_files": False, "check_for_corrupt_journal_files": False},
    "chained": {**QUICK, "enable_ack_compaction": False},
    "compact": {**QUICK, "enable_ack_compaction": True, "compact_acks_after_no_gc": 2},
    "written": {"enable_index_write_async": True},
    "concurrent": {"concurrent_store_and_dispatch_queues": True},
    "always": {"journal_disk_sync_strategy": "always"},
    "never": {"journal_disk_sync_strategy": "never"},
    "periodic": {"journal_disk_sync_strategy": "periodic", "journal_disk_sync_interval": 300},
    "unsynced": {"enable_journal_disk_syncs": False},
    "firm": {"checkpoint_interval": 200},
    "loose": {"checkpoint_interval": 200, "enable_index_disk_syncs": False},
    "damaged": {"check_for_corrupt_journal_files": True, "ignore_missing_journalfiles": True},
    "missing": {"ignore_missing_journalfiles": True},
    "spoiled": {"archive_corrupted_index": True},
    "forced": {"force_recover_index": True},
    "rewritten": {"rewrite_on_redelivery": True},
    "unmarked": {"rewrite_on_redelivery": False},
}
KAHADB = {
    "journal_max_file_length": "1 mb",
    "checkpoint_interval": NEVER,
    "cleanup_interval": NEVER,
    "concurrent_store_and_dispatch_queues": False,
    "by_destination": [
        *({"destination": f"{name}.>", "kind": "queue", **keys} for name, keys in STORES.items()),
        {"destination": "wide.>", "kind": "topic", "concurrent_store_and_dispatch_topics": True},
        {"per_destination": False},
    ],
}
CHUNK = "x" * 300_000


@pytest.fixture(scope="module", params=["6.3.1", *further("5.8.0", "5.18.3")])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with broker_with(tmp_path_factory.mktemp("stores"), request.param, kahadb=KAHADB) as lab:
        yield lab


@pytest.fixture
def client(lab: Lab) -> Iterator[Client]:
    with connect_client(lab) as client:
        yield client


def directory_of(lab: Lab, store: str) -> Path:
    [directory] = (lab.log(HOST).parent / "kahadb").glob(f"*2f{store}.*")
    return directory


def journal_files(lab: Lab, store: str) -> list[Path]:
    """Return the files of a store's journal, oldest first."""
    return sorted(directory_of(lab, store).glob("db-*.log"), key=lambda file: int(file.stem[3:]))


def pass_through(lab: Lab, store: str, chunks: int = 8) -> None:
    """Send and consume messages of some 300 kB on a separate connection, so that no consumer keeps them."""
    with connect_client(lab) as client:
        for _ in range(chunks):
            client.send(f"/queue/{store}.through", CHUNK)
        client.follow(f"/queue/{store}.through")
        assert len(client.bodies(chunks)) == chunks


def thread_counts(lab: Lab) -> Counter[str]:
    """Return the number of the broker's threads by name, of which the kernel keeps 15 characters."""
    tasks = Path(f"/proc/{broker_process(lab, HOST).pid}/task").glob("*/comm")
    return Counter(task.read_text().strip() for task in tasks)


@in_every_situation
def test_obsolete_journal_files_are_removed_only_at_cleanup_interval(lab: Lab) -> None:
    for store in ("kept", "swept"):
        for _ in range(2):
            pass_through(lab, store)
    wait_until(lambda: len(journal_files(lab, "swept")) <= 2, "files are removed", patience=60)
    assert len(journal_files(lab, "kept")) >= 4


@pytest.mark.parametrize("strategy", RESERVED)
def test_preallocated_journal_file_has_full_length_from_beginning(lab: Lab, client: Client, strategy: str) -> None:
    skip_without(lab, "kahaDB", "preallocationStrategy")
    client.send(f"/queue/{strategy}.x", "x")
    [file] = journal_files(lab, strategy)
    assert file.stat().st_size == MIB
    on_disk = file.stat().st_blocks * 512
    assert on_disk < MIB / 2 if strategy == "sparse_file" else on_disk >= MIB


def test_data_file_grows_without_preallocation_and_next_is_created_ahead_if_set(lab: Lab, client: Client) -> None:
    skip_without(lab, "kahaDB", "preallocationScope")
    for store in ("grown", "ahead"):
        client.send(f"/queue/{store}.x", "x")
    [file] = journal_files(lab, "grown")
    assert file.stat().st_size < MIB / 2
    wait_until(lambda: len(journal_files(lab, "ahead")) == 2, "the next file exists", patience=30)


def test_journal_has_checksums_only_if_configured(lab: Lab, client: Client) -> None:
    checksums = {}
    for store in ("summed", "unsummed"):
        client.send(f"/queue/{store}.x", "x")
        journal_bytes = journal_files(lab, store)[0].read_bytes()
        heads = [match.end() + 4 for match in re.finditer(b"WRITE BATCH", journal_bytes)]
        checksums[store] = [int.from_bytes(journal_bytes[at : at + 8], "big") for at in heads]
    assert any(checksums["summed"])
    assert checksums["unsummed"]
    assert not any(checksums["unsummed"])


@in_every_situation
def test_ack_compaction_moves_acknowledgements_so_that_old_files_are_removed(lab: Lab, client: Client) -> None:
    skip_without(lab, "kahaDB", "enableAckCompaction")
    for store in ("chained", "compact"):
        client.send(f"/queue/{store}.waits", "x")
        for _ in range(10):
            pass_through(lab, store, 4)
    file_count_before = len(journal_files(lab, "chained"))
    assert file_count_before >= 4
    wait_until(lambda: len(journal_files(lab, "compact")) <= file_count_before - 2, "files are removed", patience=60)
    assert len(journal_files(lab, "chained")) == file_count_before


def test_only_configured_stores_have_index_writer_and_concurrent_dispatch_threads(lab: Lab, client: Client) -> None:
    with connect_client(lab, "ann-1") as durable:
        durable.follow("/topic/wide.x", **{"activemq.subscriptionName": "all"})
        for store in STORES:
            client.send(f"/queue/{store}.y", "x")
        client.send("/topic/wide.x", "x")
    counts = thread_counts(lab)
    names = ("KahaDB Page Writer", "ConcurrentQueueStoreAndDispatch", "ConcurrentTopicStoreAndDispatch")
    assert [counts[name[:15]] for name in names] == [1, 1, 1]


@in_every_situation
def test_journal_and_index_are_synced_as_often_as_configured(lab: Lab, client: Client) -> None:
    """strace counts the syncs, for twenty messages of each store."""
    strace = shutil.which("strace")
    if not strace or subprocess.run([strace, "-o", "/dev/null", "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace is not installed or may not use ptrace: install strace and permit ptrace")
    stores = ["always", "never", "periodic", "unsynced", "firm", "loose"]
    for store in stores:
        client.send(f"/queue/{store}.x", "x")
    log = lab.directory / "trace"
    pid = str(broker_process(lab, HOST).pid)
    with subprocess.Popen(
        [strace, "-f", "-y", "-p", pid, "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", str(log)],
        stderr=subprocess.PIPE,
    ) as tracer:
        try:
            assert tracer.stderr is not None
            assert b"attached" in tracer.stderr.readline()
            for store in stores:
                for _ in range(20):
                    client.send(f"/queue/{store}.x", "x")
            time.sleep(1)
        finally:
            tracer.terminate()
            tracer.wait(60)
    calls = Counter(re.findall(r"sync\(\d+<[^>]*2f(\w+)\.[^>/]*/(db-|db\.data)", log.read_text()))
    of_journal = {store: calls[store, "db-"] for store in stores}
    assert of_journal["unsynced"] == 0
    assert of_journal["always"] >= 20
    if release_of(lab).supports("kahaDB", "journalDiskSyncStrategy"):
        assert of_journal["never"] == 0
        assert 0 < of_journal["periodic"] < 15
    assert calls["firm", "db.data"] > 0
    assert calls["loose", "db.data"] == 0


@in_every_situation
def test_damaged_stores_start_again_as_configured(lab: Lab, client: Client) -> None:
    """This test is the last one, because it stops the broker."""
    for store in ("damaged", "missing", "spoiled", "forced"):
        for number in range(8):
            client.send(f"/queue/{store}.z", f"{store} {number} {CHUNK}")
    for store in ("rewritten", "unmarked"):
        client.send(f"/queue/{store}.z", store)
        with connect_client(lab) as consumer:
            consumer.follow(f"/queue/{store}.z")
            message = consumer.receive(10)
            assert message is not None
            consumer.roll_back(message)
    pass_through(lab, "stopped")
    lab.stop(HOST)
    if release_of(lab).supports("kahaDB", "cleanupOnStop"):
        assert len(journal_files(lab, "kept")) <= 2 < len(journal_files(lab, "stopped"))

    overwrite(journal_files(lab, "damaged")[0], b"damaged 1", at=1000)
    journal_files(lab, "missing")[1].unlink()
    overwrite(directory_of(lab, "spoiled") / "db.data", b"", at=0)
    log_size_before = lab.log(HOST).stat().st_size
    lab.start(HOST)

    log_text = lab.log(HOST).read_bytes()[log_size_before:].decode()
    assert [path.name for path in directory_of(lab, "spoiled").glob("db.data-*")]
    assert max(int(number) for number in re.findall(r"Recovery replayed (\d+) operations", log_text)) >= 8
    numbers = {store: remaining_numbers(lab, store) for store in ("damaged", "missing", "spoiled", "forced")}
    all_numbers = list(range(8))
    assert numbers["spoiled"] == numbers["forced"] == all_numbers
    assert 1 not in numbers["damaged"]
    assert numbers["damaged"][-1] == 7
    assert 2 <= len(numbers["missing"]) < 8
    with connect_client(lab) as client:
        redelivered = {}
        for store in ("rewritten", "unmarked"):
            client.follow(f"/queue/{store}.z")
            message = client.receive(10)
            assert message is not None
            redelivered[store] = message.headers.get("redelivered", "false")
    rewrites = release_of(lab).supports("kahaDB", "rewriteOnRedelivery")
    assert redelivered == {"rewritten": "true" if rewrites else "false", "unmarked": "false"}


def overwrite(file: Path, after: bytes, *, at: int) -> None:
    """Replace 4,000 bytes of a file, beginning ``at`` bytes after the start of a text."""
    file_bytes = bytearray(file.read_bytes())
    start = file_bytes.index(after) + at
    file_bytes[start : start + 4000] = b"\x07" * 4000
    file.write_bytes(file_bytes)


def remaining_numbers(lab: Lab, store: str) -> list[int]:
    """Return the numbers of the messages that remain in a store's queue."""
    with connect_client(lab) as client:
        client.follow(f"/queue/{store}.z")
        return [int(body.split()[1]) for body in client.bodies(8, timeout=5)]
