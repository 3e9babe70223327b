"""A host's record of planned work: appended by root, read by ``collect`` and understood by ``audit``."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from activemq_fleet.audit.operation_records import OPERATIONS_FILE, parse_planned_operations
from activemq_fleet.node.collect import bundle, host_collection
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.state import operation_record

ABOUT = {"operation": "restart", "run": "1f0c", "by": "ops@controller"}


def record(kind: str, directory: Path) -> str:
    return str(operation_record.append_operation_record({"kind": kind, **ABOUT}, str(directory / "activemq-fleet")))


def test_what_a_host_writes_down_is_what_audit_reads(tmp_path: Path) -> None:
    assert operation_record.FILE == OPERATIONS_FILE
    for kind in ("begin", "end", "begin"):
        record(kind, tmp_path)
    file = tmp_path / "activemq-fleet/operations.jsonl"
    operations, problems = parse_planned_operations("host", file.read_bytes())
    assert [one.operation for one in operations] == ["restart", "restart"]
    assert problems == ()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_line_that_a_full_disk_cut_short_does_not_spoil_the_next(tmp_path: Path) -> None:
    record("begin", tmp_path)
    file = tmp_path / "activemq-fleet/operations.jsonl"
    file.write_bytes(file.read_bytes() + b'{"v": 1, "ts": "20')
    record("end", tmp_path)
    operations, problems = parse_planned_operations("host", file.read_bytes())
    assert len(operations) == 1
    assert operations[0].ended - operations[0].began < parse_planned_operations.__globals__["UNENDED"]
    assert "1 of 3 lines" in problems[0]


def test_a_file_that_has_grown_too_large_keeps_its_newest_records(tmp_path: Path) -> None:
    line = record("begin", tmp_path)
    file = tmp_path / "activemq-fleet/operations.jsonl"
    file.write_text((line + "\n") * (operation_record.LARGEST // len(line)))
    newest = record("end", tmp_path)
    assert operation_record.LARGEST // 2 - len(line) <= file.stat().st_size <= operation_record.LARGEST // 2
    lines = file.read_text().splitlines()
    assert (lines[0], lines[-1]) == (line, newest)
    assert file.stat().st_mode & 0o777 == 0o600
    assert parse_planned_operations("host", file.read_bytes())[1] == ()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_records_that_are_written_at_once_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_record, "LARGEST", 30_000)
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda _number: record("begin", tmp_path), range(300)))
    lines = (tmp_path / "activemq-fleet/operations.jsonl").read_text().splitlines()
    assert 100 < len(lines) < 300
    assert set(lines) <= set(written)


@pytest.mark.parametrize("kind", ["link", "second name", "directory is a link"])
def test_no_link_is_followed(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    own = tmp_path / "activemq-fleet"
    if kind == "directory is a link":
        other.mkdir()
        own.symlink_to(other)
    else:
        own.mkdir()
        other.write_text("precious\n")
        os.link(other, own / operation_record.FILE) if kind == "second name" else (
            own / operation_record.FILE
        ).symlink_to(other)
    with pytest.raises((NodeError, OSError)):
        record("begin", tmp_path)
    assert not other.is_file() or other.read_text() == "precious\n"
    assert not other.is_dir() or list(other.iterdir()) == []


def test_collect_brings_it(tmp_path: Path) -> None:
    record("begin", tmp_path)
    archive = bundle.EvidenceArchive(str(tmp_path / "archive"), 1 << 20)
    host_collection._Work(archive, 7, "never")._logs("", "", str(tmp_path / "activemq-fleet"))
    archive.close()
    import tarfile

    with tarfile.open(tmp_path / "archive") as found:
        assert found.getnames() == [operation_record.FILE]
        member = found.extractfile(operation_record.FILE)
        assert member is not None
        assert json.loads(member.read())["by"] == "ops@controller"
