"""Evidence -> what publishers tell of each event, and what subscribers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.spark.verdicts import words
from activemq_fleet.spark.verdicts.journal import id_part

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ACCEPTED, ACKNOWLEDGED, UNCONFIRMED, EXPIRED, DROPPED = range(1, 6)
"""States of an event with its publisher; the last of these records counts."""
_STATE_BITS = 3


def receipts(records: DataFrame) -> DataFrame:
    """A row for each event and subscriber that has a record of it.

    ``got``: records that are no barrier's. ``place``: of the first one. ``received_hole``: what was missing before
    its first receipt, if that is there. ``open_hole``: what was missing before the last record that left it unhandled.
    """
    kind = sf.col("kind")
    came = kind.isin("received", "barrier")
    return (
        records.where((kind.isin(*words.RECEIVING, "barrier")) & ~sf.col("is_sent") & sf.col("event_id").isNotNull())
        .groupBy("event_id", sf.col("agent").alias("subscriber"))
        .agg(
            sf.count_if(kind != "barrier").alias("got"),
            sf.count_if(kind == "handled").alias("handled"),
            sf.count_if(kind == "quarantined").alias("quarantined"),
            sf.count_if(kind == "handling").cast("int").alias("attempts"),
            sf.min("place").alias("place"),
            sf.min(sf.when(came, sf.col("hole"))).alias("received_hole"),
            sf.max(sf.when(kind.isin("received", "handling"), sf.col("hole"))).alias("open_hole"),
            sf.min(sf.when(kind == "handled", sf.col("ts"))).alias("handled_at"),
            sf.min("topic").alias("topic"),
            sf.max((kind == "barrier") | _is_barrier_topic()).alias("is_barrier"),
        )
    )


def copies(records: DataFrame) -> DataFrame:
    """A row for each event and agent that publishes it; see ``events`` for the columns."""
    kind, place, hole = sf.col("kind"), sf.col("place"), sf.col("hole")
    accepted = kind == "accepted"
    state = (
        sf.when(accepted, ACCEPTED)
        .when(kind == "acknowledged", ACKNOWLEDGED)
        .when(kind == "unconfirmed", UNCONFIRMED)
        .when(kind == "expired", sf.when(sf.col("reason") == "dropped", DROPPED).otherwise(EXPIRED))
    )
    # Barriers of those who publish by other means than an agent's outbox are not accepted, only told of.
    taken = accepted | sf.col("is_sent")
    grouped = (
        records.where((kind.isin(*words.PUBLISHING) | sf.col("is_sent")) & sf.col("event_id").isNotNull())
        .groupBy("event_id", "agent")
        .agg(
            sf.coalesce(sf.min(sf.when(accepted, place)), sf.min(sf.when(taken, place))).alias("first"),
            sf.max(sf.when(accepted, place)).alias("last"),
            sf.max(sf.when(accepted, hole)).alias("last_hole"),
            sf.max(sf.when(state.isNotNull(), sf.shiftleft(place, _STATE_BITS) + state)).alias("state"),
            sf.max(sf.when(state.isNotNull(), hole)).alias("state_hole"),
            sf.coalesce(sf.min(sf.when(accepted, sf.col("topic"))), sf.min("topic")).alias("topic"),
            sf.min(sf.when(accepted, sf.col("ts"))).alias("accepted_at"),
            sf.coalesce(sf.min_by("epoch", sf.when(accepted, place)), sf.min("epoch")).alias("epoch"),
            sf.max(sf.col("is_sent") | _is_barrier_topic()).alias("is_barrier"),
        )
    )
    own = id_part("event_id", 1) == sf.col("agent")
    return grouped.select(
        "event_id",
        "agent",
        sf.when(own, id_part("event_id", 2)).otherwise(sf.col("epoch")).alias("epoch"),
        sf.when(own, id_part("event_id", 3)).alias("seq"),
        "first",
        "last",
        "last_hole",
        sf.col("state").bitwiseAND((1 << _STATE_BITS) - 1).cast("int").alias("state"),
        "state_hole",
        "topic",
        "accepted_at",
        "is_barrier",
    )


def _is_barrier_topic() -> Column:
    return sf.coalesce(sf.col("topic").rlike(words.BARRIER_TOPIC), sf.lit(False))


_COPY = ("agent", "epoch", "seq", "first", "last", "last_hole", "state", "state_hole", "topic")


def events(records: DataFrame, received: DataFrame) -> DataFrame:
    """A row an event or barrier: event_id, topic, accepted_at, handled_at, by, is_barrier, copies.

    ``copies`` are those of the agents that publish it, with ``agent``; ``epoch`` and ``seq`` that order it (SEQ is
    null for a caller's id); ``first`` and ``last``, the places at which it was accepted and last re-queued; ``state``
    and the holes before ``last`` and ``state``. An agent whose id it bears, and who does not tell of it, has one too.
    """
    told = copies(records).select(
        "event_id", sf.struct(*_COPY).alias("copy"), "topic", "accepted_at", "is_barrier",
        sf.lit(None).cast("timestamp").alias("handled_at"), sf.lit(None).cast("string").alias("by"),
        sf.lit(None).cast("string").alias("heard"),
    )  # fmt: skip
    heard = received.select(
        "event_id", "is_barrier", "handled_at", sf.when(sf.col("handled") > 0, sf.col("subscriber")).alias("by"),
        sf.col("topic").alias("heard"),
    )  # fmt: skip
    grouped = (
        told.unionByName(heard, allowMissingColumns=True)
        .groupBy("event_id")
        .agg(
            sf.collect_list("copy").alias("told"),
            sf.coalesce(sf.min("topic"), sf.min("heard")).alias("topic"),
            sf.min("accepted_at").alias("accepted_at"),
            sf.min("handled_at").alias("handled_at"),
            sf.sort_array(sf.collect_set("by")).alias("by"),
            sf.max("is_barrier").alias("is_barrier"),
        )
    )
    agent = id_part("event_id", 1)
    untold = sf.struct(
        agent.alias("agent"), id_part("event_id", 2).alias("epoch"), id_part("event_id", 3).alias("seq"),
        *(sf.lit(None).cast("long").alias(name) for name in ("first", "last", "last_hole")),
        sf.lit(None).cast("int").alias("state"), sf.lit(None).cast("long").alias("state_hole"),
        sf.col("topic").alias("topic"),
    )  # fmt: skip
    is_told = sf.exists("told", lambda copy: copy["agent"] == agent)
    named = sf.when(agent.isNull() | is_told, sf.col("told")).otherwise(sf.concat("told", sf.array(untold)))
    return grouped.select(
        "event_id", "topic", "accepted_at", "handled_at", "by", "is_barrier", _with_topics(named).alias("copies")
    )


def _with_topics(found: Column) -> Column:
    """Copies of which only subscribers tell the topic get it."""
    return sf.transform(found, lambda copy: copy.withField("topic", sf.coalesce(copy["topic"], sf.col("topic"))))
