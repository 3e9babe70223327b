"""What an earlier output has that a new one would only repeat: whole components, known by their fingerprint."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.errors import InputError
from activemq_fleet.spark.datasets import read
from activemq_fleet.spark.plan import parts
from activemq_fleet.spark.plan.context import Context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def since_of(spark: SparkSession, out: str, since: str | None) -> str | None:
    """What to build on: as asked for, else OUT itself where it holds a plan; None for nothing.

    Raises InputError for a ``since`` that is no plan.
    """
    try:
        read(spark, since or out, "components")
    except (InputError, OSError):
        if since:
            raise InputError(f"--since {since}: is no output of plan") from None
        return None
    return since or out


class Earlier:
    """An earlier output beside the rows of a new run. Raises InputError for one that is no plan."""

    def __init__(self, spark: SparkSession, since: str, rows: DataFrame, context: Context) -> None:
        self._spark = spark
        self._since = since
        before = read(spark, since, "components")
        marks = rows.mapInArrow(partial(parts.fingerprints, context=context), "component string, fingerprint string")
        self._marks = marks.persist()
        key = ["component", "fingerprint"]
        self._changed = sf.broadcast(self._marks.join(before.select(*key), key, "left_anti").select("component"))
        self._kept = before.join(self._marks, key, "left_semi").select("host").persist()
        self._groups = read(spark, since, "brokers").join(self._kept, "host", "left_semi").select("group").distinct()

    def changed(self, rows: DataFrame) -> DataFrame:
        """The rows of components that are not as they were."""
        return rows.join(self._changed, "component", "left_semi").sortWithinPartitions(
            "component", "kind", "host", "place"
        )

    def with_kept(self, name: str, computed: DataFrame) -> DataFrame:
        """A dataset of the whole: what was computed, and what is as it was."""
        return computed.unionByName(self._of(name, "left_semi").select(*computed.columns))

    def changes(self, computed: DataFrame) -> DataFrame:
        """(host, path, op) of every file that was added, removed or changed."""
        before, now = (
            frame.select("host", "path", sf.coalesce("host", sf.lit("")).alias("of"), sf.col("sha256").alias(which))
            for frame, which in ((self._of("files", "left_anti"), "before"), (computed, "now"))
        )
        op = sf.when(sf.col("before").isNull(), "added").when(sf.col("now").isNull(), "removed").otherwise("changed")
        return (
            before.join(now.withColumnRenamed("host", "new_host"), ["of", "path"], "full_outer")
            .where(~sf.col("before").eqNullSafe(sf.col("now")))
            .select(sf.coalesce("host", "new_host").alias("host"), "path", op.alias("op"))
        )

    def forget(self) -> None:
        """Let go of what was kept in Spark's memory."""
        self._marks.unpersist()
        self._kept.unpersist()

    def _of(self, name: str, how: str) -> DataFrame:
        """Rows of the earlier dataset that are kept (left_semi), or not (left_anti)."""
        before = read(self._spark, self._since, name)
        rows = before.where("host is not null").join(self._kept, "host", how)
        if name == "files":  # those for a group's clients have no host
            group = sf.split("path", "/")[1]
            clients = before.where("host is null").withColumn("group", group).join(self._groups, "group", how)
            rows = rows.unionByName(clients.drop("group"))
        return rows
