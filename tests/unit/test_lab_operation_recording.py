"""Records that a lab writes of its operations, in the format of the records of hosts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from activemq_fleet.audit.operation_records import PlannedOperation, parse_planned_operations
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.operation_recording import record_operation_begin_and_end

A, B, NEW = "orders-mq01-a", "orders-mq01-b", "orders-mq02-a"


@pytest.fixture
def lab_paths(tmp_path: Path) -> LabPaths:
    """Return the paths of a lab with installed files for two of three hosts."""
    for host in (A, B):
        LabPaths(tmp_path).activemq_base_directory(host).mkdir(parents=True)
    return LabPaths(tmp_path)


def read_operations(lab_paths: LabPaths, host: str) -> tuple[PlannedOperation, ...]:
    operations, problems = parse_planned_operations(host, lab_paths.operations_file_path(host).read_bytes())
    assert problems == ()
    return operations


def test_begin_and_end_of_failed_lab_operation_are_recorded_on_installed_hosts(lab_paths: LabPaths) -> None:
    messages: list[str] = []
    with (
        pytest.raises(RuntimeError),
        record_operation_begin_and_end(lab_paths, (A, B, NEW), "lab stop", messages.append),
    ):
        raise RuntimeError
    for host in (A, B):
        (operation,) = read_operations(lab_paths, host)
        assert operation.operation == "lab stop"
        assert operation.ended - operation.began < timedelta(seconds=30)
    assert not lab_paths.activemq_base_directory(NEW).exists()
    assert messages == []


def test_lab_operation_runs_with_warnings_if_record_cannot_be_written(lab_paths: LabPaths) -> None:
    lab_paths.operations_file_path(A).mkdir()
    messages: list[str] = []
    with record_operation_begin_and_end(lab_paths, (A,), "lab stop", messages.append):
        messages.append("done")
    assert messages[1] == "done"
    assert all(
        "`activemq-fleet audit` reports the downtime of an unrecorded operation as unplanned" in line
        for line in (messages[0], messages[2])
    )
