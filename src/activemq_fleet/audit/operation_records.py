"""Read ``operations.jsonl``, in which playbooks note planned work on a host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from activemq_fleet.node.foreign_data import parse_untrusted_json
from activemq_fleet.node.host_paths import OPERATIONS_FILE
from activemq_fleet.node.printable import escape_unprintable

UNENDED = timedelta(minutes=15)
_MAXIMUM_RECORDS = 2000
"""Operations of a host that count, the newest: more than a year of weekly work."""
_MAXIMUM_NAME_LENGTH = 200  # characters of a name
_MAXIMUM_YEAR = 9000


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """A planned operation on a broker host, with its begin and end.

    An example is a restart by a playbook. ``operation`` is the playbook, ``by`` the user who ran it.
    """

    host: str
    operation: str
    by: str
    began: datetime
    ended: datetime


@dataclass(frozen=True, slots=True)
class _OperationRecord:
    kind: str
    run: str
    operation: str
    by: str
    at: datetime


def parse_planned_operations(host: str, content: bytes) -> tuple[tuple[PlannedOperation, ...], tuple[str, ...]]:
    """Parse the file ``operations.jsonl`` of a host, in which playbooks record planned operations such as restarts.

    Returns the operations, sorted by beginning, and a text for each entry that cannot be read.
    """
    lines = [line for line in content.split(b"\n") if line.strip()]
    records = [record for record in map(_parse_record, lines) if record is not None]
    malformed_count = len(lines) - len(records)
    problems = (
        (
            f"the audit ignores {malformed_count} of {len(lines)} lines of {OPERATIONS_FILE}, because their format is "
            "unknown. Therefore, the audit may report planned takeovers as unplanned. If a newer version of "
            "activemq-fleet wrote the file, run the audit with that version",
        )
        if malformed_count
        else ()
    )
    return tuple(_pair_records(host, records))[-_MAXIMUM_RECORDS:], problems


def _pair_records(host: str, records: list[_OperationRecord]) -> Iterable[PlannedOperation]:
    """Yield each planned operation with its begin and the end of its run.

    The last of several begins goes with the first end.

    A begin without an end is planned until the next run begins, and for ``UNENDED`` at most.
    """
    ends: dict[int, _OperationRecord] = {}
    begin_times: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        if record.kind == "begin":
            begin_times.setdefault(record.run, []).append(number)
        elif begin_times.get(record.run) and records[begin_times[record.run][-1]].at <= record.at:
            ends[begin_times[record.run].pop()] = record
    for number, record in enumerate(records):
        if record.kind == "begin":
            following = records[number + 1 : number + 2]
            next_begin = [other.at for other in following if other.at >= record.at and other.run != record.run]
            ended = ends[number].at if number in ends else min([record.at + UNENDED, *next_begin])
            yield PlannedOperation(host, record.operation, record.by, record.at, ended)


def _parse_record(line: bytes) -> _OperationRecord | None:
    """Return the record of a planned operation in a line; None if the line has none."""
    try:
        fields: Any = parse_untrusted_json(line)
        at = datetime.fromisoformat(fields["ts"])
        kind, run, operation, by = (str(fields[name]) for name in ("kind", "run", "operation", "by"))
        record = _OperationRecord(
            kind,
            run,
            escape_unprintable(operation)[:_MAXIMUM_NAME_LENGTH],
            escape_unprintable(by)[:_MAXIMUM_NAME_LENGTH],
            at.astimezone(UTC),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return record if at.tzinfo and at.year < _MAXIMUM_YEAR and record.kind in ("begin", "end") else None
