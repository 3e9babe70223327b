"""The batch job: logs and journals -> every dataset, audit.json and report.html."""

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
from activemq_fleet.spark.audit import gathering
from activemq_fleet.spark.audit.shown import shown_of
from activemq_fleet.spark.beside import beside
from activemq_fleet.spark.datasets import Output, read_text
from activemq_fleet.spark.deliveries import settled
from activemq_fleet.spark.footers import schema_of
from activemq_fleet.spark.incidents import incidents, log_evidence, of_hosts, told_once
from activemq_fleet.spark.inputs import Host, Inputs, list_inputs
from activemq_fleet.spark.journals import RECORDS, journal_records
from activemq_fleet.spark.kept_events import KeptEvents
from activemq_fleet.spark.log_events import ONE_PARTITION, events, write_events
from activemq_fleet.spark.partfiles import keep_only, link_all
from activemq_fleet.spark.progress import phase
from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.settings import INTERPRETED, is_local, temporarily

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPARKS_OWN = "200"
# A file comes to its worker by itself: a batch of several is copied each time that it grows. Bytes.
_READING = {"spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 22), **ONE_PARTITION}
_FEWEST, _EACH = 4, 16 << 20  # partitions, and bytes of input for each further one
_AT_ONCE = {"spark.sql.adaptive.enabled": "false"} | INTERPRETED
_PACKED = 15  # how many times as large logs are when they are unpacked

__all__ = ["Logs", "Result", "audit", "conclude", "partitions", "read_logs", "told"]


def audit(
    spark: SparkSession,
    logs: str,
    out: str,
    *,
    inventory_hosts: Mapping[str, Host] | None = None,
    skew: timedelta = SKEW,
) -> Result:
    """Audit what ``collect`` laid down below ``logs``; OUT appears whole or not at all.

    ``inventory_hosts``: what the inventory says of hosts, for those without host.json; a broker of it
    of which nothing was collected makes the audit incomplete. ``skew``: by how much hosts' clocks may
    differ. Raises InputError where there is nothing to audit or OUT is not ours.
    """
    with Output(spark, out, "audit") as output:
        with phase("looking at the files"):
            inputs = list_inputs(spark, logs, inventory_hosts)
            inputs, absent = gathering.complete(inputs, inventory_hosts)
            records = journal_records(spark, inputs)
        with temporarily(spark, partitions(spark, inputs)):
            result = conclude(
                spark, output, inputs, read_logs(spark, output, inputs), records, absent=absent, skew=skew
            )
        output.commit()
    return result


def told(spark: SparkSession, out: str) -> dict[str, Any]:
    """What audit.json of a committed result says."""
    found: dict[str, Any] = json.loads(read_text(spark, out, "audit.json"))
    return found


@dataclass(frozen=True, slots=True)
class Logs:
    """Logs as they were read and written.

    ``count``: the number of events. ``seen``: what is known of the files, see ``gathering.watched``. ``written``: the
    dataset ``events``. ``evidence``: what bridges and incidents follow from.
    """

    count: int
    seen: Mapping[str, Any]
    written: DataFrame
    evidence: DataFrame


def read_logs(
    spark: SparkSession, output: Output, inputs: Inputs, kept: KeptEvents | None = None, digests: Mapping[str, str] = {}
) -> Logs:
    """Parse the logs, and write the dataset ``events``: each worker its part where it may, else Spark.

    ``kept``: events of an earlier run, which are taken over for hosts whose digest in ``digests`` is still the same.
    """
    place = output.own_place("events")
    with phase("reading logs"), temporarily(spark, _READING):
        if place is None:
            return _stored(output, events(spark, inputs), ordered=True)
        files, schema = inputs.of_kind("log"), schema_of("events")
        if kept is None:
            found = write_events(spark, inputs, files, place, schema, by_host=False)
        else:
            known = {host: kept.rows_of(host, digest) for host, digest in digests.items()}
            changed = [file for file in files if known[file.host] is None]
            found = [row for rows in known.values() for row in rows or ()]
            found += write_events(spark, inputs, changed, kept.place, schema, by_host=True)
            kept.keep(found, digests)
            link_all([kept.place / part for part in {row["part"] for row in found}], place)
        keep_only(place, {row["part"] for row in found}, schema)
        return _logs(output, output.wrote("events", sum(row["rows"] for row in found)), summary_of(found))


def summary_of(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return the rows of ``write_events`` in the terms of ``gathering.watched``."""
    problems = {(row["host"], row["file"], what) for row in rows for what in row["problems"]}
    turns = {(row["host"], row["file"], row["turn"]) for row in rows}
    return {
        "problems": [dict(zip(("host", "file", "what"), one, strict=True)) for one in problems],
        "turns": [dict(zip(("host", "file", "turn"), one, strict=True)) for one in turns],
        "unknown": sum(row["unknown"] for row in rows),
        "unread": sum(row["unread"] for row in rows),
    }


def _stored(output: Output, events: DataFrame, *, ordered: bool) -> Logs:
    seen = Observation()
    count = output.write("events", gathering.watched(events, seen), ordered=ordered)
    return _logs(output, count, seen.get)


def _logs(output: Output, count: int, seen: Mapping[str, Any]) -> Logs:
    written = output.written("events")
    return Logs(count, seen, written, log_evidence(written, gathering.turns_of(seen)))


def conclude(
    spark: SparkSession,
    output: Output,
    inputs: Inputs,
    logs: Logs,
    records: DataFrame,
    *,
    absent: Sequence[Gap] = (),
    skew: timedelta = SKEW,
) -> Result:
    """Write every dataset but ``events``, audit.json and report.html; commits nothing.

    ``records`` are those of the journals. ``absent``: what is known to be missing. As many partitions as ``partitions``
    says are the caller's to set.
    """
    journals = bool(inputs.of_kind("journal"))
    records = records.persist() if journals else spark.createDataFrame([], RECORDS)
    evidence = logs.evidence.persist()
    of_host = of_hosts(evidence).persist()
    try:
        if journals:
            # Each alone keeps one core busy with its plans.
            with beside(spark, lambda: write_verdicts(output, records)) as settling:
                _write_incidents(output, inputs, logs, evidence, of_host, records, skew)
            journal_gaps = settling.result()
        else:
            journal_gaps = _settle_nothing(spark, output)
            _write_incidents(output, inputs, logs, evidence, of_host, records, skew)
        with phase("writing the report"):
            gaps = [*absent, *gathering.log_gaps(logs.seen, logs.written, inputs), *journal_gaps]
            names = ("incidents", "bridges", *(("messages", "deliveries") if journals else ()))
            datasets = {name: output.written(name) for name in names}
            counts = gathering.counts_of(logs.count, logs.seen, datasets)
            result = Result(audit_outcome(gaps, counts), gathering.read_of(inputs), tuple(gaps), counts, output.path)
            picture = shown_of(logs.written, of_host, records, datasets, inputs, counts)
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
        found = incidents(evidence, of_host, logs.written, records, inputs, skew).persist()
        output.write("incidents", told_once(found))
        found.unpersist()


def write_verdicts(output: Output, records: DataFrame) -> list[Gap]:
    """Write what became of every event; what is missing of the journals."""
    with phase("settling events"):
        found = settled(records)
        output.write("deliveries", found.deliveries)
        output.write("messages", found.messages)
        return [*gathering.journal_gaps_of(found.gaps), *gathering.malformed(records)]


def partitions(spark: SparkSession, inputs: Inputs) -> dict[str, str]:
    """As many shuffle partitions as the input is worth: what is kept in memory is not made fewer by Spark itself.

    A small input on this machine is worth one; its plans, each of which runs once, are worth neither code of their own
    nor a second thought. For ten hosts and a kill that is 32 jobs in place of 100, and a fifth of the time.
    """
    if spark.conf.get("spark.sql.shuffle.partitions", _SPARKS_OWN) != _SPARKS_OWN:
        return {}
    size = sum(file.size * (_PACKED if file.compressed else 1) for file in inputs.files)
    if size <= _EACH and is_local(spark.conf.get("spark.master", None)):
        return {"spark.sql.shuffle.partitions": "1", **_AT_ONCE}
    return {"spark.sql.shuffle.partitions": str(min(int(_SPARKS_OWN), _FEWEST + size // _EACH))}


def _settle_nothing(spark: SparkSession, output: Output) -> list[Gap]:
    """Without journals there is nothing to compute, and the datasets are empty."""
    for name in ("deliveries", "messages"):
        output.write(name, spark.createDataFrame([], SCHEMAS[name]))
    return []
