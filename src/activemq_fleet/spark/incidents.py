"""Find bridges and incidents with Spark: first by the logs of each pair, then with what other hosts saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from activemq_fleet.audit.evidence import ConnectionLoss, HostLogMinute, LogRecordEvidence, PairNode
from activemq_fleet.audit.finality import EvidenceEnds
from activemq_fleet.audit.gaps import last_record_times_before_gaps
from activemq_fleet.audit.log_evidence import KINDS, TEXT
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.audit.operation_records import PlannedOperation
from activemq_fleet.audit.pair_findings import (
    FleetWideLogEvidence,
    PairFindings,
    incidents_of_pair,
    log_record_evidence_from_rows,
    pair_and_located_loss,
    pair_findings_of_logs,
    sorted_logged_minutes_of_all_hosts,
)
from activemq_fleet.audit.record_signs import EXHAUSTED_TEXTS, LEVELS
from activemq_fleet.audit.report_figures import BridgeFigures, IncidentFigures, UnexplainedRecordFigures
from activemq_fleet.audit.state_spans import HostStateSpan
from activemq_fleet.audit.unit_journals import LARGEST_UNIT_JOURNAL, systemd_journal_records
from activemq_fleet.logs.harmless import harmless_kind_ids
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.inputs import AuditInputs, binary_files_dataframe
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.task_results import (
    OBJECTS_DDL,
    Batches,
    DatasetRows,
    KeyedObject,
    make_object_pickling_task,
    repartition_by_key,
    unpickle_objects,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXHAUSTED_RESOURCE = "(java.lang.)?(" + "|".join(EXHAUSTED_TEXTS) + ")[^\\n]{0,80}"
_NO_PAIR = ""
"""The key of lost connections whose pair is not known yet."""


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The hosts of an audit and their pairs.

    ``pair_of`` has the pair of each host (else the host itself). By pair there are its hosts, brokers and planned work.
    ``horizons``: until when their logs go; None where all rows are final.
    """

    pair_of: dict[str, str]
    horizons: EvidenceEnds | None
    hosts: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[PairNode]] = field(default_factory=dict)
    operations: dict[str, list[PlannedOperation]] = field(default_factory=dict)

    def is_row_final(self, ended: datetime | None, hosts: Sequence[str]) -> bool:
        """Return True if a row of the dataset ``incidents`` or ``bridges`` is final, so later logs cannot change it.

        The incident or bridge ended at ``ended``; ``hosts`` are its hosts.
        """
        return self.horizons is None or self.horizons.is_incident_final(ended, hosts)


@dataclass(slots=True)
class _PairSummary:
    """The summary of a pair's logs for the driver."""

    names: dict[str, set[str]]
    names_of_brokers_reporting_refusals: set[str]
    first_large_frame_refusal_by_broker: dict[str, str]
    last_active_times_by_store_and_host: dict[str, dict[str, datetime]]
    spans: list[HostStateSpan]
    bridges: BridgeFigures
    unexplained: UnexplainedRecordFigures


@dataclass(slots=True)
class AuditFiguresFromHostLogs:
    """The figures in an audit's report about incidents, bridges, unexplained log records and hosts' states.

    There are figures of incidents, bridges and unexplained records, and the spans of all hosts' states.
    """

    incidents: IncidentFigures = field(default_factory=IncidentFigures)
    bridges: BridgeFigures = field(default_factory=BridgeFigures)
    unexplained: UnexplainedRecordFigures = field(default_factory=UnexplainedRecordFigures)
    spans: list[HostStateSpan] = field(default_factory=list)


def find_and_write_incidents(
    spark: SparkSession,
    output: AtomicJobOutput,
    inputs: AuditInputs,
    logs: Sequence[LogFileSummary],
    connections: DataFrame | None,
    skew: timedelta,
    horizons: EvidenceEnds | None,
    *,
    new_figures: Callable[[], IncidentFigures] = IncidentFigures,
) -> AuditFiguresFromHostLogs:
    """Find the incidents (such as outages, takeovers and broken bridges) in log events, and write them to the output.

    Writes the datasets ``bridges`` and ``incidents`` from the dataset ``events``, and returns their figures. Runs in
    ``spark``. ``logs``: the summaries of all log files; ``connections``: OBJECTS with agents' ConnectionRecords by
    pair; ``skew``: by how much hosts' clocks may differ; ``horizons``: until when the evidence goes, None where all
    rows are final; ``new_figures`` makes the figures to which a task adds the incidents that it finds.
    """
    fleet = _describe_fleet(inputs, logs, horizons)
    evidence = _evidence_frame(output.read_written_dataset("events"), logs, fleet)
    unit_records = _unit_records_frame(spark, inputs, fleet)
    if unit_records is not None:
        evidence = evidence.unionByName(unit_records)
    evidence = repartition_by_key(evidence)
    pairs, findings = output.run_task_and_write_rows(
        evidence.mapInArrow, partial(_find_in_logs, fleet=fleet), ["bridges"], keep=True
    )
    hosts_by_name: dict[str, set[str]] = {}
    for pair in pairs:
        for host, names in pair.names.items():
            for name in names:
                hosts_by_name.setdefault(name, set()).add(host)
    address = partial(_address_losses, hosts_by_name=hosts_by_name, fleet=fleet)
    witnessed = findings.mapInArrow(make_object_pickling_task(address), OBJECTS_DDL)
    if connections is not None:
        witnessed = witnessed.unionByName(connections)
    served: dict[str, dict[str, datetime]] = {}
    for pair in pairs:
        for store, users in pair.last_active_times_by_store_and_host.items():
            served.setdefault(store, {}).update(users)
    fleet_evidence = FleetWideLogEvidence(
        frozenset(name for pair in pairs for name in pair.names_of_brokers_reporting_refusals),
        {name: text for pair in pairs for name, text in pair.first_large_frame_refusal_by_broker.items()},
        served,
    )
    task = partial(
        _find_incidents_of_pairs, fleet=fleet, skew=skew, fleet_evidence=fleet_evidence, new_figures=new_figures
    )
    figures, _ = output.run_task_and_write_rows(repartition_by_key(witnessed).mapInArrow, task, ["incidents"])
    log_figures = AuditFiguresFromHostLogs(spans=[span for pair in pairs for span in pair.spans])
    for task_figures in figures:
        log_figures.incidents.merge_incident_figures(task_figures)
    for pair in pairs:
        log_figures.bridges.add_bridge_figures(pair.bridges)
        log_figures.unexplained.add_unexplained_figures(pair.unexplained)
    return log_figures


def _describe_fleet(
    inputs: AuditInputs, log_summaries: Sequence[LogFileSummary], horizons: EvidenceEnds | None
) -> _Fleet:
    """Return the hosts, nodes and planned work of an audit by pair."""
    times_before_gaps = last_record_times_before_gaps(log_summaries, inputs.log_files_by_host())
    logs = {file.host for file in inputs.files_of_kind("log")}
    journals = {file.host for file in inputs.files_of_kind("journal")}
    fleet = _Fleet({name: host.pair or name for name, host in inputs.hosts.items()}, horizons)
    for name, host in inputs.hosts.items():
        pair = fleet.pair_of[name]
        fleet.hosts.setdefault(pair, []).append(name)
        if name in logs or name not in journals:  # Another host is the host of an agent.
            node = PairNode(
                name,
                host.group,
                host.pair,
                host.store,
                name in logs,
                host.generations,
                host.risks,
                host.state,
                host.collected,
                times_before_gaps.get(name, ()),
                host.timezone or "UTC",
            )
            fleet.nodes.setdefault(pair, []).append(node)
            fleet.operations.setdefault(pair, []).extend(host.operations)
    return fleet


def _evidence_frame(events: DataFrame, logs: Sequence[LogFileSummary], fleet: _Fleet) -> DataFrame:
    """Return evidence and logged minutes in the dataset ``events`` as OBJECTS by pair."""
    file_order = {(log.host, log.file): log.order for log in logs}
    beginning = sf.substring(sf.concat_ws("\n", "message", "stack"), 1, TEXT)
    # The deepest cause can come after the beginning of a long stack trace.
    cause = sf.nullif(sf.regexp_extract("stack", _EXHAUSTED_RESOURCE, 0), sf.lit(""))
    text = sf.concat_ws("\n", beginning, cause).alias("text")
    record = sf.struct("file", "line", "kind", "fields", text, "thread", "level")
    is_unread = sf.col("level").isin(*LEVELS) & ~sf.col("kind").isin(sorted(harmless_kind_ids()))
    is_chosen = sf.col("kind").isin(sorted(KINDS)) | is_unread
    for needle in EXHAUSTED_TEXTS:
        is_chosen |= sf.contains("message", sf.lit(needle)) | sf.coalesce(
            sf.contains("stack", sf.lit(needle)), sf.lit(False)
        )
    # For other records, only the time is passed on.
    chosen = sf.when(is_chosen, record).alias("record")
    timed = events.where("time IS NOT NULL").select("host", "time", chosen)
    return timed.mapInArrow(
        make_object_pickling_task(partial(_key_evidence_by_pair, file_order=file_order, fleet=fleet)), OBJECTS_DDL
    )


def _key_evidence_by_pair(
    batches: Batches, *, file_order: Mapping[tuple[str, str], int], fleet: _Fleet
) -> Iterator[KeyedObject]:
    """Yield the evidence and logged minutes of each pair with the pair as key."""
    for batch in batches:
        rows = batch.filter(batch.column("record").is_valid()).to_pylist()
        records = ({**row["record"], "host": row["host"], "time": row["time"]} for row in rows)
        evidence: list[LogRecordEvidence | HostLogMinute] = [*log_record_evidence_from_rows(records, file_order)]
        evidence += sorted_logged_minutes_of_all_hosts(batch.column("host"), batch.column("time"))
        by_pair = sorted(evidence, key=lambda record_or_period: fleet.pair_of[record_or_period.host])
        for pair, pair_evidence in groupby(by_pair, key=lambda record_or_period: fleet.pair_of[record_or_period.host]):
            yield KeyedObject(pair, list(pair_evidence))


def _unit_records_frame(spark: SparkSession, inputs: AuditInputs, fleet: _Fleet) -> DataFrame | None:
    """Return the records of systemd journals as OBJECTS by pair; None without such journals of brokers' hosts."""
    brokers = {node.host for nodes in fleet.nodes.values() for node in nodes}
    paths = [
        file.path
        for file in inputs.files_of_kind("unit_journal")
        if file.host in brokers and file.size <= LARGEST_UNIT_JOURNAL
    ]
    if not paths:
        return None
    units = {name: host.unit for name, host in inputs.hosts.items()}
    task = partial(_key_unit_records_by_pair, units=units, pair_of=fleet.pair_of)
    contents = binary_files_dataframe(spark, paths).select("path", "content")
    return contents.mapInArrow(make_object_pickling_task(task), OBJECTS_DDL)


def _key_unit_records_by_pair(
    batches: Batches, *, units: Mapping[str, str | None], pair_of: Mapping[str, str]
) -> Iterator[KeyedObject]:
    """Yield the records of each systemd journal with the pair as key; a path ends with HOST/journal/NAME."""
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            host = path.as_py().rsplit("/", 3)[1]
            if records := list(systemd_journal_records(host, units[host], memoryview(content.as_buffer()))):
                yield KeyedObject(pair_of[host], records)


def _find_in_logs(batches: Batches, *, fleet: _Fleet) -> Iterator[DatasetRows | _PairSummary | KeyedObject]:
    """Yield the bridges and the summary of each pair, and the findings of its logs for ``_find_incidents_of_pairs``."""
    for pair, objects in groupby(unpickle_objects(batches), key=lambda keyed: keyed.key):
        findings = pair_findings_of_logs(fleet.nodes[pair], chain.from_iterable(keyed.value for keyed in objects))
        for bridge in findings.bridges:
            row = _dataset_row("bridges", bridge) | {"final": fleet.is_row_final(bridge.ended, [bridge.host])}
            yield DatasetRows("bridges", row)
        bridges = BridgeFigures()
        bridges.count_bridges(findings.bridges)
        unexplained = UnexplainedRecordFigures()
        unexplained.count_unexplained_records(findings.unexplained)
        yield _PairSummary(
            findings.names,
            findings.names_of_brokers_reporting_refusals,
            findings.first_large_frame_refusal_by_broker,
            findings.last_active_times_by_store_and_host,
            findings.spans,
            bridges,
            unexplained,
        )
        yield from (KeyedObject(_NO_PAIR, loss) for loss in findings.outgoing_bridge_losses_with_lost_broker)
        yield KeyedObject(pair, replace(findings, bridges=[], spans=[], names={}, unexplained=[]))


def _address_losses(batches: Batches, *, hosts_by_name: Mapping[str, set[str]], fleet: _Fleet) -> Iterator[KeyedObject]:
    """Yield the objects, lost connections with the lost pair as key; those of an unknown pair are left out."""
    for keyed in unpickle_objects(batches):
        if keyed.key != _NO_PAIR:
            yield keyed
        else:
            name, loss = keyed.value
            if lost := pair_and_located_loss(name, loss, hosts_by_name, fleet.pair_of):
                yield KeyedObject(*lost)


def _find_incidents_of_pairs(
    batches: Batches,
    *,
    fleet: _Fleet,
    skew: timedelta,
    fleet_evidence: FleetWideLogEvidence,
    new_figures: Callable[[], IncidentFigures],
) -> Iterator[DatasetRows | IncidentFigures]:
    """Yield the rows of the incidents of each pair in one partition, and their figures."""
    figures = new_figures()
    for pair, objects in groupby(unpickle_objects(batches), key=lambda keyed: keyed.key):
        findings, witnesses = pair_findings_of_logs(fleet.nodes.get(pair, ()), ()), list[Any]()
        for keyed in objects:
            if isinstance(keyed.value, PairFindings):
                findings = keyed.value
            else:
                witnesses += [keyed.value] if isinstance(keyed.value, ConnectionLoss) else keyed.value
        operations = fleet.operations.get(pair, [])
        for incident in incidents_of_pair(findings, witnesses, skew, operations, fleet_evidence):
            is_final = fleet.is_row_final(incident.ended, fleet.hosts.get(incident.pair or incident.host, ()))
            row = _dataset_row("incidents", incident) | {"incident": incident.incident_id, "final": is_final}
            yield DatasetRows("incidents", row)
            figures.count_incident(incident)
    yield figures


def _dataset_row(dataset: str, row_source: object) -> dict[str, Any]:
    """Return a row of a dataset from an object with attributes of its columns' names; others are absent."""
    return {name: getattr(row_source, name, None) for name in SCHEMAS[dataset].names}
