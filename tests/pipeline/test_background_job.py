"""Two things that Spark is asked at once: what the one finds, and what becomes of it when the other fails."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from activemq_fleet.spark.background_job import run_in_background


def test_both_are_done_when_the_block_is(spark: SparkSession) -> None:
    with run_in_background(spark, lambda: spark.range(5).count()) as counting:
        here = spark.range(7).count()
    assert counting.done()
    assert (here, counting.result()) == (7, 5)


def test_what_the_other_raises_its_result_raises(spark: SparkSession) -> None:
    def fail() -> int:
        raise ValueError("not today")

    with run_in_background(spark, fail) as failing:
        pass
    with pytest.raises(ValueError, match="not today"):
        failing.result()


def test_jobs_of_the_other_do_not_outlive_a_block_that_fails(spark: SparkSession) -> None:
    endless = spark.range(1 << 40).selectExpr("max(hash(id))")  # takes hours

    with pytest.raises(KeyError), run_in_background(spark, endless.collect) as counting:
        raise KeyError

    assert counting.exception() is not None
