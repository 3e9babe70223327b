"""Starts Python on every core of this machine while the driver still says what there is to do.

A worker takes a second or more to start and to import the core, and the first job would wait for it.
Spark keeps workers for the next tasks of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

import pyarrow as pa

# What the tasks of plan import, so that the module of ``_awake`` brings it.
from activemq_fleet.spark.plan import bundles, direct  # noqa: F401
from activemq_fleet.spark.settings import cores_of, is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def waking(spark: SparkSession) -> Iterator[None]:
    """Wake the workers of a session on this machine, beside what the block does."""
    master = spark.conf.get("spark.master", None) or ""
    if not is_local(master):
        yield
        return
    # Made here, so that two threads do not import pyspark's modules, which import each other, at the same time.
    cores = cores_of(master)
    frame = spark.range(0, cores, numPartitions=cores).mapInArrow(_awake, "id bigint")
    thread = Thread(target=_run, args=(frame,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _run(frame: DataFrame) -> None:
    with suppress(Exception):  # the job itself will say what is wrong
        frame.collect()


def _awake(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
