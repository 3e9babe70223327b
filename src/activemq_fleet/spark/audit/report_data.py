"""Query an audit's datasets for what its report shows: Spark aggregates, the driver gets a few hundred rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, Window
from pyspark.sql import functions as sf

from activemq_fleet.audit.picture import (
    BUCKETS,
    FINE,
    DeliverySlice,
    Latency,
    LineCounts,
    Picture,
    ShownBridge,
    ShownEvent,
    ShownHost,
    ShownIncident,
    Silence,
    latency_of,
)
from activemq_fleet.audit.result import Counts
from activemq_fleet.audit.state_spans import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from activemq_fleet.spark.inputs import Inputs

_INCIDENTS, _HOSTS, _BRIDGES, _SILENCES, _EVENTS = 300, 160, 200, 60, 60
# The gravest first: what is cut off is what comes most often and says least.
_GRAVEST = (
    "split_brain",
    "failed_takeover",
    "failing_start",
    "store_error",
    "demotion",
    "flapping",
    "takeover",
    "duplicate_bridge",
    "refused_credentials",
)
_WORST = ("lost", "stuck", "indeterminate", "duplicate")
_EDGES = (0.0005, 0.9995)
"""A line with a wrong date must not stretch the time line: so much of both ends is no measure for it."""


def report_data(
    events: DataFrame,
    states: DataFrame,
    records: DataFrame,
    datasets: Mapping[str, DataFrame],
    inputs: Inputs,
    counts: Counts,
) -> Picture:
    """Return what the HTML report of an audit shows: spans, curves and the most important rows of each dataset.

    ``events`` is the dataset, ``states`` the frame that ``incidents.bridges_and_states`` returns, ``records`` those of
    ``journal_records``. ``datasets`` are the others that were written, by name; ``messages`` is left out where there
    are no journals.
    """
    incidents = _incidents(datasets["incidents"]) if counts.incidents else []
    began, ended = _range(events, records, incidents)
    step = max((ended - began) / BUCKETS, timedelta(milliseconds=1))
    hosts, hosts_left = _hosts(states, inputs, incidents)
    bridges = _bridges(datasets["bridges"]) if counts.bridges else []
    handled = "messages" in datasets and bool(counts.messages)
    bad = handled and set(counts.messages) != {"delivered"}
    return Picture(
        began=began,
        ended=ended,
        incidents=incidents,
        incidents_left=sum(counts.incidents.values()) - len(incidents),
        hosts=hosts,
        hosts_left=hosts_left,
        bridges=bridges[:_BRIDGES],
        more_bridges=len(bridges) > _BRIDGES,
        lines=_lines(events, began, ended, step),
        slices=_slices(datasets["messages"], began, step) if handled else [],
        latency=_latency(datasets["messages"]) if handled else Latency(),
        silences=_silences(records) if handled else [],
        events=_events(datasets["messages"]) if bad else [],
    )


def _incidents(frame: DataFrame) -> list[ShownIncident]:
    gravity = sf.array_position(sf.array(*map(sf.lit, _GRAVEST)), sf.col("kind"))
    ordered = frame.orderBy(gravity, "ended", "incident").limit(_INCIDENTS)
    found = [
        ShownIncident(
            id=row["incident"],
            kind=row["kind"],
            host=row["host"],
            pair=row["pair"],
            began=_utc(row["began"]),
            ended=_utc(row["ended"]),
            seconds=row["seconds"],
            began_from=row["began_from"],
            certainty=row["certainty"],
            cause=row["cause"],
            remedy=row["remedy"],
            rules=tuple(row["rules"] or ()),
            planned=bool(row["planned"]),
        )
        for row in _rows(ordered)
    ]
    found.sort(key=lambda one: (one.ended or one.began or datetime.min.replace(tzinfo=UTC), one.id))
    return found


def _range(events: DataFrame, records: DataFrame, incidents: list[ShownIncident]) -> tuple[datetime, datetime]:
    edges = sf.array(*map(sf.lit, _EDGES))
    logged = events.agg(sf.percentile_approx(sf.unix_micros("time"), edges, sf.lit(10_000)).alias("edges")).first()
    noted = records.agg(sf.min(sf.unix_micros("ts")).alias("a"), sf.max(sf.unix_micros("ts")).alias("b")).first()
    moments = [_of_micros(value) for value in (logged["edges"] if logged else None) or ()]
    moments += [_of_micros(value) for value in (noted or ()) if value is not None]
    moments += [at for one in incidents for at in (one.began, one.ended) if at is not None]
    if not moments:
        return datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(1, UTC)
    return min(moments), max(max(moments), min(moments) + timedelta(seconds=1))


def _hosts(states: DataFrame, inputs: Inputs, incidents: list[ShownIncident]) -> tuple[list[ShownHost], int]:
    """Hosts in pairs; those that an incident concerns before the others, as far as there is room."""
    logs = {file.host for file in inputs.of_kind("log")}
    pair_of = {name: inputs.hosts[name].pair or name for name in logs if name in inputs.hosts}
    concerned = {pair_of.get(one.host, one.host) for one in incidents}
    ordered = sorted(pair_of, key=lambda name: (pair_of[name] not in concerned, pair_of[name], name))
    chosen = sorted(ordered[:_HOSTS], key=lambda name: (inputs.hosts[name].group or "", pair_of[name], name))
    spans: dict[str, list[Span]] = {}
    for row in _rows(states.where((sf.col("is") == "state") & sf.col("host").isin(chosen))):
        began = _utc(row["began"])
        assert began is not None  # noqa: S101 -- for the type alone
        spans.setdefault(row["host"], []).append(Span(row["host"], row["state"], began, _utc(row["ended"])))
    found = [
        ShownHost(name, inputs.hosts[name].pair, tuple(sorted(spans.get(name, ()), key=lambda span: span.began)))
        for name in chosen
    ]
    return found, len(ordered) - len(chosen)


def _bridges(frame: DataFrame) -> list[ShownBridge]:
    order = Window.partitionBy("host", "link", "direction").orderBy("began")
    away = (sf.unix_micros(sf.lead("began").over(order)) - sf.unix_micros("ended")) / 1e6
    newest = sf.max_by(sf.struct("state", "rebuilt", "cause"), sf.coalesce("began", sf.lit(0).cast("timestamp")))
    links = (
        frame.withColumn("away", away)
        .groupBy("host", "link", "direction")
        .agg(
            sf.slice(sf.sort_array(sf.collect_set("peer")), 1, 4).alias("peers"),
            sf.count("began").alias("times"),
            sf.count_if(sf.col("cause").startswith("error at")).alias("broken"),
            sf.sum("flaps").alias("flaps"),
            newest.alias("newest"),
            sf.max("away").alias("away"),
        )
    )
    bad = sf.col("newest.state") != "up"
    rows = links.orderBy(sf.desc(bad), sf.desc("broken"), sf.desc("flaps"), "host", "link").limit(_BRIDGES + 1)
    return [
        ShownBridge(
            host=row["host"],
            link=row["link"],
            peers=tuple(row["peers"]),
            direction=row["direction"],
            times=row["times"],
            broken=row["broken"],
            flaps=row["flaps"] or 0,
            state=row["newest"]["state"],
            cause=row["newest"]["cause"],
            longest_down=row["away"],
        )
        for row in rows.collect()
    ]


def _lines(events: DataFrame, began: datetime, ended: datetime, step: timedelta) -> list[LineCounts]:
    counted = (
        events.where(sf.col("time").between(sf.lit(began), sf.lit(ended)))
        .groupBy(_slice("time", began, step).alias("slice"))
        .agg(
            sf.count("*").alias("lines"),
            sf.count_if(sf.col("level") == "WARN").alias("warnings"),
            sf.count_if(sf.col("level").isin("ERROR", "FATAL")).alias("errors"),
        )
        .orderBy("slice")
    )
    return [
        LineCounts(began + row["slice"] * step, row["lines"], row["warnings"], row["errors"])
        for row in counted.collect()
    ]


def _slice(column: str, began: datetime, step: timedelta) -> Column:
    micros = int(began.timestamp() * 1e6)
    width = max(1, step // timedelta(microseconds=1))
    return sf.floor((sf.unix_micros(column) - sf.lit(micros)) / sf.lit(width))


def _took() -> Column:
    """Seconds from acceptance to handling, by the clocks of two agents."""
    return (sf.unix_micros("handled") - sf.unix_micros("accepted")) / 1e6


def _slices(messages: DataFrame, began: datetime, step: timedelta) -> list[DeliverySlice]:
    took = sf.percentile_approx(_took(), sf.array(sf.lit(0.5)), sf.lit(1000))
    counted = (
        messages.where("handled IS NOT NULL")
        .groupBy(_slice("handled", began, step).alias("slice"))
        .agg(sf.count("*").alias("count"), took.alias("took"), sf.max(_took()).alias("longest"))
        .orderBy("slice")
        .limit(2 * BUCKETS)
    )
    return [
        DeliverySlice(began + row["slice"] * step, row["count"], row["took"] and row["took"][0], row["longest"])
        for row in counted.collect()
    ]


def _latency(messages: DataFrame) -> Latency:
    known = messages.where("handled IS NOT NULL AND accepted IS NOT NULL").select(_took().alias("took"))
    fine = sf.floor(FINE * sf.log2(sf.greatest(sf.col("took") * 1000, sf.lit(0.5)))).cast("int")
    rows = known.groupBy(sf.when(sf.col("took") >= 0, fine).alias("fine"))
    counted = rows.agg(sf.count("*").alias("count"), sf.max("took").alias("longest")).collect()
    return latency_of([(row["fine"], row["count"], row["longest"]) for row in counted])


def _silences(records: DataFrame) -> list[Silence]:
    """The longest times without an event handled, by subscriber. Seconds first: there may be many events."""
    second = sf.floor(sf.unix_micros("ts") / 1_000_000)
    seconds = (
        records.where("kind = 'handled'")
        .groupBy("agent", second.alias("second"))
        .agg(sf.min("ts").alias("first"), sf.max("ts").alias("last"))
    )
    order = Window.partitionBy("agent").orderBy("second")
    gaps = seconds.withColumn("before", sf.lag("last").over(order)).where("before IS NOT NULL")
    length = ((sf.unix_micros("first") - sf.unix_micros("before")) / 1e6).alias("length")
    rows = gaps.select("agent", "before", length).where("length >= 1").orderBy(sf.desc("length"), "agent")
    found = []
    for row in _rows(rows.limit(_SILENCES)):
        began = _utc(row["before"])
        assert began is not None  # noqa: S101 -- for the type alone
        found.append(Silence(row["agent"], began, row["length"]))
    return found


def _events(messages: DataFrame) -> list[ShownEvent]:
    gravity = sf.array_position(sf.array(*map(sf.lit, _WORST)), sf.col("verdict"))
    rows = messages.where(sf.col("verdict") != "delivered").orderBy(gravity, "event_id").limit(_EVENTS).collect()
    return [ShownEvent(row["event_id"], row["topic"], row["verdict"], row["reason"]) for row in rows]


def _of_micros(value: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(value))


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows whose times have a zone; ``collect`` gives local ones, without."""
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found
