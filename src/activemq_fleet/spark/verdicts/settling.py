"""Evidence -> units (event, subscriber) with their verdicts.

A unit is decided by the subscriber's own records as soon as he has one. Only of events that he was to get and has no
record of the publisher's word, the barriers and the gaps of both journals are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from activemq_fleet.spark.verdicts import words
from activemq_fleet.spark.verdicts.happenings import (
    ACCEPTED,
    ACKNOWLEDGED,
    DROPPED,
    EXPIRED,
    UNCONFIRMED,
)
from activemq_fleet.spark.verdicts.journal import Evidence, Keep
from activemq_fleet.spark.verdicts.subscriptions import era_of, matching, subscriptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_STREAM = ("subscriber", "agent", "epoch")
"""What one publisher has sent to one subscriber, in the order of one epoch."""


def units(found: Evidence, received: DataFrame, happened: DataFrame, keep: Keep) -> DataFrame:
    """Rows of event_id, subscriber, verdict, reason, attempts, from ``receipts`` and ``events``."""
    origins = happened.select("event_id", "is_barrier", sf.explode("copies").alias("copy")).select(
        "event_id", "is_barrier", "copy.*"
    )
    missed = keep(_missed(found, received, origins, keep))
    judged = _with_bounds(_with_barriers(missed, received, origins), missed, received, origins)
    missing = sf.broadcast(found.agents.select(sf.col("agent").alias("subscriber"), "missing"))
    publishers = sf.broadcast(found.agents.select("agent", sf.col("missing").alias("missing_of_publisher")))
    judged = judged.join(missing, "subscriber").join(publishers, "agent", "left")
    # Of an event that several agents publish the worst counts, as long as nothing of it has come.
    by_missed = (
        judged.select("event_id", "subscriber", _missed_reason().alias("reason"))
        .withColumn("rank", _rank(_verdict_of_missed()))
        .groupBy("event_id", "subscriber")
        .agg(sf.min(sf.struct("rank", "reason")).alias("worst"))
        .select("event_id", "subscriber", verdict_at("worst.rank"), "worst.reason", sf.lit(0).alias("attempts"))
    )
    came = received.where("got > 0 AND NOT is_barrier").join(missing, "subscriber")
    return _by_receipt(came).unionByName(by_missed)


def _rank(verdict: Column) -> Column:
    return sf.array_position(sf.array(*map(sf.lit, words.WORST)), verdict)


def rank(verdict: str) -> Column:
    """1 for the worst verdict, 5 for the best."""
    return _rank(sf.col(verdict))


def verdict_at(position: str) -> Column:
    """The verdict of a rank."""
    return sf.element_at(sf.array(*map(sf.lit, words.WORST)), sf.col(position).cast("int")).alias("verdict")


# -- what has come --------------------------------------------------------------------------------


def _by_receipt(received: DataFrame) -> DataFrame:
    """Units that the subscriber's records decide. A gap before a receipt cannot hide that it was handled later."""
    hidden = sf.col("missing") > sf.coalesce("open_hole", sf.lit(0))
    reason = (
        sf.when(sf.col("handled") == 1, words.HANDLED)
        .when(sf.col("handled") > 1, sf.concat(sf.lit("handled "), sf.col("handled"), sf.lit(" times")))
        .when(sf.col("quarantined") > 0, words.QUARANTINED)
        .when(hidden, words.SUBSCRIBER_GAP)
        .otherwise(words.NOT_HANDLED)
    )
    verdict = (
        sf.when(sf.col("handled") > 1, "duplicate")
        .when((sf.col("handled") == 1) | (sf.col("quarantined") > 0), "delivered")
        .when(hidden, "indeterminate")
        .otherwise("stuck")
    )
    return received.select(
        "event_id", "subscriber", verdict.alias("verdict"), reason.alias("reason"), sf.col("attempts").cast("int")
    )


# -- what has not -----------------------------------------------------------------------------------


def _missed(found: Evidence, received: DataFrame, origins: DataFrame, keep: Keep) -> DataFrame:
    """Copies of events that a subscriber was to get and has no record of."""
    reach = _reach(found, received, origins, keep)
    earlier = (sf.col("min_seq") < sf.col("seq")) | (sf.col("min_first") < sf.col("first"))
    later = (sf.col("max_seq") >= sf.col("seq")) | (sf.col("max_first") >= sf.col("first"))
    expected = (
        origins.where("NOT is_barrier AND topic IS NOT NULL")
        .join(reach, ["topic", "agent", "epoch"])
        .where(sf.coalesce(earlier, sf.lit(False)) & (sf.col("is_open") | sf.coalesce(later, sf.lit(False))))
    )
    keys = ["event_id", "subscriber"]
    expected = expected.select(*keys, *(name for name in origins.columns if name not in ("event_id", "is_barrier")))
    return expected.distinct().join(received.where("got > 0").select(*keys), keys, "left_anti")


def _reach(found: Evidence, received: DataFrame, origins: DataFrame, keep: Keep) -> DataFrame:
    """By topic, stream and subscription: the first and last of the stream that came while it lasted."""
    subscribed = keep(subscriptions(found.records))
    changes = subscribed.select("subscriber", "changes").distinct()
    heard = (
        received.select("event_id", "subscriber", "place")
        .join(sf.broadcast(changes), "subscriber")
        .withColumn("era", era_of("place"))
        .join(origins.select("event_id", "agent", "epoch", "seq", "first"), "event_id")
        .groupBy(*_STREAM, "era")
        .agg(*(pick(name).alias(f"{word}_{name}") for name in ("seq", "first") for word, pick in _EXTREMES))
    )
    lasting = subscribed.select(
        "subscriber", "filter", sf.col("end").isNull().alias("is_open"), "begin",
        (era_of("begin") + 1).alias("from_era"),
        sf.when(sf.col("end").isNotNull(), era_of("end")).alias("to_era"),
    )  # fmt: skip
    inside = (sf.col("era") >= sf.col("from_era")) & sf.coalesce(sf.col("era") <= sf.col("to_era"), sf.lit(True))
    streams = (
        heard.join(lasting, "subscriber")
        .where(inside)
        .groupBy(*_STREAM, "filter", "begin", "is_open")
        .agg(*(pick(f"{word}_{name}").alias(f"{word}_{name}") for name in ("seq", "first") for word, pick in _EXTREMES))
    )
    topics = origins.where("NOT is_barrier AND topic IS NOT NULL").select("topic").distinct()
    return matching(topics, subscribed.select("filter").distinct()).join(streams, "filter").drop("filter", "begin")


_EXTREMES = (("min", sf.min), ("max", sf.max))


def _prefix(topic: str) -> Column:
    """The prefix that an event's topic is proved by: all but its last level, or all of a topic of one level.

    A barrier's is that of the events before it, in both forms of its topic.
    """
    return sf.regexp_replace(topic, "(?<=.)(/__barrier__)?/[^/]*$", "")


def _with_barriers(missed: DataFrame, received: DataFrame, origins: DataFrame) -> DataFrame:
    """Adds ``barrier_hole``, what was missing before the first later barrier came, and ``has_odd_barriers``.

    An event stands in the order of its epoch by SEQ; one with a caller's id, and one that was re-queued, by the moment
    at which the publisher took it. A barrier that came and of whose acceptance nothing is known is odd; one that came
    on another topic than it was accepted for is forged, and none.
    """
    came = (
        received.where("is_barrier")
        .select("event_id", "subscriber", sf.col("received_hole").alias("hole"), sf.col("topic").alias("came_on"))
        .join(origins.where("is_barrier"), "event_id")
        .where("came_on = topic")
        .select(*_STREAM, _prefix("topic").alias("prefix"), "seq", "first", "hole")
    )
    came = came.select(
        *_STREAM, "prefix", "hole", sf.explode(sf.array(
            sf.struct(sf.lit(True).alias("by_seq"), sf.col("seq").alias("at")),
            sf.struct(sf.lit(False).alias("by_seq"), sf.col("first").alias("at")),
        )).alias("order"),
    ).select(*_STREAM, "prefix", "hole", "order.by_seq", "order.at", sf.lit(True).alias("is_barrier"))  # fmt: skip
    by_seq = sf.col("seq").isNotNull() & sf.coalesce(sf.col("first") == sf.col("last"), sf.lit(True))
    waiting = missed.withColumns(
        {
            "is_barrier": sf.lit(False),
            "prefix": _prefix("topic"),
            "by_seq": by_seq,
            "at": sf.when(by_seq, sf.col("seq")).otherwise(sf.col("last")),
        }
    )
    both = waiting.unionByName(came, allowMissingColumns=True)
    part = Window.partitionBy(*_STREAM, "prefix", "by_seq")
    later = part.orderBy(sf.desc("at")).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    odd = sf.max(sf.col("is_barrier") & sf.col("at").isNull() & ~sf.col("by_seq")).over(part)
    return (
        both.withColumn(
            "barrier_hole", sf.min(sf.when(sf.col("is_barrier") & sf.col("at").isNotNull(), sf.col("hole"))).over(later)
        )
        .withColumn("has_odd_barriers", odd)
        .where("NOT is_barrier")
        .drop("hole", "is_barrier", "at")
    )


def _with_bounds(waiting: DataFrame, missed: DataFrame, received: DataFrame, origins: DataFrame) -> DataFrame:
    """Adds ``low`` and ``high``: what was missing before the receipts between which this one would stand.

    Those are events of the same publisher and topic, whose order at first receipt is promised. Of re-queued events it
    is not.
    """
    is_plain = sf.coalesce(sf.col("first") == sf.col("last"), sf.lit(False))
    stream = (*_STREAM, "topic")
    waiting = waiting.withColumn("at", sf.when(is_plain, sf.col("first")))
    came = (
        received.where("received_hole IS NOT NULL AND NOT is_barrier")
        .select("event_id", "subscriber", sf.col("received_hole").alias("hole"))
        .join(origins.where(is_plain), "event_id")
        .select(*stream, "hole", sf.col("first").alias("at"))
        .join(missed.where(is_plain).select(*stream).distinct(), list(stream), "left_semi")
    )
    both = waiting.unionByName(came, allowMissingColumns=True)
    order = Window.partitionBy(*stream).orderBy("at")
    low = sf.max("hole").over(order.rowsBetween(Window.unboundedPreceding, -1))
    high = sf.min("hole").over(order.rowsBetween(1, Window.unboundedFollowing))
    return (
        both.withColumns({"low": low, "high": high})
        .where("event_id IS NOT NULL")
        .withColumn("high", sf.when(sf.col("at").isNotNull(), sf.col("high")))
    )


_ACKED = (ACKNOWLEDGED, UNCONFIRMED)


def _missed_reason() -> Column:
    """Why an expected event is not there; the verdict follows from it."""
    state, low = sf.col("state"), sf.coalesce("low", sf.lit(0))
    acked = state.isin(*_ACKED)
    requeue_hidden = acked & (sf.col("state_hole") > sf.col("last_hole"))
    more_hidden = ~state.isin(ACKNOWLEDGED, DROPPED) & (sf.col("missing_of_publisher") > sf.col("state_hole"))
    until = sf.least(sf.coalesce("high", "missing"), sf.coalesce("barrier_hole", "missing"))
    barrier_hidden = acked & sf.col("barrier_hole").isNull() & (sf.col("missing") > low)
    return (
        sf.when(sf.col("last").isNull(), words.NO_ACCEPTANCE)
        .when(requeue_hidden | more_hidden, words.PUBLISHER_GAP)
        .when((until > low) | barrier_hidden, words.SUBSCRIBER_GAP)
        .when(state == ACCEPTED, words.NEVER_ACKNOWLEDGED)
        .when(state == EXPIRED, words.EXPIRED)
        .when(state == DROPPED, words.DROPPED)
        .when(sf.col("barrier_hole").isNotNull(), words.BARRIER_CAME)
        .when(sf.coalesce("has_odd_barriers", sf.lit(False)) & ~sf.col("by_seq"), words.PUBLISHER_GAP)
        .otherwise(words.NO_BARRIER)
    )


def _verdict_of_missed() -> Column:
    reason = sf.col("reason")
    return (
        sf.when(reason.isin(words.DROPPED, words.BARRIER_CAME), "lost")
        .when(reason.isin(words.NEVER_ACKNOWLEDGED, words.EXPIRED, words.NO_BARRIER), "stuck")
        .otherwise("indeterminate")
    )
