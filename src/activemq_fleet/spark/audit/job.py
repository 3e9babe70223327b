"""The Spark job ``audit``: read logs and journals, write every dataset, audit.json and report.html."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation

from activemq_fleet.audit.evidence import SKEW
from activemq_fleet.audit.result import Gap, Result, audit_outcome
from activemq_fleet.reports import audit_report
from activemq_fleet.spark.arrow_schemas import arrow_schema_of
from activemq_fleet.spark.audit import gaps_and_counts
from activemq_fleet.spark.audit.report_data import report_data
from activemq_fleet.spark.background_job import run_in_background
from activemq_fleet.spark.datasets import Output, read_text
from activemq_fleet.spark.deliveries import judge_deliveries
from activemq_fleet.spark.event_cache import EventCache
from activemq_fleet.spark.incidents import bridges_and_states, incidents, log_evidence, without_duplicate_refusals
from activemq_fleet.spark.inputs import Host, Inputs, list_inputs
from activemq_fleet.spark.journals import RECORDS_SCHEMA, journal_records
from activemq_fleet.spark.log_events import ONE_PARTITION, events, write_events
from activemq_fleet.spark.parquet_writer import hard_link_files, remove_unlisted_parts
from activemq_fleet.spark.progress import phase
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import is_local, temporary_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPARKS_OWN = "200"
# A file comes to its worker by itself: a batch of several is copied each time that it grows. Bytes.
_READING = {"spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 22), **ONE_PARTITION}
_FEWEST, _EACH = 4, 16 << 20  # partitions, and bytes of input for each further one
_PACKED = 15  # how many times as large logs are when they are unpacked

__all__ = ["Logs", "Result", "audit", "read_audit_json", "read_logs", "shuffle_settings", "write_audit"]


def audit(
    spark: SparkSession,
    logs: str,
    out: str,
    *,
    inventory_hosts: Mapping[str, Host] | None = None,
    skew: timedelta = SKEW,
) -> Result:
    """Audit logs and journals below ``logs``, write datasets, audit.json and report.html to ``out``, return the result.

    ``logs`` is a directory as the playbook collect writes it; ``out`` is replaced in one step, or stays as it was.
    ``inventory_hosts`` stand in for hosts without host.json; a broker of it of which nothing was collected makes the
    audit incomplete. ``skew`` is by how much hosts' clocks may differ. Raises InputError where there are neither logs
    nor journals, and where ``out`` holds anything but an earlier audit.
    """
    with Output(spark, out, "audit") as output:
        with phase("looking at the files"):
            inputs = list_inputs(spark, logs, inventory_hosts)
            inputs, absent = gaps_and_counts.with_inventory_hosts(inputs, inventory_hosts)
            records = journal_records(spark, inputs)
        with temporary_settings(spark, shuffle_settings(spark, inputs)):
            result = write_audit(
                spark, output, inputs, read_logs(spark, output, inputs), records, absent=absent, skew=skew
            )
        output.commit()
    return result


def read_audit_json(spark: SparkSession, out: str) -> dict[str, Any]:
    """Return the object in audit.json below ``out``, an audit's output. Raises InputError when there is none."""
    found: dict[str, Any] = json.loads(read_text(spark, out, "audit.json"))
    return found


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of a fleet after they were parsed.

    ``event_count`` is the number of events and ``events`` the dataset, written already. ``statistics`` has the columns
    of ``gaps_and_counts.event_statistics`` as keys. ``evidence`` are the log records that bridges and incidents are
    found by, as ``incidents.log_evidence`` returns them.
    """

    event_count: int
    statistics: Mapping[str, Any]
    events: DataFrame
    evidence: DataFrame


def read_logs(
    spark: SparkSession,
    output: Output,
    inputs: Inputs,
    cache: EventCache | None = None,
    fingerprints: Mapping[str, str] = {},
) -> Logs:
    """Parse all logs of ``inputs``, write the dataset ``events`` to ``output``, and return the logs.

    On local Spark with a local output, workers write Parquet themselves; elsewhere Spark does. ``cache`` holds events
    of an earlier run, which are reused for hosts whose fingerprint in ``fingerprints`` (by host) is unchanged.
    """
    directory = output.local_directory("events")
    with phase("reading logs"), temporary_settings(spark, _READING):
        if directory is None:
            return _stored(output, events(spark, inputs), ordered=True)
        files, schema = inputs.of_kind("log"), arrow_schema_of("events")
        if cache is None:
            found = write_events(spark, inputs, files, directory, schema, by_host=False)
        else:
            cached = {host: cache.parts_of(host, fingerprint) for host, fingerprint in fingerprints.items()}
            changed = [file for file in files if cached[file.host] is None]
            found = [row for rows in cached.values() for row in rows or ()]
            found += write_events(spark, inputs, changed, cache.directory, schema, by_host=True)
            cache.replace(found, fingerprints)
            hard_link_files([cache.directory / part for part in {row["part"] for row in found}], directory)
        remove_unlisted_parts(directory, {row["part"] for row in found}, schema)
        return _logs(output, output.record_rows("events", sum(row["rows"] for row in found)), merged_statistics(found))


def merged_statistics(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Add up the rows that ``write_events`` returns to one mapping with the keys of ``event_statistics``.

    Keys: ``problems`` and ``file_indexes``, lists of rows by host and file; ``unknown`` and ``unread``, numbers.
    """
    problems = {(row["host"], row["file"], what) for row in rows for what in row["problems"]}
    file_indexes = {(row["host"], row["file"], row["file_index"]) for row in rows}
    return {
        "problems": [dict(zip(("host", "file", "what"), one, strict=True)) for one in problems],
        "file_indexes": [dict(zip(("host", "file", "file_index"), one, strict=True)) for one in file_indexes],
        "unknown": sum(row["unknown"] for row in rows),
        "unread": sum(row["unread"] for row in rows),
    }


def _stored(output: Output, events: DataFrame, *, ordered: bool) -> Logs:
    observation = Observation()
    count = output.write("events", gaps_and_counts.observe_events(events, observation), ordered=ordered)
    return _logs(output, count, observation.get)


def _logs(output: Output, count: int, statistics: Mapping[str, Any]) -> Logs:
    written = output.read_written("events")
    return Logs(count, statistics, written, log_evidence(written, gaps_and_counts.file_indexes(statistics)))


def write_audit(
    spark: SparkSession,
    output: Output,
    inputs: Inputs,
    logs: Logs,
    records: DataFrame,
    *,
    absent: Sequence[Gap] = (),
    skew: timedelta = SKEW,
) -> Result:
    """Write every dataset but ``events``, audit.json and report.html, and return the audit's result.

    Does not commit ``output``. ``records`` are those of ``journal_records``, ``absent`` the gaps that are known already
    (hosts without files), and ``skew`` is by how much hosts' clocks may differ. The caller sets ``shuffle_settings``.
    """
    journals = bool(inputs.of_kind("journal"))
    records = records.persist() if journals else spark.createDataFrame([], RECORDS_SCHEMA)
    evidence = logs.evidence.persist()
    of_host = bridges_and_states(evidence).persist()
    try:
        if journals:
            # Each alone keeps one core busy with its plans.
            with run_in_background(spark, lambda: write_verdicts(output, records)) as verdicts:
                _write_incidents(output, inputs, logs, evidence, of_host, records, skew)
            journal_gaps = verdicts.result()
        else:
            journal_gaps = _write_no_verdicts(spark, output)
            _write_incidents(output, inputs, logs, evidence, of_host, records, skew)
        with phase("writing the report"):
            gaps = [*absent, *gaps_and_counts.log_gaps(logs.statistics, logs.events, inputs), *journal_gaps]
            names = ("incidents", "bridges", *(("messages", "deliveries") if journals else ()))
            datasets = {name: output.read_written(name) for name in names}
            counts = gaps_and_counts.dataset_counts(logs.event_count, logs.statistics, datasets)
            result = Result(
                audit_outcome(gaps, counts), gaps_and_counts.input_summary(inputs), tuple(gaps), counts, output.path
            )
            picture = report_data(logs.events, of_host, records, datasets, inputs, counts)
            output.write_text("audit.json", json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
            output.write_text("report.html", audit_report(result, picture))
    finally:
        for frame in (evidence, of_host, *([records] if journals else ())):
            frame.unpersist()
    return result


def _write_incidents(
    output: Output,
    inputs: Inputs,
    logs: Logs,
    evidence: DataFrame,
    of_host: DataFrame,
    records: DataFrame,
    skew: timedelta,
) -> None:
    """Write bridges and incidents."""
    with phase("finding incidents"):
        output.write("bridges", of_host.where("is = 'bridge'"))
        found = incidents(evidence, of_host, logs.events, records, inputs, skew).persist()
        output.write("incidents", without_duplicate_refusals(found))
        found.unpersist()


def write_verdicts(output: Output, records: DataFrame) -> list[Gap]:
    """Write the datasets ``deliveries`` and ``messages``, and return the gaps of the journals.

    ``records`` are those of ``journal_records``; lines that are no records are gaps too.
    """
    with phase("settling events"):
        found = judge_deliveries(records)
        output.write("deliveries", found.deliveries)
        output.write("messages", found.messages)
        return [*gaps_and_counts.journal_gaps(found.gaps), *gaps_and_counts.malformed_line_gaps(records)]


def shuffle_settings(spark: SparkSession, inputs: Inputs) -> dict[str, str]:
    """Return settings that fit the number of shuffle partitions to the input: 4, and one more for each 16 MiB.

    Empty when ``spark.sql.shuffle.partitions`` is set already. Spark does not coalesce partitions of cached data.
    With at most 16 MiB on local Spark there is one partition, and adaptive execution, which makes a job of each stage,
    is off: for ten hosts and one failover that is 26 jobs in place of 56.
    """
    if spark.conf.get("spark.sql.shuffle.partitions", _SPARKS_OWN) != _SPARKS_OWN:
        return {}
    size = sum(file.size * (_PACKED if file.compressed else 1) for file in inputs.files)
    if size <= _EACH and is_local(spark.conf.get("spark.master", None)):
        return {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    return {"spark.sql.shuffle.partitions": str(min(int(_SPARKS_OWN), _FEWEST + size // _EACH))}


def _write_no_verdicts(spark: SparkSession, output: Output) -> list[Gap]:
    """Write ``deliveries`` and ``messages`` without rows, as for a fleet without journals; returns no gaps."""
    for name in ("deliveries", "messages"):
        output.write(name, spark.createDataFrame([], SCHEMAS[name]))
    return []
