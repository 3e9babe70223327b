"""Count the warnings and errors that are neither harmless nor part of an incident."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from activemq_fleet.audit.evidence import LogRecordEvidence

WARNINGS = 5
"""Number of warnings with the same wording on a host from which they are reported; a single error is reported."""


@dataclass(frozen=True, slots=True)
class UnexplainedRecordGroup:
    """A group of a host's log records of one wording that no incident explains.

    They are warnings or errors. The group has their number, the times of the first and the last of them, and the
    message of the first one in the host's log as an example.
    """

    host: str
    level: str
    message: str
    count: int
    first: datetime
    last: datetime


def group_unexplained_records(host: str, log_records: Iterable[LogRecordEvidence]) -> Iterator[UnexplainedRecordGroup]:
    """Yield groups of a host's log records that no incident explains: the records of a group have the same wording.

    ``log_records`` are these warnings and errors. Warnings are included only if they repeat.
    """
    by_wording: dict[tuple[str, str], list[LogRecordEvidence]] = {}
    for record in log_records:
        by_wording.setdefault((record.fields["what"], record.fields["who"]), []).append(record)
    for (level, _), records in by_wording.items():
        count = sum(record.count for record in records)
        if level != "WARN" or count >= WARNINGS:
            first = min(records, key=lambda record: record.at)
            yield UnexplainedRecordGroup(
                host, level, first.text, count, first.at, max(record.last_record_time for record in records)
            )
