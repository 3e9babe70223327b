"""One Spark session for all tests of a process: two cores, little memory, loopback only, a separate scratch space."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from activemq_fleet.spark.session import SessionOptions, temporary_spark_session
from tests.pipeline.clusters import QUICK

SMALL = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.driver.memory": "1g",
    # Each shuffle partition is a task, and a task costs more than the few rows in it.
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Yield the shared session. A test that changes its settings restores them, and no test stops the session."""
    with temporary_spark_session("tests", SessionOptions(master="local[2]", conf=SMALL)) as running:
        yield running
