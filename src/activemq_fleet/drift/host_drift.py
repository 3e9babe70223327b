"""Compare the planned files of hosts with the collected ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from activemq_fleet.drift.differences import drift_status_and_cause, unified_diff_text
from activemq_fleet.drift.file_records import SHA256_OF_EMPTY_FILE, FileRecord

Side = Literal["both", "planned", "found"]
Row = dict[str, str | None]
_MAXIMUM_HOSTS = 1000


@dataclass(frozen=True, slots=True)
class HostDriftCounts:
    """The number of a host's files for each drift status (such as changed) and cause of the drift (such as by hand).

    All statuses are changed, added, removed and same.
    """

    host: str
    changed: int
    added: int
    removed: int
    same: int
    by_hand: int
    out_of_date: int
    unknown: int

    @property
    def differing_file_count(self) -> int:
        """The number of the host's files that differ from the plan: changed, added or removed files."""
        return self.changed + self.added + self.removed


@dataclass(frozen=True, slots=True)
class FleetDrift:
    """The drift of a fleet: the differences between the planned and the collected files of all hosts.

    ``hosts`` are those with differences, most files first; ``same_hosts`` is the number of the others.
    ``not_collected`` are hosts that are planned only, ``not_planned`` those that are collected only, the first 1,000 by
    name; ``not_collected_hosts`` and ``not_planned_hosts`` are their numbers.
    """

    hosts: tuple[HostDriftCounts, ...]
    same_hosts: int
    not_collected: tuple[str, ...]
    not_planned: tuple[str, ...]
    not_collected_hosts: int
    not_planned_hosts: int

    @property
    def has_differing_host(self) -> bool:
        """Whether the collected files of any host differ from the planned files.

        A host that was not collected, or is not planned, also differs.
        """
        return bool(self.hosts or self.not_collected_hosts or self.not_planned_hosts)

    def to_dict(self) -> dict[str, Any]:
        """Return the drift (differences between planned and collected files) of all hosts as a dictionary for JSON.

        It is the JSON object of drift.json and of ``--format json``: all fields, and ``verdict``.
        """
        return {"verdict": "differences" if self.has_differing_host else "same", **asdict(self)}


class ComparedHost(NamedTuple):
    """A host whose planned files were compared with its collected files.

    ``side`` is ``planned``, ``found`` or ``both``; ``drift`` is its result for ``both``.
    """

    host: str
    side: Side
    drift: HostDriftCounts | None = None


def planned_collected_or_both_word(records: Sequence[FileRecord]) -> Side | None:
    """Return whether a host has planned files, collected files or both: ``planned``, ``found`` or ``both``; else None.

    ``records`` are those of the host's files.
    """
    is_collected = any(record.collected for record in records)
    if any(record.planned is not None for record in records):
        return "both" if is_collected else "planned"
    return "found" if is_collected else None


def drift_rows_of_host(records: Sequence[FileRecord]) -> Iterator[Row]:
    """Yield the drift (differences from the plan) of one host as rows, one for each file.

    The rows are those of the dataset ``drift``, sorted by path. ``records`` are about the host's planned and collected
    files.
    """
    was_installed = any(record.manifest is not None for record in records)
    for path, file_records in groupby(sorted(records, key=attrgetter("path")), key=attrgetter("path")):
        merged_record = _merge_records(file_records)
        # A file that was deployed earlier, is no longer planned and does not exist is omitted.
        if path and (merged_record.planned or merged_record.found_sha256 or merged_record.noted_status == "unreadable"):
            yield _drift_row(merged_record, was_installed)


def count_host_drift(host: str, rows: Sequence[Row]) -> HostDriftCounts:
    """Return the number of a host's files for each drift status and for each cause of a difference from the plan.

    A status is, for example, changed. ``rows`` are the host's rows of the dataset ``drift``.
    """
    counts = Counter(row["status"] for row in rows) + Counter(row["cause"] for row in rows)
    return HostDriftCounts(host, **{field.name: counts[field.name] for field in fields(HostDriftCounts)[1:]})


def drift_result(hosts: Iterable[ComparedHost]) -> FleetDrift:
    """Return the drift (differences between planned and collected files) of all compared hosts.

    The hosts may come in any order.
    """
    sorted_hosts = sorted(hosts, key=attrgetter("host"))
    drifts = [compared.drift for compared in sorted_hosts if compared.drift is not None]
    planned, collected = (
        [compared.host for compared in sorted_hosts if compared.side == side] for side in ("planned", "found")
    )
    different = [host for host in drifts if host.differing_file_count]
    return FleetDrift(
        hosts=tuple(sorted(different, key=lambda host: -host.differing_file_count)),
        same_hosts=len(drifts) - len(different),
        not_collected=tuple(planned[:_MAXIMUM_HOSTS]),
        not_planned=tuple(collected[:_MAXIMUM_HOSTS]),
        not_collected_hosts=len(planned),
        not_planned_hosts=len(collected),
    )


def _merge_records(parts: Iterable[FileRecord]) -> FileRecord:
    """Return the merged record of one file; each of its facts is in one of the given records."""
    record = FileRecord._make(
        max((fact for fact in column if fact is not None), default=None) for column in zip(*parts, strict=True)
    )
    if record.found_sha256 is not None or record.noted_sha256 is None:
        return record
    # Spark reads no empty files, and none with a name such as activemq.xml._COPYING_.
    text = "" if record.noted_sha256 == SHA256_OF_EMPTY_FILE else None
    return record._replace(found_sha256=record.noted_sha256, found_text=text)


def _drift_row(record: FileRecord, was_installed: bool) -> Row:
    status, cause = drift_status_and_cause(record, installed=was_installed)
    return {
        "host": record.host,
        "path": record.path,
        "status": status,
        "cause": cause,
        "planned_sha256": record.planned,
        "found_sha256": record.found_sha256,
        "diff": None if status == "same" else _difference_text(record),
    }


def _difference_text(record: FileRecord) -> str | None:
    if record.why:
        return f"the content of the file is not shown: {record.why}\n"
    if record.noted_status == "unreadable":
        return (
            "the content of the file is not shown, because the playbook collect did not read the file on its host. The "
            f"list left_out in the collected file {record.host}/host.json contains the reason\n"
        )
    old, new = record.planned_text, record.found_text
    if (record.planned and old is None) or (record.found_sha256 and new is None):
        return None  # The file is planned without its content.
    return unified_diff_text(record.path, old, new)
