"""Frames of events and journal records -> frames of incidents and bridges.

Spark only filters, counts and brings together what concerns a pair; what it means is decided by the
pure modules beside this one, over a few rows for each pair and host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructType

from activemq_fleet.audit import rows
from activemq_fleet.audit.broker_runs import KINDS as OF_RUNS
from activemq_fleet.audit.evidence import SKEW
from activemq_fleet.audit.log_evidence import KINDS, OF_LINKS, TEXT
from activemq_fleet.logs.log_files import LINES
from activemq_fleet.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from activemq_fleet.spark.inputs import Inputs

_SIGNS = (
    "host string, sequence bigint, time timestamp, last timestamp, count bigint, kind string, "
    "fields map<string,string>, text string, thread string"
)
_BRIDGES = StructType([*SCHEMAS["bridges"].fields]).add("seen_loss", "boolean").add("back", "timestamp")
_INCIDENTS = StructType([*SCHEMAS["incidents"].fields]).add("peer", "string").add("names", ArrayType(StringType()))
_NAMED = ("LIFE-STARTING", "LIFE-STARTED", "LIFE-STARTING-OLD", "LIFE-STARTED-OLD")
_COLUMNS = ("key", "host", "sequence", "time", "last", "count", "kind", "fields", "text", "thread")


def signs(events: DataFrame, turns: Sequence[tuple[str, str, int]] = ()) -> DataFrame:
    """The records that incidents and bridges come from, the numerous ones counted by the minute."""
    matter = events.where(sf.col("kind").isin(sorted(KINDS)) & sf.col("time").isNotNull())
    wanted = in_sequence(matter, turns).select(
        "host",
        "sequence",
        "time",
        "kind",
        "fields",
        sf.substring(sf.concat_ws("\n", "message", "stack"), 1, TEXT).alias("text"),
        "thread",
    )
    return wanted.mapInArrow(rows.signs, _SIGNS)


def in_sequence(events: DataFrame, turns: Sequence[tuple[str, str, int]] = ()) -> DataFrame:
    """With a column ``sequence``: a host's records in the order in which they were written.

    Where it is not there, it comes from ``turns``: host, file, and which of the host's files that is.
    """
    if "sequence" in events.columns:
        return events
    known = events.sparkSession.createDataFrame(list(turns), "host string, file string, turn bigint")
    sequence = (sf.col("turn") * sf.lit(LINES) + sf.col("line")).alias("sequence")
    return events.join(sf.broadcast(known), ["host", "file"]).select(*events.columns, sequence)


def bridges(events: DataFrame, inputs: Inputs) -> DataFrame:
    """The dataset ``bridges``: for each bridge from when to when it was up, and what became of it."""
    return bridges_of(signs(events))


def bridges_of(found: DataFrame) -> DataFrame:
    """The same from ``signs``."""
    return _bridges(found).select(*SCHEMAS["bridges"].names)


def spans_of(found: DataFrame) -> DataFrame:
    """host, state, began, ended: in which state each broker was, from ``signs``; for drawing."""
    mine = found.where(sf.col("kind").isin(sorted(OF_RUNS)))
    return mine.groupBy("host").applyInArrow(rows.spans, "host string, state string, began timestamp, ended timestamp")


def _bridges(found: DataFrame) -> DataFrame:
    mine = found.where(sf.col("kind").isin(sorted(OF_LINKS | OF_RUNS)))
    return mine.groupBy("host").applyInArrow(rows.bridges, _BRIDGES)


def incidents(events: DataFrame, records: DataFrame, inputs: Inputs, skew: timedelta = SKEW) -> DataFrame:
    """The dataset ``incidents``. ``skew``: by how much hosts' clocks may differ."""
    return incidents_of(signs(events), events, records, inputs, skew)


def incidents_of(
    found: DataFrame, events: DataFrame, records: DataFrame, inputs: Inputs, skew: timedelta = SKEW
) -> DataFrame:
    """The same from ``signs``, and the events for which minutes had lines."""
    nodes = nodes_of(events, inputs)
    of_host = nodes.select("key", "host")
    own = found.join(sf.broadcast(of_host), "host").select(*_COLUMNS)
    evidence = [
        own,
        _presence(nodes),
        _busy(events).join(sf.broadcast(of_host), "host").select(*_COLUMNS),
        _of_agents(records, inputs),
        _of_bridges(found, nodes),
    ]
    operations = _operations(nodes, inputs)
    evidence += [] if operations is None else [operations]
    together = evidence[0]
    for frame in evidence[1:]:
        together = together.unionByName(frame.select(*_COLUMNS))

    def settle(table: pa.Table) -> pa.Table:
        return rows.incidents(table, skew)

    settled = together.groupBy("key").applyInArrow(settle, _INCIDENTS)
    return _told_once(settled).select(*SCHEMAS["incidents"].names)


def _told_once(settled: DataFrame) -> DataFrame:
    """Without what a bridge was refused where the broker that refused it tells of that itself."""
    told = sf.array_distinct(sf.flatten(sf.collect_list("names").over(Window.partitionBy(sf.lit(1)))))
    mirrored = (sf.col("peer") != "") & sf.array_contains("told", sf.col("peer"))
    return settled.withColumn("told", told).where(~mirrored)


def nodes_of(events: DataFrame, inputs: Inputs) -> DataFrame:
    """key (pair, else host), host, group, pair, store, complete: of every broker that is known."""
    logs = {file.host for file in inputs.files if file.kind == "log"}
    journals = {file.host for file in inputs.files if file.kind == "journal"}
    data = [
        (host.pair or name, name, host.group, host.pair, host.store, name in logs)
        for name, host in sorted(inputs.hosts.items())
        if name in logs or name not in journals
    ]
    schema = "key string, host string, group string, pair string, store string, complete boolean"
    return events.sparkSession.createDataFrame(data, schema)


def _presence(nodes: DataFrame) -> DataFrame:
    """A row for each node, so that one without a log is known of."""
    about = {"group": "group", "pair": "pair", "store": "store"}
    return _evidence(
        nodes.withColumn("fields", _map({**about, "complete": sf.col("complete").cast("string")})), rows.NODE
    )


def _operations(nodes: DataFrame, inputs: Inputs) -> DataFrame | None:
    """Planned work at the pair of its host; None where no host has written any down."""
    data = [
        (one.host, one.began, one.ended, {"operation": one.operation, "by": one.by})
        for _, host in sorted(inputs.hosts.items())
        for one in host.operations
    ]
    if not data:
        return None
    schema = "host string, time timestamp, last timestamp, fields map<string,string>"
    told = nodes.sparkSession.createDataFrame(data, schema)
    return _evidence(told.join(sf.broadcast(nodes.select("key", "host")), "host"), rows.OPERATION)


def _busy(events: DataFrame) -> DataFrame:
    """By host and minute, from when to when there were lines of whatever kind."""
    minute = sf.date_trunc("minute", "time")
    counted = (
        events.where(sf.col("time").isNotNull())
        .groupBy("host", minute.alias("minute"))
        .agg(sf.min("time").alias("time"), sf.max("time").alias("last"))
    )
    return _evidence(counted, rows.BUSY)


def _of_agents(records: DataFrame, inputs: Inputs) -> DataFrame:
    """Connections that agents lost and made, at the pair where an agent is at home."""
    homes = [(name, host.pair) for name, host in sorted(inputs.hosts.items()) if host.pair]
    at_home = records.sparkSession.createDataFrame(homes, "host string, key string")
    about = {name: name for name in ("agent", "epoch", "broker", "reason")}
    mine = (
        records.where(sf.col("kind").isin("connected", "connection_lost"))
        .select("host", "jseq", sf.col("ts").alias("time"), "kind", *about)
        .dropDuplicates(["agent", "epoch", "jseq"])
        .withColumn("fields", _map(about))
        .join(sf.broadcast(at_home), "host")
        .withColumn("sequence", sf.col("jseq").cast("bigint"))
    )
    kind = sf.when(sf.col("kind") == "connected", rows.AGENT_UP).otherwise(rows.AGENT_LOST)
    return _evidence(mine.withColumn("kind", kind), None)


def _of_bridges(found: DataFrame, nodes: DataFrame) -> DataFrame:
    """Losses that bridges saw, at the pair that they lost."""
    lost = _bridges(found).where("seen_loss AND direction = 'out'")
    seen = lost.join(sf.broadcast(_names(found, nodes)), "peer").select(
        "key",
        "host",
        sf.col("ended").alias("time"),
        sf.col("back").alias("last"),
        _map({"lost_host": "lost_host", "source": sf.lit("bridge")}).alias("fields"),
    )
    return _evidence(seen, rows.BRIDGE_LOST)


def _names(found: DataFrame, nodes: DataFrame) -> DataFrame:
    """peer (a broker's name, as its own log tells it), key, lost_host where one host alone has that name."""
    return (
        found.where(sf.col("kind").isin(*_NAMED))
        .select("host", sf.col("fields")["broker"].alias("peer"))
        .join(sf.broadcast(nodes.select("key", "host")), "host")
        .groupBy("peer")
        .agg(sf.collect_set("key").alias("keys"), sf.collect_set("host").alias("hosts"))
        .where(sf.size("keys") == 1)
        .select(
            "peer",
            sf.col("keys")[0].alias("key"),
            sf.when(sf.size("hosts") == 1, sf.col("hosts")[0]).alias("lost_host"),
        )
    )


def _map(entries: Mapping[str, str | Column]) -> Column:
    columns = [
        part
        for name, value in entries.items()
        for part in (sf.lit(name), sf.col(value) if isinstance(value, str) else value)
    ]
    return sf.map_filter(sf.create_map(*columns), lambda _, value: value.isNotNull())


def _evidence(frame: DataFrame, kind: str | None) -> DataFrame:
    """In the columns that all evidence has."""
    if kind is not None:
        frame = frame.withColumn("kind", sf.lit(kind))
    empty = {
        "sequence": sf.lit(0).cast("bigint"),
        "time": sf.lit(None).cast("timestamp"),
        "last": sf.lit(None).cast("timestamp"),
        "count": sf.lit(1).cast("bigint"),
        "fields": sf.create_map().cast("map<string,string>"),
        "text": sf.lit(""),
        "thread": sf.lit(""),
    }
    for name, value in empty.items():
        if name not in frame.columns:
            frame = frame.withColumn(name, value)
    return frame.select(*(name for name in _COLUMNS if name in frame.columns))
