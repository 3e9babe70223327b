"""The cache of events between two audits of growing logs: the hosts that are reused and those that are read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_fleet.audit.aggregates import SortedSample
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.spark.event_cache import (
    CollectedFiles,
    EventCache,
    cached_events_fingerprint,
    file_fingerprints,
)
from activemq_fleet.spark.inputs import AuditedHost
from activemq_fleet.spark.task_results import WrittenPart

HOST = AuditedHost("a", "UTC", "5.18.3")
SUMMARY = LogFileSummary(
    "a", "activemq.log", 0, rows=1, last=7, problems={"N invalid bytes"}, times=[SortedSample(1, (7,))]
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a directory with the logs of two hosts."""
    for host in ("a", "ab"):
        (tmp_path / "logs" / host / "agent").mkdir(parents=True)
        (tmp_path / "logs" / host / "activemq.log").write_text("one line\n")
        (tmp_path / "logs" / host / "agent/shop.jsonl").write_text("{}\n")
    return tmp_path / "logs"


def write_cache(directory: Path, *files: str, hosts: dict[str, str]) -> EventCache:
    """Write a cache of Parquet files with events of the host a."""
    cache, written_directory = EventCache(directory / "events"), directory / "written"
    written_directory.mkdir(exist_ok=True)
    for file in files:
        (written_directory / file).write_bytes(b"rows")
    cache.replace_cache_with_links_to_written_files(
        [SUMMARY], [WrittenPart("events", file, 1, "a") for file in files], written_directory, hosts
    )
    return cache


def test_fingerprint_of_cached_host_changes_only_with_inputs_of_its_events(logs: Path) -> None:
    files_before = file_fingerprints(logs)
    (logs / "ab/activemq.log").write_text("another host\n")
    (logs / "a/agent/shop.jsonl").write_text("{}\n{}\n")
    files_after = file_fingerprints(logs)
    assert cached_events_fingerprint(HOST, files_before) == cached_events_fingerprint(HOST, files_after)
    for changed_host in (AuditedHost("a", "Europe/Berlin", "5.18.3"), AuditedHost("a", "UTC", "5.5.1")):
        assert cached_events_fingerprint(changed_host, files_after) != cached_events_fingerprint(HOST, files_after)
    for rolled in ("activemq.log.1", "activemq-2026-11-30-1.log", "2026-11/activemq-2026-11-29-1.log.gz"):
        files_before_roll = file_fingerprints(logs)
        (logs / "a" / rolled).parent.mkdir(exist_ok=True)
        (logs / "a" / rolled).write_text("rolled\n")
        changed = cached_events_fingerprint(HOST, file_fingerprints(logs))
        assert changed != cached_events_fingerprint(HOST, files_before_roll)


def test_different_log_bytes_of_same_size_and_time_change_fingerprint(logs: Path) -> None:
    files_before, log = file_fingerprints(logs), logs / "a/activemq.log"
    time = log.stat().st_mtime_ns
    log.write_text("ONE LINE\n")
    os.utime(log, ns=(time, time))
    assert cached_events_fingerprint(HOST, file_fingerprints(logs)) != cached_events_fingerprint(HOST, files_before)


def replaced_file_after(logs: Path, change: Callable[[Path], object]) -> str | None:
    """Return the file that was replaced since the beginning of an audit, after a change of the log of the host a."""
    files = CollectedFiles(logs, file_fingerprints(logs))
    change(logs / "a/activemq.log")
    return files.replaced_file()


def replace_by_rename(log: Path, text: str) -> None:
    """Replace a log as ``rsync`` does: with a temporary file that gets the name of the log."""
    temporary = log.with_name(".activemq.log.Ab12Cd")
    temporary.write_text(text)
    temporary.rename(log)


def roll(log: Path, text: str) -> None:
    """Roll a log, and write the first records of the new one."""
    log.rename(log.with_name("activemq.log.1"))
    log.write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.write_text(""),
        lambda log: log.unlink(),
        lambda log: log.rename(log.with_name("activemq.log.1")),
        lambda log: roll(log, ""),
        lambda log: roll(log, "a new, longer first line\n"),
        lambda log: replace_by_rename(log, "a new, longer first line\n"),
    ],
    ids=["truncated", "removed", "renamed", "rolled", "rolled and grown", "replaced after roll"],
)
def test_rolled_or_truncated_log_counts_as_replaced(logs: Path, change: Callable[[Path], object]) -> None:
    assert replaced_file_after(logs, change) == "a/activemq.log"


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.write_text("one line\nand another\n"),
        lambda log: replace_by_rename(log, "one line\nand another\n"),
        lambda log: replace_by_rename(log, "one line\n"),
        lambda log: log.with_name("activemq.log.1").write_text("late\n"),
    ],
    ids=["grown", "replaced by longer version", "replaced by copy", "new file"],
)
def test_longer_version_of_log_does_not_count_as_replaced(logs: Path, change: Callable[[Path], object]) -> None:
    assert replaced_file_after(logs, change) is None


def test_empty_log_that_becomes_another_file_counts_as_replaced(logs: Path) -> None:
    (logs / "a/activemq.log").write_text("")
    assert replaced_file_after(logs, lambda log: replace_by_rename(log, "one line\n")) == "a/activemq.log"


@pytest.mark.parametrize("name", [".activemq.log.Ab12Cd", "_SUCCESS"])
def test_files_that_spark_does_not_read_have_no_fingerprint(logs: Path, name: str) -> None:
    files_before = file_fingerprints(logs)
    (logs / "a" / name).write_text("half a copy")
    assert file_fingerprints(logs) == files_before


def test_cached_events_of_host_are_reused_while_its_digest_is_unchanged(tmp_path: Path) -> None:
    hosts = {"a": "digest", "b": "without a log line"}
    write_cache(tmp_path, "gone.parquet", hosts=hosts)
    directory = write_cache(tmp_path, "one.parquet", hosts=hosts).directory
    assert sorted(path.name for path in directory.iterdir()) == ["ledger.json", "one.parquet"]
    reopened_cache = EventCache(directory)
    assert reopened_cache.unchanged_hosts(hosts)["a"][1:] == ([WrittenPart("events", "one.parquet", 1, "a")], [SUMMARY])
    assert reopened_cache.unchanged_hosts(hosts)["b"][1:] == ([], [])
    assert reopened_cache.unchanged_hosts({"a": "another", "c": "digest"}) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": {}}', '{"a": {"digest": "digest", "files": [{}]}}'])
def test_unreadable_ledger_of_event_cache_counts_as_empty(tmp_path: Path, content: str) -> None:
    cache = EventCache(tmp_path / "events")
    (cache.directory / "ledger.json").write_text(content)
    assert EventCache(cache.directory).unchanged_hosts({"a": "digest"}) == {}


def test_host_with_missing_file_in_event_cache_is_read_again(tmp_path: Path) -> None:
    cache = write_cache(tmp_path, "one.parquet", hosts={"a": "digest"})
    (cache.directory / "one.parquet").unlink()
    assert EventCache(cache.directory).unchanged_hosts({"a": "digest"}) == {}
