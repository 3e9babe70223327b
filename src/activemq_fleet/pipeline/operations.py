"""Planned work on a host, as its playbooks have written it down in ``operations.jsonl``. Pure.

Each line is the begin or the end of what a playbook did to one host, by that host's own clock. What was begun and has
no end, because its controller died, counts as planned for ``UNENDED`` and no longer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

OPERATIONS_FILE = "operations.jsonl"
UNENDED = timedelta(minutes=15)
_KEPT = 2000
"""Operations of a host that count, the newest: more than a year of weekly work."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What ``by`` did to ``host`` with the playbook ``operation``, from ``began`` to ``ended``."""

    host: str
    operation: str
    by: str
    began: datetime
    ended: datetime


@dataclass(frozen=True, slots=True)
class _Record:
    kind: str
    run: str
    operation: str
    by: str
    at: datetime


def operations_of(host: str, content: bytes) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    """The operations of a host in the order in which they began, and a line for what could not be read."""
    lines = [line for line in content.splitlines() if line.strip()]
    records = [record for record in map(_record, lines) if record is not None]
    wrong = len(lines) - len(records)
    problems = (f"{OPERATIONS_FILE}: {wrong} of {len(lines)} lines are no records of operations",) if wrong else ()
    return tuple(_pairs(host, records))[-_KEPT:], problems


def _pairs(host: str, records: list[_Record]) -> Iterable[Operation]:
    """Each begin with its end: the next record, if that is the end of the same run, else nobody knows it."""
    for number, record in enumerate(records):
        if record.kind != "begin":
            continue
        following = records[number + 1] if number + 1 < len(records) else None
        ended = record.at + UNENDED
        if following is not None and following.at >= record.at:
            is_end = following.kind == "end" and following.run == record.run
            ended = following.at if is_end else min(ended, following.at)
        yield Operation(host, record.operation, record.by, record.at, ended)


def _record(line: bytes) -> _Record | None:
    try:
        found: Any = json.loads(line)
        at = datetime.fromisoformat(found["ts"])
        kind, run, operation, by = (str(found[name]) for name in ("kind", "run", "operation", "by"))
        record = _Record(kind, run, operation, by, at.astimezone(UTC))
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return record if at.tzinfo is not None and record.kind in ("begin", "end") else None
