"""Facts of all hosts -> rows of ``parts``, each with its component, sorted, a component in one partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.pipeline.plan.components import components, of_links, pointed, shared
from activemq_fleet.pipeline.plan.links import ends_of, said_links, unknown_ends
from activemq_fleet.pipeline.plan.parts import COLUMNS, FINDING, HOST, LINK, STORE
from activemq_fleet.pipeline.plan.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FLAGS = ("broker", "agent", "balancer", "by_hand")


def rows_by_component(facts: DataFrame, found: Survey, tasks: int, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Rows of ``parts.COLUMNS``; the core is to see those of one component together.

    ``keep`` persists a frame until the caller is done with the rows. A frame that stayed longer would
    serve a later run in the same session too, which reads the same path with other hosts in it.
    """
    hosts = _homes(facts, found)
    rows = [_hosts(hosts)]
    edges = _edges_of_hosts(facts, hosts, found)
    if found.links:
        links = keep(said_links(facts))
        ends = keep(ends_of(links, facts))
        edges.append(of_links(ends))
        rows.append(_links(links, ends))
        told = unknown_ends(links, ends, facts)
        if told:
            frame = facts.sparkSession.createDataFrame(told, "home string, host string, text string")
            rows.append(_other(frame, FINDING, sf.lit(0)))
    if found.own_stores:
        rows.append(_stores(facts))
    every = rows[0]
    for more in rows[1:]:
        every = every.unionByName(more)
    if edges:
        joined = edges[0]
        for more in edges[1:]:
            joined = joined.unionByName(more)
        of_group = sf.broadcast(components(joined).withColumnRenamed("group", "home"))
        every = every.join(of_group, "home", "left")
    else:
        every = every.withColumn("component", sf.lit(None).cast("string"))
    every = every.withColumn("component", sf.coalesce("component", "home")).select(*COLUMNS)
    return every.repartition(tasks, "component").sortWithinPartitions("component", "kind", "host", "place")


def _homes(facts: DataFrame, found: Survey) -> DataFrame:
    """The hosts that have a role, each with the group that it is looked at with."""
    hosts = facts.where("broker or agent or balancer or by_hand")
    first = sf.lit(found.first_group)
    if found.balancers:
        served = facts.where("vip and `group` is not null").agg(sf.min("group").alias("served"))
        hosts = hosts.crossJoin(sf.broadcast(served))
    else:
        hosts = hosts.withColumn("served", sf.lit(None).cast("string"))
    if found.agents:
        groups = facts.where("group is not null").select(sf.col("group").alias("joined")).distinct()
        hosts = hosts.join(groups, hosts["agent_group"] == groups["joined"], "left")
    else:
        hosts = hosts.withColumn("joined", sf.lit(None).cast("string"))
    of_agent, of_balancer = sf.coalesce("joined", first), sf.coalesce("served", first)
    return hosts.withColumns(
        {
            "of_agent": sf.when(sf.col("agent"), of_agent),
            "of_balancer": sf.when(sf.col("balancer"), of_balancer),
            "home": sf.coalesce("group", sf.when(sf.col("agent"), of_agent), of_balancer),
        }
    )


def _edges_of_hosts(facts: DataFrame, hosts: DataFrame, found: Survey) -> list[DataFrame]:
    brokers = facts.where("group is not null")
    edges = []
    if found.addresses:
        edges.append(shared(brokers, "address"))
    if found.points:
        edges.append(pointed(brokers))
    if found.pattern != DEFAULT_PATTERN:  # by ours a pair's name has its group's in it
        edges += [shared(brokers, "pair"), shared(brokers, "unit")]
    if found.agents:
        edges.append(hosts.where("agent").select(sf.col("home").alias("one"), sf.col("of_agent").alias("other")))
    if found.balancers:
        edges.append(hosts.where("balancer").select(sf.col("home").alias("one"), sf.col("of_balancer").alias("other")))
        edges.append(hosts.where("vip and broker").select(sf.col("home").alias("one"), sf.col("served").alias("other")))
    return edges


def _hosts(hosts: DataFrame) -> DataFrame:
    return hosts.select("home", sf.lit(HOST).alias("kind"), "host", sf.col("variables").alias("text"), "place", *_FLAGS)


def _other(frame: DataFrame, kind: int, place: Column) -> DataFrame:
    """Rows that are no hosts, of (home, host, text)."""
    return frame.select(
        "home",
        sf.lit(kind).alias("kind"),
        "host",
        "text",
        place.cast("bigint").alias("place"),
        *(sf.lit(False).alias(flag) for flag in _FLAGS),
    )


def _links(links: DataFrame, ends: DataFrame) -> DataFrame:
    """Entries whose ends are there, to where they begin."""
    whole = ends.groupBy("link").agg(
        sf.min("group").alias("home"), sf.count_if(sf.col("group").isNull()).alias("missing")
    )
    good = whole.where("missing = 0").join(links, "link")
    return _other(good.withColumnRenamed("link", "text"), LINK, sf.col("place"))


def _stores(facts: DataFrame) -> DataFrame:
    """Stores that several units use, with the first of those, to the groups of all."""
    brokers = facts.where("store is not null")
    said = sf.broadcast(brokers.where("own_store").select("store").distinct())
    using = brokers.join(said, "store", "left_semi")
    first = (
        using.groupBy("store")
        .agg(
            sf.min(sf.struct("host", "unit")).alias("first"),
            sf.min("unit").alias("least"),
            sf.max("unit").alias("greatest"),
        )
        .where("least <> greatest")
        .select("store", sf.col("first.unit").alias("owner"))
    )
    rows = using.join(first, "store").select(
        sf.col("group").alias("home"), sf.col("owner").alias("host"), sf.col("store").alias("text")
    )
    return _other(rows.distinct(), STORE, sf.lit(0))
