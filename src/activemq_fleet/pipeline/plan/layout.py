"""Facts of all hosts -> rows of ``parts``, each with its component, sorted, a component in one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.pipeline.plan.components import pairs_of, pointed, shared, united
from activemq_fleet.pipeline.plan.links import Said, edges_of, groups_of, said_links, unknown_ends
from activemq_fleet.pipeline.plan.packing import TEXT
from activemq_fleet.pipeline.plan.parts import COLUMNS, FINDING, HOST, LINK, STORE
from activemq_fleet.pipeline.plan.survey import Survey

_FLAGS = ("broker", "agent", "balancer", "by_hand")
_TOLD = pa.schema([("kind", pa.int32()), ("home", TEXT), ("host", TEXT), ("text", TEXT), ("place", pa.int64())])


class _Told(NamedTuple):
    """A row that is no host's, for the group ``home``."""

    kind: int
    home: str
    host: str
    text: str
    place: int = 0


def rows_by_component(facts: DataFrame, found: Survey, tasks: int) -> DataFrame:
    """Rows of ``parts.COLUMNS``; the core is to see those of one component together.

    What is not about one host alone is asked of all hosts first, and is no more than groups are: so the
    rows follow from the facts by one shuffle.
    """
    hosts = _homes(facts, found)
    frames = _edges_of_hosts(facts, hosts, found)
    edges = pairs_of(reduce(lambda one, more: one.unionByName(more), frames)) if frames else []
    told: list[_Told] = []
    if found.links:
        links = said_links(facts)
        groups = groups_of({name for link in links for name in link.ends}, facts, found.names)
        edges += edges_of(links, groups)
        told += _links(links, groups)
        told += [_Told(FINDING, *one) for one in unknown_ends(links, groups, facts)]
    if found.own_stores:
        told += _stores(facts)
    spark, of_group = facts.sparkSession, united(edges)
    every = _hosts(hosts)
    if told:
        # Of a list Spark would make rows in Python workers of another kind, which it would have to start first.
        table = pa.Table.from_pylist([one._asdict() for one in told], _TOLD)
        every = every.unionByName(_other(spark.createDataFrame(table)))
    return _divided(every, of_group, tasks).sortWithinPartitions("component", "kind", "host", "place")


def _divided(every: DataFrame, of_group: Mapping[str, str], tasks: int) -> DataFrame:
    """The rows with their component, each component in one partition; a group that ``of_group`` lacks is one."""
    component = sf.col("home")
    if of_group:
        joined = {"home": pa.array(of_group.keys(), TEXT), "in": pa.array(of_group.values(), TEXT)}
        table = every.sparkSession.createDataFrame(pa.table(joined))
        every = every.join(sf.broadcast(table), "home", "left")
        component = sf.coalesce("in", "home")
    return every.withColumn("component", component).select(*COLUMNS).repartition(tasks, "component")


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


def _other(frame: DataFrame) -> DataFrame:
    """Rows that are no hosts, of ``_TOLD``."""
    return frame.select("home", "kind", "host", "text", "place", *(sf.lit(False).alias(flag) for flag in _FLAGS))


def _links(links: Iterable[Said], groups: Mapping[str, Sequence[str]]) -> Iterator[_Told]:
    """Entries whose ends are there, to where they begin."""
    for link in links:
        if all(name in groups for name in link.ends):
            home = min(group for name in link.ends for group in groups[name])
            yield _Told(LINK, home, link.host, link.text, link.place)


def _stores(facts: DataFrame) -> list[_Told]:
    """Stores that several units use, with the first of those, to the groups of all."""
    brokers = facts.where("store is not null")
    said = sf.broadcast(brokers.where("own_store").select("store").distinct())
    using = brokers.join(said, "store", "left_semi")
    several = (
        using.groupBy("store")
        .agg(
            sf.min(sf.struct("host", "unit")).alias("first"),
            sf.min("unit").alias("least"),
            sf.max("unit").alias("greatest"),
            sf.collect_set("group").alias("groups"),
        )
        .where("least <> greatest")
        .select("store", sf.col("first.unit").alias("owner"), "groups")
    )
    return [
        _Told(STORE, group, row["owner"], row["store"]) for row in several.collect() for group in sorted(row["groups"])
    ]
