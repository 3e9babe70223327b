"""A count of the jobs that Spark runs: planning and starting them is most of the cost of a small input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def counted_jobs(spark: SparkSession) -> Iterator[set[int]]:
    """Yield a set that holds the ids of all jobs of the block once it has ended."""
    tracker = spark.sparkContext.statusTracker()
    earlier_jobs = {*tracker.getJobIdsForGroup(None)}
    jobs: set[int] = set()
    yield jobs
    jobs |= {*tracker.getJobIdsForGroup(None)} - earlier_jobs
