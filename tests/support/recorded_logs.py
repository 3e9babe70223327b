"""Logs of real brokers and of fleets with problems, in tests/data/logs, and their audit without Spark.

``healthy``: a shared-file pair and a single broker of a release, linked in both directions. The active node is killed,
its standby takes over, and the killed node becomes the standby. A planned stop makes it active, and all brokers stop.
``cases``: fleets with one problem each. ``samples``: logs of single brokers. Stack traces are cut.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from activemq_fleet.audit.evidence import HostLogMinute, Incident, LogRecordEvidence, PairNode
from activemq_fleet.audit.log_evidence import TEXT, evidence_in_log
from activemq_fleet.audit.logged_bridges import LoggedBridge
from activemq_fleet.audit.pair_findings import (
    FleetWideLogEvidence,
    incidents_of_pair,
    pair_findings_of_logs,
    sorted_logged_minutes_of_all_hosts,
)
from activemq_fleet.audit.unexplained_records import UnexplainedRecordGroup
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner

LOGS = Path(__file__).resolve().parents[1] / "data" / "logs"


@dataclass
class RecordedFindings:
    """The findings of an audit of the logs of a few hosts."""

    incidents: list[Incident] = field(default_factory=list)
    bridges: list[LoggedBridge] = field(default_factory=list)
    unexplained: list[UnexplainedRecordGroup] = field(default_factory=list)

    def only_incident(self, kind: str) -> Incident:
        """Return the only incident of a kind."""
        (incident,) = [incident for incident in self.incidents if incident.kind == kind]
        return incident

    @property
    def kinds(self) -> set[str]:
        """Return the kinds of all incidents."""
        return {incident.kind for incident in self.incidents}


def read_log(directory: Path) -> bytes:
    """Return the log of a host."""
    return gzip.decompress((directory / "activemq.log.gz").read_bytes())


def evidence_of_log_text(
    host: str, log: bytes, release: str | None = None
) -> Iterator[LogRecordEvidence | HostLogMinute]:
    """Yield the evidence in a log and the times at which it has records, as an audit reads them."""
    table = pa.Table.from_batches(
        list(LogScanner(LogReleaseAndTimeZone(release)).arrow_batches_of_log_records(log)), schema=SCHEMA
    )
    times = table["time"].drop_null().combine_chunks()
    yield from sorted_logged_minutes_of_all_hosts(pa.array([host] * len(times)), times)
    rows = table.to_pylist()
    yield from evidence_in_log(log_records(host, rows))


def log_records(host: str, rows: Iterable[dict[str, Any]]) -> Iterator[LogRecordEvidence]:
    """Yield the records of a host with a time, from rows of the scanner's schema, as an audit reads them."""
    for number, row in enumerate(rows):
        if row["time"] is not None:
            yield LogRecordEvidence(
                host,
                number,
                row["time"],
                row["kind"],
                dict(row["fields"] or ()),
                "\n".join([row["message"], row["stack"] or ""])[:TEXT],
                row["thread"] or "",
                level=row["level"] or "",
            )


def audit_logs(logs: dict[str, bytes], pairs: Iterable[tuple[str, ...]] = (), release: str = "") -> RecordedFindings:
    """Return the findings in the logs of hosts; hosts in one of ``pairs`` are the nodes of a pair."""
    pair_of = {host: "+".join(pair) for pair in pairs for host in pair}
    groups: dict[str, list[str]] = {}
    for host in logs:
        groups.setdefault(pair_of.get(host, host), []).append(host)
    by_group = {
        name: pair_findings_of_logs(
            [PairNode(host, pair=pair_of.get(host)) for host in hosts],
            [record for host in hosts for record in evidence_of_log_text(host, logs[host], release or None)],
        )
        for name, hosts in groups.items()
    }
    fleet = FleetWideLogEvidence(
        frozenset(name for findings in by_group.values() for name in findings.names_of_brokers_reporting_refusals),
        {
            name: text
            for findings in by_group.values()
            for name, text in findings.first_large_frame_refusal_by_broker.items()
        },
    )
    recorded = RecordedFindings()
    for findings in by_group.values():
        recorded.incidents += incidents_of_pair(findings, (), fleet=fleet)
        recorded.bridges += findings.bridges
        recorded.unexplained += findings.unexplained
    return recorded


def audit_directory(directory: Path) -> RecordedFindings:
    """Return the findings in the logs of the hosts below a directory; HOST-a and HOST-b are a pair."""
    logs = {home.name: read_log(home) for home in sorted(directory.iterdir())}
    nodes = [(name, f"{name[:-1]}b") for name in logs if name.endswith("-a") and f"{name[:-1]}b" in logs]
    return audit_logs(logs, nodes)
