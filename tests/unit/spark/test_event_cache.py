"""What an audit of growing logs takes over from the one before, and what it reads anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.spark.event_cache import EventCache, file_fingerprints, has_replaced_files, host_fingerprint
from activemq_fleet.spark.inputs import Host

HOST = Host("a", "UTC", "5.18.3")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for host in ("a", "ab"):
        (tmp_path / "logs" / host / "agent").mkdir(parents=True)
        (tmp_path / "logs" / host / "activemq.log").write_text("one line\n")
        (tmp_path / "logs" / host / "agent/shop.jsonl").write_text("{}\n")
    return tmp_path / "logs"


def summary(part: str, host: str = "a") -> dict[str, Any]:
    return {"part": part, "host": host, "file": "activemq.log", "turn": 0, "rows": 1, "unknown": 0, "unread": 0,
            "problems": []}  # fmt: skip


def test_only_what_events_follow_from_changes_the_digest_of_a_host(logs: Path) -> None:
    before = file_fingerprints(logs, {})
    (logs / "ab/activemq.log").write_text("another host\n")
    (logs / "a/agent/shop.jsonl").write_text("{}\n{}\n")
    after = file_fingerprints(logs, before)
    assert host_fingerprint(HOST, before) == host_fingerprint(HOST, after)
    for other in (Host("a", "Europe/Berlin", "5.18.3"), Host("a", "UTC", "5.5.1")):
        assert host_fingerprint(other, after) != host_fingerprint(HOST, after)
    (logs / "a/activemq.log.1").write_text("rolled\n")
    assert host_fingerprint(HOST, file_fingerprints(logs, after)) != host_fingerprint(HOST, after)


def test_other_bytes_of_the_same_size_and_time_are_another_file(logs: Path) -> None:
    before, log = file_fingerprints(logs, {}), logs / "a/activemq.log"
    time = log.stat().st_mtime_ns
    log.write_text("ONE LINE\n")
    os.utime(log, ns=(time, time))
    assert host_fingerprint(HOST, file_fingerprints(logs, {})) != host_fingerprint(HOST, before)


def test_a_file_that_grew_supersedes_nothing_and_one_that_was_rolled_or_cut_does(logs: Path) -> None:
    before, log = file_fingerprints(logs, {}), logs / "a/activemq.log"
    log.write_text("one line\nand another\n")
    assert not has_replaced_files(before, file_fingerprints(logs, before))
    log.write_text("")
    assert has_replaced_files(before, file_fingerprints(logs, before))
    log.rename(logs / "a/activemq.log.1")
    assert has_replaced_files(before, file_fingerprints(logs, before))
    log.write_text("one line\n")
    assert has_replaced_files(before, file_fingerprints(logs, before))


def test_events_are_kept_for_as_long_as_the_digest_is_the_same(tmp_path: Path) -> None:
    cache = EventCache(tmp_path / "events")
    for name in ("one.parquet", "gone.parquet"):
        (cache.directory / name).write_bytes(b"rows")
    cache.replace([summary("one.parquet")], {"a": "digest", "b": "without a log line"})
    assert sorted(path.name for path in cache.directory.iterdir()) == ["ledger.json", "one.parquet"]
    again = EventCache(tmp_path / "events")
    assert again.parts_of("a", "digest") == [summary("one.parquet")]
    assert again.parts_of("b", "without a log line") == []
    assert again.parts_of("a", "another") is None
    assert again.parts_of("c", "digest") is None


@pytest.mark.parametrize("harm", ["", "{", "[]", '{"a": {}}', '{"a": {"digest": "digest", "files": [{}]}}'])
def test_a_ledger_that_cannot_be_read_is_none(tmp_path: Path, harm: str) -> None:
    cache = EventCache(tmp_path / "events")
    (cache.directory / "ledger.json").write_text(harm)
    assert EventCache(cache.directory).parts_of("a", "digest") is None


def test_a_host_whose_file_is_gone_is_read_anew(tmp_path: Path) -> None:
    cache = EventCache(tmp_path / "events")
    (cache.directory / "one.parquet").write_bytes(b"rows")
    cache.replace([summary("one.parquet")], {"a": "digest"})
    (cache.directory / "one.parquet").unlink()
    assert EventCache(cache.directory).parts_of("a", "digest") is None
