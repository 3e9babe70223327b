"""Check that Python on the executors has this package, and set how often tasks collect garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from activemq_fleet import __version__
from activemq_fleet.spark.problems import PACK, SparkProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE_TASKS = 8  # number of executors that are checked; the job itself fails on other incomplete executors
_PROBE_SCHEMA = "python string, fleet string, missing string"
_GARBAGE_THRESHOLDS = (100_000, 20, 100)  # those of the command line
_REQUIRED_MODULES = ("activemq_fleet", "activemq_fleet.spark", "lxml", "jinja2", "pydantic")


@contextmanager
def less_frequent_garbage_collection() -> Iterator[None]:
    """Let Python collect garbage rarely inside a ``with`` block of a Spark task, and restore the thresholds afterwards.

    Other tasks use the same worker process later. With Python's thresholds, the search through the objects of large
    networks took 10 % of the CPU time of a plan of 6,000 brokers.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def check_package_on_workers(spark: SparkSession) -> None:
    """Check that the Python of Spark's workers has activemq-fleet in the same version as this process.

    Raises SparkProblem when an executor lacks the package, or has another version of it.
    """
    frame = spark.range(0, _PROBE_TASKS, numPartitions=_PROBE_TASKS).mapInArrow(
        _module_probe(_REQUIRED_MODULES), _PROBE_SCHEMA
    )
    for row in frame.collect():
        if row["missing"]:
            raise SparkProblem(
                f"the Python {row['python']} of the Spark workers has no module {row['missing']}: {PACK}"
            )
        if row["fleet"] != __version__:
            raise SparkProblem(
                f"the Spark workers have activemq-fleet {row['fleet']}, but this machine has {__version__}: {PACK}"
            )


def _module_probe(needed: tuple[str, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a task that reports the executor's Python, its version of this package, and the first missing module."""

    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        # A function inside a function travels by value: it runs where the package is not.
        import importlib
        import sys

        import pyarrow as pa

        missing = None
        for name in needed:
            try:
                importlib.import_module(name)
            except ImportError as error:
                missing = error.name or name
                break
        fleet = None if missing else importlib.import_module(needed[0]).__version__
        for _batch in batches:
            yield pa.RecordBatch.from_pydict(
                {"python": [sys.executable], "fleet": [fleet], "missing": [missing]},
                schema=pa.schema([(name, pa.string()) for name in ("python", "fleet", "missing")]),
            )

    return probe
