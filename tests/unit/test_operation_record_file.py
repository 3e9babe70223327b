"""The record of planned work on a host: root appends to it, ``collect`` copies it, and ``audit`` parses it."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from activemq_fleet.audit.operation_records import parse_planned_operations
from activemq_fleet.node.collect import evidence_archive, host_collection
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.host_paths import OPERATIONS_FILE
from activemq_fleet.node.state import operation_record_file

OPERATION = {"operation": "restart", "run": "1f0c", "by": "ops@controller"}


def append_record(kind: str, directory: Path) -> str:
    return str(
        operation_record_file.append_operation_record({"kind": kind, **OPERATION}, str(directory / "activemq-fleet"))
    )


def test_audit_parses_operation_records_that_host_appended(tmp_path: Path) -> None:
    for kind in ("begin", "end", "begin"):
        append_record(kind, tmp_path)
    file = tmp_path / "activemq-fleet/operations.jsonl"
    operations, problems = parse_planned_operations("host", file.read_bytes())
    assert [operation.operation for operation in operations] == ["restart", "restart"]
    assert problems == ()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_truncated_line_does_not_damage_next_operation_record(tmp_path: Path) -> None:
    append_record("begin", tmp_path)
    file = tmp_path / "activemq-fleet/operations.jsonl"
    file.write_bytes(file.read_bytes() + b'{"v": 1, "ts": "20')
    append_record("end", tmp_path)
    operations, problems = parse_planned_operations("host", file.read_bytes())
    assert len(operations) == 1
    assert operations[0].ended - operations[0].began < parse_planned_operations.__globals__["UNENDED"]
    assert "1 of 3 lines" in problems[0]


def test_oversized_file_of_operation_records_keeps_its_newest_records(tmp_path: Path) -> None:
    line = append_record("begin", tmp_path)
    file = tmp_path / "activemq-fleet/operations.jsonl"
    file.write_text((line + "\n") * (operation_record_file.LARGEST // len(line)))
    newest = append_record("end", tmp_path)
    assert operation_record_file.LARGEST // 2 - len(line) <= file.stat().st_size <= operation_record_file.LARGEST // 2
    lines = file.read_text().splitlines()
    assert (lines[0], lines[-1]) == (line, newest)
    assert file.stat().st_mode & 0o777 == 0o600
    assert parse_planned_operations("host", file.read_bytes())[1] == ()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_concurrent_operation_records_are_written_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_record_file, "LARGEST", 30_000)
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda _number: append_record("begin", tmp_path), range(300)))
    lines = (tmp_path / "activemq-fleet/operations.jsonl").read_text().splitlines()
    assert 100 < len(lines) < 300
    assert set(lines) <= set(written)


@pytest.mark.parametrize("kind", ["link", "second name", "directory is a link"])
def test_operation_record_through_link_is_rejected(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "other"
    records_directory = tmp_path / "activemq-fleet"
    if kind == "directory is a link":
        target.mkdir()
        records_directory.symlink_to(target)
    else:
        records_directory.mkdir()
        target.write_text("precious\n")
        os.link(target, records_directory / OPERATIONS_FILE) if kind == "second name" else (
            records_directory / OPERATIONS_FILE
        ).symlink_to(target)
    with pytest.raises((NodeError, OSError)):
        append_record("begin", tmp_path)
    assert not target.is_file() or target.read_text() == "precious\n"
    assert not target.is_dir() or list(target.iterdir()) == []


def test_collect_archives_operation_records(tmp_path: Path) -> None:
    append_record("begin", tmp_path)
    evidence = evidence_archive.EvidenceArchive(str(tmp_path / "archive"), 1 << 20)
    host_collection._HostCollection(evidence, 7, "never")._add_logs("", "", str(tmp_path / "activemq-fleet"))
    evidence.close()
    import tarfile

    with tarfile.open(tmp_path / "archive") as archive:
        assert archive.getnames() == [OPERATIONS_FILE]
        member = archive.extractfile(OPERATIONS_FILE)
        assert member is not None
        assert json.loads(member.read())["by"] == "ops@controller"
