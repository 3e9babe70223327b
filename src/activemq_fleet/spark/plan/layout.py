"""Facts of all hosts -> rows of ``parts``, each with its component, sorted, a component in one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.spark.plan.bundles import MEMBERS, ddl_of, members
from activemq_fleet.spark.plan.components import pairs_of, pointed, shared, united
from activemq_fleet.spark.plan.digest import Store
from activemq_fleet.spark.plan.links import Said, edges_of, groups_of, said_links, unknown_ends
from activemq_fleet.spark.plan.packing import TEXT
from activemq_fleet.spark.plan.placing import Places, placed
from activemq_fleet.spark.plan.rows import COLUMNS, FINDING, HOST, LINK, STORE
from activemq_fleet.spark.plan.survey import Survey

_FLAGS = ("broker", "agent", "balancer", "by_hand")
_TOLD = pa.schema([("kind", pa.int32()), ("home", TEXT), ("host", TEXT), ("text", TEXT), ("place", pa.int64())])
_PLACED = (
    "component string, kind int, host string, text string, place bigint, broker boolean, agent boolean, "
    "balancer boolean, by_hand boolean, home string, task int"
)  # COLUMNS, and where they go


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
    with _members(facts, found) as brokers:
        of_group, told = _joined(facts, hosts, brokers, found)
    every = _hosts(hosts)
    if told:
        # Of a list Spark would make rows in Python workers of another kind, which it would have to start first.
        rows = [one._asdict() for one in told]
        every = every.unionByName(_other(facts.sparkSession.createDataFrame(pa.Table.from_pylist(rows, _TOLD))))
    place = partial(placed, places=Places(tasks, of_group), columns=COLUMNS)
    rows_placed = every.mapInArrow(place, _PLACED).repartitionById(tasks, "task").select(*COLUMNS)
    return rows_placed.sortWithinPartitions("component", "kind", "host", "place")


def _joined(
    facts: DataFrame, hosts: DataFrame, brokers: DataFrame, found: Survey
) -> tuple[dict[str, str], list[_Told]]:
    """The component of each group that something joins to another, and rows that are no host's."""
    frames = _edges_of_hosts(facts, hosts, brokers, found)
    edges = pairs_of(reduce(lambda one, more: one.unionByName(more), frames)) if frames else []
    told: list[_Told] = []
    if found.links:
        links = said_links(found.links)
        groups = groups_of({name for link in links for name in link.ends}, brokers, found.names)
        edges += edges_of(links, groups)
        told += _links(links, groups)
        told += [_Told(FINDING, *one) for one in unknown_ends(links, groups, brokers)]
    if found.stores:
        told += _stores(brokers, found)
    return united(edges), told


@contextmanager
def _members(facts: DataFrame, found: Survey) -> Iterator[DataFrame]:
    """Each broker by itself. Kept only where something asks for more of many than a group's rows say."""
    packed = facts.where("`group` is not null").select("host", "variables")
    brokers = packed.mapInArrow(partial(members, pattern=found.pattern), ddl_of(MEMBERS))
    if found.pattern == DEFAULT_PATTERN and not found.points and not found.own_directories:
        yield brokers
        return
    brokers.persist()
    try:
        yield brokers
    finally:
        brokers.unpersist()


def _homes(facts: DataFrame, found: Survey) -> DataFrame:
    """The hosts that have a role or nearly a broker's name, each with the group that it is looked at with."""
    hosts = facts.where("broker or agent or balancer or by_hand or nearly")
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


def _edges_of_hosts(facts: DataFrame, hosts: DataFrame, brokers: DataFrame, found: Survey) -> list[DataFrame]:
    edges = []
    if found.addresses:
        edges.append(shared(facts.where("`group` is not null"), "address"))
    if found.points:
        edges.append(pointed(facts.where("`group` is not null"), brokers))
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


def _stores(brokers: DataFrame, found: Survey) -> Iterator[_Told]:
    """Stores that several units use, with the first of those, to the groups of all."""
    stores: Mapping[str, Store] = found.stores
    if found.own_directories:  # which others may have by their name, unlike a database
        stores = {store: Store(*using) for store, *using in _using(brokers, stores)}
    for store, using in stores.items():
        if using.least != using.greatest:
            for group in sorted(using.groups):
                yield _Told(STORE, group, using.unit, store)


def _using(brokers: DataFrame, stores: Iterable[str]) -> list[Row]:
    """Who uses these stores."""
    said = brokers.sparkSession.createDataFrame(pa.table({"store": pa.array(list(stores), TEXT)}))
    using = brokers.where("store is not null").join(sf.broadcast(said), "store", "left_semi").groupBy("store")
    first = sf.min(sf.struct("host", "unit"))
    return using.agg(
        first["host"].alias("host"),
        first["unit"].alias("unit"),
        sf.min("unit").alias("least"),
        sf.max("unit").alias("greatest"),
        sf.collect_set("group").alias("groups"),
    ).collect()
