"""The Spark job ``audit``: read logs and journals, write every dataset, audit.json and report.html."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from activemq_fleet.audit.evidence import SKEW
from activemq_fleet.audit.finality import EvidenceEnds
from activemq_fleet.audit.gaps import (
    gaps_for_journals_from_other_hosts,
    gaps_from_incomplete_log_files,
    input_gaps_in_event_journals,
)
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.audit.report_figures import (
    AuditReportData,
    EventFigures,
    IncidentFigures,
    LogLineFigures,
    ReportPeriod,
    period_spanning_times,
    time_line_hosts,
)
from activemq_fleet.audit.result import AuditCounts, AuditResult, InputGap, audit_outcome
from activemq_fleet.audit.scraped_availability import ScrapedAvailability, unexplained_downtime_gaps
from activemq_fleet.reports.audit_page import audit_html_page
from activemq_fleet.spark.datasets import AtomicJobOutput, read_output_text_file
from activemq_fleet.spark.deliveries import judge_and_write_event_deliveries, read_agent_event_journals
from activemq_fleet.spark.event_cache import EventCache
from activemq_fleet.spark.incidents import AuditFiguresFromHostLogs, find_and_write_incidents
from activemq_fleet.spark.inputs import (
    AuditedHost,
    AuditInputs,
    add_hosts_and_list_input_gaps,
    input_summary,
    list_audit_inputs,
)
from activemq_fleet.spark.log_events import ONE_PARTITION, map_log_events
from activemq_fleet.spark.progress import show_progress_phase
from activemq_fleet.spark.settings import shuffle_settings, temporary_settings
from activemq_fleet.spark.task_results import Batches, DatasetRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Bytes. Each file is sent to its worker alone: a batch of several is copied each time that it grows, and reading took
# half as much of the processors' time again, or twice as much (docs/audit-speed.md).
_READ_SETTINGS = {"spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 22), **ONE_PARTITION}


def audit(
    spark: SparkSession,
    logs: str,
    out: str,
    *,
    inventory_hosts: Mapping[str, AuditedHost] | None = None,
    skew: timedelta = SKEW,
    scraped: ScrapedAvailability | None = None,
) -> AuditResult:
    """Audit collected broker logs and agents' event journals in Spark, and write the result to an output path.

    Writes datasets and the report, and returns the result. ``logs`` is a directory as the playbook collect writes it;
    ``out`` is replaced in one step, or stays as it was. ``inventory_hosts`` replace a missing host.json; a broker of it
    of which nothing was collected makes the audit incomplete. ``skew`` is by how much hosts' clocks may differ.
    ``scraped``: what Prometheus saw meanwhile; a gap in it that no incident explains makes the audit incomplete. Raises
    InputError where there are neither logs nor journals, and where ``out`` holds anything but an earlier audit.
    """
    with AtomicJobOutput(spark, out, "audit") as output:
        with show_progress_phase("listing the files"):
            inputs, absent = add_hosts_and_list_input_gaps(
                list_audit_inputs(spark, logs, inventory_hosts), inventory_hosts
            )
        with temporary_settings(spark, shuffle_settings(spark, inputs)):
            summaries = write_log_events_and_summarize_files(spark, output, inputs)
            result = write_audit_except_events(
                spark, output, inputs, summaries, absent=absent, skew=skew, is_growing=False, scraped=scraped
            )
        output.commit()
    return result


def read_audit_json(spark: SparkSession, out: str) -> dict[str, Any]:
    """Read the file audit.json in the output of an audit, and return its content.

    Raises InputError when there is none.
    """
    audit_json: dict[str, Any] = json.loads(read_output_text_file(spark, out, "audit.json"))
    return audit_json


def write_log_events_and_summarize_files(
    spark: SparkSession,
    output: AtomicJobOutput,
    inputs: AuditInputs,
    cache: EventCache | None = None,
    fingerprints: Mapping[str, str] = {},
) -> list[LogFileSummary]:
    """Read the events from all logs of an audit, and write them to the audit's output as the dataset ``events``.

    Returns a summary of each log file. ``cache`` holds events of an earlier run, which are reused for hosts whose
    fingerprint in ``fingerprints`` (by host) is unchanged.
    """
    with show_progress_phase("reading logs"), temporary_settings(spark, _READ_SETTINGS):
        unchanged_hosts = cache.unchanged_hosts(fingerprints) if cache else {}
        files = [file for file in inputs.files_of_kind("log") if file.host not in unchanged_hosts]
        run, task = (
            partial(map_log_events, spark, inputs, files),
            partial(_events_and_summaries, by_host=cache is not None),
        )
        summaries, _ = output.run_task_and_write_rows(run, task, ["events"], ordered=True)
        if cache:
            parts = [part for host in unchanged_hosts.values() for part in host.parts]
            output.hard_link_parquet_files("events", cache.directory, parts)
            summaries += [summary for host in unchanged_hosts.values() for summary in host.files]
            cache.replace_cache_with_links_to_written_files(
                summaries, output.parts["events"], output.staged_directory / "events", fingerprints
            )
    return summaries


def _events_and_summaries(batches: Batches, *, by_host: bool) -> Iterator[DatasetRows | LogFileSummary]:
    """Yield events, with ``by_host`` in a part for each host, and then a summary of each file."""
    summaries: dict[tuple[str, str], LogFileSummary] = {}
    for batch in batches:
        if batch.num_rows:
            empty = LogFileSummary.empty_for_batch(batch)
            summaries.setdefault((empty.host, empty.file), empty).count_events(batch)
            yield DatasetRows("events", batch, part=empty.host if by_host else "")
    yield from summaries.values()


def write_audit_except_events(
    spark: SparkSession,
    output: AtomicJobOutput,
    inputs: AuditInputs,
    logs: Sequence[LogFileSummary],
    *,
    absent: Sequence[InputGap],
    skew: timedelta,
    is_growing: bool,
    scraped: ScrapedAvailability | None = None,
) -> AuditResult:
    """Write audit.json, report.html and the datasets of an audit, except ``events``, to the audit's output.

    Returns the audit's result. Does not commit ``output``. ``inputs``: the hosts and their files. ``logs``: the result
    of ``write_log_events_and_summarize_files``. ``absent``: the gaps that are known already (hosts without files).
    ``skew``: the largest difference between the clocks of hosts. ``is_growing``: rows are final only where no later
    evidence is expected. ``scraped``: the availability that Prometheus recorded, if any. The caller sets
    ``shuffle_settings``.
    """
    with show_progress_phase("finding incidents"):
        journals = read_agent_event_journals(spark, output, inputs)
        horizons = _build_horizons(inputs, logs, journals.last_record_time_in_agent_journals) if is_growing else None
        new_figures = partial(IncidentFigures, scraped.unserved if scraped else ())
        log_figures = find_and_write_incidents(
            spark, output, inputs, logs, journals.connections, skew, horizons, new_figures=new_figures
        )
    moments = log_figures.incidents.period_bounds or ()
    times = period_spanning_times(
        [sample for log in logs for sample in log.times],
        [*moments, journals.first_record_time_in_agent_journals, journals.last_record_time_in_agent_journals],
    )
    with show_progress_phase("settling events"):
        events, missing = judge_and_write_event_deliveries(output, journals, times, horizons)
    with show_progress_phase("writing the report"):
        log_files = inputs.log_files_by_host()
        gaps = [
            *absent,
            *gaps_from_incomplete_log_files(logs, log_files),
            *input_gaps_in_event_journals(missing, journals.files),
        ]
        gaps += gaps_for_journals_from_other_hosts(journals.files, journals.host_by_agent)
        if scraped:
            explained = log_figures.incidents.incident_by_unserved_period
            gaps += unexplained_downtime_gaps(scraped, explained, times.began, times.ended)
        counts = _build_counts(output, logs, gaps, log_figures, events)
        wordings = tuple(log_figures.unexplained.wordings.items_with_smallest_keys())
        result = AuditResult(
            audit_outcome(gaps, counts), input_summary(inputs), tuple(gaps), counts, output.path, wordings
        )
        pair_of, group_of = (
            {name: getattr(inputs.hosts[name], key) for name in log_files} for key in ("pair", "group")
        )
        hosts, hosts_left = time_line_hosts(pair_of, group_of, log_figures.spans, log_figures.incidents)
        lines = _line_figures(output, times)
        incidents, bridges, unexplained = log_figures.incidents, log_figures.bridges, log_figures.unexplained
        report_data = AuditReportData(times, incidents, hosts, hosts_left, bridges, lines, events, scraped, unexplained)
        output.add_text_file_to_commit("audit.json", json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
        output.add_text_file_to_commit("report.html", audit_html_page(result, report_data))
    return result


def _build_horizons(inputs: AuditInputs, logs: Sequence[LogFileSummary], of_journals: datetime | None) -> EvidenceEnds:
    """Return the times at which each host's log and all journals end."""
    last: dict[str, datetime | None] = dict.fromkeys(inputs.hosts)
    for log in logs:
        if log.last is not None:
            at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=log.last)
            last[log.host] = max(at, last[log.host] or at)
    return EvidenceEnds(last, of_journals)


def _build_counts(
    output: AtomicJobOutput,
    logs: Sequence[LogFileSummary],
    gaps: Sequence[InputGap],
    log_figures: AuditFiguresFromHostLogs,
    events: EventFigures,
) -> AuditCounts:
    """Return the numbers of everything that an audit's result counts."""

    def by_name(counter: Mapping[str, int]) -> dict[str, int]:
        return dict(sorted(counter.items()))

    return AuditCounts(
        events=output.row_counts_by_dataset["events"],
        unknown=sum(log.unknown for log in logs),
        unread=sum(log.unread for log in logs),
        unexplained=log_figures.unexplained.count,
        gaps=len(gaps),
        incidents=by_name(log_figures.incidents.counts),
        planned=log_figures.incidents.planned,
        bridges=by_name(log_figures.bridges.counts),
        messages=by_name(events.messages),
        deliveries=by_name(events.deliveries),
    )


def _line_figures(output: AtomicJobOutput, times: ReportPeriod) -> LogLineFigures:
    """Return the figures of all log lines that have a time."""

    def count(batches: Batches) -> Iterator[LogLineFigures]:
        figures = LogLineFigures(times)
        for batch in batches:
            figures.count_lines(batch)
        yield figures

    lines = output.read_written_dataset("events").where("time IS NOT NULL").select(*LogLineFigures.COLUMNS)
    figures = LogLineFigures(times)
    for task_figures in output.run_task_and_write_rows(lines.mapInArrow, count, [])[0]:
        figures.add_line_figures(task_figures)
    return figures
