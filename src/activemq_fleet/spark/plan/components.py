"""Which groups must be looked at together: connected components of what joins groups.

Hosts are many and groups few. A group is whole by its name alone, so that hosts need no iteration:
joins of DataFrames give the pairs of groups that something joins (a link, an address, a name that a
fragment dials, an agent on a broker's machine), and only those are searched, by the driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


def pairs_of(edges: DataFrame) -> list[tuple[str, str]]:
    """Edges (one, other) between two groups, each once."""
    every = edges.where("one is not null and other is not null and one <> other").distinct()
    return [(row["one"], row["other"]) for row in every.collect()]


def shared(facts: DataFrame, column: str) -> DataFrame:
    """Edges between groups that have one value of a column."""
    same = facts.where(sf.col(column).isNotNull()).groupBy(column)
    several = same.agg(sf.min("group").alias("one"), sf.max("group").alias("last")).where("one <> last")
    return facts.join(several.drop("last"), column).select("one", sf.col("group").alias("other"))


def pointed(facts: DataFrame, members: DataFrame) -> DataFrame:
    """Edges from groups that name a host of another group, in an address or in texts of their own, to that."""
    points = facts.where("points is not null").select(sf.col("group").alias("one"), sf.explode("points").alias("name"))
    wanted = points.select("name").distinct()
    owners = members.select(sf.col("group").alias("other"), sf.explode("names").alias("name"))
    known = owners.join(sf.broadcast(wanted), "name", "left_semi")
    return points.distinct().join(known.distinct(), "name").select("one", "other")
