"""Conclude what happened to a pair: first from its nodes' logs, then with what bridges and agents saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from activemq_fleet.audit.broker_runs import KINDS as OF_RUNS
from activemq_fleet.audit.broker_runs import ObservedRun, observed_runs
from activemq_fleet.audit.evidence import SKEW, ConnectionLoss, Incident, LogEvidence, LoggedPeriod, PairNode
from activemq_fleet.audit.host_incidents import host_incidents
from activemq_fleet.audit.journal_lines import ConnectionRecord
from activemq_fleet.audit.log_evidence import OF_LINKS, evidence_in
from activemq_fleet.audit.logged_bridges import Bridge, bridges_of
from activemq_fleet.audit.operation_records import Operation
from activemq_fleet.audit.pair_incidents import pair_incidents
from activemq_fleet.audit.state_spans import Span, spans_of
from activemq_fleet.logs.log_files import LINES

_NAMED = ("LIFE-STARTING", "LIFE-STARTED", "LIFE-STARTING-OLD", "LIFE-STARTED-OLD")
_STOPPED = "stopped"
"""Why an agent gives up a connection itself."""
_MINUTE = 60_000_000  # microseconds
_MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(slots=True)
class PairFindings:
    """The conclusions from the logs of a pair (or of a host without a peer): its brokers' runs, and incidents.

    ``bridges`` and ``spans`` are those of all nodes; ``names`` are the names that each node's broker has had.
    """

    nodes: Sequence[PairNode]
    runs: dict[str, list[ObservedRun]] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    bridges: list[Bridge] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    names: dict[str, set[str]] = field(default_factory=dict)

    @property
    def reporting_names(self) -> set[str]:
        """The names of brokers whose own logs report refusals; reports of bridges about the
        same refusals are left out.
        """
        return {name for incident in self.incidents for name in incident.names if name}

    @property
    def losses(self) -> Iterator[tuple[str, ConnectionLoss]]:
        """The lost connections that the bridges of the pair's nodes saw, each with the name of the lost broker."""
        for bridge in self.bridges:
            if bridge.seen_loss and bridge.direction == "out" and bridge.peer and bridge.ended:
                yield bridge.peer, ConnectionLoss("bridge", bridge.host, bridge.ended, back=bridge.back)


def evidence_of(rows: Iterable[Mapping[str, Any]], file_order: Mapping[tuple[str, str], int]) -> list[LogEvidence]:
    """Return the evidence of incidents in rows of the dataset ``events``; ``text`` is message and stack trace.

    ``file_order``: the position of each log file among its host's, by host and file.
    """
    records = (
        LogEvidence(
            host=row["host"],
            sequence=file_order[row["host"], row["file"]] * LINES + row["line"],
            at=row["time"].astimezone(UTC),
            kind=row["kind"],
            fields=dict(row["fields"] or ()),
            text=row["text"] or "",
            thread=row["thread"] or "",
        )
        for row in rows
    )
    return list(evidence_in(records))


def logged_periods(hosts: pa.Array, times: pa.Array) -> list[LoggedPeriod]:
    """Return the periods in which hosts logged, one for each host and minute; both arrays have
    an entry for each event.
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
    first, last = (pa.array(micros[at]).cast(_MOMENT).to_pylist() for at in (begins, ends))
    return [LoggedPeriod(names[host], *period) for host, *period in zip(of_host[begins], first, last, strict=True)]


def findings_of_logs(nodes: Sequence[PairNode], found: Iterable[LogEvidence | LoggedPeriod]) -> PairFindings:
    """Return the runs, bridges and incidents of a pair's nodes, from the evidence in their logs, in any order."""
    findings = PairFindings(sorted(nodes, key=lambda node: node.host))
    seen: dict[str, list[LogEvidence]] = {}
    periods: dict[tuple[str, int], LoggedPeriod] = {}
    for one in found:
        if isinstance(one, LogEvidence):
            seen.setdefault(one.host, []).append(one)
        else:
            key = one.host, int(one.first.timestamp()) // 60
            known = periods.get(key, one)
            periods[key] = LoggedPeriod(one.host, min(one.first, known.first), max(one.last, known.last))
    for node in findings.nodes:
        mine = sorted(seen.get(node.host, ()), key=lambda one: one.sequence)
        of_runs = [one for one in mine if one.kind in OF_RUNS]
        runs = findings.runs[node.host] = observed_runs(of_runs, list(periods.values()))
        findings.incidents += host_incidents(node, mine, runs)
        findings.bridges += bridges_of(one for one in mine if one.kind in OF_RUNS or one.kind in OF_LINKS)
        findings.spans += spans_of(observed_runs(of_runs))
        names = {one.fields["broker"] for one in of_runs if one.kind in _NAMED and "broker" in one.fields}
        findings.names[node.host] = names
    return findings


def incidents_of_pair(
    findings: PairFindings,
    witnesses: Iterable[ConnectionLoss | ConnectionRecord],
    skew: timedelta = SKEW,
    operations: Sequence[Operation] = (),
    reporting_names: Iterable[str] = (),
) -> list[Incident]:
    """Return the incidents of a pair, from its own logs and from what bridges and agents (``witnesses``) saw.

    ``reporting_names``: the brokers of the fleet whose own logs report refusals; those that a bridge was told by one
    of them are left out.
    """
    losses, records = list[ConnectionLoss](), dict[tuple[str, str, int], ConnectionRecord]()
    for one in witnesses:
        if isinstance(one, ConnectionLoss):
            losses.append(one)
        else:
            records.setdefault((one.agent, one.epoch, one.jseq), one)
    # An agent's connections tell of the pair that its host is in; of a host in none they tell nothing.
    if any(node.pair for node in findings.nodes):
        losses = [*_losses_of_agents(records.values()), *losses]
    resolved = _resolve(losses, [node.host for node in findings.nodes])
    found = [*findings.incidents, *pair_incidents(findings.nodes, findings.runs, resolved, skew, operations)]
    reporting = frozenset(reporting_names)
    return sorted((one for one in found if one.peer not in reporting), key=lambda incident: incident.id)


def lost_pair(
    name: str, loss: ConnectionLoss, hosts_by_name: Mapping[str, set[str]], pair_of: Mapping[str, str]
) -> tuple[str, ConnectionLoss] | None:
    """Return (pair's name, connection loss) of the broker called ``name``, with the broker's host filled in if known.

    None where brokers of several pairs, or none, have had that name. ``pair_of``: the pair, else the host, by host.
    """
    hosts = hosts_by_name.get(name, set())
    pairs = {pair_of[host] for host in hosts}
    if len(pairs) != 1:
        return None
    return pairs.pop(), replace(loss, lost_host=next(iter(hosts)) if len(hosts) == 1 else None)


def _losses_of_agents(records: Iterable[ConnectionRecord]) -> Iterator[ConnectionLoss]:
    """Yield agents' losses, each with the connection that the agent made next."""
    journals: dict[tuple[str, ...], list[ConnectionRecord]] = {}
    for one in records:
        if one.at is not None:
            journals.setdefault((one.host, one.agent, one.epoch), []).append(one)
    for (host, *_), mine in sorted(journals.items()):
        following: tuple[datetime, str] | None = None
        for one in sorted(mine, key=lambda one: one.jseq, reverse=True):
            assert one.at is not None  # noqa: S101 -- for the type alone
            if one.is_up:
                following = one.at, one.broker or ""
            elif one.reason != _STOPPED:
                back, broker = following or (None, None)
                yield ConnectionLoss("agent", host, one.at, one.broker, back, broker)


def _resolve(losses: Iterable[ConnectionLoss], hosts: Sequence[str]) -> list[ConnectionLoss]:
    """Addresses of brokers become hosts of the pair where their names say so, else None."""

    def host_of(address: str | None) -> str | None:
        if address is None or address in hosts:
            return address
        name = address.rpartition(":")[0].strip("[]") or address
        found = [host for host in hosts if name in (host, host.partition(".")[0])]
        return found[0] if len(found) == 1 else None

    return [replace(loss, lost_host=host_of(loss.lost_host), back_host=host_of(loss.back_host)) for loss in losses]
