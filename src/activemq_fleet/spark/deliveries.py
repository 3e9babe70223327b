"""Judge the delivery of every event: Spark sorts the journal records, functions of the package ``audit`` judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from activemq_fleet.audit.aggregates import FirstItemsBySortKey
from activemq_fleet.audit.deliveries import DeliveryJudge
from activemq_fleet.audit.event_records import events_from_records
from activemq_fleet.audit.finality import EvidenceEnds
from activemq_fleet.audit.gaps import MAX_GAPS, journal_gap_sort_key
from activemq_fleet.audit.journal_lines import (
    LARGEST_JOURNAL_FILE,
    EventJournalFileSummary,
    collected_journal_host_by_agent,
    journal_epochs_by_agent_and_id,
    summarize_event_journal_file,
    summary_of_too_large_file,
)
from activemq_fleet.audit.journals import (
    AgentJournalGap,
    AgentSubscriptionChange,
    EpochKey,
    EventRecordWithJournalPosition,
    JournalEpoch,
    JournalFinding,
    MissingRecordCount,
    gaps_of_absent_journals,
)
from activemq_fleet.audit.reached_ranges import (
    Reach,
    SubscriberSubscriptions,
    received_event_ranges_with_keys,
    subscriptions_by_subscriber_name,
)
from activemq_fleet.audit.report_figures import EventFigures, PeriodWithoutHandledEvents, ReportPeriod
from activemq_fleet.audit.verdict_passes import (
    events_with_delivery_outcomes,
    iterate_records_gaps_and_idle_periods,
    journal_lines_with_agent_positions,
    merge_received_event_ranges,
)
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.inputs import AuditInputs, binary_files_dataframe
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


@dataclass(frozen=True, slots=True)
class JournalContentsOfAllAgents:
    """The contents of the event journals that were collected from all agents of a fleet.

    ``contents`` is a frame of path and content; ``files`` is a summary of each file. ``connections`` are OBJECTS with
    lists of AgentConnectionRecord by pair. Both frames are None without journals. ``host_by_agent`` is by agent the
    host whose directory has its journal, see ``collected_journal_host_by_agent``.
    """

    contents: DataFrame | None = None
    connections: DataFrame | None = None
    files: Sequence[EventJournalFileSummary] = ()
    host_by_agent: Mapping[str, str] = field(default_factory=dict)

    @property
    def first_record_time_in_agent_journals(self) -> datetime | None:
        """The time of the first record in the collected event journals of all agents; None without records."""
        return min((summary.first for summary in self.files if summary.first is not None), default=None)

    @property
    def last_record_time_in_agent_journals(self) -> datetime | None:
        """The time of the last record in any agent's journal; None without records."""
        return max((summary.last for summary in self.files if summary.last is not None), default=None)


def read_agent_event_journals(
    spark: SparkSession, output: AtomicJobOutput, inputs: AuditInputs
) -> JournalContentsOfAllAgents:
    """Read the event journals that were collected from agents, and return their contents as JournalContentsOfAllAgents.

    These are data frames and a summary of each file. ``output`` runs the task that summarizes the files. A file above
    LARGEST_JOURNAL_FILE has only a summary.
    """
    journals = inputs.files_of_kind("journal")
    large = [summary_of_too_large_file(file.host, file.file) for file in journals if file.size > LARGEST_JOURNAL_FILE]
    paths = [file.path for file in journals if file.size <= LARGEST_JOURNAL_FILE]
    if not paths:
        return JournalContentsOfAllAgents(
            files=large, host_by_agent=collected_journal_host_by_agent(large, inputs.hosts, inputs.agent_hosts)
        )
    pair_of = {name: host.pair or name for name, host in inputs.hosts.items()}
    contents = binary_files_dataframe(spark, paths).select("path", "content")
    files, connections = output.run_task_and_write_rows(
        contents.mapInArrow, partial(_summarize_journals, pair_of=pair_of), [], keep=True
    )
    files = [*large, *files]
    return JournalContentsOfAllAgents(
        contents, connections, files, collected_journal_host_by_agent(files, inputs.hosts, inputs.agent_hosts)
    )


def judge_and_write_event_deliveries(
    output: AtomicJobOutput, journals: JournalContentsOfAllAgents, times: ReportPeriod, horizons: EvidenceEnds | None
) -> tuple[EventFigures, list[AgentJournalGap]]:
    """Determine whether the events in agents' journals were delivered, write the results, and return (figures, gaps).

    An event is delivered to its subscribers. Writes the verdicts to ``output`` as the datasets ``deliveries`` and
    ``messages``. Returns (figures, gaps): the figures of all events, and the list of the journals' gaps. ``times`` is
    the report's time line; ``horizons``: until when the evidence goes, None where all rows are final.
    """
    events = EventFigures(times)
    epochs, received = journal_epochs_by_agent_and_id(journals.files, journals.host_by_agent)
    gaps = list(gaps_of_absent_journals(received, epochs))
    if journals.contents is None:
        for name in ("deliveries", "messages"):
            output.write_empty_dataset(name)
        return events, gaps
    of_hosts = partial(_key_lines_by_agent, epochs=epochs, host_by_agent=journals.host_by_agent)
    lines = repartition_by_key(journals.contents.mapInArrow(make_object_pickling_task(of_hosts), OBJECTS_DDL))
    findings, records = output.run_task_and_write_rows(
        lines.mapInArrow, partial(_order_records_of_agents, epochs=epochs), [], keep=True
    )
    gaps += [gap for gap in findings if isinstance(gap, AgentJournalGap)]
    events.idle_periods.add_items_keeping_smallest_keys(
        *(period for period in findings if isinstance(period, PeriodWithoutHandledEvents))
    )
    missing = {count.agent: count.records for count in findings if isinstance(count, MissingRecordCount)}
    subscribers = subscriptions_by_subscriber_name(
        change for change in findings if isinstance(change, AgentSubscriptionChange)
    )
    by_event = output.cache_until_closed(repartition_by_key(records))
    parts, _ = output.run_task_and_write_rows(
        by_event.mapInArrow, partial(_compute_reach, subscribers=subscribers, missing=missing), []
    )
    judge = DeliveryJudge(subscribers, missing, merge_received_event_ranges(parts))
    task = partial(_judge_events, judge=judge, times=times, horizons=horizons)
    figures, _ = output.run_task_and_write_rows(by_event.mapInArrow, task, ["deliveries", "messages"])
    for task_figures in figures:
        events.add_event_figures(task_figures)
    return events, gaps


def _journal_files(batches: Batches) -> Iterator[tuple[str, str, memoryview]]:
    """Yield host, file (``agent/NAME``) and content of files whose paths end with HOST/agent/NAME."""
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            host, directory, name = path.as_py().rsplit("/", 3)[1:]
            yield host, f"{directory}/{name}", memoryview(content.as_buffer())


def _summarize_journals(
    batches: Batches, *, pair_of: Mapping[str, str]
) -> Iterator[EventJournalFileSummary | KeyedObject]:
    """Yield a summary of each journal file, and its connection records with their pair as key."""
    for host, file, content in _journal_files(batches):
        summary, connections = summarize_event_journal_file(host, file, content)
        yield summary
        if connections:
            yield KeyedObject(pair_of[host], connections)


def _key_lines_by_agent(
    batches: Batches, *, epochs: Mapping[EpochKey, JournalEpoch], host_by_agent: Mapping[str, str]
) -> Iterator[KeyedObject]:
    """Yield the lines of journal files with their agent as key, in the order of the agent's records."""
    for file in _journal_files(batches):
        yield from (
            KeyedObject(line.agent, line, line.place)
            for line in journal_lines_with_agent_positions(*file, epochs, host_by_agent)
        )


def _order_records_of_agents(
    batches: Batches, *, epochs: Mapping[EpochKey, JournalEpoch]
) -> Iterator[JournalFinding | PeriodWithoutHandledEvents | KeyedObject]:
    """Yield the records with their event id as key, and for the driver all other findings and the first gaps."""
    gaps = FirstItemsBySortKey(MAX_GAPS, journal_gap_sort_key)
    for finding in iterate_records_gaps_and_idle_periods((keyed.value for keyed in unpickle_objects(batches)), epochs):
        if isinstance(finding, EventRecordWithJournalPosition):
            yield KeyedObject(finding.event_id, finding)
        elif isinstance(finding, AgentJournalGap):
            gaps.add_items_keeping_smallest_keys(finding)
        else:
            yield finding
    yield from gaps.items_with_smallest_keys()


def _unpack_records(batches: Batches) -> Iterator[EventRecordWithJournalPosition]:
    """Yield the journal records in batches of OBJECTS."""
    return (keyed.value for keyed in unpickle_objects(batches))


def _compute_reach(
    batches: Batches, *, subscribers: Mapping[str, SubscriberSubscriptions], missing: Mapping[str, int]
) -> Iterator[Reach]:
    """Yield the ranges of events that reached each subscriber, computed from one partition."""
    yield dict(received_event_ranges_with_keys(events_from_records(_unpack_records(batches)), subscribers, missing))


def _judge_events(
    batches: Batches, *, judge: DeliveryJudge, times: ReportPeriod, horizons: EvidenceEnds | None
) -> Iterator[DatasetRows | EventFigures]:
    """Yield the rows of all deliveries and messages in one partition, and their figures."""
    figures = EventFigures(times)
    for event in events_with_delivery_outcomes(_unpack_records(batches), judge, figures, horizons):
        for delivery in event.deliveries:
            yield DatasetRows("deliveries", {**delivery._asdict(), "final": event.is_final})
        if event.outcome:
            row = {**event.outcome._asdict(), "by": event.outcome.handled_by, "final": event.is_final}
            yield DatasetRows("messages", row)
    yield figures
