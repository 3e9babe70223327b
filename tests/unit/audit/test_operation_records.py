"""``operations.jsonl``: operations recorded by hosts, also in incomplete and invalid files."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from activemq_fleet.audit.operation_records import UNENDED, PlannedOperation, parse_planned_operations

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOST = "orders-mq01-a.example.com"


def record(kind: str, minutes: float, run: str = "1", operation: str = "restart") -> dict[str, object]:
    at = (NOON + timedelta(minutes=minutes)).isoformat()
    return {"v": 1, "ts": at, "kind": kind, "run": run, "operation": operation, "by": "ops@controller"}


def read(*records: object) -> tuple[tuple[PlannedOperation, ...], tuple[str, ...]]:
    return parse_planned_operations(HOST, "".join(json.dumps(record) + "\n" for record in records).encode())


def spans(operations: tuple[PlannedOperation, ...]) -> list[tuple[float, float]]:
    return [
        ((operation.began - NOON).total_seconds() / 60, (operation.ended - NOON).total_seconds() / 60)
        for operation in operations
    ]


def test_planned_operation_lasts_from_begin_record_to_end_record() -> None:
    operations, problems = read(record("begin", 0), record("end", 2), record("begin", 30, "2"), record("end", 31, "2"))
    assert spans(operations) == [(0, 2), (30, 31)]
    assert (operations[0].host, operations[0].operation, operations[0].by) == (HOST, "restart", "ops@controller")
    assert problems == ()


def test_planned_operation_without_end_record_lasts_until_limit_or_next_one() -> None:
    operations, _ = read(record("begin", 0, "1"), record("begin", 3, "2"), record("begin", 60, "3"))
    assert spans(operations) == [(0, 3), (3, 3 + UNENDED.total_seconds() / 60), (60, 60 + UNENDED.total_seconds() / 60)]


def test_planned_operation_whose_clock_was_set_back_has_default_duration() -> None:
    operations, _ = read(record("begin", 0), record("end", -180))
    assert spans(operations) == [(0, UNENDED.total_seconds() / 60)]


def test_invalid_lines_of_operations_jsonl_are_counted_and_ignored() -> None:
    invalid: list[object] = [1, None, [], {"kind": "begin"}, record("middle", 0), {**record("begin", 0), "ts": "noon"}]
    operations, problems = read(*invalid, {**record("begin", 0), "ts": "2026-03-01T12:00:00"}, record("begin", 5))
    assert spans(operations) == [(5, 5 + UNENDED.total_seconds() / 60)]
    assert problems == (
        "the audit ignores 7 of 8 lines of operations.jsonl, because their format is unknown. Therefore, the "
        "audit may report planned takeovers as unplanned. If a newer version of activemq-fleet wrote the file, run the "
        "audit with that version",
    )
    assert parse_planned_operations(HOST, b"\xff\n{")[0] == ()
