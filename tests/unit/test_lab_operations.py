"""What a lab writes down of its own work, in the form of the hosts' own records."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from activemq_fleet.audit.operation_records import PlannedOperation, parse_planned_operations
from activemq_fleet.lab.layout import LabLayout
from activemq_fleet.lab.operations import record_operation_begin_and_end

A, B, NEW = "orders-mq01-a", "orders-mq01-b", "orders-mq02-a"


@pytest.fixture
def layout(tmp_path: Path) -> LabLayout:
    """A lab in which something was installed for two of three hosts."""
    for host in (A, B):
        LabLayout(tmp_path).activemq_base_directory(host).mkdir(parents=True)
    return LabLayout(tmp_path)


def read(layout: LabLayout, host: str) -> tuple[PlannedOperation, ...]:
    operations, problems = parse_planned_operations(host, layout.operations_file_path(host).read_bytes())
    assert problems == ()
    return operations


def test_begin_and_end_are_on_every_host_of_the_work_also_when_it_fails(layout: LabLayout) -> None:
    said: list[str] = []
    with pytest.raises(RuntimeError), record_operation_begin_and_end(layout, (A, B, NEW), "lab stop", said.append):
        raise RuntimeError
    for host in (A, B):
        (one,) = read(layout, host)
        assert one.operation == "lab stop"
        assert one.ended - one.began < timedelta(seconds=30)
    assert not layout.activemq_base_directory(NEW).exists()
    assert said == []


def test_what_cannot_be_written_down_is_done_all_the_same_and_told(layout: LabLayout) -> None:
    layout.operations_file_path(A).mkdir()
    said: list[str] = []
    with record_operation_begin_and_end(layout, (A,), "lab stop", said.append):
        said.append("done")
    assert said[1] == "done"
    assert all(
        "`activemq-fleet audit` reports the downtime of an unrecorded operation as unplanned" in line
        for line in (said[0], said[2])
    )
