"""Which groups must be looked at together: connected components, found by joins of DataFrames.

Hosts are many and groups few. A group is whole by its name alone, so that hosts need no iteration:
joins make a small table of pairs of groups that something joins (a link, an address, a name that a
fragment dials, an agent on a broker's machine), and only that is searched, in one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EDGE = "one string, other string"
_FOUND = pa.schema([("group", pa.string()), ("component", pa.string())])


def components(edges: DataFrame) -> DataFrame:
    """(group, component) of every group that an edge (one, other) joins; a component has its least name."""
    every = edges.where("one is not null and other is not null and one <> other").distinct()
    return every.coalesce(1).mapInArrow(_joined, "group string, component string")


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = united(
        pair
        for batch in batches
        for pair in zip(batch.column("one").to_pylist(), batch.column("other").to_pylist(), strict=True)
    )
    yield pa.RecordBatch.from_arrays(
        [pa.array(list(found), pa.string()), pa.array(list(found.values()), pa.string())], schema=_FOUND
    )


def united(edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name -> least name of its component, for every name that stands in an edge."""
    above: dict[str, str] = {}

    def root(name: str) -> str:
        above.setdefault(name, name)
        while above[name] != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    for one, other in edges:
        first, second = sorted((root(one), root(other)))
        above[second] = first
    return {name: root(name) for name in sorted(above)}


def shared(facts: DataFrame, column: str) -> DataFrame:
    """Edges between groups that have one value of a column."""
    same = facts.where(sf.col(column).isNotNull()).groupBy(column)
    several = same.agg(sf.min("group").alias("one"), sf.max("group").alias("last")).where("one <> last")
    return facts.join(several.drop("last"), column).select("one", sf.col("group").alias("other"))


def pointed(facts: DataFrame) -> DataFrame:
    """Edges from groups that name a host of another group, in an address or in texts of their own, to that."""
    points = facts.where("points is not null").select(
        sf.col("group").alias("one"), sf.explode(sf.array_distinct("points")).alias("name")
    )
    wanted = points.select("name").distinct()
    owners = facts.where("group is not null").select(sf.col("group").alias("other"), sf.explode("names").alias("name"))
    known = owners.join(sf.broadcast(wanted), "name", "left_semi")
    return points.distinct().join(known.distinct(), "name").select("one", "other")


def of_links(ends: DataFrame) -> DataFrame:
    """Edges of links: ``ends`` are (link, end, group)."""
    source, target = ends.where("end = 'from'"), ends.where("end = 'to'")
    return (
        source.select("link", sf.col("group").alias("one"))
        .join(target.select("link", sf.col("group").alias("other")), "link")
        .select("one", "other")
    )
