"""The steps of ``drift``: both sides, their hosts, the comparison, and what is said of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

from activemq_fleet.errors import InputError
from activemq_fleet.spark import drift_frames
from activemq_fleet.spark.datasets import Output, read
from activemq_fleet.spark.input_directory import refuse_outside_links
from activemq_fleet.spark.paths import local_path, pattern_of, uri_of
from activemq_fleet.spark.progress import phase
from activemq_fleet.spark.settings import temporarily

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_HOSTS = 1000
_STATUSES = ("changed", "added", "removed", "same")
_CAUSES = ("by_hand", "out_of_date", "unknown")
# A fleet's files are small and many: as Spark counts, a task would get thirty of them.
_SMALL_FILES = {"spark.sql.files.openCostInBytes": str(32 << 10), "spark.sql.files.maxPartitionBytes": str(32 << 20)}


@dataclass(frozen=True, slots=True)
class HostDrift:
    """Numbers of files of a host. The causes are of those that are not the same."""

    host: str
    changed: int
    added: int
    removed: int
    same: int
    by_hand: int
    out_of_date: int
    unknown: int

    @property
    def different(self) -> int:
        """How many are not as they were planned."""
        return self.changed + self.added + self.removed


@dataclass(frozen=True, slots=True)
class Result:
    """``hosts``: those with differences, the most different first. ``same_hosts``: how many have none.

    ``not_collected`` are planned only, ``not_planned`` are collected only; their files are not compared.
    Of many, the first by name; the numbers beside are all of them.
    """

    hosts: tuple[HostDrift, ...]
    same_hosts: int
    not_collected: tuple[str, ...]
    not_planned: tuple[str, ...]
    not_collected_hosts: int
    not_planned_hosts: int

    @property
    def differs(self) -> bool:
        """True when anything is not as it was planned."""
        return bool(self.hosts or self.not_collected_hosts or self.not_planned_hosts)

    def to_dict(self) -> dict[str, Any]:
        """As in drift.json and ``--format json``."""
        return {"verdict": "differences" if self.differs else "same", **asdict(self)}


def drift(spark: SparkSession, planned: str, found: str, out: str) -> Result:
    """Write the dataset ``drift`` to ``out``. Raises InputError for what is neither a plan nor a collection."""
    from activemq_fleet.spark.manifests import json_text

    with Output(spark, out, kind="drift") as output, temporarily(spark, _SMALL_FILES):
        with phase("listing what was planned and what was collected"):
            plan, plan_hosts = _planned(spark, planned)
            collection, found_hosts = _collected(spark, found)
        both = plan_hosts.join(found_hosts, "host", "left_semi")
        with phase("comparing"):
            output.write("drift", drift_frames.compared(plan.unionByName(collection), both))
        with phase("summing up"):
            # Names of hosts and numbers: little enough for the driver, whatever the fleet.
            counted = [HostDrift(**row.asDict()) for row in _counted(output.written("drift")).collect()]
            only_planned, only_found = _on_one_side(plan_hosts, found_hosts)
            different = sorted((one for one in counted if one.different), key=lambda one: (-one.different, one.host))
            result = Result(
                hosts=tuple(different),
                same_hosts=len(counted) - len(different),
                not_collected=tuple(only_planned[:_MOST_HOSTS]),
                not_planned=tuple(only_found[:_MOST_HOSTS]),
                not_collected_hosts=len(only_planned),
                not_planned_hosts=len(only_found),
            )
        output.write_text("drift.json", json_text(result.to_dict()))
        output.commit()
        return result


def _planned(spark: SparkSession, planned: str) -> tuple[DataFrame, DataFrame]:
    """What is known of planned files, and the hosts: of the output of ``plan``, else of ``render``."""
    root = uri_of(planned)
    _refuse_unreadable(planned)
    with _instead(f"{planned}: holds neither the dataset files, as plan writes it, nor hosts/, as render does"):
        try:
            files = read(spark, planned, "files")
        except InputError:
            pattern = f"{pattern_of(root)}/hosts"
            known = drift_frames.rendered(spark, pattern, root)
            return known, drift_frames.hosts_of(drift_frames.files_below(spark, pattern), root, "hosts/")
    return drift_frames.planned(files), files.select("host").where("host is not null").distinct()


def _collected(spark: SparkSession, found: str) -> tuple[DataFrame, DataFrame]:
    root = uri_of(found)
    _refuse_unreadable(found)
    with _instead(f"{found}: holds no HOST/configuration, as collect lays it down"):
        known = drift_frames.collected(spark, f"{pattern_of(root)}/*/configuration", root)
    with _instead(f"{found}: holds no HOST/host.json, as collect lays it down"):
        told = drift_frames.files_below(spark, f"{pattern_of(root)}/*/host.json")
    return known, drift_frames.hosts_of(told, root)


def _refuse_unreadable(path: str) -> None:
    """An error that names the path as it was said, where this machine can tell; also for what leads out of it."""
    found = local_path(path)
    if found is not None:
        os.scandir(found).close()
        refuse_outside_links(path)


@contextmanager
def _instead(line: str) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        if not drift_frames.not_found(error):
            raise
        raise InputError(line) from None


def _counted(drift: DataFrame) -> DataFrame:
    statuses = [sf.count_if(sf.col("status") == status).cast("int").alias(status) for status in _STATUSES]
    causes = [sf.count_if(sf.col("cause") == cause).cast("int").alias(cause) for cause in _CAUSES]
    return drift.groupBy("host").agg(*statuses, *causes)


def _on_one_side(planned: DataFrame, found: DataFrame) -> tuple[list[str], list[str]]:
    """The hosts that are planned only, and those that were collected only, by name."""
    sides = planned.select("host", sf.lit(1).alias("side")).unionByName(found.select("host", sf.lit(2).alias("side")))
    lonely = sides.groupBy("host").agg(sf.sum("side").alias("sides")).where("sides < 3").orderBy("host").collect()
    return [row["host"] for row in lonely if row["sides"] == 1], [row["host"] for row in lonely if row["sides"] == 2]
