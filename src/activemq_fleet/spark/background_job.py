"""Run a Spark job in a thread beside others: a query of little data keeps one core busy with its plan alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_EVERY = 0.2  # seconds between two attempts to end what nobody waits for any more


@contextmanager
def run_in_background(spark: SparkSession, job: Callable[[], _T]) -> Iterator[Future[_T]]:
    """Run ``job`` in another thread while the block runs; yield its future, which is done when the block has ended.

    The future's ``result()`` raises what ``job`` raised. When the block fails, all jobs of the session are cancelled.
    Both share the session's settings: neither may change any.
    """
    with ThreadPoolExecutor(1) as pool:
        found: Future[_T] = pool.submit(inheritable_thread_target(spark)(job))
        try:
            yield found
        except BaseException:
            while not found.done():
                spark.interruptAll()
                wait([found], _EVERY)
            raise
