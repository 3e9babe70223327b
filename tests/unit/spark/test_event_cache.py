"""What an audit of growing logs takes over from the one before, and what it reads anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from activemq_fleet.audit.aggregates import SortedSample
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.spark.event_cache import (
    EventCache,
    cached_events_fingerprint,
    file_fingerprints,
    has_replaced_files,
)
from activemq_fleet.spark.inputs import AuditedHost
from activemq_fleet.spark.task_results import WrittenPart

HOST = AuditedHost("a", "UTC", "5.18.3")
SUMMARY = LogFileSummary(
    "a", "activemq.log", 0, rows=1, last=7, problems={"N invalid bytes"}, times=[SortedSample(1, (7,))]
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for host in ("a", "ab"):
        (tmp_path / "logs" / host / "agent").mkdir(parents=True)
        (tmp_path / "logs" / host / "activemq.log").write_text("one line\n")
        (tmp_path / "logs" / host / "agent/shop.jsonl").write_text("{}\n")
    return tmp_path / "logs"


def cached(directory: Path, *files: str, hosts: dict[str, str]) -> EventCache:
    """A cache of Parquet files with events of the host a."""
    cache, written = EventCache(directory / "events"), directory / "written"
    written.mkdir(exist_ok=True)
    for file in files:
        (written / file).write_bytes(b"rows")
    cache.replace_content([SUMMARY], [WrittenPart("events", file, 1, "a") for file in files], written, hosts)
    return cache


def test_only_what_events_follow_from_changes_the_digest_of_a_host(logs: Path) -> None:
    before = file_fingerprints(logs)
    (logs / "ab/activemq.log").write_text("another host\n")
    (logs / "a/agent/shop.jsonl").write_text("{}\n{}\n")
    after = file_fingerprints(logs)
    assert cached_events_fingerprint(HOST, before) == cached_events_fingerprint(HOST, after)
    for other in (AuditedHost("a", "Europe/Berlin", "5.18.3"), AuditedHost("a", "UTC", "5.5.1")):
        assert cached_events_fingerprint(other, after) != cached_events_fingerprint(HOST, after)
    (logs / "a/activemq.log.1").write_text("rolled\n")
    assert cached_events_fingerprint(HOST, file_fingerprints(logs)) != cached_events_fingerprint(HOST, after)


def test_other_bytes_of_the_same_size_and_time_are_another_file(logs: Path) -> None:
    before, log = file_fingerprints(logs), logs / "a/activemq.log"
    time = log.stat().st_mtime_ns
    log.write_text("ONE LINE\n")
    os.utime(log, ns=(time, time))
    assert cached_events_fingerprint(HOST, file_fingerprints(logs)) != cached_events_fingerprint(HOST, before)


def test_a_file_that_grew_supersedes_nothing_and_one_that_was_rolled_or_cut_does(logs: Path) -> None:
    before, log = file_fingerprints(logs), logs / "a/activemq.log"
    log.write_text("one line\nand another\n")
    assert not has_replaced_files(before, file_fingerprints(logs))
    log.write_text("")
    assert has_replaced_files(before, file_fingerprints(logs))
    log.rename(logs / "a/activemq.log.1")
    assert has_replaced_files(before, file_fingerprints(logs))
    log.write_text("one line\n")
    assert has_replaced_files(before, file_fingerprints(logs))


def test_events_are_kept_for_as_long_as_the_digest_is_the_same(tmp_path: Path) -> None:
    hosts = {"a": "digest", "b": "without a log line"}
    cached(tmp_path, "gone.parquet", hosts=hosts)
    directory = cached(tmp_path, "one.parquet", hosts=hosts).directory
    assert sorted(path.name for path in directory.iterdir()) == ["ledger.json", "one.parquet"]
    again = EventCache(directory)
    assert again.unchanged_hosts(hosts)["a"][1:] == ([WrittenPart("events", "one.parquet", 1, "a")], [SUMMARY])
    assert again.unchanged_hosts(hosts)["b"][1:] == ([], [])
    assert again.unchanged_hosts({"a": "another", "c": "digest"}) == {}


@pytest.mark.parametrize("harm", ["", "{", "[]", '{"a": {}}', '{"a": {"digest": "digest", "files": [{}]}}'])
def test_a_ledger_that_cannot_be_read_is_none(tmp_path: Path, harm: str) -> None:
    cache = EventCache(tmp_path / "events")
    (cache.directory / "ledger.json").write_text(harm)
    assert EventCache(cache.directory).unchanged_hosts({"a": "digest"}) == {}


def test_a_host_whose_file_is_gone_is_read_anew(tmp_path: Path) -> None:
    cache = cached(tmp_path, "one.parquet", hosts={"a": "digest"})
    (cache.directory / "one.parquet").unlink()
    assert EventCache(cache.directory).unchanged_hosts({"a": "digest"}) == {}
