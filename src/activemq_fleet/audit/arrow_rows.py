"""Pass evidence from logs and the incidents found in it as Arrow tables; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from activemq_fleet.audit import log_evidence as of_signs
from activemq_fleet.audit.bridges import Bridge, bridges_of
from activemq_fleet.audit.broker_runs import KINDS as OF_RUNS
from activemq_fleet.audit.broker_runs import observed_runs
from activemq_fleet.audit.evidence import SKEW, ConnectionLoss, Incident, LogEvidence, LoggedPeriod, PairNode
from activemq_fleet.audit.host_incidents import host_incidents
from activemq_fleet.audit.operation_records import Operation
from activemq_fleet.audit.pair_incidents import pair_incidents
from activemq_fleet.audit.state_spans import spans_of
from activemq_fleet.logs.log_files import LINES

NODE, BUSY, AGENT_UP, AGENT_LOST, BRIDGE_LOST = "X-NODE", "X-BUSY", "X-AGENT-UP", "X-AGENT-LOST", "X-BRIDGE-LOST"
OPERATION = "X-OPERATION"
"""Kinds of evidence that are no records of a log."""
_NO_RECORDS = frozenset({NODE, BUSY, AGENT_UP, AGENT_LOST, BRIDGE_LOST, OPERATION})
_NO_LOSS = frozenset({"stopped"})
"""Why an agent gives up a connection itself."""

_TIME = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.string(), pa.string())
_SIGNS = pa.schema(
    [
        ("host", pa.string()),
        ("sequence", pa.int64()),
        ("time", _TIME),
        ("last", _TIME),
        ("count", pa.int64()),
        ("kind", pa.string()),
        ("fields", _MAP),
        ("text", pa.string()),
        ("thread", pa.string()),
    ]
)
_INCIDENTS = pa.schema(
    [(name, pa.string()) for name in ("incident", "kind", "group", "pair", "host")]
    + [("began", _TIME), ("ended", _TIME), ("seconds", pa.float64())]
    + [(name, pa.string()) for name in ("began_from", "certainty", "cause", "remedy")]
    + [("rules", pa.list_(pa.string())), ("final", pa.bool_())]
    + [("planned", pa.bool_()), ("peer", pa.string()), ("names", pa.list_(pa.string()))]
)
_BRIDGES = pa.schema(
    [(name, pa.string()) for name in ("host", "link", "peer", "direction")]
    + [("began", _TIME), ("ended", _TIME), ("state", pa.string()), ("flaps", pa.int32()), ("cause", pa.string())]
    + [("rebuilt", pa.bool_()), ("final", pa.bool_()), ("seen_loss", pa.bool_()), ("back", _TIME)]
)
_OF_HOST = _BRIDGES.append(pa.field("is", pa.string()))
_NAMED = ("LIFE-STARTING", "LIFE-STARTED", "LIFE-STARTING-OLD", "LIFE-STARTED-OLD")


def log_evidence(
    batches: Iterator[pa.RecordBatch], file_indexes: Mapping[tuple[str, str], int]
) -> Iterator[pa.RecordBatch]:
    """Yield the evidence among log events: records of the kinds that matter, numerous ones counted by the minute.

    ``file_indexes``: the number of each log file among its host's, from 0, the oldest, by host and name.
    """
    for batch in batches:
        rows = batch.to_pylist()
        for row in rows:
            row["sequence"] = file_indexes[row["host"], row["file"]] * LINES + row["line"]
        found = [_of_sign(one) for one in of_signs.evidence_in(map(_seen, rows))]
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=_SIGNS)


def of_host(table: pa.Table) -> pa.Table:
    """Return the bridges, states and broker names that follow from one host's evidence; the column ``is`` tells these
    apart.
    """
    seen = sorted(map(_seen, table.to_pylist()), key=lambda one: one.sequence)
    of_runs = [one for one in seen if one.kind in OF_RUNS]
    found = [
        {**_of_bridge(bridge), "is": "bridge"}
        for bridge in bridges_of(one for one in seen if one.kind in OF_RUNS or one.kind in of_signs.OF_LINKS)
    ]
    found += [{**asdict(span), "is": "state"} for span in spans_of(observed_runs(of_runs))]
    names = {one.fields["broker"] for one in of_runs if one.kind in _NAMED and "broker" in one.fields}
    found += [{"host": seen[0].host, "peer": name, "is": "name"} for name in sorted(names)]
    return pa.Table.from_pylist(found, schema=_OF_HOST)


def incidents(evidence: Sequence[Mapping[str, Any]], skew: timedelta = SKEW) -> pa.Table:
    """Return the incidents of one pair, or of a host without a peer, from all evidence about the pair."""
    found = [_of_incident(incident) for incident in incidents_of(evidence, skew)]
    return pa.Table.from_pylist(found, schema=_INCIDENTS)


def node_row(host: str, group: str | None, pair: str | None, store: str | None, *, is_complete: bool) -> dict[str, Any]:
    """Return the evidence that a pair has a node; ``is_complete``: the node's log is there."""
    fields = {"group": group, "pair": pair, "store": store, "complete": str(is_complete).lower()}
    return {"kind": NODE, "host": host, "fields": [(name, value) for name, value in fields.items() if value]}


def operation_row(operation: Operation) -> dict[str, Any]:
    """Return planned work on a host as a row of evidence."""
    fields = {"operation": operation.operation, "by": operation.by}
    return {
        "kind": OPERATION,
        "host": operation.host,
        "time": operation.began,
        "last": operation.ended,
        "fields": list(fields.items()),
    }


def incidents_of(evidence: Sequence[Mapping[str, Any]], skew: timedelta = SKEW) -> list[Incident]:
    """Return the incidents of a pair from rows of evidence in any order."""
    seen: dict[str, list[LogEvidence]] = {}
    for row in evidence:
        if row["kind"] not in _NO_RECORDS:
            seen.setdefault(row["host"], []).append(_seen(row))
    nodes = [_node(row) for row in evidence if row["kind"] == NODE]
    busy = [LoggedPeriod(row["host"], row["time"], row["last"]) for row in evidence if row["kind"] == BUSY]
    runs = {}
    found: list[Incident] = []
    for node in sorted(nodes, key=lambda node: node.host):
        mine = sorted(seen.get(node.host, ()), key=lambda one: one.sequence)
        runs[node.host] = observed_runs((one for one in mine if one.kind in OF_RUNS), busy)
        found += host_incidents(node, mine, runs[node.host])
    # An agent's connections tell of the pair that its host is in; of a host in none they tell nothing.
    agents = _agents(evidence) if any(node.pair for node in nodes) else ()
    losses = [*agents, *map(_bridge_loss, (row for row in evidence if row["kind"] == BRIDGE_LOST))]
    resolved = _resolve(losses, [node.host for node in nodes])
    operations = [_operation(row) for row in evidence if row["kind"] == OPERATION]
    found += pair_incidents(nodes, runs, resolved, skew, operations)
    return sorted(found, key=lambda incident: incident.id)


def _agents(evidence: Iterable[Mapping[str, Any]]) -> Iterator[ConnectionLoss]:
    """An agent's losses, each with the connection that it made next."""
    journals: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in evidence:
        if row["kind"] in (AGENT_UP, AGENT_LOST) and row["time"] is not None:
            fields = dict(row["fields"])
            journals.setdefault((row["host"], fields.get("agent", ""), fields.get("epoch", "")), []).append(row)
    for (host, *_), mine in sorted(journals.items()):
        following: tuple[datetime, str] | None = None
        for row in sorted(mine, key=lambda row: int(row["sequence"]), reverse=True):
            fields = dict(row["fields"])
            if row["kind"] == AGENT_UP:
                following = row["time"], fields.get("broker", "")
            elif fields.get("reason") not in _NO_LOSS:
                back, broker = following or (None, None)
                yield ConnectionLoss("agent", host, row["time"], fields.get("broker"), back, broker)


def _resolve(losses: Iterable[ConnectionLoss], hosts: Sequence[str]) -> list[ConnectionLoss]:
    """Addresses of brokers become hosts of the pair where their names say so, else None."""

    def host_of(address: str | None) -> str | None:
        if address is None or address in hosts:
            return address
        name = address.rpartition(":")[0].strip("[]") or address
        found = [host for host in hosts if name in (host, host.partition(".")[0])]
        return found[0] if len(found) == 1 else None

    return [
        ConnectionLoss(
            loss.source, loss.witness, loss.lost, host_of(loss.lost_host), loss.back, host_of(loss.back_host)
        )
        for loss in losses
    ]


def _bridge_loss(row: Mapping[str, Any]) -> ConnectionLoss:
    fields = dict(row["fields"])
    return ConnectionLoss("bridge", row["host"], row["time"], fields.get("lost_host"), row["last"])


def _operation(row: Mapping[str, Any]) -> Operation:
    fields = dict(row["fields"])
    began, ended = _aware(row["time"]), _aware(row["last"])
    return Operation(row["host"], fields.get("operation", ""), fields.get("by", ""), began, ended)


def _node(row: Mapping[str, Any]) -> PairNode:
    fields = dict(row["fields"])
    complete = fields.get("complete") == "true"
    return PairNode(row["host"], fields.get("group"), fields.get("pair"), fields.get("store"), complete)


def _seen(row: Mapping[str, Any]) -> LogEvidence:
    return LogEvidence(
        host=row["host"],
        sequence=row["sequence"],
        at=_aware(row["time"]),
        kind=row["kind"],
        fields=dict(row["fields"] or ()),
        text=row["text"] or "",
        thread=row["thread"] or "",
        last=None if row.get("last") is None else _aware(row["last"]),
        count=row.get("count") or 1,
    )


def _aware(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _of_sign(seen: LogEvidence) -> dict[str, Any]:
    return {
        "host": seen.host,
        "sequence": seen.sequence,
        "time": seen.at,
        "last": seen.last,
        "count": seen.count,
        "kind": seen.kind,
        "fields": list(seen.fields.items()),
        "text": seen.text,
        "thread": seen.thread,
    }


def _of_incident(incident: Incident) -> dict[str, Any]:
    return {
        "incident": incident.id,
        "kind": incident.kind,
        "group": incident.group,
        "pair": incident.pair,
        "host": incident.host,
        "began": incident.began,
        "ended": incident.ended,
        "seconds": incident.seconds,
        "began_from": incident.began_from,
        "certainty": incident.certainty,
        "cause": incident.cause,
        "remedy": incident.remedy,
        "rules": list(incident.rules),
        "final": True,
        "planned": incident.planned,
        "peer": incident.peer,
        "names": list(incident.names),
    }


def _of_bridge(bridge: Bridge) -> dict[str, Any]:
    row = {name: getattr(bridge, name) for name in _BRIDGES.names if name != "final"}
    return {**row, "final": True}
