"""What became of every event: journals of agents -> deliveries and messages.

Every function takes and returns DataFrames. Those that settle run Spark jobs: what is used several times is computed
once, and kept by Spark as long as somebody holds a frame that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as sf

from activemq_fleet.spark.schemas import SCHEMAS
from activemq_fleet.spark.verdicts import words
from activemq_fleet.spark.verdicts.happenings import events, receipts
from activemq_fleet.spark.verdicts.journal import Evidence, Keep, evidence
from activemq_fleet.spark.verdicts.reading import journal_records
from activemq_fleet.spark.verdicts.records import RECORDS, parse_journal
from activemq_fleet.spark.verdicts.settling import rank, units, verdict_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "RECORDS", "Settled", "coverage", "deliveries", "journal_gaps", "journal_records", "messages", "parse_journal",
    "settled",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settled:
    """What journals say: the datasets ``deliveries`` and ``messages``, all final, and what is missing.

    ``gaps``: agent, epoch, jseq (the first missing), count, what. ``count`` is null where it cannot be known: an end
    that is missing, or a publisher of whom others received events and who has no journal of that epoch.
    ``coverage``: subscriber, received, handled, quarantined, of messages without an id, which no verdict covers.
    """

    deliveries: DataFrame
    messages: DataFrame
    gaps: DataFrame
    coverage: DataFrame


def settled(records: DataFrame) -> Settled:
    """Settle ``records`` (columns ``RECORDS``), all at once: what the frames are made of is computed only once."""
    known = evidence(records, _kept)
    received = _kept(receipts(known.records))
    happened = _kept(events(known.records, received))
    found = _kept(_deliveries(known, received, happened, _kept))
    return Settled(found, _messages(happened, found), known.gaps, _coverage(known))


def deliveries(records: DataFrame) -> DataFrame:
    """The units (event, subscriber) of ``records``, as ``settled`` has them."""
    known = evidence(records, _kept)
    received = _kept(receipts(known.records))
    return _deliveries(known, received, _kept(events(known.records, received)), _kept)


def messages(records: DataFrame, deliveries: DataFrame) -> DataFrame:
    """The events of ``records`` with the worst verdict of their units, as ``settled`` has them."""
    known = evidence(records, _kept)
    return _messages(events(known.records, _kept(receipts(known.records))), deliveries)


def journal_gaps(records: DataFrame) -> DataFrame:
    """What is missing of journals, as ``settled`` has it."""
    return evidence(records, _kept).gaps


def coverage(records: DataFrame) -> DataFrame:
    """Messages that came without an id, as ``settled`` has them."""
    return _coverage(evidence(records, _kept))


def _kept(frame: DataFrame) -> DataFrame:
    """Computed once, and a leaf of every plan from here on: plans of joins of joins would be analyzed for minutes.

    Spark gives the room back when the frame is gone. On a cluster there are two copies: one executor may die.
    """
    is_local = (frame.sparkSession.conf.get("spark.master", "") or "").startswith("local")
    level = StorageLevel.MEMORY_AND_DISK if is_local else StorageLevel.MEMORY_AND_DISK_2
    return frame.localCheckpoint(eager=False, storageLevel=level)


def _deliveries(known: Evidence, received: DataFrame, happened: DataFrame, keep: Keep) -> DataFrame:
    found = units(known, received, happened, keep).withColumn("final", sf.lit(True))
    return found.select(*SCHEMAS["deliveries"].fieldNames())


def _messages(happened: DataFrame, deliveries: DataFrame) -> DataFrame:
    worst = deliveries.groupBy("event_id").agg(
        sf.min(sf.struct(rank("verdict").alias("rank"), "reason")).alias("worst")
    )
    nobody = words.WORST.index("indeterminate") + 1
    return (
        happened.where("NOT is_barrier")
        .join(worst, "event_id", "left")
        .withColumns(
            {
                "rank": sf.coalesce("worst.rank", sf.lit(nobody)),
                "reason": sf.coalesce("worst.reason", sf.lit(words.NOBODY)),
                "accepted": sf.col("accepted_at"),
                "handled": sf.col("handled_at"),
                "final": sf.lit(True),
            }
        )
        .withColumn("verdict", verdict_at("rank"))
        .select(*SCHEMAS["messages"].fieldNames())
    )


def _coverage(known: Evidence) -> DataFrame:
    counted = [sf.count_if(sf.col("kind") == kind).alias(kind) for kind in ("received", "handled", "quarantined")]
    nameless = known.records.where("event_id IS NULL AND rx_id IS NOT NULL")
    return nameless.groupBy(sf.col("agent").alias("subscriber")).agg(*counted)
