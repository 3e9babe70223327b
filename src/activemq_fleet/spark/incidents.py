"""Group evidence by host and by pair, and find bridges and incidents in each group with functions of ``audit``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructType

from activemq_fleet.audit import arrow_rows
from activemq_fleet.audit.evidence import SKEW
from activemq_fleet.audit.log_evidence import KINDS, TEXT
from activemq_fleet.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from activemq_fleet.spark.inputs import Inputs

_EVIDENCE = (
    "host string, sequence bigint, time timestamp, last timestamp, count bigint, kind string, "
    "fields map<string,string>, text string, thread string"
)
_OF_HOSTS = (
    StructType([*SCHEMAS["bridges"].fields]).add("seen_loss", "boolean").add("back", "timestamp").add("is", "string")
)
_INCIDENTS = StructType([*SCHEMAS["incidents"].fields]).add("peer", "string").add("names", ArrayType(StringType()))


def log_evidence(events: DataFrame, file_indexes: Mapping[tuple[str, str], int]) -> DataFrame:
    """Return the log records that bridges and incidents are found by; frequent ones are one row a minute with a count.

    ``events`` is the dataset. ``file_indexes``: the position of each log file among its host's, by host and file name;
    0 is the oldest.
    """

    def evidence(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return arrow_rows.log_evidence(batches, file_indexes)

    return (
        events.where(sf.col("kind").isin(sorted(KINDS)) & sf.col("time").isNotNull())
        .select(
            "host",
            "file",
            "line",
            "time",
            "kind",
            "fields",
            sf.substring(sf.concat_ws("\n", "message", "stack"), 1, TEXT).alias("text"),
            "thread",
        )
        .mapInArrow(evidence, _EVIDENCE)
    )


def bridges_and_states(evidence: DataFrame) -> DataFrame:
    """Return the bridges, spans of broker states and broker names of each host's log; ``is`` says what a row is.

    A row with ``bridge`` is one of the dataset ``bridges``, with ``seen_loss`` (whether the host saw the connection
    break) and ``back`` (when it was there again). ``state``: from ``began`` to ``ended`` the broker was in ``state``.
    ``name``: ``peer`` is a name that the broker of ``host`` has had. ``evidence`` is that of ``log_evidence``.
    """
    return evidence.groupBy("host").applyInArrow(arrow_rows.of_host, _OF_HOSTS)


def incidents(
    evidence: DataFrame,
    found: DataFrame,
    events: DataFrame,
    records: DataFrame,
    inputs: Inputs,
    skew: timedelta = SKEW,
) -> DataFrame:
    """Return the incidents of all pairs: the columns of the dataset, and ``peer`` and ``names``.

    Where a bridge was refused, ``peer`` is the name of the broker that refused it; where a broker itself reports
    refusals, ``names`` are that broker's names.
    ``evidence`` is that of ``log_evidence``, ``found`` that of ``bridges_and_states``, ``events`` the dataset,
    ``records`` those of ``journal_records``. ``skew`` is by how much hosts' clocks may differ.
    """
    keys, known = _known(inputs)
    key_of = events.sparkSession.createDataFrame(sorted(keys.items()), "host string, key string")
    of_pairs = evidence.unionByName(_busy(events)).unionByName(_of_agents(records)).join(sf.broadcast(key_of), "host")
    together = of_pairs.unionByName(_of_bridges(found, key_of))

    def incidents_of_pair(key: tuple[pa.Scalar], table: pa.Table) -> pa.Table:
        return arrow_rows.incidents([*table.to_pylist(), *known.get(key[0].as_py(), ())], skew)

    return together.groupBy("key").applyInArrow(incidents_of_pair, _INCIDENTS)


def without_duplicate_refusals(incidents: DataFrame) -> DataFrame:
    """Return incidents less each bridge's refused connection that the refusing broker's own log reports too.

    ``incidents`` has the columns ``peer`` and ``names`` of the function ``incidents``.
    """
    named = incidents.select(sf.explode("names").alias("named")).where("named <> ''").distinct()
    return incidents.join(sf.broadcast(named), incidents["peer"] == named["named"], "left_anti")


def _known(inputs: Inputs) -> tuple[dict[str, str], dict[str, list[dict[str, Any]]]]:
    """Return the key (its pair, else itself) of every host, and by key the rows of its brokers and of planned work."""
    logs = {file.host for file in inputs.of_kind("log")}
    journals = {file.host for file in inputs.of_kind("journal")}
    keys, known = {}, dict[str, list[dict[str, Any]]]()
    for name, host in inputs.hosts.items():
        keys[name] = key = host.pair or name
        if name in journals and name not in logs:
            continue  # an agent's
        rows = known.setdefault(key, [])
        rows.append(arrow_rows.node_row(name, host.group, host.pair, host.store, is_complete=name in logs))
        rows += [arrow_rows.operation_row(operation) for operation in host.operations]
    return keys, known


def _busy(events: DataFrame) -> DataFrame:
    """By host and minute, from when to when there were lines of whatever kind."""
    return _evidence(
        events.where(sf.col("time").isNotNull())
        .groupBy("host", sf.date_trunc("minute", "time").alias("minute"))
        .agg(sf.min("time").alias("time"), sf.max("time").alias("last")),
        kind=sf.lit(arrow_rows.BUSY),
    )


def _of_agents(records: DataFrame) -> DataFrame:
    """Connections that agents lost and made, for the pair of the agent's host."""
    names = ("agent", "epoch", "broker", "reason")
    entries = [column for name in names for column in (sf.lit(name), sf.col(name))]
    return _evidence(
        records.where(sf.col("kind").isin("connected", "connection_lost")).dropDuplicates(["agent", "epoch", "jseq"]),
        kind=sf.when(sf.col("kind") == "connected", arrow_rows.AGENT_UP).otherwise(arrow_rows.AGENT_LOST),
        sequence=sf.col("jseq").cast("bigint"),
        time=sf.col("ts"),
        fields=sf.map_filter(sf.create_map(*entries), lambda _, value: value.isNotNull()),
    )


def _of_bridges(found: DataFrame, key_of: DataFrame) -> DataFrame:
    """Losses that bridges saw, for the pair that they lost: ``fields`` name its host where one alone has that name."""
    names = (
        found.where(sf.col("is") == "name")
        .join(sf.broadcast(key_of), "host")
        .groupBy("peer")
        .agg(sf.collect_set("key").alias("keys"), sf.collect_set("host").alias("hosts"))
        .where(sf.size("keys") == 1)
        .select("peer", sf.col("keys")[0].alias("key"), "hosts")
    )
    lost = found.where((sf.col("is") == "bridge") & sf.col("seen_loss") & (sf.col("direction") == "out"))
    return _evidence(
        lost.join(sf.broadcast(names), "peer"),
        "key",
        kind=sf.lit(arrow_rows.BRIDGE_LOST),
        time=sf.col("ended"),
        last=sf.col("back"),
        fields=sf.when(sf.size("hosts") == 1, sf.create_map(sf.lit("lost_host"), sf.col("hosts")[0])).otherwise(
            sf.create_map().cast("map<string,string>")
        ),
    )


def _evidence(frame: DataFrame, *more: str, **columns: Column) -> DataFrame:
    """Return evidence of these columns, the others as they are for what is no record of a log."""
    known: dict[str, Column] = {
        "sequence": sf.lit(0).cast("bigint"),
        "time": sf.col("time") if "time" in frame.columns else sf.lit(None).cast("timestamp"),
        "last": sf.col("last") if "last" in frame.columns else sf.lit(None).cast("timestamp"),
        "count": sf.lit(1).cast("bigint"),
        "fields": sf.create_map().cast("map<string,string>"),
        "text": sf.lit(""),
        "thread": sf.lit(""),
        **columns,
    }
    return frame.select("host", *(column.alias(name) for name, column in known.items()), *more)
