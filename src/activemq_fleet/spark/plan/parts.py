"""The work itself: components of a fleet, one after another, through the core.

Rows come sorted by component; several small ones are one call of the core.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby

import pyarrow as pa

from activemq_fleet.spark.plan.context import Context
from activemq_fleet.spark.plan.core import Component, Queue
from activemq_fleet.spark.plan.large import LargeComponent
from activemq_fleet.spark.plan.outcome import Tables
from activemq_fleet.spark.plan.packing import PACK
from activemq_fleet.spark.plan.rows import Fingerprint, Row, rows_of

_YOUNG, _PARTS_A_SEARCH = 0, 64  # the garbage collector's generation, and how often it looks at all of them


def compute(batches: Iterable[pa.RecordBatch], *, context: Context) -> Iterator[pa.RecordBatch]:
    """Rows of parts, sorted -> packs, for ``mapInArrow``."""
    for tables in computed(batches, context):
        yield pa.RecordBatch.from_pylist([tables.pack(content=context.content)], PACK)


def computed(batches: Iterable[pa.RecordBatch], context: Context) -> Iterator[Tables]:
    """Rows of parts, sorted -> their tables, one part after another."""
    with _rarely_collecting():
        for number, tables in enumerate(_results(rows_of(batches), context), 1):
            yield tables
            # What a part left is young; what is remembered for the next parts is much, and seldom garbage.
            gc.collect(_YOUNG if number % _PARTS_A_SEARCH else 2)


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Look for garbage between parts only, and at what parts left: else a fifth of the time goes there."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def fingerprints(batches: Iterable[pa.RecordBatch], *, context: Context) -> Iterator[pa.RecordBatch]:
    """The same rows -> component, fingerprint: whether anything has changed, without the work."""
    for component, rows in groupby(rows_of(batches), key=lambda row: row.component):
        mark = Fingerprint(context)
        for row in rows:
            mark.add(row)
        yield pa.RecordBatch.from_pydict({"component": [component], "fingerprint": [mark.value]})


def _results(rows: Iterable[Row], context: Context) -> Iterator[Tables]:
    queue = Queue(context)
    for component, found in groupby(rows, key=lambda row: row.component):
        mark, kept, brokers = Fingerprint(context), list[Row](), 0
        for row in found:
            mark.add(row)
            kept.append(row)
            brokers += row.broker
            if brokers > context.largest:
                large = LargeComponent(component, context)
                for early in kept:
                    large.add(early)
                for late in found:
                    mark.add(late)
                    large.add(late)
                yield from large.results(mark)
                break
        else:
            yield from queue.add(Component(component, kept, mark.value))
    yield from queue.rest()
