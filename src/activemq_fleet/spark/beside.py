"""Two things that Spark is asked at once: a query of little data keeps one core busy with its plan alone."""

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
def beside(spark: SparkSession, work: Callable[[], _T]) -> Iterator[Future[_T]]:
    """Let ``work`` run in a thread of its own while the block does; it has ended when the block has.

    What it raises its result raises. When the block fails, its jobs are cancelled. Settings of the session
    that either side changes hold for both: change none.
    """
    with ThreadPoolExecutor(1) as pool:
        found: Future[_T] = pool.submit(inheritable_thread_target(spark)(work))
        try:
            yield found
        except BaseException:
            while not found.done():
                spark.interruptAll()
                wait([found], _EVERY)
            raise
