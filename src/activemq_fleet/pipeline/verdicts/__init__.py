"""What became of every event: journals of agents -> deliveries and messages.

Every function takes and returns DataFrames, and starts no Spark job.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.pipeline.schemas import SCHEMAS
from activemq_fleet.pipeline.verdicts import words
from activemq_fleet.pipeline.verdicts.happenings import events, receipts
from activemq_fleet.pipeline.verdicts.journal import Evidence, Keep, evidence
from activemq_fleet.pipeline.verdicts.reading import journal_records
from activemq_fleet.pipeline.verdicts.records import RECORDS, parse_journal
from activemq_fleet.pipeline.verdicts.settling import rank, units, verdict_at

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


@contextmanager
def settled(records: DataFrame) -> Iterator[Settled]:
    """Settle ``records`` (columns ``RECORDS``). What is used twice stays with Spark until the block ends."""
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist())
        return kept[-1]

    try:
        known = evidence(records, keep)
        received = keep(receipts(known.records))
        happened = keep(events(known.records, received))
        found = keep(_deliveries(known, received, happened, keep))
        yield Settled(found, _messages(happened, found), known.gaps, _coverage(known))
    finally:
        for frame in reversed(kept):
            frame.unpersist()


def deliveries(records: DataFrame) -> DataFrame:
    """The units (event, subscriber) of ``records``, as ``settled`` has them; Spark keeps what they are made of."""
    known = evidence(records, _persisted)
    received = _persisted(receipts(known.records))
    return _deliveries(known, received, _persisted(events(known.records, received)), _persisted)


def messages(records: DataFrame, deliveries: DataFrame) -> DataFrame:
    """The events of ``records`` with the worst verdict of their units, as ``settled`` has them."""
    known = evidence(records, _persisted)
    return _messages(events(known.records, receipts(known.records)), deliveries)


def journal_gaps(records: DataFrame) -> DataFrame:
    """What is missing of journals, as ``settled`` has it."""
    return evidence(records, _persisted).gaps


def coverage(records: DataFrame) -> DataFrame:
    """Messages that came without an id, as ``settled`` has them."""
    return _coverage(evidence(records, _persisted))


def _persisted(frame: DataFrame) -> DataFrame:
    return frame.persist()


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
