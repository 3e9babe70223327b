"""Who was subscribed to what, and from when to when by the order of his own journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def subscriptions(records: DataFrame) -> DataFrame:
    """Rows of subscriber, filter, begin, end: places in the subscriber's journal; ``end`` is null while it lasts.

    ``changes`` are the sorted places at which any subscription of the subscriber began or ended. A filter that is
    granted again on a new connection is the same durable subscription.
    """
    told = records.where(sf.col("kind").isin("subscribed", "unsubscribed") & sf.col("filters").isNotNull()).select(
        sf.col("agent").alias("subscriber"), sf.explode("filters").alias("filter"), "place", "kind"
    )
    order = Window.partitionBy("subscriber", "filter").orderBy("place")
    changes = told.withColumn("before", sf.coalesce(sf.lag("kind").over(order), sf.lit("unsubscribed"))).where(
        "kind != before"
    )
    places = sf.sort_array(sf.collect_set("place").over(Window.partitionBy("subscriber")))
    return (
        changes.withColumn("end", sf.lead("place").over(order))
        .withColumn("changes", places)
        .where("kind = 'subscribed'")
        .select("subscriber", "filter", sf.col("place").alias("begin"), "end", "changes")
    )


def era_of(place: str) -> Column:
    """How many changes came before a place: inside an era it makes no difference where something stands."""
    return sf.size(sf.filter("changes", lambda at: at < sf.col(place)))


def matching(topics: DataFrame, filters: DataFrame) -> DataFrame:
    """Rows of topic, filter: the pairs of both frames where the filter matches (MQTT 3.1.1, section 4.7).

    Joined by equal values: a filter's levels before its first wildcard are among the beginnings of the topic.
    """
    levels = sf.split("topic", "/", -1)
    count = sf.size(levels)
    begin = sf.transform(sf.sequence(sf.lit(0), count), lambda n: sf.array_join(sf.slice(levels, sf.lit(1), n), "/"))
    wanted = sf.split("filter", "/", -1)
    # Where a wildcard is: of two the first; without one, behind the last level.
    at = sf.least(
        *(sf.coalesce(sf.nullif(sf.array_position(wanted, sf.lit(sign)), sf.lit(0)), sf.lit(1 << 20)) for sign in "+#")
    )
    literal = sf.array_join(sf.slice(wanted, sf.lit(1), sf.least(at.cast("int") - 1, sf.size(wanted))), "/")
    left = topics.select("topic", sf.explode(sf.array_distinct(begin)).alias("beginning"))
    right = filters.select("filter", literal.alias("beginning"))
    return left.join(right, "beginning").where(_matches(sf.split("filter", "/", -1), levels)).select("topic", "filter")


def _matches(wanted: Column, levels: Column) -> Column:
    rest = sf.array_position(wanted, sf.lit("#")).cast("int")
    length = sf.when(rest > 0, rest - 1).otherwise(sf.size(wanted))
    same = sf.zip_with(sf.slice(wanted, sf.lit(1), length), sf.slice(levels, sf.lit(1), length), _is_level)
    sizes = sf.when(rest > 0, sf.size(levels) >= length).otherwise(sf.size(levels) == length)
    return sizes & sf.forall(same, lambda is_same: is_same)


def _is_level(wanted: Column, level: Column) -> Column:
    return sf.coalesce((wanted == "+") | (wanted == level), sf.lit(False))
