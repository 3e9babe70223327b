"""Judge the delivery of every event on Spark, which sorts journal records for the functions of ``audit.deliveries``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from activemq_fleet.audit import delivery_rows
from activemq_fleet.audit.deliveries import Judge
from activemq_fleet.audit.journals import Epoch, EpochKey, EpochPart, JournalGap, epochs_of, without_journal
from activemq_fleet.audit.reached_ranges import subscribers_of
from activemq_fleet.audit.verdict_words import RECEIVING, UNREADABLE
from activemq_fleet.spark.schemas import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LINE = ("agent", "epoch", "jseq", "ts", "kind", "event_id", "rx_id", "topic", "came", "filters", "reason")
_GAPS = "agent string, epoch string, jseq bigint, count bigint, what string"


@dataclass(frozen=True, slots=True)
class DeliveryVerdicts:
    """The datasets ``deliveries`` and ``messages`` of all events, with ``final`` true, and what journals lack.

    ``gaps``: agent, epoch, jseq (the first missing), count, what. ``count`` is null where it cannot be known: an end
    that is missing, or a publisher of whom others received events and who has no journal of that epoch.
    ``coverage``: subscriber, received, handled, quarantined, of messages without an id, which no verdict covers.
    """

    deliveries: DataFrame
    messages: DataFrame
    gaps: DataFrame
    coverage: DataFrame


def judge_deliveries(records: DataFrame) -> DeliveryVerdicts:
    """Return a verdict on every event and delivery of ``records``, which have the columns ``RECORDS_SCHEMA``.

    Runs four small jobs before it returns.
    """
    epochs, no_journals = _epochs(records)
    found = _kept(_in_order(records, epochs))
    changes, missing = delivery_rows.changes_and_missing(found.where("what IN ('change', 'missing')").toArrow())
    subscribers = subscribers_of(changes)
    by_event = _kept(
        found.where("what = 'record'").drop("what").repartition("event_id").sortWithinPartitions("event_id")
    )

    def reach_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return delivery_rows.reach_rows(batches, subscribers, missing)

    reach = delivery_rows.reach_from(by_event.mapInArrow(reach_rows, from_arrow_schema(delivery_rows.REACH)).toArrow())

    def judged_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return delivery_rows.judged_rows(batches, lambda: Judge(subscribers, missing, reach))

    judged = _kept(
        by_event.mapInArrow(judged_rows, from_arrow_schema(delivery_rows.JUDGED)).withColumn("final", sf.lit(True))
    )
    return DeliveryVerdicts(
        judged.where("subscriber IS NOT NULL").select(*SCHEMAS["deliveries"].fieldNames()),
        judged.where("subscriber IS NULL").select(*SCHEMAS["messages"].fieldNames()),
        _gaps(found, no_journals),
        _coverage(found),
    )


def _kept(frame: DataFrame) -> DataFrame:
    """Return a frame that is computed once.

    Spark gives the room back when the frame is gone. On a cluster there are two copies: one executor may die.
    """
    is_local = (frame.sparkSession.conf.get("spark.master", "") or "").startswith("local")
    level = StorageLevel.MEMORY_AND_DISK if is_local else StorageLevel.MEMORY_AND_DISK_2
    return frame.localCheckpoint(eager=False, storageLevel=level)


def _epochs(records: DataFrame) -> tuple[dict[EpochKey, Epoch], list[JournalGap]]:
    """Return the epochs of which there are journals, and a gap for each that events name and that has none."""
    whole = sf.col("kind").isNotNull()
    is_torn = sf.col("problem").isin(*UNREADABLE)
    parts = (
        records.where(sf.col("jseq").isNotNull() | (~whole & is_torn))
        .groupBy("host", "file", "agent", "epoch")
        .agg(
            sf.max("jseq"),
            sf.min(sf.when(whole, sf.col("ts"))),
            sf.max(sf.when(whole, sf.col("line"))),
            sf.max(sf.when(sf.col("jseq").isNull(), sf.col("line"))),
        )
        .toArrow()
    )
    of, epoch, seq = (_id_part(part) for part in (1, 2, 3))
    is_own = (sf.col("agent") == of) & (sf.col("epoch") == epoch) & ((sf.col("kind") == "accepted") | _is_sent())
    came = sf.col("kind").isin(*RECEIVING, "barrier") & ~is_own
    named = (
        records.where(sf.col("jseq").isNotNull() & whole & seq.isNotNull())
        .groupBy(of.alias("agent"), epoch.alias("epoch"))
        .agg(sf.coalesce(sf.max(sf.when(came, seq)), sf.lit(0)).alias("seq"))
        .toArrow()
        .to_pydict()
    )
    received = {(a, e): s for a, e, s in zip(*named.values(), strict=True)}
    epochs = epochs_of((EpochPart(*row) for row in zip(*(c.to_pylist() for c in parts.columns), strict=True)), received)
    return epochs, list(without_journal(received, epochs))


def _in_order(records: DataFrame, epochs: dict[EpochKey, Epoch]) -> DataFrame:
    """Return what records say, those of an agent in its order: a task sorts one agent's, which spills to the disk."""

    def found_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return delivery_rows.found_of(batches, epochs)

    ranks = [(agent, epoch, about.rank) for (agent, epoch), about in epochs.items()]
    known = records.sparkSession.createDataFrame(ranks, "agent string, epoch string, rank bigint")
    # Of two records of one number that differ it is always the same one, and one that can be read if there is one.
    tie = (sf.col("kind").isNull(), "kind", "event_id", "ts", "host", "file", "line")
    return (
        records.where("jseq IS NOT NULL")
        .withColumn("came", sf.col("broker").isNotNull() | sf.col("conn").isNotNull())
        .join(sf.broadcast(known), ["agent", "epoch"])
        .repartition("agent")
        .sortWithinPartitions("agent", "rank", "jseq", *tie)
        .select(*_LINE)
        .mapInArrow(found_of, from_arrow_schema(delivery_rows.FOUND))
    )


def _gaps(found: DataFrame, no_journals: list[JournalGap]) -> DataFrame:
    gaps = found.where("what = 'gap'").select(
        "agent", "epoch", sf.col("place").alias("jseq"), sf.col("hole").alias("count"), sf.col("reason").alias("what")
    )
    return gaps.unionByName(found.sparkSession.createDataFrame(no_journals, _GAPS))


def _coverage(found: DataFrame) -> DataFrame:
    counted = [sf.count_if(sf.col("kind") == kind).alias(kind) for kind in ("received", "handled", "quarantined")]
    return found.where("what = 'nameless'").groupBy(sf.col("agent").alias("subscriber")).agg(*counted)


def _id_part(part: int) -> Column:
    """AGENT (1), EPOCH (2) or SEQ (3) of an id that an agent made, else null: as ``journals.id_parts``."""
    found = sf.nullif(sf.regexp_extract("event_id", r"^(.+):([^:]+):([1-9][0-9]{0,17})$", part), sf.lit(""))
    return found.cast("long") if part == 3 else found


def _is_sent() -> Column:
    """Whether a barrier was written by who sends it: one that came has a broker, and mostly another agent's id."""
    came = sf.col("broker").isNotNull() | sf.col("conn").isNotNull()
    starts = sf.col("event_id").startswith(sf.concat("agent", sf.lit(":")))
    return sf.coalesce((sf.col("kind") == "barrier") & ~came & starts, sf.lit(False))
