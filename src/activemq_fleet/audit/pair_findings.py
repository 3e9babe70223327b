"""Determine the incidents of a pair: first from its nodes' logs, then with the observations of bridges and agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from activemq_fleet.audit import advice
from activemq_fleet.audit.broker_runs import KINDS as OF_RUNS
from activemq_fleet.audit.broker_runs import ObservedBrokerRun, mark_runs_with_missing_end, observed_broker_runs
from activemq_fleet.audit.down_link_incidents import down_link_incidents
from activemq_fleet.audit.evidence import (
    SKEW,
    ConnectionLoss,
    HostLogMinute,
    Incident,
    LogRecordEvidence,
    PairNode,
    SystemdJournalRecord,
    short_name,
)
from activemq_fleet.audit.host_incidents import host_incidents
from activemq_fleet.audit.journal_lines import AgentConnectionRecord
from activemq_fleet.audit.log_evidence import OF_LINKS, TEMP_DELETED, evidence_in_log
from activemq_fleet.audit.logged_bridges import LASTS, LoggedBridge, bridges_from_log_evidence
from activemq_fleet.audit.operation_records import PlannedOperation
from activemq_fleet.audit.pair_incidents import store_name_without_object_address, takeover_incidents_of_pair
from activemq_fleet.audit.process_ends import hang_incidents, hangs_from_watchdog_records, set_unlogged_process_ends
from activemq_fleet.audit.record_signs import FRAME, UNEXPLAINED
from activemq_fleet.audit.repeated_hours import periods_read_too_early
from activemq_fleet.audit.state_spans import HostStateSpan, host_state_spans
from activemq_fleet.audit.unexplained_records import UnexplainedRecordGroup, group_unexplained_records
from activemq_fleet.logs.host_log_batches import LINES
from activemq_fleet.naming import hosts_with_full_or_short_name

_RECORDS_WITH_BROKER_NAME = ("LIFE-STARTING", "LIFE-STARTED", "LIFE-STARTING-OLD", "LIFE-STARTED-OLD")
_STOPPED = "stopped"
"""The reason that an agent records when it closes a connection itself."""
_MINUTE = 60_000_000  # microseconds
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_SPOOL_LOST_WITHIN = timedelta(minutes=15)
"""The longest time between the start of a node and the first error of the other node's temporary store."""


@dataclass(frozen=True, slots=True)
class FleetWideLogEvidence:
    """The evidence in the logs of all hosts of a fleet that helps to explain the incidents of one host.

    ``names_of_brokers_reporting_refusals``: the brokers whose own logs report refusals.
    ``first_large_frame_refusal_by_broker``: refusals of large frames, by the name of the broker that refused.
    ``last_active_times_by_store_and_host``: until when brokers had stores open, by the store and its host.
    """

    names_of_brokers_reporting_refusals: frozenset[str] = frozenset()
    first_large_frame_refusal_by_broker: Mapping[str, str] = field(default_factory=dict)
    last_active_times_by_store_and_host: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)

    def is_explained_by_another_log(self, incident: Incident) -> bool:
        """Return whether the log of another host makes it unnecessary to report an incident.

        The other log reports the incident itself, or shows that it is none.
        """
        if incident.peer in self.names_of_brokers_reporting_refusals:
            return True
        if incident.kind != "outage" or incident.began is None:
            return False
        users = self.last_active_times_by_store_and_host.get(incident.store, {})
        return any(host != incident.host and until >= incident.began for host, until in users.items())

    def attribute_to_peer_frame_limit_if_refused(self, incident: Incident) -> Incident:
        """Return a bridge's incident with the peer's ``maxFrameSize`` as its new cause, if the peer refused a frame.

        The limit is the cause if the bridge breaks repeatedly and the peer's log reports that it refused a frame. The
        limit is then added to the cause, and the remedy is replaced. All other incidents are returned unchanged.
        """
        if incident.kind != "breaking_bridge" or incident.mark not in self.first_large_frame_refusal_by_broker:
            return incident
        cause = (
            f"{incident.cause} {incident.mark[:80]} refuses a message that is larger than wireFormat.maxFrameSize of "
            f"its connector: “{self.first_large_frame_refusal_by_broker[incident.mark]}”."
        )
        return replace(incident, cause=cause, remedy=advice.FRAMES.remedy, rules=advice.FRAMES.rules)


@dataclass(slots=True)
class PairFindings:
    """The findings from the logs of a broker pair: its runs, bridges and incidents.

    A host without a peer has findings, too. ``bridges`` and ``spans`` are those of all nodes; ``names`` are the names
    that each node's broker has had. ``unexplained`` are the warnings and errors that no incident explains,
    ``refused_frames`` the first refusal of a frame by each node.
    """

    nodes: Sequence[PairNode]
    runs: dict[str, list[ObservedBrokerRun]] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    bridges: list[LoggedBridge] = field(default_factory=list)
    spans: list[HostStateSpan] = field(default_factory=list)
    names: dict[str, set[str]] = field(default_factory=dict)
    unexplained: list[UnexplainedRecordGroup] = field(default_factory=list)
    refused_frames: dict[str, str] = field(default_factory=dict)

    @property
    def first_large_frame_refusal_by_broker(self) -> dict[str, str]:
        """The refusals of large frames (messages), by the name of the broker that refused them."""
        return {name: text for host, text in self.refused_frames.items() for name in self.names.get(host, ()) if name}

    @property
    def last_active_times_by_store_and_host(self) -> dict[str, dict[str, datetime]]:
        """The last time at which each host of the pair had each store open, as a dictionary by store and then by host.

        A broker has its store open while it is active, according to the log of its node.
        """
        served: dict[str, dict[str, datetime]] = {}
        for run in (run for host_runs in self.runs.values() for run in host_runs if run.was_active):
            if run.store and run.end_or_last_record_time:
                users = served.setdefault(store_name_without_object_address(run.store), {})
                users[run.host] = max(users.get(run.host, run.end_or_last_record_time), run.end_or_last_record_time)
        return served

    @property
    def names_of_brokers_reporting_refusals(self) -> set[str]:
        """The names of the brokers whose own logs report refusals, such as those of logins.

        Reports of bridges about the same refusals are left out.
        """
        return {name for incident in self.incidents for name in incident.names if name}

    @property
    def outgoing_bridge_losses_with_lost_broker(self) -> Iterator[tuple[str, ConnectionLoss]]:
        """The connection losses of a pair's outgoing bridges, each with the name of the broker that was lost."""
        for bridge in self.bridges:
            if bridge.seen_loss and bridge.direction == "out" and bridge.peer and bridge.ended:
                yield bridge.peer, ConnectionLoss("bridge", bridge.host, bridge.ended, back=bridge.back)


def log_record_evidence_from_rows(
    rows: Iterable[Mapping[str, Any]], file_order: Mapping[tuple[str, str], int]
) -> list[LogRecordEvidence]:
    """Return the log records that are evidence of incidents, from rows of the audit's dataset of log events.

    ``text`` of a row is message and stack trace. ``file_order``: the position of each log file among its host's, by
    host and file.
    """
    records = (
        LogRecordEvidence(
            host=row["host"],
            sequence=file_order[row["host"], row["file"]] * LINES + row["line"],
            at=row["time"].astimezone(UTC),
            kind=row["kind"],
            fields=dict(row["fields"] or ()),
            text=row["text"] or "",
            thread=row["thread"] or "",
            level=row["level"] or "",
        )
        for row in rows
    )
    return list(evidence_in_log(records))


def sorted_logged_minutes_of_all_hosts(hosts: pa.Array, times: pa.Array) -> list[HostLogMinute]:
    """Return a list of HostLogMinute: one for each broker host and minute in which the host wrote log records.

    The minutes of a host follow each other in order of time. ``hosts`` and ``times`` are parallel: each log record has
    an entry in both.
    """
    encoded = hosts.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    of_host = encoded.indices.to_numpy(zero_copy_only=False)
    micros = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
    order = np.lexsort((micros, of_host))
    of_host, micros = of_host[order], micros[order]
    minutes = micros // _MINUTE
    begins = np.flatnonzero(np.append(True, (np.diff(minutes) != 0) | (np.diff(of_host) != 0)))
    ends = np.append(begins[1:], len(micros)) - 1
    first, last = (pa.array(micros[at]).cast(_TIMESTAMP).to_pylist() for at in (begins, ends))
    return [HostLogMinute(names[host], *period) for host, *period in zip(of_host[begins], first, last, strict=True)]


def pair_findings_of_logs(
    nodes: Sequence[PairNode], evidence: Iterable[LogRecordEvidence | HostLogMinute | SystemdJournalRecord]
) -> PairFindings:
    """Return the findings about a broker pair from its nodes' logs: runs, bridges and incidents.

    ``evidence`` is that in the logs and in the systemd journals, in any order.
    """
    findings = PairFindings(sorted(nodes, key=lambda node: node.host))
    evidence_by_host: dict[str, list[LogRecordEvidence]] = {}
    periods: dict[tuple[str, int], HostLogMinute] = {}
    unit_records: dict[str, list[SystemdJournalRecord]] = {}
    for record_or_period in evidence:
        if isinstance(record_or_period, LogRecordEvidence):
            evidence_by_host.setdefault(record_or_period.host, []).append(record_or_period)
        elif isinstance(record_or_period, SystemdJournalRecord):
            unit_records.setdefault(record_or_period.host, []).append(record_or_period)
        else:
            key = record_or_period.host, int(record_or_period.first.timestamp()) // 60
            known = periods.get(key, record_or_period)
            periods[key] = HostLogMinute(
                record_or_period.host, min(record_or_period.first, known.first), max(record_or_period.last, known.last)
            )
    for host_evidence in evidence_by_host.values():
        host_evidence.sort(key=lambda record: record.sequence)
    logged_minutes = list(periods.values())
    misread = periods_read_too_early(findings.nodes, evidence_by_host, logged_minutes)
    for period in misread:
        evidence_by_host[period.host] = [period.correct_record(record) for record in evidence_by_host[period.host]]
        logged_minutes = [period.correct_minute(minute) for minute in logged_minutes]
    for node in findings.nodes:
        node_evidence = evidence_by_host.get(node.host, [])
        of_runs = [record for record in node_evidence if record.kind in OF_RUNS]
        runs = findings.runs[node.host] = observed_broker_runs(of_runs, logged_minutes)
        mark_runs_with_missing_end(runs, node.times_before_gaps)
        for run in runs:
            run.in_second_occurrence = any(period.was_moved(run.host, run.store_acquired_at) for period in misread)
        of_units = unit_records.get(node.host, [])
        hangs = hangs_from_watchdog_records(of_units)
        set_unlogged_process_ends(runs, of_units, hangs, logged_minutes)
        findings.incidents += host_incidents(node, node_evidence, runs)
        findings.incidents += hang_incidents(node, hangs, runs)
        last = max((minute.last for minute in logged_minutes if minute.host == node.host), default=None)
        of_bridges = (record for record in node_evidence if record.kind in OF_RUNS or record.kind in OF_LINKS)
        bridges = bridges_from_log_evidence(of_bridges, last)
        for bridge in bridges:
            bridge.ended_late |= bridge.ended is not None and last is not None and last - bridge.ended <= LASTS
        findings.bridges += bridges
        findings.incidents += down_link_incidents(node, bridges, findings.incidents)
        findings.unexplained += group_unexplained_records(
            node.host, [record for record in node_evidence if record.kind == UNEXPLAINED]
        )
        if frame := next((record.text for record in node_evidence if record.kind == FRAME), None):
            findings.refused_frames[node.host] = frame
        findings.spans += host_state_spans(observed_broker_runs(of_runs))
        names = {
            record.fields["broker"]
            for record in of_runs
            if record.kind in _RECORDS_WITH_BROKER_NAME and "broker" in record.fields
        }
        findings.names[node.host] = names
    starts = {
        host: [run.first for run in host_runs if run.first is not None] for host, host_runs in findings.runs.items()
    }
    for host, host_evidence in evidence_by_host.items():
        starts.setdefault(host, []).extend(record.at for record in host_evidence if record.kind == TEMP_DELETED)
    findings.incidents = [_with_start_of_peer(incident, starts) for incident in findings.incidents]
    return findings


def _with_start_of_peer(incident: Incident, starts: Mapping[str, Sequence[datetime]]) -> Incident:
    """Return an incident of lost spooled messages with the start of the other node that caused it, if any."""
    if incident.kind != "lost_spool" or incident.began is None:
        return incident
    earlier_starts = [
        (at, host)
        for host, times in starts.items()
        for at in times
        if host != incident.host and timedelta() <= incident.began - at <= _SPOOL_LOST_WITHIN
    ]
    if not earlier_starts:
        return incident
    at, host = max(earlier_starts)
    cause = (
        f" {short_name(host)} had been started at {at:%H:%M:%S} UTC. Releases before 5.13.1 delete the temporary "
        "store below dataDirectory at each start. Both nodes appear to use the same directory."
    )
    return replace(incident, cause=incident.cause + cause)


def incidents_of_pair(
    findings: PairFindings,
    witnesses: Iterable[ConnectionLoss | AgentConnectionRecord],
    skew: timedelta = SKEW,
    operations: Sequence[PlannedOperation] = (),
    fleet: FleetWideLogEvidence = FleetWideLogEvidence(),
) -> list[Incident]:
    """Return the incidents of a broker pair, from its logs and from connections that bridges and agents recorded.

    ``witnesses`` are the records about connections. ``fleet`` is what the logs of other hosts show.
    """
    losses, records = list[ConnectionLoss](), dict[tuple[str, str, int], AgentConnectionRecord]()
    for witness in witnesses:
        if isinstance(witness, ConnectionLoss):
            losses.append(witness)
        else:
            records.setdefault((witness.agent, witness.epoch, witness.jseq), witness)
    # An agent connects to the pair of its host. Without a pair, its connections provide no evidence.
    if any(node.pair for node in findings.nodes):
        losses = [*_losses_of_agents(records.values()), *losses]
    resolved = _resolve_hosts(losses, [node.host for node in findings.nodes])
    incidents = [
        *findings.incidents,
        *takeover_incidents_of_pair(findings.nodes, findings.runs, resolved, skew, operations),
    ]
    return sorted(
        (
            fleet.attribute_to_peer_frame_limit_if_refused(incident)
            for incident in incidents
            if not fleet.is_explained_by_another_log(incident)
        ),
        key=lambda incident: incident.incident_id,
    )


def pair_and_located_loss(
    lost_broker: str, loss: ConnectionLoss, hosts_by_name: Mapping[str, set[str]], pair_of: Mapping[str, str]
) -> tuple[str, ConnectionLoss] | None:
    """Return (pair name, loss) for a lost connection of a bridge or an agent; the pair is that of the lost broker.

    Returns None if no broker, or brokers of several pairs, have had the name ``lost_broker``. The returned loss is the
    given one, with the host of the lost broker added if it is known. ``pair_of``: the pair, else the host, by host.
    """
    hosts = hosts_by_name.get(lost_broker, set())
    pairs = {pair_of[host] for host in hosts}
    if len(pairs) != 1:
        return None
    return pairs.pop(), replace(loss, lost_host=next(iter(hosts)) if len(hosts) == 1 else None)


def _losses_of_agents(records: Iterable[AgentConnectionRecord]) -> Iterator[ConnectionLoss]:
    """Yield the connection losses of agents, each with the connection that the agent made next."""
    journals: dict[tuple[str, ...], list[AgentConnectionRecord]] = {}
    for record in records:
        if record.at is not None:
            journals.setdefault((record.host, record.agent, record.epoch), []).append(record)
    for (host, *_), journal_records in sorted(journals.items()):
        following: tuple[datetime, str] | None = None
        for record in sorted(journal_records, key=lambda record: record.jseq, reverse=True):
            assert record.at is not None  # noqa: S101 -- for the type alone
            if record.is_up:
                following = record.at, record.broker or ""
            elif record.reason != _STOPPED:
                reconnected, broker = following or (None, None)
                yield ConnectionLoss("agent", host, record.at, record.broker, reconnected, broker)


def _resolve_hosts(losses: Iterable[ConnectionLoss], hosts: Sequence[str]) -> list[ConnectionLoss]:
    """Return connection losses with the hosts of a pair in place of broker addresses; None for another host."""

    def host_of(address: str | None) -> str | None:
        if address is None or address in hosts:
            return address
        name = address.rpartition(":")[0].strip("[]") or address
        matching_hosts = hosts_with_full_or_short_name(name, hosts)
        return matching_hosts[0] if len(matching_hosts) == 1 else None

    return [replace(loss, lost_host=host_of(loss.lost_host), back_host=host_of(loss.back_host)) for loss in losses]
