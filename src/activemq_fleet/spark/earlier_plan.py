"""Reuse those components of an earlier output of ``plan`` whose fingerprint is unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet import InputError
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.planning.compute import DATASETS
from activemq_fleet.spark.datasets import AtomicJobOutput, read_dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def reusable_plan_path(spark: SparkSession, out: str, since: str | None) -> str | None:
    """Return the output path of an earlier ``plan`` to reuse: ``since``, or else ``out`` if it holds a plan, or None.

    Raises InputError for a ``since`` that is no plan.
    """
    try:
        read_dataset(spark, since or out, "components")
    except (InputError, OSError):
        if since:
            raise InputError(
                f"--since {since}: the directory contains no result of `activemq-fleet plan`: name the output "
                "directory of an earlier run"
            ) from None
        return None
    return since or out


def read_blocking_findings(spark: SparkSession, out: str) -> DataFrame:
    """Return the findings in the output of a plan that block a deployment: errors without a waiver."""
    return read_dataset(spark, out, "findings").where((sf.col("severity") == "error") & sf.col("waived").isNull())


class EarlierPlanOutput:
    """The output of an earlier run of the Spark job ``plan``.

    That job renders and checks a fleet. The rows of unchanged components are reused from it.
    """

    def __init__(self, spark: SparkSession, since: str) -> None:
        self._spark = spark
        self._since = since
        self._components = read_dataset(spark, since, "components")

    def component_fingerprints(self) -> dict[str, str]:
        """Return a hash of each component (hosts that are planned together) in the earlier plan, by component name.

        An unchanged hash shows that the component's rows can be reused.
        """
        components = self._components.select("component", "fingerprint").distinct().toArrow()
        return dict(zip(components["component"].to_pylist(), components["fingerprint"].to_pylist(), strict=True))

    def copy_unchanged_rows_and_write_changes(
        self, output: AtomicJobOutput, unchanged_components: Sequence[str]
    ) -> None:
        """Copy the earlier plan's rows of unchanged components to the output of this run.

        A component is a group of hosts that are planned together.

        The dataset ``changes`` is written, too: host, path and op (``added``, ``removed``, ``changed``) of each file
        that differs from the earlier output.
        """
        names = self._spark.createDataFrame([(name,) for name in unchanged_components], "component string")
        self._kept = self._components.join(names, "component", "left_semi").select("host")
        self._groups = (
            read_dataset(self._spark, self._since, "brokers").join(self._kept, "host", "left_semi").select("group")
        )
        output.write_dataset("changes", self._changed_files(output.read_written_dataset("files")))
        for name in DATASETS if unchanged_components else ():
            output.write_dataset(name, self._earlier_rows(name, "left_semi"), ordered=True)

    def _changed_files(self, computed: DataFrame) -> DataFrame:
        earlier_frame, current_frame = (
            frame.select("host", "path", sf.coalesce("host", sf.lit("")).alias("of"), sf.col("sha256").alias(which))
            for frame, which in ((self._earlier_rows("files", "left_anti"), "before"), (computed, "now"))
        )
        op = sf.when(sf.col("before").isNull(), "added").when(sf.col("now").isNull(), "removed").otherwise("changed")
        return (
            earlier_frame.join(current_frame.withColumnRenamed("host", "new_host"), ["of", "path"], "full_outer")
            .where(~sf.col("before").eqNullSafe(sf.col("now")))
            .select(sf.coalesce("host", "new_host").alias("host"), "path", op.alias("op"))
        )

    def _earlier_rows(self, name: str, join_type: str) -> DataFrame:
        """Return the earlier dataset's rows that are taken over (left_semi), or that are not (left_anti)."""
        earlier_rows = read_dataset(self._spark, self._since, name)
        rows = earlier_rows.where("host is not null").join(self._kept, "host", join_type)
        if name == "files":  # Rows of files for a group's clients have no host.
            group = sf.split("path", "/")[1]
            clients = (
                earlier_rows.where("host is null").withColumn("group", group).join(self._groups, "group", join_type)
            )
            rows = rows.unionByName(clients.drop("group"))
        return rows


def count_blocking_findings_and_withheld_brokers(spark: SparkSession, plan_path: str) -> tuple[int, int]:
    """Return the numbers of blocking findings in a plan, and of brokers for which the plan contains no files.

    ``plan_path`` is the output of a job ``plan``. The plan withholds all files of a broker with errors.
    """
    blocking = read_blocking_findings(spark, plan_path).count()
    if not blocking:
        return 0, 0
    files = read_dataset(spark, plan_path, "files").where(sf.col("path") == ACTIVEMQ_XML).select("host")
    return blocking, read_dataset(spark, plan_path, "brokers").join(files, "host", "left_anti").count()
